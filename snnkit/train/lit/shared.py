"""Gradients averaged through memory that all ranks of one machine see, in place of its network.

Over TCP each gradient is copied into the kernel and out again several times, by threads that want the cores on which
the ranks compute. Here each rank writes its gradients into a slot of its own, adds up a part of all slots, and reads
the parts of all: two copies and a share of the sum.
"""

from __future__ import annotations

import mmap
import os
import platform
import socket
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from snnkit.train.lit.faults import told

_DTYPES = (torch.float32, torch.float64)
_LINE = 64  # bytes of a cache line: flags of two ranks on one would be passed from core to core with every write
_MOST = 32 * 2**20  # bytes of a slot; longer gradients go through it piece by piece
_PATIENT = 2e-3  # seconds of looking again and again, where each rank has a core
_HASTY = 1e-4  # the same where ranks take turns: who waits has the core that the others need
_NAP = 5e-5  # seconds of sleep between looks after that
_LOOK = 0.5  # seconds between looks at whether the others live


@dataclass(frozen=True)
class Peer:
    """A process that takes part.

    Attributes:
        machine: what only processes that can share memory have in common.
        pid, born: of the process; the latter (clock ticks since the machine started) tells it from a later one that
            was given the same number.
        unfit: why this one can't, or should not; empty: it can.
        need: bytes of its gradients.
    """

    machine: tuple[str, ...]
    pid: int
    born: int
    unfit: str
    need: int


class Shared:
    """Memory that several processes see, with a slot for each and one for the mean. ``meet`` makes it.

    Args:
        memory: mapped by all of them, zeros at first; ``bytes_of`` says how much.
        rank: of this process.
        peers: all, by rank.
        slot: bytes of a slot, a multiple of a cache line.
        timeout: seconds to wait for another rank.
    """

    # Who sees a flag must see what was written before it, too. On x86-64 other cores see the stores of a core in the
    # order in which it made them, and a core's loads are made in order. Stores past the caches are the exception, and
    # copies of many bytes use them; but they end in a fence, and every locked instruction is one as well, of which the
    # interpreter and PyTorch make some between a copy and the flag. Other processors promise less: ``unfit`` there.

    def __init__(self, memory: mmap.mmap, rank: int, peers: list[Peer], slot: int, timeout: float) -> None:
        self.rank, self.world, self.timeout = rank, len(peers), timeout
        self._peers, self._slot = peers, slot
        self._flags = memoryview(memory).cast("q")  # one in each line, the number of the last step that is done
        self._step = 0
        starts = [_LINE * self.world + i * slot for i in range(self.world + 1)]
        self._slots = {
            dtype: [
                torch.frombuffer(memory, dtype=dtype, count=slot // dtype.itemsize, offset=start) for start in starts
            ]
            for dtype in _DTYPES
        }
        cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
        self._spin = _PATIENT if self.world <= cores else _HASTY

    @staticmethod
    def bytes_of(world: int, slot: int) -> int:
        return _LINE * world + (world + 1) * slot

    def average(self, values: Tensor) -> None:
        """Replace ``values``, [n] contiguous float32 or float64, by their mean over all ranks.

        Every number is added up in the order of the ranks, wherever it lies, so the mean does not depend on how
        gradients are packed. All ranks must call this with as many values.

        Raises:
            ConnectionError: a rank has ended, or did not answer within ``timeout``; names it.
        """
        most = self._slot // values.element_size()
        for start in range(0, values.numel(), most):
            self._average(values[start : start + most])

    def _average(self, values: Tensor) -> None:
        n, slots = values.numel(), self._slots[values.dtype]
        slots[self.rank][:n].copy_(values)
        self._meet()  # all have written their own, and read the mean before
        first, last = n * self.rank // self.world, n * (self.rank + 1) // self.world
        part = slots[self.world][first:last]
        torch.add(slots[0][first:last], slots[1][first:last], out=part)
        for other in slots[2 : self.world]:
            part += other[first:last]
        part /= self.world
        self._meet()  # all have added up their part, and need the slots no more
        values.copy_(slots[self.world][:n])

    def hook(self, state, bucket):  # without types: DDP compares them, and does not know them as text
        """For ``DistributedDataParallel.register_comm_hook``."""
        gradients = bucket.buffer()
        self.average(gradients)
        done = torch.futures.Future()
        done.set_result(gradients)
        return done

    def _meet(self) -> None:
        """Wait until all ranks are here."""
        self._step += 1
        flags, stride, step = self._flags, _LINE // 8, self._step
        flags[self.rank * stride] = step
        for rank in range(self.world):
            if flags[rank * stride] < step:
                self._wait(rank, step)

    def _wait(self, rank: int, step: int) -> None:
        flags, place = self._flags, rank * _LINE // 8
        begun = time.monotonic()
        look = begun + _LOOK
        while flags[place] < step:
            now = time.monotonic()
            if now - begun < self._spin:
                os.sched_yield()
                continue
            if now >= look:
                self._look(rank, step, now - begun)
                look = now + _LOOK
            time.sleep(_NAP)

    def _look(self, awaited: int, step: int, waited: float) -> None:
        """ConnectionError where it makes no sense to go on waiting, in words by which ``faults`` knows what it is."""
        for rank, peer in enumerate(self._peers):
            late = self._flags[rank * _LINE // 8] < step
            if late and born(peer.pid) != peer.born and self._flags[rank * _LINE // 8] < step:
                raise ConnectionError(
                    f"shared memory of the ranks: rank {rank} (process {peer.pid}) is gone, remote process has "
                    "terminated"
                )
        if waited >= self.timeout:
            raise ConnectionError(
                f"shared memory of the ranks: timed out after {self.timeout:g} s of waiting for rank {awaited} "
                f"(process {self._peers[awaited].pid})"
            )
        # One that failed may take a while to end, or not end at all, in a notebook.
        if told() is not None:
            raise ConnectionError("shared memory of the ranks: connection was likely closed by a rank that failed")


def meet(parameters: Iterable[Tensor], timeout: float, unfit: str = "") -> tuple[Shared | None, str]:
    """Memory for gradients of ``parameters``, or None and why there is none; the same on all ranks, which must all ask.

    It can be had where all ranks run on one x86-64 machine under Linux, in one container, and gradients are float32 or
    float64 on the CPU. The memory has no name (memfd), so whatever ends the ranks leaves none of it behind; it takes
    nothing of /dev/shm. At most 32 MiB for each rank and as much for the mean.

    Args:
        parameters: whose gradients will be averaged.
        timeout: seconds to wait for another rank.
        unfit: why this rank does not want it; empty: it does.
    """
    rank = dist.get_rank()
    own = _own(list(parameters), unfit)
    peers = _gathered(own)
    why = [f"rank {i}: {peer.unfit}" for i, peer in enumerate(peers) if peer.unfit]
    if not why and len({peer.machine for peer in peers}) > 1:
        why = ["the ranks are not all on one machine, in one container"]
    if not why and len({peer.need for peer in peers}) > 1:
        why = ["the ranks have different gradients"]
    if why:
        return None, why[0]
    slot = -(-min(max(own.need, 1), _MOST) // _LINE) * _LINE
    size = Shared.bytes_of(len(peers), slot)
    memory, file, error = None, -1, ""
    try:
        if rank == 0:
            file, error = _made(size)
        theirs, error = _gathered((file, error))[0]
        if not error and rank:
            # The kernel lets processes of one user open each other's files by this path.
            file, error = _opened(f"/proc/{peers[0].pid}/fd/{theirs}")
        if not error:
            memory, error = _mapped(file, size)
        failed = [f"rank {i}: {text}" for i, text in enumerate(_gathered(error)) if text]
    finally:
        if file >= 0:
            os.close(file)
    if failed or memory is None:
        return None, failed[0]
    return Shared(memory, rank, peers, slot, timeout), ""


def born(pid: int) -> int | None:
    """When a process of this machine began, in clock ticks; None where there is none, or it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            # The name, in brackets, may hold anything.
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZXx" else int(fields[19])


def _own(parameters: list[Tensor], unfit: str) -> Peer:
    if not unfit and (sys.platform != "linux" or platform.machine() != "x86_64"):
        unfit = f"{sys.platform} on {platform.machine()}, but it needs Linux on x86-64"
    other = next((p for p in parameters if p.dtype not in _DTYPES or p.device.type != "cpu"), None)
    if not unfit and other is not None:
        unfit = f"gradients of {other.dtype} on {other.device}, but it takes float32 and float64 on the CPU"
    machine: tuple[str, ...] = ()
    start = None
    if not unfit:
        try:
            with open("/proc/sys/kernel/random/boot_id") as file:
                spaces = [os.readlink(f"/proc/self/ns/{name}") for name in ("pid", "net")]
                machine = (socket.gethostname(), file.read().strip(), *spaces, str(os.getuid()))
            start = born(os.getpid())
        except OSError as error:
            unfit = str(error)
        if not unfit and start is None:
            unfit = "/proc does not show this process"
    return Peer(machine, os.getpid(), start or 0, unfit, sum(p.numel() * p.element_size() for p in parameters))


def _gathered(own: Any) -> list[Any]:
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, own)
    return every


def _made(size: int) -> tuple[int, str]:
    file = -1
    try:
        file = os.memfd_create("snnkit gradients")
        os.posix_fallocate(file, 0, size)  # now, rather than a bus error when it is written
    except OSError as error:
        if file >= 0:
            os.close(file)
        return -1, f"no {size} bytes of shared memory: {error}"
    return file, ""


def _opened(path: str) -> tuple[int, str]:
    try:
        return os.open(path, os.O_RDWR), ""
    except OSError as error:
        return -1, str(error)


def _mapped(file: int, size: int) -> tuple[mmap.mmap | None, str]:
    try:
        return mmap.mmap(file, size), ""
    except (OSError, ValueError) as error:
        return None, str(error)
