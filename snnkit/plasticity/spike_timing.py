"""Spike-timing-dependent plasticity of pairs and of triplets of spikes, with exponential traces."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from torch import Tensor

from snnkit import checks, lazy
from snnkit.engine.page_pool import POOL
from snnkit.plasticity import cpp_kernels
from snnkit.plasticity.connection import EVERY_PAIR, Connection, Pairings
from snnkit.plasticity.rule import Rule


class STDPState(NamedTuple):
    """Traces of ``PairSTDP``."""

    pre: Tensor  #: of the presynaptic spikes [B, n_pre]; of a convolution [B, C, H, W]
    post: Tensor  #: of the postsynaptic spikes [B, n_post]; of a convolution [B, O, H', W']


_BOUND = 'bound="hard" is additive, "soft" scales by the distance to the bound; a power of it is a Rule of your own'


@lazy.explains(
    mu=_BOUND,
    stdp_algorithm=_BOUND,
    tau_pre="its time constant is tau_plus, in seconds",
    tau_post="its time constant is tau_minus, in seconds",
    **dict.fromkeys(("f_pre", "f_post"), _BOUND),
)
@checks.arguments
@dataclass(frozen=True)
class PairSTDP(Rule):
    """Pair-based STDP: every pair of a presynaptic and a postsynaptic spike changes the weight between them.

    A pair at the lag s = t_post - t_pre changes it by ``a_plus`` exp(-s / tau_plus) where s >= 0 and by
    -``a_minus`` exp(s / tau_minus) where s <= 0, at the later of the two spikes. All pairs count (all-to-all). A pair
    within one step is on both sides: it changes the weight by ``a_plus`` - ``a_minus``, as in Norse.

    Sources: Song, Miller & Abbott 2000 (doi:10.1038/78829) for the additive rule with hard bounds; Rubin, Lee &
    Sompolinsky 2001 (doi:10.1103/PhysRevLett.86.364) for soft bounds; Morrison, Diesmann & Gerstner 2008
    (doi:10.1007/s00422-008-0233-1) for both by traces.

    The rule holds numbers only; traces are arguments and results (``STDPState``). Autograd records nothing of it;
    weights that require gradients are read, and written only where they are passed as ``out``.

    Args:
        a_plus, a_minus: change of a weight by a pair without lag, 0 or more. With soft bounds they are shares of what
            is left to the bound.
        tau_plus, tau_minus: time constants of the presynaptic and the postsynaptic trace, in seconds.
        dt: seconds per step.
        bound: "hard": additive, then cut off at the bounds after each step. "soft" (multiplicative): an increase is
            scaled by w_max - w and a decrease by w - w_min, both as the weight was before the step; then cut off, too,
            for many pairs in one step can overshoot. None: additive without bounds, ``w_min`` and ``w_max`` unused.
        w_min, w_max: the bounds. Weights that are outside come to the nearest bound with the first step.
        batch: "sum" adds up the changes of all samples of a step, "mean" averages them.
        engine: "cpp" on a CPU that has a compiler; "eager" in PyTorch; "auto" takes C++ where it can from 4096 dense
            weights on, and for any convolution.
        connection: ``Dense()``, every neuron with every other, or ``Convolution(stride, padding)`` with weights
            [O, C, kH, kW], spikes pre [..., B, C, H, W] and post [..., B, O, H', W'].
    """

    a_plus: float = 0.01
    a_minus: float = 0.0105
    tau_plus: float = 20e-3
    tau_minus: float = 20e-3
    dt: float = 1e-3
    bound: Literal["hard", "soft"] | None = "hard"
    w_min: float = 0.0
    w_max: float = 1.0
    batch: Literal["sum", "mean"] = "sum"
    engine: Literal["auto", "cpp", "eager"] = "auto"
    connection: Connection = EVERY_PAIR

    State: ClassVar[Any] = STDPState
    TIMES: ClassVar[tuple[str, ...]] = ("tau_plus", "tau_minus")

    def __post_init__(self) -> None:
        self.check_numbers("a_plus", "a_minus")

    def window(self, lag: float) -> float:
        """The STDP window: change by one pair with t_post - t_pre = ``lag`` seconds of a weight far from its bounds."""
        checks.number("lag", lag)
        plus = self.a_plus * math.exp(-lag / self.tau_plus) if lag >= 0 else 0.0
        minus = self.a_minus * math.exp(lag / self.tau_minus) if lag <= 0 else 0.0
        return plus - minus

    def step(
        self, pre: Tensor, post: Tensor, weight: Tensor, state: STDPState | None = None, *, out: Tensor | None = None
    ) -> tuple[Tensor, STDPState]:
        """As of every rule; for dense weights in C++, traces and weights in one call."""
        new = weight if out is None else out
        if self.connection.dims > 1 or not isinstance(weight, Tensor) or not isinstance(new, Tensor):
            return super().step(pre, post, weight, state, out=out)
        read = (pre, post, *(state if isinstance(state, tuple) else ()))
        if not cpp_kernels.takes(self.engine, self.connection, weight, new, *read):
            return super().step(pre, post, weight, state, out=out)
        before = self.checked_state(state, pre, post, weight, "B", out)
        dtype = weight.dtype
        plain = [x if x.dtype == dtype and not x.requires_grad else x.detach().to(dtype) for x in (pre, post, *before)]
        new = POOL.empty(weight.shape, weight.dtype) if out is None else out
        decays = self.decay(self.tau_plus), self.decay(self.tau_minus)
        by = self._pairings(plain[0], plain[1], STDPState(plain[2], plain[3]))
        return new, STDPState(*cpp_kernels.step_of_pairs(weight, by, decays, self.limits, new))

    def _pairings(self, pre: Tensor, post: Tensor, traces: STDPState) -> Pairings:
        """Post spikes with what is left of pre spikes, and pre spikes with what is left of post spikes."""
        scale = self.scale(pre)
        return Pairings(post, traces.pre, traces.post, pre, scale * self.a_plus, scale * self.a_minus)


class TripletState(NamedTuple):
    """Traces of ``TripletSTDP``, as in ``STDPState``."""

    pre: Tensor  #: with tau_plus
    pre_slow: Tensor  #: with tau_x
    post: Tensor  #: with tau_minus
    post_slow: Tensor  #: with tau_y


@checks.arguments
@dataclass(frozen=True)
class TripletSTDP(Rule):
    """Triplet STDP, all-to-all: the effect of a pair of spikes depends on the spikes before, and so on rates.

    With r1, r2 the presynaptic traces of tau_plus and tau_x and o1, o2 the postsynaptic ones of tau_minus and tau_y, a
    postsynaptic spike adds r1 (``a2_plus`` + ``a3_plus`` o2) and a presynaptic spike takes o1 (``a2_minus`` +
    ``a3_minus`` r2). r1 and o1 include spikes of the same step, as in ``PairSTDP``; r2 and o2 are taken just before it.
    With ``a3_plus`` = ``a3_minus`` = 0 it is ``PairSTDP``.

    Source: Pfister & Gerstner 2006, eq. 3 and 4 (doi:10.1523/JNEUROSCI.1425-06.2006). The defaults are their fit to
    visual cortex, all-to-all, in table 4.

    Args:
        a2_plus, a2_minus: change of a weight by a pair without lag, 0 or more.
        a3_plus, a3_minus: what an earlier spike of the same side adds to that, 0 or more.
        tau_plus, tau_minus, tau_x, tau_y: time constants in seconds.
        dt: seconds per step.
        bound, w_min, w_max, batch, engine, connection: as in ``PairSTDP``.
    """

    a2_plus: float = 5e-10
    a2_minus: float = 7e-3
    a3_plus: float = 6.2e-3
    a3_minus: float = 2.3e-4
    tau_plus: float = 16.8e-3
    tau_minus: float = 33.7e-3
    tau_x: float = 101e-3
    tau_y: float = 125e-3
    dt: float = 1e-3
    bound: Literal["hard", "soft"] | None = "hard"
    w_min: float = 0.0
    w_max: float = 1.0
    batch: Literal["sum", "mean"] = "sum"
    engine: Literal["auto", "cpp", "eager"] = "auto"
    connection: Connection = EVERY_PAIR

    State: ClassVar[Any] = TripletState
    TIMES: ClassVar[tuple[str, ...]] = ("tau_plus", "tau_x", "tau_minus", "tau_y")

    def __post_init__(self) -> None:
        self.check_numbers("a2_plus", "a2_minus", "a3_plus", "a3_minus")

    def _pairings(self, pre: Tensor, post: Tensor, traces: TripletState) -> Pairings:
        """r2 and o2 are without the spikes of the step."""
        scale = self.scale(pre)
        increase = post * (self.a2_plus + self.a3_plus * (traces.post_slow - post))
        decrease = pre * (self.a2_minus + self.a3_minus * (traces.pre_slow - pre))
        return Pairings(increase, traces.pre, traces.post, decrease, scale, scale)
