"""The C++ engine: one pass over all T steps on a CPU, generated from the equation.

The step and its vector-Jacobian product are traced (``trace``), written as C++ (``cpp_source``), compiled by the
system's compiler (``toolchain``) and called. Compared with a block of steps compiled by Inductor, it keeps the state in
the cache over the whole sequence, fetches ahead, and writes around the cache; on one core of an AMD EPYC forward takes
little more time than copying x.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from snnkit.engine.autograd import Forward, Gradients, Pass, Results, is_one_for_all
from snnkit.engine.cpp import toolchain
from snnkit.engine.cpp.cpp_source import CPP, backward_source, forward_source
from snnkit.engine.cpp.toolchain import NO_COMPILER, cpp_compiler, load
from snnkit.engine.page_pool import POOL, SMALLEST
from snnkit.engine.program import Untranslatable, programs
from snnkit.engine.trace import Equation
from snnkit.tables import size_of

__all__ = [
    "STREAMING",
    "backward",
    "backward_source",
    "expect_backward",
    "forward",
    "forward_source",
    "load",
    "supports",
    "threads_for",
]

# Bytes of a tile of neurons that stay in the cache while x streams past: forward its state, backward what is saved of
# all steps. Long sequences may take more, as runs of under 1024 neurons cost more than a farther cache. Where x and the
# output fit the cache, too, a forward tile is as long as the prefetch distance (AHEAD), so the next row is fetched.
_FORWARD_TILE, _BACKWARD_TILE = 512 * 1024, 256 * 1024
_MOST_OF_LONG = 4 * 1024 * 1024
_CACHED_RUN, _RUN, _SHORTEST_RUN = 2048, 1024, 512
_LINE, _STRIP = 16, 128  # float32 numbers of a cache line, and of a strip of the kernels

# Outputs of this size and more are written around the cache: whoever reads them next would not find them there anyway.
STREAMING = 4 * 1024 * 1024

# Neuron-steps a thread should have at the least; starting one costs some microseconds.
_PER_THREAD = 2**14


def supports(equation: Equation, device: torch.device) -> str:
    """An empty string, or the reason why this engine can't run ``equation``."""
    if device.type != "cpu":
        return f"the C++ engine is made for CPUs, not for {device.type!r} devices"
    if os.environ.get("TORCH_COMPILE_DISABLE") == "1":
        return "TORCH_COMPILE_DISABLE=1 forbids compiling"
    if cpp_compiler() is None:
        return f"the C++ engine needs a C++ compiler, and {NO_COMPILER}"
    return _untranslatable(equation)


@functools.lru_cache(maxsize=512)
def _untranslatable(equation: Equation) -> str:
    try:
        for program in programs(equation):
            for op in program.ops:
                CPP.written(op)
    except Untranslatable as reason:
        return f"its step can't be written in C++: {reason}"
    return ""


def forward(run: Pass, out_dtype: torch.dtype, save: bool, every: bool = False) -> Forward:
    """Run over x [T, N]. See ``autograd.Backend``."""
    equation, x, state, parameters = run
    steps, neurons = x.shape
    source, constants = forward_source(equation, x.dtype, out_dtype, run.dims, every)
    out = empty(x.shape, out_dtype)
    last = [empty(s.shape, s.dtype) for s in state]
    states = [empty(x.shape, s.dtype) for s in state] if every else []
    threads = threads_for(x)
    streaming = out.numel() * out.element_size() >= STREAMING
    most = _FORWARD_TILE // max(_size(equation) * len(state), 1) if streaming else _CACHED_RUN
    tile = _tile(neurons, threads, most, streaming)
    sizes = (steps, neurons, x.stride(0), tile, streaming, *map(is_one_for_all, state))
    is_finite = call(source, (x, out, *state, *last, *states, *parameters), constants, sizes, threads)
    return Forward(out, last, is_finite=bool(is_finite), states=states)


def backward(run: Pass, saved: Sequence[Tensor], d: Gradients) -> Results:
    """Gradients from those of out and of the last state. See ``autograd.Backend``."""
    (equation, x, state, parameters), (d_out, d_last, needs, summed, d_states) = run, d
    steps, neurons = x.shape
    source, constants, rows = backward_source(equation, x.dtype, run.dims, needs, summed, d.given)
    d_x = None
    if needs[0]:
        d_x = empty(x.shape[1:], equation.dtype) if summed else empty(x.shape, x.dtype)
    d_first = [empty(d.shape, d.dtype) for d in d_last]
    d_parameters = [x.new_empty(neurons, dtype=equation.dtype) if need else None for need in needs[1:]]
    threads = threads_for(x)
    # Where x is one step and its gradient a sum, no memory keeps the arithmetic waiting: the nearest cache pays.
    each = max(_size(equation) * rows * steps, 1)
    most = max(_BACKWARD_TILE // (1 + summed) // each, min(_RUN, _MOST_OF_LONG // each), _SHORTEST_RUN)
    streaming = x.numel() * x.element_size() >= STREAMING
    tile = _tile(neurons, threads, most, streaming)
    sizes = (steps, neurons, x.stride(0), d_out.stride(0), tile, streaming, *map(is_one_for_all, (*state, *d_last)))
    sequences, sums = ((), (d_x, *d_parameters)) if summed else ((d_x,), d_parameters)
    given = (d_states[i] for i in d.given)
    tensors = (x, d_out, *sequences, *state, *d_last, *d_first, *given, *parameters, *sums)
    tensors = [t for t in tensors if t is not None]
    if call(source, tensors, constants, sizes, threads):
        need = threads * tile * steps * rows * _size(equation)
        raise MemoryError(
            f"backward over {steps} steps needs {size_of(need)} of scratch memory, which is not available; "
            "use fewer steps at once (truncated backpropagation) or fewer threads (torch.set_num_threads)"
        )
    for i, (parameter, gradient) in enumerate(zip(parameters, d_parameters, strict=True)):
        if gradient is not None and parameter.dim() == 0:
            d_parameters[i] = gradient.sum()
    return d_x, d_first, d_parameters


def expect_backward(run: Pass, needs: tuple[bool, ...], summed: bool, every: bool) -> None:
    """Compile the kernel of ``backward`` beside that of ``forward``."""
    given = tuple(range(run.equation.states)) if every else ()
    source = backward_source(run.equation, run.x.dtype, run.dims, needs, summed, given)[0]
    if source not in toolchain.loaded:
        toolchain.load_ahead(source)


def empty(shape: torch.Size, dtype: torch.dtype) -> Tensor:
    """Room for a result; small ones, whose calls are short, do without a call of the pool."""
    large = shape.numel() * dtype.itemsize >= SMALLEST
    return POOL.empty(shape, dtype) if large else torch.empty(shape, dtype=dtype, device="cpu")


def call(source: str, tensors: Sequence[Tensor], constants: Sequence[float], sizes: Sequence[int], threads: int) -> int:
    pointers = (ctypes.c_void_p * len(tensors))(*(t.data_ptr() for t in tensors))
    kernel, numbers = _kernel(source, tuple(constants))
    return kernel(pointers, numbers, (ctypes.c_int64 * len(sizes))(*sizes), ctypes.c_int(threads))


@functools.lru_cache(maxsize=512)
def _kernel(source: str, constants: tuple[float, ...]) -> tuple[Any, ctypes.Array]:
    """The function to call, and its constants as it takes them."""
    return load(source).run, (ctypes.c_double * len(constants))(*constants)


# OpenMP's threads do not survive a fork, and a child that calls for them waits forever.
_forked = False


def _after_fork() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def threads_for(x: Tensor) -> int:
    if _forked:
        return 1
    return max(1, min(torch.get_num_threads(), x.numel() // _PER_THREAD))


def _tile(neurons: int, threads: int, most: int, streaming: bool) -> int:
    """Neurons at a time, at most ``most``. Threads get equally many tiles: of whole strips, if that leaves no thread
    with much more than its share."""
    share = -(-neurons // threads)
    if threads > 1:
        # A core fetches a little more than a row of its tile. If that belongs to what another core has now, both wait
        # for each other at every step: where they share no cache, two threads took up to 2.7 times as long as one.
        most = min(most, max(share // 16, _RUN if streaming else _STRIP))
    tiles = -(-share // most)
    whole = _rounded(-(-share // tiles), _STRIP)
    return (
        whole if tiles > 1 and (threads == 1 or whole * tiles <= share * 1.05) else _rounded(-(-share // tiles), _LINE)
    )


def _rounded(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def _size(equation: Equation) -> int:
    return torch.finfo(equation.dtype).bits // 8
