"""Memory for large results on a CPU: blocks of pages that are already mapped.

The C library gives a large tensor its own pages and returns them to the system when the tensor dies. The system fills
each new page with zeros at its first write, and that takes several times as long as the neurons. A block of this pool
stays mapped: a tensor takes it, and when the tensor's storage dies (with its last view, in NumPy or in another thread),
the block is free for the next one. Its pages are huge if the system has such pages.

PyTorch's own allocations (matrix products, convolutions) come from the C library. From the first large result
on, glibc also holds freed memory: all of tensors up to 32 MiB, and most of larger ones. That is a setting of the whole
process, but without it a plain call of a network waits for pages, too: 784-1024-10 neurons over 25 steps of 512 samples
take 1.16 times as long, and their training 1.12 times; with 128 samples it is 1.07 and 0.98 (medians of five and nine
interleaved runs, two shared cores). ``limit_kept_memory`` is the switch; where an environment variable ``MALLOC_…`` is
set, glibc stays as the user wants it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import mmap
import os
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from snnkit.checks import integer
from snnkit.engine.trace import renew_in_children

SMALLEST = 1 << 20  # bytes; the C library gives smaller tensors memory that it already has
_HUGE_PAGE = 2 << 20
_SHARE = 8  # free blocks stay reserved up to this part of the machine's memory
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -2, -3, -4  # of mallopt(3)


class _Block(NamedTuple):
    """Private memory of this process: a forked child has a copy."""

    pages: mmap.mmap
    offset: int  # where the first huge page can begin
    size: int


class PagePool:
    """Blocks that tensors give back.

    Args:
        limit: bytes of free blocks that stay reserved; 0: none.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._free: list[_Block] = []  # the longest unused first
        self._returned: deque[_Block] = deque()
        self._lent: dict[int, tuple[weakref.ref, _Block]] = {}
        self._lock = threading.Lock()

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """As ``torch.empty`` on a CPU: contiguous, with arbitrary values."""
        size = math.prod(shape) * dtype.itemsize
        refused = size < SMALLEST or self.limit < size or not hasattr(mmap, "MAP_PRIVATE")
        # A dispatch mode, such as a counter of memory, should see an allocation.
        if refused or torch._C._len_torch_dispatch_stack():
            return torch.empty(shape, dtype=dtype, device="cpu")
        with self._lock:
            block = self._take(_rounded(size))
        if block is None:
            return torch.empty(shape, dtype=dtype, device="cpu")
        memory = (ctypes.c_char * size).from_buffer(block.pages, block.offset)
        # The storage holds `memory`, whose end returns the block.
        lent = weakref.ref(memory, self._end)
        self._lent[id(lent)] = lent, block
        # Not a view of a flat tensor: autograd treats in-place changes of views differently.
        return torch.frombuffer(memory, dtype=dtype).resize_(shape)

    def free_bytes(self) -> int:
        """Bytes of memory that are reserved for later tensors."""
        with self._lock:
            self._collect()
            return sum(block.size for block in self._free)

    def clear(self) -> None:
        """Return all free blocks to the system."""
        with self._lock:
            self._returned.clear()
            self._free.clear()
        _limit_c_library.cache_clear()  # whoever trims the heap takes its room; the next block makes it again

    def _end(self, lent: weakref.ref) -> None:
        self._returned.append(self._lent.pop(id(lent))[1])
        if self._lock.acquire(blocking=False):  # else this thread itself may hold it, as its storage died just now
            try:
                self._collect()
            finally:
                self._lock.release()

    def _take(self, size: int) -> _Block | None:
        self._collect()
        for i in reversed(range(len(self._free))):
            if self._free[i].size == size:
                return self._free.pop(i)
        try:
            return _mapped(size)
        except OSError:  # no memory
            self._free.clear()
            return None

    def _collect(self) -> None:
        while self._returned:
            self._free.append(self._returned.popleft())
        size = sum(block.size for block in self._free)
        while size > self.limit:
            size -= self._free.pop(0).size


def _rounded(size: int) -> int:
    """At most one eighth more: sequences of similar lengths share blocks."""
    step = 1 << (size.bit_length() - 4)
    return -(-size // step) * step


def _mapped(size: int) -> _Block:
    _limit_c_library(POOL.limit)
    pages = mmap.mmap(-1, size + _HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    offset = -ctypes.addressof(ctypes.c_char.from_buffer(pages)) % _HUGE_PAGE
    if (huge := size // _HUGE_PAGE * _HUGE_PAGE) and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a system without huge pages
            pages.madvise(mmap.MADV_HUGEPAGE, offset, huge)  # the rest in small ones: a huge one counts in full
    return _Block(pages, offset, size)


@functools.lru_cache(maxsize=1)  # calls only if the limit changes
def _limit_c_library(limit: int) -> None:
    """The C library holds free memory up to ``limit``, if it is glibc and the user has set no limit."""
    if any(name.startswith("MALLOC_") for name in os.environ):
        return
    with contextlib.suppress(ImportError, OSError, TypeError, AttributeError):  # another C library
        import resource  # Unix has it

        limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
        if any(bound != resource.RLIM_INFINITY for bound in limits):
            return  # addresses are scarce: threads and mappings need those that the heap would hold
        library = ctypes.CDLL(None)
        mallopt, malloc, free = library.mallopt, library.malloc, library.free
        malloc.restype, malloc.argtypes, free.argtypes = ctypes.c_void_p, (ctypes.c_size_t,), (ctypes.c_void_p,)
        limit = max(limit, 2**17)  # glibc's own
        mallopt(_TRIM_THRESHOLD, min(limit, 2**31 - 1))
        mallopt(_MMAP_THRESHOLD, min(limit, 2**25))
        mallopt(_TOP_PAD, min(limit, 2**28))
        library.malloc_trim(0)  # pages held under an earlier, higher limit
        # Above 32 MiB each tensor would have new pages, unless the heap has room: so it grows by up to 1 GiB with the
        # pad. Addresses alone cost nothing; in one block, as the header of each fills a page, which may be a huge one.
        mallopt(_MMAP_MAX, 0)
        free(malloc(min(limit // 2, 3 * 2**28)))
        mallopt(_MMAP_MAX, 2**16)  # glibc's own


def _memory() -> int:
    """Bytes of the machine's memory, 0 where that is not known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


POOL = PagePool(_memory() // _SHARE)


def limit_kept_memory(limit: int) -> None:
    """Keep at most ``limit`` bytes of freed memory for later calls on a CPU; 0: none.

    The limit holds for the results of engines and, under Linux, again for those of PyTorch's own operations. By default
    it is one eighth of the machine's memory.
    """
    POOL.limit = integer("limit", limit, at_least=0)
    POOL.free_bytes()
    _limit_c_library(limit)


def fresh(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """As ``torch.empty``; on a CPU it may get a block of the pool."""
    return POOL.empty(shape, dtype) if device.type == "cpu" else torch.empty(shape, dtype=dtype, device=device)


renew_in_children(vars(POOL), _lock=threading.Lock)
