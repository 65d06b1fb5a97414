"""Kernels compiled for GPUs that are not here."""

import re
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from snnkit.engine.triton import launch
from snnkit.engine.triton.launch import kernel
from snnkit.engine.triton.triton_source import Source, backward_source, forward_source

from .flat import equation_named

_TYPES = {torch.float32: "fp32", torch.float64: "fp64", torch.bfloat16: "bf16", torch.float16: "fp16"}
_TYPES[torch.uint8] = "u8"
_CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"

# What a pass launches: (whether state is kept), or None for backward.
KINDS = {"inference": False, "forward": True, "backward": None}


class Built(NamedTuple):
    """A compiled kernel: PTX, registers a thread, and bytes a thread of what did not fit into them."""

    ptx: str
    registers: int
    spilled: int


def build(
    name: str,
    kind: str,
    io: torch.dtype,
    architecture: int,
    neurons: int = 2**20,
    out: torch.dtype | None = None,
    every: bool = False,
) -> Built:
    """The kernel of a neuron of the zoo, as ``launch`` would have it for ``neurons`` of them; ``every``: with the
    states after every step, and their gradients."""
    dtype = torch.float64 if io == torch.float64 else torch.float32
    equation, dims = equation_named(name, dtype)
    keep, given = KINDS[kind], tuple(range(equation.states)) if every else ()
    if keep is None:
        source = backward_source(equation, dims, (True,) * (1 + len(dims)), given=given)
    else:
        source = forward_source(equation, dims, keep, every)
    block = launch.THREADS * launch.lanes(equation, neurons, io, keep is None, len(given))
    types = dict.fromkeys(("x_ptr", "g_ptr", "d_x_ptr"), io) | {"out_ptr": out or io}
    return compiled(source, {n: _TYPES[t] for n, t in types.items()}, _TYPES[dtype], architecture, block)


def compiled(
    source: Source, memory: dict[str, str], state: str, architecture: int, block: int | dict[str, int], warps: int = 4
) -> Built:
    """``source`` for rows that are aligned; ``memory``: dtypes of what is not in that of the ``state``; ``block``: the
    neurons of one, or all constants of the kernel."""
    function = kernel(source)
    constants = block if isinstance(block, dict) else {"UNIT": launch.UNIT, "BLOCK": block}
    signature, aligned = {}, {}
    for position, name in enumerate(function.arg_names):
        if name in constants:
            signature[name] = "constexpr"
        elif name.endswith("_ptr"):
            signature[name] = "*" + memory.get(name, state)
            aligned[(position,)] = [["tt.divisibility", 16]]
        else:
            signature[name] = "i32" if name in launch.SIZES else "fp32"
    result = triton.compile(
        ASTSource(fn=function, signature=signature, constexprs=constants, attrs=aligned),
        target=GPUTarget("cuda", architecture, 32),
        options={"num_warps": warps},
    )
    return Built(result.asm["ptx"], *_usage(result.asm["cubin"]))


def _usage(cubin: bytes) -> tuple[int, int]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([_CUOBJDUMP, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", text)
    assert found, text
    return int(found[1]), int(found[2])
