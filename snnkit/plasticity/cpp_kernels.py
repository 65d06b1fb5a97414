"""The changes of weights in C++: one pass over the weights for one or more steps; the work grows with the spikes.

PyTorch reads and writes all weights several times in a step. Here (``kernel.cpp``) they are read and written once, and
those that no spike concerns are skipped; over a sequence they stay in the cache. For a convolution PyTorch unfolds the
input of each position; here (``convolution.cpp``) the loop goes over the spikes. Both are compiled on first use, once
per machine, as the kernels of the C++ engine are.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import warnings
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor

from snnkit.engine import CompilationFailed
from snnkit.engine.cpp import load, threads_for
from snnkit.engine.memory_gate import is_plain, is_watched
from snnkit.plasticity.connection import Connection, Convolution, Dense, Limits, Pairings

# "auto" takes it from so many dense weights on. Below, a step takes some 30 microseconds in PyTorch, and half of that
# here, which is not worth the seconds of the first compilation.
FEWEST = 2**12

# Bytes of traces and spikes that are read again for every few rows of weights: half a core's second-level cache.
_CACHED = 2**18

_BOUND = {None: 0, "hard": 1, "soft": 2}


def takes(engine: str, connection: Connection, weight: Tensor, out: Tensor, *read: Any) -> bool:
    """Whether ``engine`` means this kernel for these weights, and it can be compiled and read all of ``read``."""
    if engine != "cpp" and (engine != "auto" or (weight.numel() < FEWEST and isinstance(connection, Dense))):
        return False
    if torch.compiler.is_compiling() or is_watched() or not all(map(is_plain, read)):
        return False
    for tensor in (weight,) if out is weight else (weight, out):
        # Anything else is left to PyTorch, which knows its subclasses and what may be written where.
        plain = is_plain(tensor) and tensor.is_cpu and tensor.is_contiguous()
        if not plain or (tensor.is_inference() and not torch.is_inference_mode_enabled()):
            return False
    shared = out is not weight and weight.untyped_storage().data_ptr() == out.untyped_storage().data_ptr()
    if shared and weight.data_ptr() != out.data_ptr():  # rows already written would be read as others
        return False
    if isinstance(connection, Convolution) and _library("convolution.cpp") is None:
        return False
    return _library("kernel.cpp") is not None


def steps_at_once(by: Pairings, weight: Tensor, connection: Connection) -> int:
    """How many steps of a sequence [T, ...] are best given to one call."""
    if isinstance(connection, Convolution):
        return 1
    return max(1, _CACHED // max(2 * by.up_pre[0].numel() * weight.element_size(), 1))


def change(weight: Tensor, by: Pairings, limits: Limits, connection: Connection, out: Tensor) -> None:
    """Write the weights after a step, or of dense connections after several, to ``out``, which may be ``weight``.

    For weights of which ``takes`` said yes; ``by`` is [B, ...], of dense ones also [T, B, ...], in their dtype.
    """
    if isinstance(connection, Convolution):
        source = "convolution.cpp"
        # In traces, channels are contiguous.
        parts = by.up_post, by.up_pre.movedim(1, -1), by.down_post.movedim(1, -1), by.down_pre
        stride, padding, dilation = [connection.stride] * 2, [connection.padding] * 2, [1, 1]
        sizes = [*by.up_pre.shape, *by.up_post.shape[1:], 1, *weight.shape[2:], *stride, *padding, *dilation]
    else:
        source, parts = "kernel.cpp", by[:4]
        *lead, samples, posts = by.up_post.shape
        sizes = [lead[0] if lead else 1, samples, posts, weight.shape[1]]
    parts = [part.contiguous() for part in parts]  # alive until the call is done
    function, numbers = _function(source, weight.dtype), (by.up, by.down, limits.low, limits.high)
    _call(function, (*parts, weight, out), tuple(sizes), numbers, limits.bound, by, out)


def step_of_pairs(
    weight: Tensor, by: Pairings, decays: tuple[float, float], limits: Limits, out: Tensor
) -> tuple[Tensor, Tensor]:
    """``change`` by pairs of spikes after a step of dense connections, and their traces, all in one call.

    ``by`` [B, ...] has the traces before the step; those of ``up_pre`` and ``down_post`` are multiplied by ``decays``
    before spikes are added. Returns both with this step, in new memory.
    """
    post, pre_before, post_before, pre = by.up_post, by.up_pre, by.down_post, by.down_pre
    parts = post.contiguous(), pre_before.contiguous(), post_before.contiguous(), pre.contiguous()
    traces = torch.empty_like(parts[1]), torch.empty_like(parts[2])
    samples, pres = pre.shape
    numbers = by.up, by.down, limits.low, limits.high, *decays
    function = _function("kernel.cpp", weight.dtype, "step")
    _call(function, (*parts, weight, out, *traces), (1, samples, weight.shape[0], pres), numbers, limits.bound, by, out)
    return traces


def _call(
    function: Any,
    tensors: tuple[Tensor, ...],
    sizes: tuple[int, ...],
    numbers: tuple[float, ...],
    bound: str | None,
    by: Pairings,
    out: Tensor,
) -> None:
    short = function(
        struct.pack(f"{len(tensors)}P", *[x.data_ptr() for x in tensors]),  # in half the time of an array of ctypes
        _whole(sizes),
        _real(numbers),
        _BOUND[bound],
        max(threads_for(out), threads_for(by.up_pre), threads_for(by.up_post)) if torch.get_num_threads() > 1 else 1,
    )
    if short:
        raise MemoryError(f"too little memory to change weights {list(out.shape)} by {list(by.up_pre.shape)} spikes")
    if not out.is_inference():
        # So that autograd notices that saved values have changed.
        torch.autograd.graph.increment_version(out)


def traced(spikes: Tensor, start: Tensor, decay: float) -> Tensor:
    """The traces [T, ...] of spikes [T, ...], all in the dtype of ``start`` [...]; where ``takes`` said yes."""
    spikes, start = spikes.contiguous(), start.contiguous()
    trace = torch.empty_like(spikes)
    pointers = (ctypes.c_void_p * 3)(spikes.data_ptr(), start.data_ptr(), trace.data_ptr())
    function = _function("kernel.cpp", spikes.dtype, "trace")
    function(pointers, ctypes.c_int64(len(spikes)), ctypes.c_int64(start.numel()), ctypes.c_double(decay))
    return trace


@functools.cache
def _function(source: str, dtype: torch.dtype, name: str = "") -> Any:
    """A function of a compiled library; by default named as the source is."""
    library = _library(source)
    assert library is not None, "call takes() first"
    return getattr(library, f"{name or source.removesuffix('.cpp')}_{str(dtype).removeprefix('torch.')}")


@functools.lru_cache(maxsize=512)
def _whole(numbers: tuple[int, ...]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(numbers))(*numbers)


@functools.lru_cache(maxsize=512)
def _real(numbers: tuple[float, ...]) -> ctypes.Array[ctypes.c_double]:
    return (ctypes.c_double * len(numbers))(*numbers)


@functools.cache
def _library(source: str) -> ctypes.CDLL | None:
    """None, with a warning, where there is no compiler."""
    if os.environ.get("TORCH_COMPILE_DISABLE") == "1":
        reason = "TORCH_COMPILE_DISABLE=1 forbids compiling"
    else:
        try:
            return load(files(__name__.rpartition(".")[0]).joinpath(source).read_text(encoding="utf-8"))
        except CompilationFailed as error:
            reason = str(error)
    warnings.warn(
        f"plasticity runs in PyTorch, not in C++, several times slower: {reason}. Use engine='eager' to choose it.",
        stacklevel=2,
    )
    return None
