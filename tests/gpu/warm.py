"""Compile what `snnkit bench` will need on a GPU, while the tests run: ``python -m tests.gpu.warm I N``.

A cold cache would cost the benchmarks minutes: the block engine compiles a kernel for each equation, dtype, direction
and length of a block, and PyTorch a whole network. Here ``N`` processes share that work, the I-th (from 0) every N-th
job, and leave the kernels in the caches on disk, which all parts of `make gpu` have in common.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable
from functools import partial

import torch

from snnkit.device import Precision
from snnkit.engine.block import BLOCKS
from snnkit.lab.bench.workloads import EQUATIONS, Ours, conv
from snnkit.neuron import IF
from snnkit.surrogate import ATan

DTYPES = (torch.float32, torch.bfloat16)
# Those of SpikingJelly, snnTorch and Norse, and IF of the conv net.
NEURONS = {name: EQUATIONS[name] for name in ("LIF", "Leaky", "CubaLIF")}
NEURONS |= {"IF": lambda engine: IF(surrogate=ATan(), engine=engine)}


def layer(name: str, dtype: torch.dtype, device: torch.device, neurons: int = 2**16) -> None:
    """One neuron in blocks of all lengths, forward and backward, with an input that changes and with a static one."""
    neuron = NEURONS[name]("block")
    steps = sum(BLOCKS[device.type])
    for given in (steps, 1):
        x = torch.rand(given, 1, neurons, device=device).to(dtype).requires_grad_()
        neuron(x.expand(steps, 1, neurons))[0].sum().backward()


def network(device: torch.device, width: int = 128, batch: int = 128) -> None:
    """Updates of the compiled conv net in mixed precision."""
    step = Ours("auto", compile=True)(conv(width, batch), Precision.choose(device, True)).step
    for _ in range(2):
        step()


def jobs(device: torch.device) -> dict[str, Callable[[], None]]:
    """By name, the longest first."""
    layers = {f"{name}, {dtype}": partial(layer, name, dtype, device) for dtype in DTYPES for name in NEURONS}
    return {"network": partial(network, device), **layers}


def main(place: int, of: int) -> None:
    """A job that fails is for the tests to find."""
    for name, job in list(jobs(torch.device("cuda")).items())[place::of]:
        began = time.monotonic()
        try:
            job()
        except Exception:
            traceback.print_exc()
        print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
