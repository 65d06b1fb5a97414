"""From what spikes say to new weights: additive, or held within bounds.

Here in PyTorch, to be read, and for every device; on a CPU ``kernel`` does the same in one pass over the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from . import check
from .connection import Connection

BOUNDS = ("hard", "soft", None)
BATCHES = ("sum", "mean")


class Pairings(NamedTuple):
    """The factors of changes: ``up`` up_postᵀ up_pre is what weights gain, ``down`` down_postᵀ down_pre what they lose.

    Attributes:
        up_post, down_post: [..., S, n_post], or as the connection has its neurons, before ``flat``.
        up_pre, down_pre: [..., S, groups n], or as the connection has its neurons.
        up, down: 0 or more.
    """

    up_post: Tensor
    up_pre: Tensor
    down_post: Tensor
    down_pre: Tensor
    up: float
    down: float

    def flat(self, connection: Connection, weight: Tensor) -> Pairings:
        """As rows of matrices, one for each sample and position."""
        return Pairings(
            connection.rows(self.up_post),
            connection.columns(self.up_pre, weight),
            connection.rows(self.down_post),
            connection.columns(self.down_pre, weight),
            self.up,
            self.down,
        )

    def steps(self, first: int, end: int) -> Pairings:
        """Some of the steps of a sequence [T, ...]."""
        return self._each(lambda part: part[first:end])

    def together(self) -> Pairings:
        """All steps of a sequence as one, for changes that only add up."""
        return self._each(lambda part: part.flatten(0, 1))

    def _each(self, act: Callable[[Tensor], Tensor]) -> Pairings:
        up_post, up_pre, down_post, down_pre = map(act, self[:4])
        return Pairings(up_post, up_pre, down_post, down_pre, self.up, self.down)


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


def changed(weight: Tensor, by: Pairings, limits: Limits, groups: int, out: Tensor | None = None) -> Tensor:
    """The weights after one step, in ``out``, which may be ``weight``, or in a tensor of their own.

    Args:
        weight: [n_post, n].
        by: [S, ...] of one step, ``flat``.
        groups: of rows that have columns of their own.
    """
    if limits.bound == "soft":
        increase = by.up * _product(by.up_post, by.up_pre, groups) * (limits.high - weight)
        decrease = by.down * _product(by.down_post, by.down_pre, groups) * (weight - limits.low)
        new = torch.add(weight, increase.sub_(decrease), out=out)
    else:
        # Both in one product, for it reads and writes every weight.
        left = torch.cat([by.up_post * by.up, by.down_post * -by.down])
        right = torch.cat([by.up_pre, by.down_pre])
        if groups == 1:
            new = torch.addmm(weight, left.T, right, out=out)
        else:
            new = torch.add(weight, _product(left, right, groups), out=out)
    return new if limits.bound is None else new.clamp_(limits.low, limits.high)


def _product(left: Tensor, right: Tensor, groups: int) -> Tensor:
    """[S, n_post], [S, groups n] → [n_post, n]."""
    if groups == 1:
        return left.T @ right
    left, right = (x.unflatten(1, (groups, -1)).transpose(0, 1) for x in (left, right))
    return (left.mT @ right).flatten(0, 1)
