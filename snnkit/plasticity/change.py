"""From what spikes say to new weights: additive, or held within bounds."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from . import check

BOUNDS = ("hard", "soft", None)
BATCHES = ("sum", "mean")


class Pairings(NamedTuple):
    """The factors of a step's changes, additive ones being ``left``ᵀ ``right``.

    The first B rows are increases, the others decreases, whose ``left`` is negative.

    Attributes:
        left: [..., 2 B, n_post].
        right: [..., 2 B, n_pre].
    """

    left: Tensor
    right: Tensor


class Limits(NamedTuple):
    """Within what weights are held.

    Attributes:
        bound: one of ``BOUNDS``.
        low, high: the bounds.
    """

    bound: str | None
    low: float
    high: float

    def checked(self) -> Limits:
        """Itself, if it makes sense; the errors name the arguments of a rule."""
        check.choice("bound", self.bound, BOUNDS)
        check.number("w_min", self.low)
        check.number("w_max", self.high)
        if not self.low < self.high:
            raise ValueError(f"w_min must be below w_max, but they are {self.low!r} and {self.high!r}")
        return self

    def after_step(self, weight: Tensor, by: Pairings, out: Tensor | None = None) -> Tensor:
        """The weight after one step, ``by`` [2 B, ...], in ``out`` or in a tensor of its own."""
        if self.bound == "soft":
            return self._softly(weight.detach().clone() if out is None else out.copy_(weight), *by)
        if out is None:
            out = torch.addmm(weight.detach(), by.left.T, by.right)
        else:
            torch.addmm(weight, by.left.T, by.right, out=out)
        return out if self.bound is None else out.clamp_(self.low, self.high)

    def after_run(self, weight: Tensor, by: Pairings) -> Tensor:
        """The weight after a sequence, ``by`` [T, 2 B, ...]: one product for all steps, or with bounds one for each."""
        if self.bound is None:
            return torch.addmm(weight.detach(), by.left.flatten(0, 1).T, by.right.flatten(0, 1))
        new = weight.detach().clone()
        for left, right in zip(*by, strict=True):
            self.after_step(new, Pairings(left, right), out=new)
        return new

    def _softly(self, weight: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """``weight``, changed in place."""
        samples = len(left) // 2
        increase = torch.mm(left[:samples].T, right[:samples]).mul_(self.high - weight)
        decrease = torch.mm(left[samples:].T, right[samples:]).mul_(weight - self.low)
        return weight.add_(increase).add_(decrease).clamp_(self.low, self.high)
