"""The memory that a synapse has of spikes: an exponential trace."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

from torch import Tensor

from ..neuron import Neuron


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
