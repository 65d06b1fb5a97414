"""How much memory is in use, on a GPU or in this process."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

import torch

from ..measure.tracker import left_under_limit
from ..tables import size_of
from .place import choose_device


@dataclass(frozen=True)
class MemoryUsage:
    """Bytes on a device; None where nobody can tell.

    Attributes:
        device: "cuda:0", "mps" or "cpu".
        name: of the chip; empty for a CPU.
        allocated: held by tensors now; on a CPU: resident memory of this process.
        reserved: taken from the device by PyTorch, used or not; on a CPU as ``allocated``.
        peak: most that was ever allocated (CUDA: since ``torch.cuda.reset_peak_memory_stats``; CPU: resident).
        free: what anybody could still take.
        total: of the device.
    """

    device: str
    name: str
    allocated: int | None
    reserved: int | None
    peak: int | None
    free: int | None
    total: int | None

    def __repr__(self) -> str:
        kind = "resident" if self.device == "cpu" else "allocated"
        parts = [f"{_size(self.allocated)} {kind}"]
        if self.device != "cpu":
            parts.append(f"{_size(self.reserved)} reserved")
        parts.append(f"peak {_size(self.peak)}")
        where = f"{self.device} ({self.name})" if self.name else self.device
        return f"{where}: {', '.join(parts)}; {_size(self.free)} of {_size(self.total)} free"


def _size(count: int | None) -> str:
    return "?" if count is None else size_of(count)


def get_gpu_memory_usage(device: str | torch.device = "auto") -> MemoryUsage:
    """Memory in use on ``device``; "auto": the GPU if there is one, else the CPU, where it is resident memory.

    Raises ValueError for a device that PyTorch does not know or can't use here.
    """
    where = choose_device(device)
    if where.type == "cuda":
        free, total = torch.cuda.mem_get_info(where)
        index = where.index if where.index is not None else torch.cuda.current_device()
        return MemoryUsage(
            f"cuda:{index}",
            torch.cuda.get_device_name(where),
            torch.cuda.memory_allocated(where),
            torch.cuda.memory_reserved(where),
            torch.cuda.max_memory_allocated(where),
            free,
            total,
        )
    if where.type == "mps":
        total = torch.mps.recommended_max_memory()
        reserved = torch.mps.driver_allocated_memory()
        allocated = torch.mps.current_allocated_memory()
        return MemoryUsage("mps", "", allocated, reserved, None, max(total - reserved, 0), total)
    if where.type != "cpu":
        return MemoryUsage(str(where), "", None, None, None, None, None)
    resident = _resident()
    free, total = _machine()
    return MemoryUsage("cpu", "", resident, resident, _peak_resident(resident or 0), free, total)


def available(device: torch.device) -> int | None:
    """Bytes that could be allocated now, less under a ``memory_limit``; None where nobody can tell."""
    usage = get_gpu_memory_usage(device)
    if usage.free is None:
        return left_under_limit()
    # What PyTorch has reserved and does not use is there to be used.
    unused = 0 if usage.device == "cpu" else (usage.reserved or 0) - (usage.allocated or 0)
    limit = left_under_limit()
    return usage.free + unused if limit is None else min(usage.free + unused, limit)


def _resident() -> int | None:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        pass
    try:
        import psutil
    except ImportError:
        return None
    return psutil.Process().memory_info().rss


def _peak_resident(now: int) -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak = peak if sys.platform == "darwin" else peak * 1024
    return max(peak, now)  # Linux notes its peak now and then, and may be behind


def _machine() -> tuple[int | None, int | None]:
    """(free, total) of the machine."""
    try:
        with open("/proc/meminfo") as file:
            kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in file}
        return kilobytes["MemAvailable"] * 1024, kilobytes["MemTotal"] * 1024
    except (OSError, KeyError):
        pass
    try:
        import psutil
    except ImportError:
        return None, None
    memory = psutil.virtual_memory()
    return memory.available, memory.total
