"""The C++ kernels of a recurrent layer: see ``engine.recurrent.Kernels``."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

import torch
from torch import Tensor

from snnkit.engine.autograd import side_by_side
from snnkit.engine.cpp import STREAMING, load, threads_for, toolchain
from snnkit.engine.cpp.recurrent_source import backward_source, forward_source, one_value
from snnkit.engine.page_pool import POOL, SMALLEST
from snnkit.engine.recurrent import Layer, Results
from snnkit.engine.trace import Equation
from snnkit.tables import size_of

# Samples of a group, which share what is read of the weights, as many as the kernels take at once; and bytes of what a
# group saves for backward.
_MOST_SAMPLES, _MOST_SAVED = 8, 64 * 1024 * 1024


def has_outputs(equation: Equation, wanted: Sequence[bool]) -> bool:
    """Whether backward has the outputs: it computes them again where forward saves the inputs."""
    return one_value(equation, tuple(wanted)) is None


def forward(layer: Layer, wanted: Sequence[bool] | None) -> tuple[Tensor, list[Tensor], Tensor | None, bool]:
    """What is saved is one value of each step or, where this is not enough, the inputs with what came back."""
    equation, x, state, before, parameters, weight, bias = layer
    wanted = None if wanted is None else tuple(wanted)
    source, constants = forward_source(equation, layer.dims, bias is not None, wanted)
    out, sweeps = _empty(x.shape, x.dtype), None if wanted is None else one_value(equation, wanted)
    saved = None if wanted is None or (sweeps and not sweeps.saved) else _empty(x.shape, x.dtype)
    last = [torch.empty(x.shape[1:], dtype=x.dtype, device="cpu") for _ in state]
    group, threads = _group(x, 0)
    same = (_is_one_for_all(v) for v in (before, *state))
    tensors = (x, out, weight, _blocks(weight), before, bias, saved, *state, *last, *parameters)
    sizes = (*x.shape, x.stride(0), *weight.stride(), group, x.nbytes >= STREAMING, *same)
    code = _call(source, [t for t in tensors if t is not None], constants, sizes, threads)
    if code == 1:
        raise MemoryError("a recurrent layer has too little memory for one step of a few samples")
    return out, last, saved, code == 0


def backward(
    layer: Layer,
    saved: Tensor | None,
    d_out: Tensor,
    d_last: Sequence[Tensor],
    wanted: Sequence[bool],
    needed: Sequence[bool],
) -> Results:
    """See ``engine.recurrent.Kernels``."""
    equation, x, state, before, parameters, weight, _ = layer
    (steps, batch, features), dtype, again = x.shape, weight.dtype, has_outputs(equation, wanted)
    source, constants, rows = backward_source(equation, layer.dims, tuple(wanted), tuple(needed))
    d_out = side_by_side(d_out.flatten(1))
    d_x, d_before = _empty(x.shape, dtype), torch.empty(x.shape[1:], dtype=dtype, device="cpu")
    out = _empty(x.shape, dtype) if needed[-1] and again else None
    state = state if again else ()
    d_first = [torch.empty_like(d_before) for _ in d_last]
    sums = [torch.empty_like(d_before) if need else None for need in needed[:-1]]
    group, threads = _group(x, rows)
    same = (_is_one_for_all(v) for v in (*state, *d_last))
    sizes = (steps, batch, features, d_out.stride(0), *weight.stride(), group, x.nbytes >= STREAMING, *same)
    tensors = (saved, d_out, d_x, weight, _blocks(weight), d_before, out, *state, *d_last, *d_first, *parameters, *sums)
    if _call(source, [t for t in tensors if t is not None], constants, sizes, threads):
        need = threads * group * features * (steps * rows + len(state) + 1) * dtype.itemsize
        raise MemoryError(
            f"backward of a recurrent layer over {steps} steps needs {size_of(need)} of scratch memory, which is not "
            "available; use fewer steps at once (truncated backpropagation) or fewer threads (torch.set_num_threads)"
        )
    pairs = None if out is None else [(d_x[0], before), (d_x[1:].flatten(0, 1), out[:-1].flatten(0, 1))]
    return Results(d_x, d_first, d_before, sums, pairs)


def expect_backward(layer: Layer, wanted: Sequence[bool]) -> None:
    """Compile the kernel of ``backward`` beside that of ``forward``."""
    source = backward_source(layer.equation, layer.dims, tuple(wanted), tuple(wanted))[0]
    if source not in toolchain.loaded:
        toolchain.load_ahead(source)


def _empty(shape: torch.Size, dtype: torch.dtype) -> Tensor:
    large = shape.numel() * dtype.itemsize >= SMALLEST
    return POOL.empty(shape, dtype) if large else torch.empty(shape, dtype=dtype, device="cpu")


def _call(
    source: str, tensors: Sequence[Tensor], constants: Sequence[float], sizes: Sequence[int], threads: int
) -> int:
    pointers = struct.pack(f"{len(tensors)}P", *(t.data_ptr() for t in tensors))
    numbers = (ctypes.c_double * len(constants))(*constants)
    return load(source).run(pointers, numbers, struct.pack(f"{len(sizes)}q", *sizes), ctypes.c_int(threads))


def _group(x: Tensor, saved: int) -> tuple[int, int]:
    """Samples that go through time together, and threads."""
    batch, threads = x.shape[1], threads_for(x)
    each = max(x.shape[0] * x.shape[2] * saved * x.element_size(), 1)
    return max(1, min(_MOST_SAMPLES, -(-batch // threads), _MOST_SAVED // each)), threads


def _is_one_for_all(v: Tensor) -> bool:
    return v.numel() > 1 and not any(v.stride())


def _blocks(weight: Tensor) -> Tensor:
    """Room for the weights in blocks of outputs, of at most 64 numbers."""
    return weight.new_empty((weight.shape[0] + 63) * weight.shape[0])
