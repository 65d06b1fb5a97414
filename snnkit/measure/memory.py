"""Memory: what a forward pass saves for backward, and how the C library treats memory that is freed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from .. import checks


@dataclass(frozen=True)
class Held:
    """Bytes that stay allocated between forward and backward. The output is not counted: the next layer has it."""

    x: int  #: those of the input, if backward needs it (then no earlier layer can free it), else 0
    other: int  #: everything else

    @property
    def total(self) -> int:
        return self.x + self.other


@checks.arguments
def held_for_backward(forward: Callable[[Tensor], Tensor], x: Tensor) -> Held:
    """What ``forward(x)`` saves for backward.

    Autograd's hooks see every tensor that is saved; each storage counts once. On CUDA the allocator also knows what
    was held outside autograd, so there ``other`` is the growth of allocated memory less the output.

    Args:
        forward: [T, ...] to [T, ...]. Called twice: whatever it traces and compiles at first is not for the hooks.
        x: the input; a fresh leaf with its data is used.
    """
    saved: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        # Storages live as long as the output below, so no address is used twice.
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    leaf = x.detach().requires_grad_()
    forward(leaf)
    before = _allocated(x.device)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        out = forward(leaf)
    grown = _allocated(x.device) - before
    of_x = saved.pop(x.untyped_storage().data_ptr(), 0)
    saved.pop(out.untyped_storage().data_ptr(), None)
    other = max(0, grown - out.untyped_storage().nbytes()) if x.is_cuda else sum(saved.values())
    return Held(of_x, other)


def _allocated(device: torch.device) -> int:
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0


# glibc hands tensors of more than 32 MiB back to the kernel as soon as they are freed, and smaller ones now and then;
# faulting their pages in again takes longer than the arithmetic. Read once, when a process starts.
MALLOC_SETTINGS = {
    "MALLOC_MMAP_THRESHOLD_": "8589934592",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "268435456",
}


@checks.arguments
def missing_malloc_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Those of the settings that ``environment`` does not have: what a user set stays."""
    return {name: value for name, value in MALLOC_SETTINGS.items() if name not in environment}


# Parameters of glibc's mallopt(3), with the largest values that it takes: 32 MiB for what is requested from the kernel
# piece by piece, an int for the rest.
TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3
_MALLOPT = {MMAP_THRESHOLD: 32 * 2**20, TRIM_THRESHOLD: 2**31 - 1, TOP_PAD: 2**28}


def keep_freed_memory() -> bool:
    """Let this process reuse freed blocks of up to 32 MiB for the next tensor of that size.

    By default glibc may return them to the kernel, and the pages of the next tensor are faulted in and cleared again:
    a pass over 16 MiB that follows a loop with many small tensors was seen to take 11 ms in place of 2. The process
    holds on to its peak of memory from then on. For larger blocks there are settings in the environment, which have to
    be there when a process starts (``snnkit.measure.memory``).

    Returns:
        Whether it was done: not where the C library has no ``mallopt`` (macOS, Windows) or refuses.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):
        return False
    taken = [mallopt(parameter, value) == 1 for parameter, value in _MALLOPT.items()]
    return all(taken)
