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
import struct
from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from snnkit.engine.autograd import Forward, Gradients, Pass, Pooling, Results, is_one_for_all
from snnkit.engine.cpp import toolchain
from snnkit.engine.cpp.cpp_source import CPP, backward_source, forward_source
from snnkit.engine.cpp.toolchain import NO_COMPILER, cpp_compiler, load
from snnkit.engine.page_pool import POOL, SMALLEST
from snnkit.engine.program import Untranslatable, programs
from snnkit.engine.trace import Equation
from snnkit.tables import size_of

__all__ = [
    "STREAMING",
    "Launch",
    "backward",
    "backward_launch",
    "backward_source",
    "expect_backward",
    "forward",
    "forward_launch",
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
_CPU = torch.device("cpu")
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


def forward(
    run: Pass, out_dtype: torch.dtype, save: bool, every: bool = False, pooling: Pooling | None = None
) -> Forward:
    """Run over x. See ``autograd.Backend``; out may be pooled, and then the places of maxima are saved."""
    equation, x, state, parameters = run
    launch = forward_launch(run, out_dtype, every, pooling)
    last = [launch.empty(launch.one, equation.dtype) for _ in state]
    states = [launch.empty(launch.sequence, equation.dtype) for _ in state] if every else []
    if pooling is None:
        out, chosen = launch.empty(launch.sequence, out_dtype), ()
    else:
        shape = torch.Size((len(x), pooling.layout.shape.numel()))
        out, chosen = POOL.empty(shape, out_dtype), (POOL.empty(shape, torch.uint8),)
    done = launch(x, out, *chosen, *state, *last, *states, *parameters)
    if done > 1:
        raise launch.out_of_memory()
    return Forward(out, last, chosen, done != 0, states)


def forward_launch(run: Pass, out_dtype: torch.dtype, every: bool = False, pooling: Pooling | None = None) -> Launch:
    """The kernel that ``forward`` calls, for tensors of these shapes and strides."""
    equation, x, state, _ = run
    same = tuple([is_one_for_all(s) for s in state])
    kind = (equation, x.dtype, out_dtype, run.dims, every)
    return _forward_launch(*kind, x.shape, x.stride(0), same, threads_for(x), pooling and pooling.sides)


def backward(run: Pass, saved: Sequence[Tensor], d: Gradients, pooling: Pooling | None = None) -> Results:
    """Gradients from those of out and of the last state. See ``autograd.Backend``."""
    (equation, x, state, parameters), (d_out, d_last, needs, summed, d_states, first) = run, d
    launch = backward_launch(run, d, pooling)
    d_x = None
    if needs[0]:
        d_x = launch.empty(launch.one, equation.dtype) if summed else launch.empty(launch.sequence, x.dtype)
    d_first = [launch.empty(launch.one, equation.dtype) for _ in d_last] if first else []
    d_parameters = [launch.empty(launch.one, equation.dtype) if need else None for need in needs[1:]]
    sequences, sums = ((), (d_x, *d_parameters)) if summed else ((d_x,), d_parameters)
    every = [d_states[i] for i in d.given]
    if launch(x, d_out, *saved, *sequences, *state, *d_last, *d_first, *every, *parameters, *sums):
        raise launch.out_of_memory()
    for i, parameter in enumerate(parameters):
        if needs[1 + i] and parameter.dim() == 0:
            d_parameters[i] = d_parameters[i].sum()  # type: ignore[union-attr]
    return d_x, d_first or [None] * len(d_last), d_parameters


def backward_launch(run: Pass, d: Gradients, pooling: Pooling | None = None) -> Launch:
    """The kernel that ``backward`` calls, for tensors of these shapes and strides."""
    equation, x, state, _ = run
    same = tuple([is_one_for_all(s) for s in (*state, *d.last)])
    kind = (equation, x.dtype, run.dims, d.needs, d.summed, d.given, d.first)
    strides = x.stride(0), d.out.stride(0)
    return _backward_launch(*kind, x.shape, strides, same, threads_for(x), pooling and pooling.sides)


@functools.lru_cache(maxsize=512)
def expect_backward(
    equation: Equation,
    x: torch.dtype,
    dims: tuple[int, ...],
    needs: tuple[bool, ...],
    summed: bool,
    every: bool,
    first: bool,
    window: int = 0,
) -> None:
    """Compile the kernel of ``backward`` beside that of ``forward``, once."""
    given = tuple(range(equation.states)) if every else ()
    source = backward_source(equation, x, dims, needs, summed, given, first, window)[0]
    if source not in toolchain.loaded:
        toolchain.load_ahead(source)


# Of addresses, by how many.
_packed = functools.cache(lambda count: struct.Struct(f"{count}P").pack)


class Launch:
    """A kernel and all of its arguments but the tensors; making one takes longer than a small layer."""

    def __init__(
        self,
        source: str,
        constants: Sequence[float],
        shape: torch.Size,
        sizes: Sequence[int],
        threads: int,
        scratch: int = 0,
    ) -> None:
        self.run = load(source).run
        self.constants = (ctypes.c_double * len(constants))(*constants)
        sizes = (shape[0], shape[1:].numel(), *sizes)
        self.sizes = struct.pack(f"{len(sizes)}q", *sizes)
        self.steps, self.threads, self.scratch = shape[0], threads, scratch
        self.small = shape.numel() * 8 < SMALLEST
        # Shapes and strides of the results.
        self.sequence = shape, torch.empty(shape, device="meta").stride()
        self.one = shape[1:], self.sequence[1][1:]

    def empty(self, form: tuple[torch.Size, tuple[int, ...]], dtype: torch.dtype) -> Tensor:
        """Room for a result; small ones, whose calls are short, do without a call of the pool."""
        if self.small:  # ``torch.empty`` takes twice as long: it looks for names of dimensions first
            return torch.empty_strided(*form, dtype=dtype, device=_CPU)
        shape = form[0]
        large = shape.numel() * dtype.itemsize >= SMALLEST
        return POOL.empty(shape, dtype) if large else torch.empty(shape, dtype=dtype, device="cpu")

    def __call__(self, *tensors: Tensor | None) -> int:
        pointers = [t.data_ptr() for t in tensors if t is not None]
        return self.run(_packed(len(pointers))(*pointers), self.constants, self.sizes, self.threads)

    def out_of_memory(self) -> MemoryError:
        """The error of a kernel that got no memory to work in."""
        if not self.scratch:
            return MemoryError("neurons need scratch memory for the state of a few thousand, which is not available")
        return MemoryError(
            f"backward over {self.steps} steps needs {size_of(self.scratch)} of scratch memory, which is not "
            "available; use fewer steps at once (truncated backpropagation) or fewer threads (torch.set_num_threads)"
        )


@functools.lru_cache(maxsize=512)
def _forward_launch(
    equation: Equation,
    x: torch.dtype,
    out: torch.dtype,
    dims: tuple[int, ...],
    every: bool,
    shape: torch.Size,
    stride: int,
    same: tuple[bool, ...],
    threads: int,
    sides: tuple[int, int, int] | None,
) -> Launch:
    """Of ``shape`` [T, *N]; ``stride`` of x in time; ``same``: whether a state is one value for all neurons; ``sides``:
    of windows, and the width and channels of the images, if they are pooled."""
    window, *of_images = sides or (0,)
    source, constants = forward_source(equation, x, out, dims, every, window)
    streaming = shape.numel() * out.itemsize // max(window, 1) ** 2 >= STREAMING
    most = _FORWARD_TILE // max(_size(equation) * len(same), 1) if streaming else _CACHED_RUN
    # Pooled neurons: a row of windows at a time, whose spikes stay in the nearest cache.
    tile = prod(sides) if sides else _tile(shape[1:].numel(), threads, most, streaming)
    return Launch(source, constants, shape, (stride, tile, streaming, *of_images, *same), threads)


@functools.lru_cache(maxsize=512)
def _backward_launch(
    equation: Equation,
    x: torch.dtype,
    dims: tuple[int, ...],
    needs: tuple[bool, ...],
    summed: bool,
    given: tuple[int, ...],
    first: bool,
    shape: torch.Size,
    strides: tuple[int, int],
    same: tuple[bool, ...],
    threads: int,
    sides: tuple[int, int, int] | None,
) -> Launch:
    """As ``_forward_launch``; ``strides`` of x and the gradient of out; ``same``: also of gradients of last states."""
    window, *of_images = sides or (0,)
    source, constants, rows = backward_source(equation, x, dims, needs, summed, given, first, window)
    # Where x is one step and its gradient a sum, no memory keeps the arithmetic waiting: the nearest cache pays.
    each = max(_size(equation) * rows * shape[0], 1)
    most = max(_BACKWARD_TILE // (1 + summed) // each, min(_RUN, _MOST_OF_LONG // each), _SHORTEST_RUN)
    streaming = shape.numel() * x.itemsize >= STREAMING
    tile = prod(sides) if sides else _tile(shape[1:].numel(), threads, most, streaming)
    sizes = (*strides, tile, streaming, *of_images, *same)
    return Launch(source, constants, shape, sizes, threads, scratch=threads * tile * shape[0] * rows * _size(equation))


# OpenMP's threads do not survive a fork, and a child that calls for them waits forever.
_forked = False


def _after_fork() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def threads_for(x: Tensor) -> int:
    most = x.numel() // _PER_THREAD
    return 1 if most < 2 or _forked else min(torch.get_num_threads(), most)


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
