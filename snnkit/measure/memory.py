"""Memory that a forward pass saves for backward."""

from __future__ import annotations

from collections.abc import Callable
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
