"""Fresh memory is slow: a switch that lets the C library of a running process keep what is freed."""

from __future__ import annotations

import ctypes

# Parameters of glibc's mallopt(3), with the largest values that it takes: 32 MiB for what is asked of the kernel piece
# by piece, an int for the rest.
TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3
_SETTINGS = {MMAP_THRESHOLD: 32 * 2**20, TRIM_THRESHOLD: 2**31 - 1, TOP_PAD: 2**28}


def keep_freed_memory() -> bool:
    """Let this process keep freed blocks of up to 32 MiB for the next tensor of that size.

    By default glibc may hand them back to the kernel, and the pages of the next tensor are faulted in and cleared anew:
    a pass over 16 MiB that follows a loop with many small tensors was seen to take 11 ms in place of 2. The process
    holds on to its peak of memory from then on. For larger blocks there are settings in the environment, which have to
    be there when a process starts (``snnkit.train.pages``).

    Returns:
        Whether it was done: not where the C library has no ``mallopt`` (macOS, Windows) or refuses.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):
        return False
    taken = [mallopt(parameter, value) == 1 for parameter, value in _SETTINGS.items()]
    return all(taken)
