"""Launches the kernels: one for all T steps, in each direction.

``wrap`` stands between a kernel and its launch: ``plainly`` does nothing, ``torch.library.wrap_triton`` shows the
launch to a compiler, whose sizes may be symbols, and ``nowhere`` leaves it out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..compiled import CompilationFailed
from ..trace import Equation
from .kernel import kernel
from .source import BLOCK_STEPS, backward_source, forward_source, keeps_state, values_held
from .writer import Source

# Rows that begin and end at multiples of this many neurons can be read 128 bits at a time.
UNIT = 16

THREADS = 128

# Neurons below which each thread gets one: there are too few to fill a large GPU, and what counts is how many of its
# threads wait for memory at the same time.
FEW = 2**17

# Values of a block's steps that the threads of a kernel have room for, counted once for each neuron of a thread. Of 255
# registers, backward took about 60 and 8 for each of these (blocks of eight steps, sm_90); the tests look for spills.
_ROOM = 24


def plainly(function: Any) -> Any:
    """The kernel itself."""
    return function


def nowhere(function: Any) -> Any:
    """What takes a grid and arguments, and does nothing with them."""
    return _Nothing()


class _Nothing:
    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *arguments, **options: None


def forward(
    equation: Equation,
    x: Tensor,
    state: Sequence[Tensor],
    parameters: Sequence[Tensor],
    out_dtype: torch.dtype,
    keep: bool,
    wrap: Callable[[Any], Any] = plainly,
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """See ``compiled.Kernels``; kept is the state before every block of steps, [ceil(T/K), N] for each part."""
    steps, neurons = x.shape
    source = forward_source(equation, tuple(p.dim() for p in parameters), keep)
    out = x.new_empty((steps, neurons), dtype=out_dtype)
    state = [s.contiguous() for s in state]
    last = [torch.empty_like(s) for s in state]
    blocks = (steps + BLOCK_STEPS - 1) // BLOCK_STEPS
    kept = [s.new_empty((blocks, neurons)) for s in state] if keep and keeps_state(equation) else []
    tensors = (x, out, *state, *last, *kept, *parameters)
    _launch(source, lanes(equation, neurons, x.dtype, False), tensors, x.shape, (x.stride(0),), wrap)
    return out, last, kept


def backward(
    equation: Equation,
    x: Tensor,
    state: Sequence[Tensor],
    kept: Sequence[Tensor],
    parameters: Sequence[Tensor],
    d_out: Tensor,
    d_last: Sequence[Tensor],
    needs: Sequence[bool],
    summed: bool = False,
    wrap: Callable[[Any], Any] = plainly,
) -> tuple[Tensor | None, list[Tensor], list[Tensor | None]]:
    """See ``compiled.Kernels``."""
    if not kept and keeps_state(equation):
        kept = forward(equation, x, state, parameters, x.dtype, True, wrap)[2]
    steps, neurons = x.shape
    source = backward_source(equation, tuple(p.dim() for p in parameters), tuple(needs), summed)
    d_x = None
    if needs[0]:
        d_x = x.new_empty(neurons, dtype=equation.dtype) if summed else x.new_empty((steps, neurons))
    d_last = [d.contiguous() for d in d_last]
    d_first = [torch.empty_like(d) for d in d_last]
    # One gradient per neuron; what a parameter shared by all neurons gets is their sum.
    each = [x.new_empty(neurons, dtype=equation.dtype) if need else None for need in needs[1:]]
    states = (*kept, *d_last, *d_first)
    order = (*states, d_x, *each) if summed else (d_x, *states, *each)
    results = [t for t in order if t is not None]
    strides = (x.stride(0), d_out.stride(0))
    tensors = (x, d_out, *results, *parameters)
    _launch(source, lanes(equation, neurons, x.dtype, True), tensors, x.shape, strides, wrap)
    pairs = zip(each, parameters, strict=True)
    return d_x, d_first, [d.sum() if d is not None and p.dim() == 0 else d for d, p in pairs]


def lanes(equation: Equation, neurons: int, x: torch.dtype, backward: bool) -> int:
    """Neurons per thread: as many as one load of 128 bits brings, unless their values don't fit into registers."""
    if neurons < FEW:
        return 1
    words = 2 if equation.dtype == torch.float64 else 1
    if not backward:
        return 16 // x.itemsize
    room = _ROOM // (words * values_held(equation))
    return next(count for count in (4, 2, 1) if count <= max(room, 1))


def _launch(
    source: Source,
    per_thread: int,
    tensors: Sequence[Tensor],
    shape: Sequence[int],
    strides: Sequence[int],
    wrap: Callable[[Any], Any],
) -> None:
    steps, neurons = shape
    unit = UNIT if all(size % UNIT == 0 for size in (neurons, *strides)) else 1
    block = THREADS * per_thread
    sizes = (steps, *(size // unit for size in (neurons, *strides)))
    from triton.errors import TritonError

    function = kernel(source)
    wrapped = wrap(function)
    device = tensors[0].device
    arguments = (*tensors, *source.constants, -0.0, *sizes)
    options = {"UNIT": unit, "BLOCK": block, "num_warps": THREADS // 32}
    # Triton launches on the current device.
    with torch.cuda.device(device) if device.type == "cuda" and wrapped is function else contextlib.nullcontext():
        try:
            wrapped[((neurons + block - 1) // block,)](*arguments, **options)
        except TritonError as error:
            # At the first launch of its kind, which compiles.
            raise CompilationFailed(f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}") from error
