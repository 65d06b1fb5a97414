"""CubaLIF, LI and AdEx: neurons with a synaptic current, in Norse's conventions.

Rates are in 1/s, ``dt`` in s, potentials dimensionless. The discretisation is Euler's: the input is added to the
current, the current drives the membrane, then the current decays. The input is not scaled by ``dt``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from snnkit import checks
from snnkit.neuron.base import Neuron, Value, between, reset_membrane
from snnkit.surrogate import SuperSpike

# The smallest delta_T: a sharper onset of spikes is a threshold.
_SHARPEST = 1e-6


class SynapticState(NamedTuple):
    """State of neurons with a synapse.

    Attributes:
        v: membrane potential [B, ...].
        i: synaptic current [B, ...].
    """

    v: Tensor
    i: Tensor


class _CurrentBased(Neuron):
    """What the three share: a synaptic current that charges a leaky membrane."""

    State: ClassVar[Any] = SynapticState
    resting: ClassVar[dict[str, str]] = {"v": "v_leak"}
    tau_mem_inv: Value
    tau_syn_inv: Value
    v_leak: Value
    dt: float

    def __init__(
        self,
        tau_mem_inv: Value,
        tau_syn_inv: Value,
        v_leak: Value,
        dt: float,
        surrogate: Callable[..., Tensor] | None,
        engine: str,
    ) -> None:
        super().__init__(surrogate=surrogate, engine=engine)
        self.number("tau_mem_inv", tau_mem_inv, above=0)
        self.number("tau_syn_inv", tau_syn_inv, above=0)
        self.number("v_leak", v_leak)
        self.number("dt", dt, above=0)
        for name in ("tau_mem_inv", "tau_syn_inv"):
            self.at_most_two(name)

    def at_most_two(self, name: str) -> None:
        """ValueError if a rate times ``dt`` is above 2, where Euler's method diverges."""
        rates = torch.as_tensor(getattr(self, name)).double() * self.dt
        if not rates.is_meta:
            checks.number(f"dt * {name} of {type(self).__name__}", rates.max(), at_most=2)

    def part_per_step(self, rate: Value) -> Value:
        """``dt * rate``: the part that a rate takes away in a step."""
        return self.dt * between(rate, 0.0, 2 / self.dt)

    @property
    def decay(self) -> Value:
        """1 - dt tau_mem_inv."""
        return 1 - self.part_per_step(self.tau_mem_inv)

    def charge(self, x: Tensor, state: SynapticState) -> SynapticState:
        i = state.i + x
        v = state.v + self.part_per_step(self.tau_mem_inv) * ((self.v_leak - state.v) + i)
        return SynapticState(v, i - self.part_per_step(self.tau_syn_inv) * i)


class CubaLIF(_CurrentBased):
    """Current-based leaky integrate-and-fire.

    i ← i + x;  v ← v + dt tau_mem_inv ((v_leak - v) + i);  i ← i - dt tau_syn_inv i;
    spike = H(v - v_th), strictly above;  v ← v_reset where it spiked.
    Equation and defaults: Norse's ``LIF`` (Pehle and Pedersen 2021, doi:10.5281/zenodo.4422025), which gives the same
    spikes and membranes. With x = 1 the membrane is .1 .27 .487 .7335 .9963, and it fires in the sixth step.

    Args:
        tau_mem_inv: inverse membrane time constant in 1/s.
        tau_syn_inv: inverse synaptic time constant in 1/s.
        v_leak: potential at rest.
        v_th: threshold.
        v_reset: potential after a spike, below ``v_th``.
        dt: time step in s, at most 2 / tau_mem_inv and 2 / tau_syn_inv: Euler's method diverges above.
        surrogate: the spike function.
        detach_reset: keep the reset out of the gradient, as Norse's recurrent LIF does, and its ``LIF`` does not.
        engine: "auto", or one of ``engine.ENGINES``.
    """

    v_th: Value
    v_reset: Value
    detach_reset: bool

    def __init__(
        self,
        tau_mem_inv: Value = 100.0,
        tau_syn_inv: Value = 200.0,
        *,
        v_leak: Value = 0.0,
        v_th: Value = 1.0,
        v_reset: Value = 0.0,
        dt: float = 1e-3,
        surrogate: Callable[..., Tensor] = SuperSpike(100.0),
        detach_reset: bool = False,
        engine: str = "auto",
    ) -> None:
        super().__init__(tau_mem_inv, tau_syn_inv, v_leak, dt, surrogate, engine)
        self.flag("detach_reset", detach_reset)
        self.number("v_th", v_th)
        self.number("v_reset", v_reset)
        self.threshold_above_reset("v_th", "v_reset")

    @property
    def threshold(self) -> Value:
        """Its ``v_th``."""
        return self.v_th

    def step(self, x: Tensor, state: SynapticState) -> tuple[Tensor, SynapticState]:
        v, i = self.charge(x, state)
        spike = self.spike(v - between(self.v_th, self.v_reset, open=True), strict=True)
        counted = spike.detach() if self.detach_reset else spike
        return spike, SynapticState(reset_membrane(v, counted, self.v_th, self.v_reset), i)


class LI(_CurrentBased):
    """Leaky integrator: the membrane of ``CubaLIF`` without a threshold. Its output is the membrane: a readout.

    i ← i + x;  v ← v + dt tau_mem_inv ((v_leak - v) + i);  i ← i - dt tau_syn_inv i;  out = v.
    Equation and defaults: Norse's ``LI`` (doi:10.5281/zenodo.4422025).

    Args:
        tau_mem_inv, tau_syn_inv, v_leak, dt, engine: as in ``CubaLIF``.
    """

    spiking = False

    def __init__(
        self,
        tau_mem_inv: Value = 100.0,
        tau_syn_inv: Value = 200.0,
        *,
        v_leak: Value = 0.0,
        dt: float = 1e-3,
        engine: str = "auto",
    ) -> None:
        super().__init__(tau_mem_inv, tau_syn_inv, v_leak, dt, None, engine)

    @property
    def threshold(self) -> None:
        """None: it does not fire."""
        return None

    def step(self, x: Tensor, state: SynapticState) -> tuple[Tensor, SynapticState]:
        state = self.charge(x, state)
        return state.v, state


class AdExState(NamedTuple):
    """State of an ``AdEx`` neuron.

    Attributes:
        v: membrane potential [B, ...].
        i: synaptic current [B, ...].
        a: adaptation current [B, ...].
    """

    v: Tensor
    i: Tensor
    a: Tensor


class AdEx(_CurrentBased):
    """Adaptive exponential integrate-and-fire (Brette and Gerstner 2005, doi:10.1152/jn.00686.2005).

    i ← i + x;  v' = v + dt tau_mem_inv ((v_leak - v) + delta_T exp((v - v_th) / delta_T) + i - a);
    a ← a + dt tau_ada_inv (adaptation_current (v - v_leak) - a);  i ← i - dt tau_syn_inv i;  spike = H(v' - v_peak),
    strictly above;  where it spiked, v ← v_reset and a ← a + adaptation_spike;  elsewhere v ← v'.
    Equation and defaults: Norse's ``LIFAdEx`` (doi:10.5281/zenodo.4422025), which gives the same spikes and states, and
    cuts a spike off at ``v_th``. The published model has a current instead of a synapse, ``tau_syn_inv = 1 / dt``, and
    a ``v_peak`` far above ``v_th``. Potentials, and currents times the resistance, may then be in mV: delta_T = 2,
    v_leak = -70.6, v_th = -50.4, v_peak = 20.

    Args:
        tau_mem_inv, tau_syn_inv, tau_ada_inv: inverse time constants of membrane, synapse and adaptation in 1/s.
        adaptation_current: how strongly the membrane drives the adaptation.
        adaptation_spike: what a spike adds to it.
        delta_T: how soft the exponential onset of a spike is, positive.
        v_leak: potential at rest, without the exponential.
        v_th: potential at which the exponential overcomes the leak.
        v_peak: where a spike is cut off, from ``v_th`` to 50 delta_T above it; None: at ``v_th``.
        v_reset: potential after a spike, below ``v_th``.
        dt: time step in s, at most 2 over each rate.
        surrogate: the spike function.
        engine: "auto", or one of ``engine.ENGINES``.
    """

    State: ClassVar[Any] = AdExState
    tau_ada_inv: Value
    adaptation_current: Value
    adaptation_spike: Value
    delta_T: Value
    v_th: Value
    v_peak: Value | None
    v_reset: Value

    def __init__(
        self,
        tau_mem_inv: Value = 100.0,
        tau_syn_inv: Value = 200.0,
        tau_ada_inv: Value = 2.0,
        *,
        adaptation_current: Value = 4.0,
        adaptation_spike: Value = 0.02,
        delta_T: Value = 0.5,
        v_leak: Value = 0.0,
        v_th: Value = 1.0,
        v_peak: Value | None = None,
        v_reset: Value = 0.0,
        dt: float = 1e-3,
        surrogate: Callable[..., Tensor] = SuperSpike(100.0),
        engine: str = "auto",
    ) -> None:
        super().__init__(tau_mem_inv, tau_syn_inv, v_leak, dt, surrogate, engine)
        self.number("tau_ada_inv", tau_ada_inv, above=0)
        self.at_most_two("tau_ada_inv")
        self.number("adaptation_current", adaptation_current)
        self.number("adaptation_spike", adaptation_spike)
        self.number("delta_T", delta_T, at_least=_SHARPEST)
        self.number("v_th", v_th)
        self.number("v_reset", v_reset)
        self.threshold_above_reset("v_th", "v_reset")
        self.v_peak = None
        if v_peak is not None:
            self.number("v_peak", v_peak)
            above = torch.as_tensor((self.threshold - self.v_th) / self.delta_T)
            if not above.is_meta:  # further up, the exponential overflows
                for extreme in (above.min(), above.max()):
                    checks.number("(v_peak - v_th) / delta_T of AdEx", extreme, at_least=0, at_most=50)

    @property
    def threshold(self) -> Value:
        """Where a spike is cut off."""
        return self.v_th if self.v_peak is None else self.v_peak

    @property
    def decay(self) -> None:
        """None: how fast it goes to rest depends on where it is."""
        return None

    def step(self, x: Tensor, state: AdExState) -> tuple[Tensor, AdExState]:
        v, i, a = state
        i = i + x
        delta_T = between(self.delta_T, _SHARPEST)
        onset = delta_T * torch.exp((v - self.v_th) / delta_T)
        charged = v + self.part_per_step(self.tau_mem_inv) * ((self.v_leak - v) + onset + i - a)
        a = a + self.part_per_step(self.tau_ada_inv) * (self.adaptation_current * (v - self.v_leak) - a)
        i = i - self.part_per_step(self.tau_syn_inv) * i
        peak = between(self.threshold, self.v_reset, open=True)
        spike = self.spike(charged - peak, strict=True)
        return spike, AdExState(
            reset_membrane(charged, spike, peak, self.v_reset), i, a + spike * self.adaptation_spike
        )
