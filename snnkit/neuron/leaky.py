"""Leaky, Synaptic, Alpha and Readout: neurons that decay by a factor per step, as snnTorch writes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from snnkit import checks
from snnkit.neuron.base import Neuron, Value, between
from snnkit.surrogate import ATan

RESETS = ("subtract", "zero", "none")


class LeakyState(NamedTuple):
    """State of a ``Leaky`` or ``Readout`` neuron.

    Attributes:
        mem: membrane potential [B, ...].
    """

    mem: Tensor


class _Resetting(Neuron):
    """What the spiking ones share: a reset that depends on the membrane before the step."""

    membrane_name: ClassVar[str] = "mem"
    threshold: Value
    reset_mechanism: str

    def __init__(
        self, threshold: Value, reset_mechanism: str, surrogate: Callable[..., Tensor], engine: str, **decays: Value
    ) -> None:
        super().__init__(surrogate=surrogate, engine=engine)
        for name, value in decays.items():
            self.number(name, value, at_least=0, at_most=1)
        self.number("threshold", threshold, above=0)
        self.reset_mechanism = checks.choice(f"reset_mechanism of {type(self).__name__}", reset_mechanism, RESETS)

    def height(self) -> Value:
        """The threshold as a step takes it."""
        return between(self.threshold, 0.0, open=True)

    def reset_at_once(self, mem: Tensor, due: Tensor) -> Tensor:
        """``mem`` after a reset where ``due`` is 1, and before one where it is -1."""
        if self.reset_mechanism == "subtract":
            return mem - due * self.height()
        return mem - due * mem if self.reset_mechanism == "zero" else mem


class Leaky(_Resetting):
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
        self.reset_delay = checks.flag(f"reset_delay of {type(self).__name__}", reset_delay)
        super().__init__(threshold, reset_mechanism, surrogate, engine, beta=beta)

    @property
    def decay(self) -> Value:
        """``beta``, within its range."""
        return between(self.beta, 0, 1)

    def step(self, x: Tensor, state: LeakyState) -> tuple[Tensor, LeakyState]:
        mem = state.mem
        beta, threshold = between(self.beta, 0, 1), self.height()
        fired = (mem > threshold).to(mem.dtype)
        if self.reset_mechanism == "subtract":
            mem = beta * mem + x - fired * threshold
        elif self.reset_mechanism == "zero":
            mem = beta * ((1 - fired) * mem) + x
        else:
            mem = beta * mem + x
        spike = self.spike(mem - threshold, strict=True)
        return spike, LeakyState(mem if self.reset_delay else self.reset_at_once(mem, spike - fired))


class SynapticLeakyState(NamedTuple):
    """State of a ``Synaptic`` neuron.

    Attributes:
        mem: membrane potential [B, ...].
        syn: synaptic current [B, ...].
    """

    mem: Tensor
    syn: Tensor


class Synaptic(_Resetting):
    """``Leaky`` with a synaptic current before the membrane, both decaying by a factor per step.

    syn ← alpha syn + x;  and with R = H(mem - threshold) of the membrane *before* this step (no gradient flows
    through R):

    - subtract: mem ← beta mem + syn - R threshold
    - zero:     mem ← (1 - R) (beta mem + syn)
    - none:     mem ← beta mem + syn

    spike = H(mem - threshold), strictly above; ``reset_delay=False`` resets at once, as in ``Leaky``. Equation and
    defaults: snnTorch 1.0 ``Synaptic`` (doi:10.1109/JPROC.2023.3308088), whose state is (syn, mem).

    Args:
        alpha: decay of the current per step, between 0 and 1.
        beta: decay of the membrane per step, between 0 and 1.
        threshold, reset_mechanism, reset_delay, surrogate, engine: as in ``Leaky``.
    """

    State: ClassVar[Any] = SynapticLeakyState
    alpha: Value
    beta: Value
    reset_delay: bool

    def __init__(
        self,
        alpha: Value,
        beta: Value,
        threshold: Value = 1.0,
        *,
        reset_mechanism: str = "subtract",
        reset_delay: bool = True,
        surrogate: Callable[..., Tensor] = ATan(),
        engine: str = "auto",
    ) -> None:
        self.reset_delay = checks.flag(f"reset_delay of {type(self).__name__}", reset_delay)
        super().__init__(threshold, reset_mechanism, surrogate, engine, alpha=alpha, beta=beta)

    @property
    def decay(self) -> Value:
        """``beta``, within its range."""
        return between(self.beta, 0, 1)

    def step(self, x: Tensor, state: SynapticLeakyState) -> tuple[Tensor, SynapticLeakyState]:
        threshold = self.height()
        fired = (state.mem > threshold).to(state.mem.dtype)
        syn = between(self.alpha, 0, 1) * state.syn + x
        mem = between(self.beta, 0, 1) * state.mem + syn
        if self.reset_mechanism == "subtract":
            mem = mem - fired * threshold
        elif self.reset_mechanism == "zero":
            mem = (1 - fired) * mem
        spike = self.spike(mem - threshold, strict=True)
        return spike, SynapticLeakyState(mem if self.reset_delay else self.reset_at_once(mem, spike - fired), syn)


class AlphaState(NamedTuple):
    """State of an ``Alpha`` neuron.

    Attributes:
        mem: membrane potential [B, ...].
        syn_exc: the trace of the input that decays by ``alpha`` [B, ...].
        syn_inh: its negative that decays by ``beta`` [B, ...].
    """

    mem: Tensor
    syn_exc: Tensor
    syn_inh: Tensor


class Alpha(_Resetting):
    """The membrane answers an input with an alpha function: it rises to a peak and falls again.

    e' = alpha e + x;  i' = beta i - x;  m = t (e' + i') with t = 1 + log alpha / (log beta - log alpha); and with
    R = H(mem - threshold) of the membrane *before* this step (no gradient flows through R):

    - subtract: mem ← m + R i;  e ← e' - R threshold;  i ← (1 - R) i'
    - zero:     mem ← (1 - R) m;  e ← (1 - R) e';  i ← (1 - R) i'
    - none:     mem ← m;  e ← e';  i ← i'

    spike = H(mem - threshold), strictly above. Equation and defaults: snnTorch 1.0 ``Alpha``
    (doi:10.1109/JPROC.2023.3308088), whose state is (syn_exc, syn_inh, mem).

    Args:
        alpha: decay per step of the slow part e, with which the membrane falls; above ``beta`` and at most 1.
        beta: decay per step of the fast part i, with which it rises; above 0.
        threshold, surrogate, engine: as in ``Leaky``.
        reset_mechanism: "subtract", "zero" or "none"; the reset waits for the next step.
    """

    State: ClassVar[Any] = AlphaState
    alpha: Value
    beta: Value

    def __init__(
        self,
        alpha: Value,
        beta: Value,
        threshold: Value = 1.0,
        *,
        reset_mechanism: str = "zero",
        surrogate: Callable[..., Tensor] = ATan(),
        engine: str = "auto",
    ) -> None:
        super().__init__(threshold, reset_mechanism, surrogate, engine)
        self.number("alpha", alpha, at_least=0, at_most=1)
        self.number("beta", beta, above=0, at_most=1)
        # The two are compared as a threshold and its reset are.
        self.threshold_above_reset("alpha", "beta")

    @property
    def decay(self) -> None:
        """None: the membrane is the sum of two parts, which decay by ``alpha`` and by ``beta``."""
        return None

    def step(self, x: Tensor, state: AlphaState) -> tuple[Tensor, AlphaState]:
        threshold = self.height()
        beta = between(self.beta, 0.0, 1 - 1e-5, open=True)
        alpha = between(between(self.alpha, 0.0, 1.0), beta, open=True)
        fired = (state.mem > threshold).to(state.mem.dtype)
        exc = alpha * state.syn_exc + x
        inh = beta * state.syn_inh - x
        mem = (_log(alpha) / (_log(beta) - _log(alpha)) + 1) * (exc + inh)
        if self.reset_mechanism == "subtract":
            mem = mem + fired * state.syn_inh
            exc, inh = exc - fired * threshold, (1 - fired) * inh
        elif self.reset_mechanism == "zero":
            mem, exc, inh = (1 - fired) * mem, (1 - fired) * exc, (1 - fired) * inh
        return self.spike(mem - threshold, strict=True), AlphaState(mem, exc, inh)


def _log(value: Value) -> Value:
    return torch.log(value) if isinstance(value, Tensor) else math.log(value)


class Readout(Neuron):
    """A membrane without a synapse and without a threshold, which is its output: a readout of first order.

    mem ← beta mem + x  (``decay_input=False``), or  mem ← beta mem + (1 - beta) x  (True);  out = mem.
    The first is the membrane of snnTorch's ``Leaky`` with ``reset_mechanism="none"``. The second is SpikingJelly's
    ``NonSpikingLIFNode`` with beta = 1 - 1 / tau, and Norse's ``LIBox`` with beta = 1 - dt tau_mem_inv. Sinabs'
    ``ExpLeak`` with beta = exp(-1 / tau_mem) is one or the other, by its ``norm_input``. With beta = 1 the first is a
    sum over time. ``LI`` has a synapse before such a membrane.

    Args:
        beta: decay per step, between 0 and 1.
        decay_input: also multiply the input by 1 - beta, so that a constant one is what the membrane settles at.
        engine: "auto", or one of ``engine.ENGINES``.
    """

    State: ClassVar[Any] = LeakyState
    membrane_name: ClassVar[str] = "mem"
    spiking: ClassVar[bool] = False
    beta: Value
    decay_input: bool

    def __init__(self, beta: Value, *, decay_input: bool = False, engine: str = "auto") -> None:
        super().__init__(engine=engine)
        self.flag("decay_input", decay_input)
        self.number("beta", beta, at_least=0, at_most=1)

    @property
    def threshold(self) -> None:
        """None: it does not fire."""
        return None

    @property
    def decay(self) -> Value:
        """``beta``, within its range."""
        return between(self.beta, 0, 1)

    def step(self, x: Tensor, state: LeakyState) -> tuple[Tensor, LeakyState]:
        beta = between(self.beta, 0, 1)
        mem = beta * state.mem + ((1 - beta) * x if self.decay_input else x)
        return mem, LeakyState(mem)


def beta_of(tau: float, dt: float) -> float:
    """The decay per step of a membrane with time constant ``tau`` at step ``dt`` (same unit): exp(-dt / tau)."""
    return math.exp(-checks.number("dt", dt, above=0) / checks.number("tau", tau, above=0))
