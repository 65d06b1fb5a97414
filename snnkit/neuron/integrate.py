"""IF, LIF, PLIF and QIF: integrate-and-fire neurons in SpikingJelly's conventions.

Charge, fire, reset, in this order and within one step. A membrane at the threshold fires (``v >= v_threshold``).
Time constants are in time steps, potentials are dimensionless.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from snnkit import checks
from snnkit.neuron.base import MembraneState, Neuron, Value, between, reset_membrane
from snnkit.surrogate import ATan


class _Integrator(Neuron):
    """What the four share: fire at the threshold, then reset hard or softly."""

    resting: ClassVar[dict[str, str]] = {"v": "v_reset"}
    v_threshold: Value
    v_reset: Value | None
    detach_reset: bool

    def __init__(
        self,
        v_threshold: Value,
        v_reset: Value | None,
        surrogate: Callable[..., Tensor],
        detach_reset: bool,
        engine: str,
    ) -> None:
        super().__init__(surrogate=surrogate, engine=engine)
        self.flag("detach_reset", detach_reset)
        self.threshold_and_reset(v_threshold, v_reset)

    @property
    def threshold(self) -> Value:
        """Its ``v_threshold``."""
        return self.v_threshold

    def fire_and_reset(self, v: Tensor) -> tuple[Tensor, MembraneState]:
        threshold = between(self.v_threshold, 0.0 if self.v_reset is None else self.v_reset, open=True)
        spike = self.spike(v - threshold)
        counted = spike.detach() if self.detach_reset else spike
        return spike, MembraneState(reset_membrane(v, counted, threshold, self.v_reset))


class IF(_Integrator):
    """Integrate-and-fire: a membrane that forgets nothing.

    v ← v + x;  spike = H(v - v_threshold);  v ← v_reset where it spiked (soft reset: v ← v - v_threshold).
    Equation and defaults: SpikingJelly's ``IFNode`` (Fang et al. 2023, doi:10.1126/sciadv.adi1480).

    Args:
        v_threshold: membrane potential at which it fires.
        v_reset: membrane potential after a spike; None subtracts the threshold instead (soft reset).
        surrogate: the spike function.
        detach_reset: keep the reset out of the gradient.
        engine: "auto", or one of ``engine.ENGINES``.
    """

    def __init__(
        self,
        v_threshold: Value = 1.0,
        v_reset: Value | None = 0.0,
        *,
        surrogate: Callable[..., Tensor] = ATan(),
        detach_reset: bool = False,
        engine: str = "auto",
    ) -> None:
        super().__init__(v_threshold, v_reset, surrogate, detach_reset, engine)

    @property
    def decay(self) -> float:
        """1: nothing leaks."""
        return 1.0

    def step(self, x: Tensor, state: MembraneState) -> tuple[Tensor, MembraneState]:
        return self.fire_and_reset(state.v + x)


class LIF(_Integrator):
    """Leaky integrate-and-fire: the membrane leaks back to rest (``v_reset``, or 0 for a soft reset).

    With rest r:  v ← v + (x - (v - r)) / tau  (``decay_input=True``), or  v ← v - (v - r) / tau + x  (False);
    then fire and reset as ``IF``. Equation and defaults: SpikingJelly's ``LIFNode`` (doi:10.1126/sciadv.adi1480).

    Args:
        tau: membrane time constant in time steps, at least 1.
        v_threshold: membrane potential at which it fires.
        v_reset: membrane potential after a spike and at rest; None subtracts the threshold instead (soft reset) and
            rests at 0.
        decay_input: also divide the input by ``tau``.
        surrogate: the spike function.
        detach_reset: keep the reset out of the gradient.
        engine: "auto", or one of ``engine.ENGINES``.
    """

    tau: Value
    decay_input: bool

    def __init__(
        self,
        tau: Value = 2.0,
        v_threshold: Value = 1.0,
        v_reset: Value | None = 0.0,
        *,
        decay_input: bool = True,
        surrogate: Callable[..., Tensor] = ATan(),
        detach_reset: bool = False,
        engine: str = "auto",
    ) -> None:
        super().__init__(v_threshold, v_reset, surrogate, detach_reset, engine)
        self.number("tau", tau, at_least=1)
        self.flag("decay_input", decay_input)

    @property
    def decay(self) -> Value:
        """1 - 1 / tau."""
        return 1 - 1 / between(self.tau, 1.0)

    def step(self, x: Tensor, state: MembraneState) -> tuple[Tensor, MembraneState]:
        leak = state.v if self.v_reset is None else state.v - self.v_reset
        tau = between(self.tau, 1.0)
        if self.decay_input:
            v = state.v + (x - leak) / tau
        else:
            v = state.v - leak / tau + x
        return self.fire_and_reset(v)


class PLIF(_Integrator):
    """Parametric LIF: a LIF that learns its time constant (Fang et al. 2021, doi:10.1109/ICCV48922.2021.00266).

    1/tau = sigmoid(w) with w learnable, so tau always stays above 1. Otherwise as ``LIF``.

    Args:
        init_tau: time constant to start from, in time steps, greater than 1.
        v_threshold, v_reset, decay_input, surrogate, detach_reset, engine: as in ``LIF``.
        shape: shape of w. () is one for all neurons, as published; (N,) one per neuron of [B, N]; (C, 1, 1) one per
            channel of [B, C, H, W].
    """

    decay_input: bool

    def __init__(
        self,
        init_tau: float = 2.0,
        v_threshold: Value = 1.0,
        v_reset: Value | None = 0.0,
        *,
        decay_input: bool = True,
        shape: Sequence[int] = (),
        surrogate: Callable[..., Tensor] = ATan(),
        detach_reset: bool = False,
        engine: str = "auto",
    ) -> None:
        super().__init__(v_threshold, v_reset, surrogate, detach_reset, engine)
        init_tau = checks.number("init_tau of PLIF", init_tau, above=1)
        checks.instance("shape of PLIF", shape, (tuple, list), "a tuple of integers such as (3,)")
        sizes = [checks.integer(f"shape[{i}] of PLIF", n, at_least=1) for i, n in enumerate(shape)]
        self.w = nn.Parameter(torch.full(sizes, -math.log(init_tau - 1)))
        self.flag("decay_input", decay_input)

    @property
    def tau(self) -> Tensor:
        """The learned time constant, in time steps; the shape of ``w``."""
        return 1 / torch.sigmoid(self.w)

    @property
    def decay(self) -> Tensor:
        """1 - 1 / tau; the shape of ``w``."""
        return torch.sigmoid(-self.w)

    def step(self, x: Tensor, state: MembraneState) -> tuple[Tensor, MembraneState]:
        leak = state.v if self.v_reset is None else state.v - self.v_reset
        rate = torch.sigmoid(self.w)
        if self.decay_input:
            v = state.v + (x - leak) * rate
        else:
            v = state.v - leak * rate + x
        return self.fire_and_reset(v)


class QIF(_Integrator):
    """Quadratic integrate-and-fire: beyond the critical potential, the membrane drives itself up.

    v ← v + (x + a0 (v - v_rest) (v - v_c)) / tau;  then fire and reset as ``IF``. Left alone it settles at ``v_rest``
    from below ``v_c``, and fires from above. Model: Latham et al. 2000, doi:10.1152/jn.2000.83.2.808. Equation and
    defaults: SpikingJelly's ``QIFNode`` (doi:10.1126/sciadv.adi1480), which gives the same spikes and membranes.

    Args:
        tau: membrane time constant in time steps, at least 1.
        v_c: critical potential, above ``v_rest``.
        a0: curvature, positive.
        v_threshold, v_reset: as in ``IF``; at rest the membrane begins at ``v_reset``.
        v_rest: potential at rest.
        surrogate, detach_reset, engine: as in ``IF``.
    """

    tau: Value
    v_c: Value
    a0: Value
    v_rest: Value

    def __init__(
        self,
        tau: Value = 2.0,
        v_c: Value = 0.8,
        a0: Value = 1.0,
        v_threshold: Value = 1.0,
        v_rest: Value = 0.0,
        v_reset: Value | None = -0.1,
        *,
        surrogate: Callable[..., Tensor] = ATan(),
        detach_reset: bool = False,
        engine: str = "auto",
    ) -> None:
        super().__init__(v_threshold, v_reset, surrogate, detach_reset, engine)
        self.number("tau", tau, at_least=1)
        self.number("a0", a0, above=0)
        self.number("v_rest", v_rest)
        self.number("v_c", v_c)
        self.threshold_above_reset("v_c", "v_rest")

    @property
    def decay(self) -> None:
        """None: how fast it goes to rest depends on where it is."""
        return None

    def step(self, x: Tensor, state: MembraneState) -> tuple[Tensor, MembraneState]:
        v = state.v
        curve = between(self.a0, 0.0) * (v - self.v_rest) * (v - between(self.v_c, self.v_rest))
        return self.fire_and_reset(v + (x + curve) / between(self.tau, 1.0))
