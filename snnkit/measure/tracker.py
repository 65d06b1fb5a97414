"""Counting bytes as they come and go: peaks on a CPU, which has no counter, and a limit that can be hit on purpose.

PyTorch counts what it allocates on CUDA and nowhere else. Here a dispatch mode looks at what every operation returns
and follows each storage until it is freed, so a peak is exact and the same in every run, whatever the C library or the
kernel do with freed pages. It sees tensors, not the scratch memory inside an operation (a convolution's workspace).
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from snnkit import checks
from snnkit.tables import size_of


class MemoryTracker(TorchDispatchMode):
    """Bytes of all tensors that were made since it began and still live; within ``with MemoryTracker() as tracker:``.

    Backward passes are seen, too. What was there before (weights, data) does not count. Every operation takes some
    20 µs more.

    Args:
        limit: raise ``torch.OutOfMemoryError`` when more bytes than this live; None: never.

    Attributes:
        live: bytes now.
        peak: most bytes at a time.
    """

    observes = True  # kernels run in it: their memory is to be counted

    def __init__(self, limit: int | None = None) -> None:
        super().__init__()
        self.limit = limit
        self.live = self.peak = 0
        self._known: dict[int, _Entry] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        for tensor in _tensors((args, kwargs)):
            self._follow(tensor, made_here=False)
        out = func(*args, **kwargs)
        before = self.live
        for tensor in _tensors(out):
            self._follow(tensor, made_here=True)
        if self.limit is not None and before < self.live > self.limit:
            raise torch.OutOfMemoryError(
                f"out of memory (simulated by device.memory_limit): tried to allocate {size_of(self.live - before)} "
                f"with {size_of(before)} of {size_of(self.limit)} in use; needed {self.live} bytes"
            )
        self.peak = max(self.peak, self.live)
        return out

    def _follow(self, tensor: Tensor, made_here: bool) -> None:
        if tensor.is_meta:
            return
        storage = tensor.untyped_storage()
        key = storage._cdata
        entry = self._known.get(key)
        if entry is not None:
            grown = storage.nbytes() - entry.nbytes
            if grown and entry.counts:  # resized in place
                entry.nbytes += grown
                self.live += grown
            return
        # A storage keeps its Python object as long as it lives, so the reference dies with the memory.
        reference = weakref.ref(storage, lambda _: self._forget(key))
        self._known[key] = _Entry(reference, storage.nbytes(), made_here)
        if made_here:
            self.live += storage.nbytes()

    def _forget(self, key: int) -> None:
        entry = self._known.pop(key, None)
        if entry is not None and entry.counts:
            self.live -= entry.nbytes


class _Entry:
    __slots__ = ("counts", "nbytes", "reference")

    def __init__(self, reference: Any, nbytes: int, counts: bool) -> None:
        self.reference, self.nbytes, self.counts = reference, nbytes, counts


def _tensors(tree: Any) -> Iterator[Tensor]:
    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))


_limits: list[MemoryTracker] = []


@contextlib.contextmanager
def memory_limit(limit: int) -> Iterator[MemoryTracker]:
    """Simulate a device with little memory: within the ``with``, more than ``limit`` bytes of new tensors raise
    ``torch.OutOfMemoryError``, as a full GPU does. For drills and tests; nothing is allocated or reserved.

    Only what is made within counts (activations, gradients, copies), not what was there before (weights, data).

    Args:
        limit: bytes, an int of at least 1.

    Yields:
        The ``MemoryTracker``: ``live`` and ``peak`` in bytes.
    """
    with MemoryTracker(checks.integer("limit", limit, at_least=1)) as tracker:
        _limits.append(tracker)
        try:
            yield tracker
        finally:
            _limits.remove(tracker)


def left_under_limit() -> int | None:
    """Bytes that a ``memory_limit`` at work still allows; None without one."""
    return min((tracker.limit - tracker.live for tracker in _limits if tracker.limit is not None), default=None)


@checks.arguments
def peak_of(function: Callable[[], object], device: torch.device) -> int:
    """Most bytes that ``function()`` had allocated beyond those before it: on CUDA by PyTorch's own count, elsewhere by
    a ``MemoryTracker``."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        function()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with MemoryTracker() as tracker:
        function()
    return tracker.peak
