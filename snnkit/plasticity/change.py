"""From spikes to new weights: pairings of traces and spikes, and the change, additive or within bounds.

Here in PyTorch, to be read, and for every device; on a CPU ``cpp_kernels`` does the same in one pass over the weights.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .connection import Connection


class Pairings(NamedTuple):
    """The factors of changes: ``up`` up_postᵀ up_pre is the gain of the weights, ``down`` down_postᵀ down_pre the loss.

    Attributes:
        up_post, down_post: [..., S, n_post], or in the connection's shape, before ``flat``.
        up_pre, down_pre: [..., S, n], or in the connection's shape.
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
        return self._replace(
            up_post=connection.rows(self.up_post),
            up_pre=connection.columns(self.up_pre, weight),
            down_post=connection.rows(self.down_post),
            down_pre=connection.columns(self.down_pre, weight),
        )


class Limits(NamedTuple):
    """The range of the weights: ``bound`` ("hard", "soft" or None) between ``low`` and ``high``."""

    bound: str | None
    low: float
    high: float


def changed(weight: Tensor, by: Pairings, limits: Limits, out: Tensor | None = None) -> Tensor:
    """The weights after one step, in ``out``, which may be ``weight``, or in a new tensor.

    Args:
        weight: [n_post, n].
        by: [S, ...] of one step, ``flat``.
    """
    if limits.bound == "soft":
        increase = by.up * (by.up_post.T @ by.up_pre) * (limits.high - weight)
        decrease = by.down * (by.down_post.T @ by.down_pre) * (weight - limits.low)
        new = torch.add(weight, increase.sub_(decrease), out=out)
    else:
        # Both in one product, for it reads and writes every weight.
        left = torch.cat([by.up_post * by.up, by.down_post * -by.down])
        right = torch.cat([by.up_pre, by.down_pre])
        new = torch.addmm(weight, left.T, right, out=out)
    return new if limits.bound is None else new.clamp_(limits.low, limits.high)
