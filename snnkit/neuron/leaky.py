"""Leaky: the LIF neuron as snnTorch writes it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from snnkit import checks
from snnkit.neuron.base import Neuron, Value, between
from snnkit.surrogate import ATan

RESETS = ("subtract", "zero", "none")


class LeakyState(NamedTuple):
    """State of a ``Leaky`` neuron.

    Attributes:
        mem: membrane potential [B, ...].
    """

    mem: Tensor


class Leaky(Neuron):
    """Leaky integrate-and-fire, decaying by a factor ``beta`` per step.

    With R = H(mem - threshold) of the membrane *before* this step (no gradient flows through R):

    - subtract: mem ← beta mem + x - R threshold
    - zero:     mem ← beta (1 - R) mem + x
    - none:     mem ← beta mem + x

    spike = H(mem - threshold), strictly above. So the reset comes one step after the spike. With ``reset_delay=False``
    it comes at once. Then, with d = spike - R, mem ← mem - d threshold (subtract) or mem ← mem - d mem (zero). Equation
    and defaults: snnTorch 1.0 ``Leaky`` (Eshraghian et al. 2023, doi:10.1109/JPROC.2023.3308088).

    Args:
        beta: decay per step, between 0 and 1. A learnable one that leaves the range counts as the nearest number in
            it, as in every neuron.
        threshold: membrane potential above which it fires, positive.
        reset_mechanism: "subtract", "zero" or "none".
        reset_delay: whether the reset waits for the next step.
        surrogate: the spike function.
        engine: "auto", or one of ``engine.ENGINES``.
    """

    State: ClassVar[Any] = LeakyState
    beta: Value
    threshold: Value
    reset_delay: bool

    def __init__(
        self,
        beta: Value,
        threshold: Value = 1.0,
        *,
        reset_mechanism: str = "subtract",
        reset_delay: bool = True,
        surrogate: Callable[..., Tensor] = ATan(),
        engine: str = "auto",
    ) -> None:
        super().__init__(surrogate=surrogate, engine=engine)
        self.flag("reset_delay", reset_delay)
        self.number("beta", beta, at_least=0, at_most=1)
        self.number("threshold", threshold, above=0)
        self.reset_mechanism = checks.choice("reset_mechanism of Leaky", reset_mechanism, RESETS)

    def step(self, x: Tensor, state: LeakyState) -> tuple[Tensor, LeakyState]:
        mem = state.mem
        beta, threshold = between(self.beta, 0, 1), between(self.threshold, 0.0, open=True)
        fired = (mem > threshold).to(mem.dtype)
        if self.reset_mechanism == "subtract":
            mem = beta * mem + x - fired * threshold
        elif self.reset_mechanism == "zero":
            mem = beta * ((1 - fired) * mem) + x
        else:
            mem = beta * mem + x
        spike = self.spike(mem - threshold, strict=True)
        if not self.reset_delay:
            due = spike - fired
            if self.reset_mechanism == "subtract":
                mem = mem - due * threshold
            elif self.reset_mechanism == "zero":
                mem = mem - due * mem
        return spike, LeakyState(mem)


def beta_of(tau: float, dt: float) -> float:
    """The decay per step of a membrane with time constant ``tau`` at step ``dt`` (same unit): exp(-dt / tau)."""
    return math.exp(-checks.number("dt", dt, above=0) / checks.number("tau", tau, above=0))
