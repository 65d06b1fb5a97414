"""CubaLIF and LI: neurons with a synaptic current, in Norse's conventions.

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


class SynapticState(NamedTuple):
    """State of neurons with a synapse.

    Attributes:
        v: membrane potential [B, ...].
        i: synaptic current [B, ...].
    """

    v: Tensor
    i: Tensor


class _Synaptic(Neuron):
    """What CubaLIF and LI share: a synaptic current that charges a leaky membrane."""

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
            rates = torch.as_tensor(getattr(self, name)).double() * dt
            if not rates.is_meta:
                checks.number(f"dt * {name} of {type(self).__name__}", rates.max(), at_most=2)

    def charge(self, x: Tensor, state: SynapticState) -> SynapticState:
        i = state.i + x
        v = state.v + self.dt * between(self.tau_mem_inv, 0.0, 2 / self.dt) * ((self.v_leak - state.v) + i)
        return SynapticState(v, i - self.dt * between(self.tau_syn_inv, 0.0, 2 / self.dt) * i)


class CubaLIF(_Synaptic):
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
        engine: "auto", or one of ``engine.ENGINES``.
    """

    v_th: Value
    v_reset: Value

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
        engine: str = "auto",
    ) -> None:
        super().__init__(tau_mem_inv, tau_syn_inv, v_leak, dt, surrogate, engine)
        self.number("v_th", v_th)
        self.number("v_reset", v_reset)
        self.threshold_above_reset("v_th", "v_reset")

    def step(self, x: Tensor, state: SynapticState) -> tuple[Tensor, SynapticState]:
        v, i = self.charge(x, state)
        spike = self.spike(v - between(self.v_th, self.v_reset, open=True), strict=True)
        return spike, SynapticState(reset_membrane(v, spike, self.v_th, self.v_reset), i)


class LI(_Synaptic):
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

    def step(self, x: Tensor, state: SynapticState) -> tuple[Tensor, SynapticState]:
        state = self.charge(x, state)
        return state.v, state
