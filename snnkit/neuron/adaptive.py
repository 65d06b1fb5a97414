"""Neurons that change with their own activity: ALIF and Izhikevich."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from snnkit.neuron.base import Neuron, Value, between, everywhere, reset_membrane
from snnkit.surrogate import ATan


class ALIFState(NamedTuple):
    """State of an ``ALIF`` neuron.

    Attributes:
        v: membrane potential [B, ...].
        a: adaptation, a decaying count of its own spikes [B, ...].
    """

    v: Tensor
    a: Tensor


class ALIF(Neuron):
    """LIF with an adaptive threshold (Bellec et al. 2020, doi:10.1038/s41467-020-17236-y).

    v ← exp(-1/tau) v + x;  spike = H(v - (v_threshold + beta a));  v ← v_reset where it spiked (soft reset:
    v ← v - spike v_threshold, as published);  a ← exp(-1/tau_adapt) a + spike.

    Args:
        tau: membrane time constant in time steps, positive.
        tau_adapt: time constant of the adaptation in time steps, positive.
        beta: how much one spike raises the threshold, at least 0; 0 gives a LIF.
        v_threshold: threshold at rest.
        v_reset: membrane potential after a spike; None (as published) subtracts the threshold at rest.
        surrogate: the spike function.
        engine: "auto", or one of ``engine.ENGINES``.
    """

    State: ClassVar[Any] = ALIFState
    tau: Value
    tau_adapt: Value
    beta: Value
    v_threshold: Value
    v_reset: Value | None

    def __init__(
        self,
        tau: float = 20.0,
        tau_adapt: float = 200.0,
        beta: Value = 0.07,
        *,
        v_threshold: Value = 1.0,
        v_reset: Value | None = None,
        surrogate: Callable[..., Tensor] = ATan(),
        engine: str = "auto",
    ) -> None:
        super().__init__(surrogate=surrogate, engine=engine)
        self.number("tau", tau, above=0)
        self.number("tau_adapt", tau_adapt, above=0)
        self.number("beta", beta, at_least=0)
        self.threshold_and_reset(v_threshold, v_reset)

    @property
    def threshold(self) -> Value:
        """Its ``v_threshold``: that at rest, which ``beta * state.a`` raises."""
        return self.v_threshold

    @property
    def decay(self) -> Value:
        """exp(-1 / tau)."""
        return _decay(self.tau)

    def step(self, x: Tensor, state: ALIFState) -> tuple[Tensor, ALIFState]:
        v = _decay(self.tau) * state.v + x
        threshold = between(self.v_threshold, 0.0 if self.v_reset is None else self.v_reset, open=True)
        spike = self.spike(v - (threshold + between(self.beta, 0.0) * state.a))
        a = _decay(self.tau_adapt) * state.a + spike
        return spike, ALIFState(reset_membrane(v, spike, threshold, self.v_reset), a)


def _decay(tau: Value) -> Value:
    tau = between(tau, 0.0, open=True)
    return torch.exp(-1 / tau) if isinstance(tau, Tensor) else math.exp(-1 / tau)


class IzhikevichState(NamedTuple):
    """State of an ``Izhikevich`` neuron.

    Attributes:
        v: membrane potential in mV [B, ...].
        u: recovery variable in mV/ms [B, ...].
    """

    v: Tensor
    u: Tensor


class Izhikevich(Neuron):
    """Izhikevich's simple model (Izhikevich 2003, doi:10.1109/TNN.2003.820440): it fires like many kinds of cortical
    cells.

    dv/dt = 0.04 v² + 5 v + 140 - u + x;  du/dt = a (b v - u);  at v >= 30 mV: spike, v ← c, u ← u + d.
    Euler's method, with two half steps for v as in the published program. The defaults are a regular-spiking cell,
    which fires at x = 10.

    Args:
        a: rate of recovery in 1/ms.
        b: sensitivity of recovery to the membrane, 1/ms.
        c: membrane potential after a spike in mV, below 30.
        d: what a spike adds to recovery, mV/ms.
        dt: time step in ms, at most 1: above, Euler's method diverges.
        surrogate: the spike function; it sees (v - 30) / 30.
        engine: "auto", or one of ``engine.ENGINES``.
    """

    State: ClassVar[Any] = IzhikevichState
    a: Value
    b: Value
    c: Value
    d: Value
    dt: float
    v_peak = 30.0

    def __init__(
        self,
        a: Value = 0.02,
        b: Value = 0.2,
        c: Value = -65.0,
        d: Value = 8.0,
        *,
        dt: float = 1.0,
        surrogate: Callable[..., Tensor] = ATan(),
        engine: str = "auto",
    ) -> None:
        super().__init__(surrogate=surrogate, engine=engine)
        self.number("a", a)
        self.number("b", b)
        self.number("c", c)
        self.number("d", d)
        self.number("dt", dt, above=0, at_most=1)
        self.threshold_above_reset("v_peak", "c")

    @property
    def threshold(self) -> float:
        """Its ``v_peak``, where a spike is cut off, in mV."""
        return self.v_peak

    @property
    def decay(self) -> None:
        """None: how fast it goes to rest depends on where it is."""
        return None

    def initial_state(self, x: Tensor) -> IzhikevichState:
        """As published: v = -65 mV and u = b v."""
        v = everywhere(x, -65.0)
        return IzhikevichState(v, self.b * v)

    def step(self, x: Tensor, state: IzhikevichState) -> tuple[Tensor, IzhikevichState]:
        v, u = state
        for _ in range(2):
            v = v + self.dt / 2 * (0.04 * v * v + 5 * v + 140 - u + x)
        u = u + self.dt * self.a * (self.b * v - u)
        # Dividing by the peak gives surrogates made for thresholds of one a membrane of that size.
        spike = self.spike((v - self.v_peak) / self.v_peak)
        # torch.where would do, but it would keep the reset out of the gradient.
        reset = between(self.c, None, self.v_peak - 1)
        return spike, IzhikevichState(reset_membrane(v, spike, self.v_peak, reset), u + spike * self.d)
