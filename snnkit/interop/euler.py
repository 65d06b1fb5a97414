"""NIR's neurons under Euler's rule, with a time step of ``dt`` seconds.

A neuron spikes, z = H(v - v_threshold), strictly above it; then v ← v_reset. Equations: Pedersen et al. 2024,
doi:10.1038/s41467-024-52259-9. NIR does not define where a membrane begins: here at ``v_leak``, for an ``IF`` at
``v_reset``. Numbers are for all neurons, or tensors that broadcast against a step [B, ...].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor

from ..neuron.base import MembraneState, Neuron, Value, everywhere, reset_membrane
from ..neuron.cuba import SynapticState
from ..surrogate import ATan

_DEFAULTS = {"v_leak": 0.0, "v_reset": 0.0, "w_in": 1.0}


class EulerNeuron(Neuron):
    """Base class of the five neurons.

    Args:
        numbers: of the equation, by NIR's names; ``v_leak`` and ``v_reset`` are 0 by default, ``w_in`` is 1.
        dt: time step in s.
        surrogate, engine: as in every neuron.
    """

    names: ClassVar[tuple[str, ...]]
    dt: float
    r: Value
    v_leak: Value
    v_threshold: Value
    v_reset: Value

    def __init__(
        self, *, dt: float, surrogate: Callable[..., Tensor] = ATan(), engine: str = "auto", **numbers: Value
    ) -> None:
        super().__init__(surrogate=surrogate if self.spiking else None, engine=engine)
        self.number("dt", dt, above=0)
        numbers = {name: value for name, value in _DEFAULTS.items() if name in self.names} | numbers
        if numbers.keys() != set(self.names):
            raise TypeError(
                f"numbers of {type(self).__name__} must be {', '.join(self.names)}, but they are {', '.join(numbers)}"
            )
        for name in self.names:
            self.number(name, numbers[name], above=0 if name.startswith("tau") else None)
        if self.spiking:
            self.threshold_above_reset("v_threshold", "v_reset")

    def fire(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """The spikes, and the membrane after the reset."""
        spike = self.spike(v - self.v_threshold, strict=True)
        return spike, reset_membrane(v, spike, self.v_threshold, self.v_reset)

    def initial_state(self, x: Tensor) -> Any:
        """At rest."""
        start = self.v_leak if "v_leak" in self.names else self.v_reset
        rest = everywhere(x, start)
        return self.State(rest, *(everywhere(x, 0.0) for _ in self.State._fields[1:]))


class EulerIF(EulerNeuron):
    """v ← v + dt r x, then fires.

    Numbers: r, resistance (1/s for a dimensionless membrane); v_threshold, potential at which it fires; v_reset,
    potential after a spike.
    """

    names = ("r", "v_threshold", "v_reset")

    def step(self, x: Tensor, state: MembraneState) -> tuple[Tensor, MembraneState]:
        spike, v = self.fire(state.v + self.dt * self.r * x)
        return spike, MembraneState(v)


class EulerLI(EulerNeuron):
    """v ← v + dt/tau ((v_leak - v) + r x); its output is v.

    Numbers: tau, membrane time constant in s; r, resistance; v_leak, potential at rest.
    """

    names = ("tau", "r", "v_leak")
    spiking = False
    tau: Value

    def step(self, x: Tensor, state: MembraneState) -> tuple[Tensor, MembraneState]:
        v = state.v + self.dt / self.tau * ((self.v_leak - state.v) + self.r * x)
        return v, MembraneState(v)


class EulerLIF(EulerNeuron):
    """v ← v + dt/tau ((v_leak - v) + r x), then fires. Numbers: those of ``EulerLI`` and ``EulerIF``."""

    names = ("tau", "r", "v_leak", "v_threshold", "v_reset")
    tau: Value

    def step(self, x: Tensor, state: MembraneState) -> tuple[Tensor, MembraneState]:
        spike, v = self.fire(state.v + self.dt / self.tau * ((self.v_leak - state.v) + self.r * x))
        return spike, MembraneState(v)


class _EulerSynaptic(EulerNeuron):
    """i ← i + dt/tau_syn (w_in x - i), and then v ← v + dt/tau_mem ((v_leak - v) + r i)."""

    State: ClassVar[Any] = SynapticState
    tau_syn: Value
    tau_mem: Value
    w_in: Value

    def charge(self, x: Tensor, state: SynapticState) -> SynapticState:
        i = state.i + self.dt / self.tau_syn * (self.w_in * x - state.i)
        return SynapticState(state.v + self.dt / self.tau_mem * ((self.v_leak - state.v) + self.r * i), i)


class EulerCubaLI(_EulerSynaptic):
    """i ← i + dt/tau_syn (w_in x - i);  v ← v + dt/tau_mem ((v_leak - v) + r i); its output is v.

    Numbers: tau_syn and tau_mem, time constants of synapse and membrane in s; r, resistance; v_leak, potential at rest;
    w_in, weight of the input current: with tau_syn / dt a spike of 1 adds 1 to the current.
    """

    names = ("tau_syn", "tau_mem", "r", "v_leak", "w_in")
    spiking = False

    def step(self, x: Tensor, state: SynapticState) -> tuple[Tensor, SynapticState]:
        state = self.charge(x, state)
        return state.v, state


class EulerCubaLIF(_EulerSynaptic):
    """i ← i + dt/tau_syn (w_in x - i);  v ← v + dt/tau_mem ((v_leak - v) + r i), then fires.

    Numbers: those of ``EulerCubaLI``, and v_threshold and v_reset as in ``EulerIF``.
    """

    names = ("tau_syn", "tau_mem", "r", "v_leak", "v_threshold", "v_reset", "w_in")

    def step(self, x: Tensor, state: SynapticState) -> tuple[Tensor, SynapticState]:
        v, i = self.charge(x, state)
        spike, v = self.fire(v)
        return spike, SynapticState(v, i)
