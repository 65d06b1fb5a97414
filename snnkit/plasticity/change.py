"""From spikes to new weights: traces, pairings of traces and spikes, and the change, additive or within bounds.

Here in PyTorch, to be read, and for every device; on a CPU ``cpp_kernels`` does the same in one pass over the weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..neuron import Neuron
from .connection import Connection


class TraceState(NamedTuple):
    """State of a trace.

    Attributes:
        trace: how much is left of all spikes so far [B, ...].
    """

    trace: Tensor


class Trace(Neuron):
    """All spikes so far, each weighted with exp(-age / tau): trace ← exp(-dt / tau) trace + x.

    A spike counts in full at its own step. Runs over [T, B, ...] in any engine, as neurons do; the output is the trace.
    Source: Morrison, Diesmann & Gerstner 2008, eq. 6 (doi:10.1007/s00422-008-0233-1), integrated exactly over a step.

    Args:
        tau: time constant in seconds.
        dt: seconds per step.
        engine: "auto", or one of ``engine.ENGINES``.

    Raises:
        TypeError, ValueError: ``tau`` or ``dt`` is no number above 0.
    """

    State: ClassVar = TraceState
    spiking: ClassVar[bool] = False

    decay: float

    def __init__(self, tau: float = 20e-3, dt: float = 1e-3, *, engine: str = "auto") -> None:
        super().__init__(engine=engine)
        self.number("tau", tau, above=0.0)
        self.number("dt", dt, above=0.0)
        self.decay = math.exp(-dt / tau)

    def step(self, x: Tensor, state: TraceState) -> tuple[Tensor, TraceState]:
        trace = self.decay * state.trace + x
        return trace, TraceState(trace)


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
