"""Memory in use: on a device now, by one training step, and after each operation."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from snnkit import checks
from snnkit.data import resolve_device
from snnkit.engine.page_pool import POOL
from snnkit.measure.tracker import MemoryTracker, left_under_limit
from snnkit.tables import size_of


@dataclass(frozen=True)
class MemoryUsage:
    """Bytes on a device; None if it is not known."""

    device: str  #: such as "cuda:0" or "cpu"
    name: str  #: of the chip; empty for a CPU
    allocated: int | None = None  #: held by tensors now; on a CPU: by this process, without what engines keep
    reserved: int | None = None  #: taken from the device by PyTorch, used or not; on a CPU: resident memory
    peak: int | None = None  #: most that was ever allocated (CUDA: since ``torch.cuda.reset_peak_memory_stats``)
    free: int | None = None  #: what could still be taken
    total: int | None = None  #: of the device

    def __repr__(self) -> str:
        kind = "resident" if self.device == "cpu" else "reserved"
        parts = [f"{_size(self.allocated)} allocated", f"{_size(self.reserved)} {kind}", f"peak {_size(self.peak)}"]
        where = f"{self.device} ({self.name})" if self.name else self.device
        return f"{where}: {', '.join(parts)}; {_size(self.free)} of {_size(self.total)} free"


def _size(count: int | None) -> str:
    return "?" if count is None else size_of(count)


def get_gpu_memory_usage(device: str | torch.device = "auto") -> MemoryUsage:
    """Memory in use on ``device``; "auto": the GPU if there is one, else the CPU, with the memory of this process.

    Raises ValueError for a device that PyTorch does not know or can't use here.
    """
    where = resolve_device(device)
    if where.type == "cuda":
        return _of_cuda(where)
    return _of_this_process() if where.type == "cpu" else MemoryUsage(str(where), "")


def _of_cuda(where: torch.device) -> MemoryUsage:
    cuda = torch.cuda
    index = where.index if where.index is not None else cuda.current_device()
    counts = cuda.memory_allocated(where), cuda.memory_reserved(where), cuda.max_memory_allocated(where)
    return MemoryUsage(f"cuda:{index}", cuda.get_device_name(where), *counts, *cuda.mem_get_info(where))


def _of_this_process() -> MemoryUsage:
    try:
        import psutil
    except ImportError:  # it comes with snnkit[lab]
        return MemoryUsage("cpu", "")
    process, machine = psutil.Process().memory_info(), psutil.virtual_memory()
    # psutil knows the peak on Windows only.
    peak = getattr(process, "peak_wset", None) or max(process.rss, _peak_resident())
    allocated = max(0, process.rss - POOL.free_bytes())
    return MemoryUsage("cpu", "", allocated, process.rss, peak, machine.available, machine.total)


def available(device: torch.device) -> int | None:
    """Bytes that could be allocated now, less under a ``memory_limit``; None if not known."""
    usage, limit = get_gpu_memory_usage(device), left_under_limit()
    if usage.free is None:
        return limit
    # What is reserved and not used is available.
    free = usage.free + (usage.reserved or 0) - (usage.allocated or 0)
    return free if limit is None else min(free, limit)


def _peak_resident() -> int:
    try:
        import resource  # Unix has it
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def empty_cache(device: str | torch.device = "auto") -> None:
    """Return memory that the engines, PyTorch, Python and the C library hold for later calls.

    Tensors do not change. It is for a process that shares its machine; the next large call waits for fresh memory.

    Args:
        device: of which memory; "auto": the GPU if there is one, else the CPU.
    """
    gc.collect()
    if resolve_device(device).type == "cuda":
        torch.cuda.empty_cache()
    else:
        POOL.clear()
        with contextlib.suppress(OSError, TypeError, AttributeError):  # where the C library has no such function
            ctypes.CDLL(None).malloc_trim(0)


class StepMemory(NamedTuple):
    """Bytes of one training step, without weights and input."""

    held: int  #: alive between forward and backward, the output included
    peak: int  #: most at a time; gradients of the weights are a part of it


@checks.arguments
def training_step(model: nn.Module, x: Tensor) -> StepMemory:
    """Run ``model(x)`` and its backward pass, and count. Weights, ``.grad``, buffers and random numbers are
    restored."""
    with untouched(model, x.device):
        _step(model, x)  # whatever is traced, compiled or benchmarked at first
        torch.clear_autocast_cache()  # each step of training makes its narrow copies of the weights
        if x.device.type == "cuda":
            torch.cuda.synchronize(x.device)
            torch.cuda.reset_peak_memory_stats(x.device)
            before = torch.cuda.memory_allocated(x.device)
            held = _step(model, x, lambda: torch.cuda.memory_allocated(x.device) - before)
            torch.cuda.synchronize(x.device)
            return StepMemory(held, torch.cuda.max_memory_allocated(x.device) - before)
        with MemoryTracker() as tracker:
            held = _step(model, x, lambda: tracker.live)
        return StepMemory(held, tracker.peak)


def _step(model: nn.Module, x: Tensor, count: Callable[[], int] = int) -> int:
    """What ``count`` returns between forward and backward."""
    with torch.enable_grad():
        result = model(x)  # alive to the end, as in ``out, state = model(x)``
        out = output_of(result)
        held = count()
        leaves = [p for p in model.parameters() if p.requires_grad]
        if not out.requires_grad:
            raise ValueError(
                "model must return an output with a gradient, but it returned one without: is every parameter frozen?"
            )
        torch.autograd.grad(out.float().mean(), leaves, allow_unused=True)
    return held


def output_of(result: Any) -> Tensor:
    """The tensor that a model returns: its result, or the first part of (out, state)."""
    if isinstance(result, tuple) and result:
        result = result[0]
    if not isinstance(result, Tensor):
        raise TypeError(f"model must return a tensor or (out, state), but it returned a {type(result).__name__}")
    return result


@checks.arguments
@contextlib.contextmanager
def untouched(model: nn.Module, device: torch.device) -> Iterator[None]:
    """A context that restores the buffers of ``model`` and the state of the random generators."""
    buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        try:
            yield
        finally:
            with torch.no_grad():
                for name, buffer in model.named_buffers():
                    buffer.copy_(buffers[name])


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """A context of evaluation mode without gradients, after which each module is in the mode that it was in."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes.items():
            module.training = training


@checks.arguments
def timeline(function: Callable[[], Any]) -> list[int]:
    """Bytes of the tensors that are alive after each operation of ``function()``, on any device.

    As in a ``MemoryTracker``, only tensors that it makes count, and the result is alive to the end. Views and other
    calls without a kernel are operations, too. If the first call compiles something, call ``function`` once before.
    """
    with _Recorder() as recorder:
        result = function()
    del result
    return recorder.curve


class _Recorder(MemoryTracker):
    def __init__(self) -> None:
        super().__init__()
        self.curve: list[int] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = super().__torch_dispatch__(func, types, args, kwargs)
        self.curve.append(self.live)
        return out
