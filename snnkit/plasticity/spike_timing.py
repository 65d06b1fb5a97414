"""Spike-timing-dependent plasticity of pairs and of triplets of spikes, with exponential traces."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from snnkit import checks

from . import cpp_kernels
from .change import Pairings
from .connection import EVERY_PAIR, Connection
from .rule import Rule, check_finite


class STDPState(NamedTuple):
    """Traces of ``PairSTDP``.

    Attributes:
        pre: trace of the presynaptic spikes [B, n_pre]; of a convolution [B, C, H, W].
        post: trace of the postsynaptic spikes [B, n_post]; of a convolution [B, O, H', W'].
    """

    pre: Tensor
    post: Tensor


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
        engine: what runs the rule, one of ``engine.ENGINES``. "auto" and "cpp" do it in C++ on a CPU that has a
            compiler ("auto": from 4096 dense weights on, or any convolution); "eager" does all in PyTorch. Else weights
            change in PyTorch, and the engine runs the traces of ``run``.
        connection: ``Dense()``, every neuron with every other, or ``Convolution(stride, padding, dilation, groups)``
            with weights [O, C / groups, kH, kW], spikes pre [..., B, C, H, W] and post [..., B, O, H', W'].

    Raises:
        TypeError, ValueError: a number out of its range, w_min not below w_max, or an unknown word.
    """

    a_plus: float = 0.01
    a_minus: float = 0.0105
    tau_plus: float = 20e-3
    tau_minus: float = 20e-3
    dt: float = 1e-3
    bound: str | None = "hard"
    w_min: float = 0.0
    w_max: float = 1.0
    batch: str = "sum"
    engine: str = "auto"
    connection: Connection = EVERY_PAIR

    def __post_init__(self) -> None:
        self.check_numbers(("a_plus", "a_minus"), ("tau_plus", "tau_minus"))

    def window(self, lag: float) -> float:
        """The STDP window: change by one pair with t_post - t_pre = ``lag`` seconds of a weight far from its bounds."""
        checks.number("lag", lag)
        plus = self.a_plus * math.exp(-lag / self.tau_plus) if lag >= 0 else 0.0
        minus = self.a_minus * math.exp(lag / self.tau_minus) if lag <= 0 else 0.0
        return plus - minus

    def initial_state(self, pre: Tensor, post: Tensor, weight: Tensor) -> STDPState:
        """No spikes so far, for steps like ``pre`` [..., B, n_pre] and ``post`` [..., B, n_post]."""
        return STDPState(self.no_spikes(pre, weight), self.no_spikes(post, weight))

    def step(
        self, pre: Tensor, post: Tensor, weight: Tensor, state: STDPState | None = None, *, out: Tensor | None = None
    ) -> tuple[Tensor, STDPState]:
        """One time step.

        Args:
            pre, post: spikes [B, n_pre] and [B, n_post] of this step, or as the connection has its neurons; 0 or 1 in
                any dtype.
            weight: [n_post, n_pre], or as the connection has it; float32 or float64.
            state: of the step before; None: there were no spikes.
            out: where to write the new weight. ``out=weight`` changes it in place, which is several times quicker for
                large ones: fresh memory costs more than the arithmetic.

        Returns:
            The new weight, ``out`` or a new tensor without gradient, and the new state.

        Raises:
            TypeError, ValueError: a wrong kind, shape, dtype or device.
        """
        state = self._start(pre, post, weight, state, "B", out)
        pre, post, before_pre, before_post = self.as_weights_are(weight, pre, post, *state)
        decays = self.decay(self.tau_plus), self.decay(self.tau_minus)
        dense = self.connection.dims == 1
        if dense and cpp_kernels.takes(self.engine, self.connection, weight, weight if out is None else out):
            new = torch.empty_like(weight) if out is None else out
            by = self._pairings(pre, post, before_pre, before_post)
            return new, STDPState(*cpp_kernels.step_of_pairs(weight, by, decays, self.limits, new))
        pre_trace = torch.add(pre, before_pre, alpha=decays[0])
        post_trace = torch.add(post, before_post, alpha=decays[1])
        new = self.after_step(weight, self._pairings(pre, post, pre_trace, post_trace), out)
        return new, STDPState(pre_trace, post_trace)

    @torch.no_grad()
    def run(
        self, pre: Tensor, post: Tensor, weight: Tensor, state: STDPState | None = None
    ) -> tuple[Tensor, STDPState]:
        """A whole sequence: the same as ``step`` after ``step``.

        The traces of all steps are made by an engine. In C++ all steps then pass over a few rows of the weight at a
        time, which stay in the cache.

        Args:
            pre, post: spikes [T, B, n_pre] and [T, B, n_post], or as the connection has its neurons; 0 or 1 in any
                dtype.
            weight, state: as in ``step``.

        Returns:
            The weight and the state after the last step.

        Raises:
            TypeError, ValueError: a wrong kind, shape, dtype or device; NaN or infinity (detected on a CPU only).
        """
        state = self._start(pre, post, weight, state, "T, B")
        check_finite("pre", pre)
        check_finite("post", post)
        pre, post, in_cpp = pre.to(weight.dtype), post.to(weight.dtype), self.in_cpp(weight)
        pre_trace, last_pre = self.traced(pre, state.pre, self.tau_plus, in_cpp)
        post_trace, last_post = self.traced(post, state.post, self.tau_minus, in_cpp)
        by = self._pairings(pre, post, pre_trace, post_trace)
        return self.after_run(weight, by), STDPState(last_pre, last_post)

    def _pairings(self, pre: Tensor, post: Tensor, pre_trace: Tensor, post_trace: Tensor) -> Pairings:
        """Post spikes with what is left of pre spikes, and pre spikes with what is left of post spikes."""
        scale = self.scale(pre.shape[-1 - self.connection.dims])
        return Pairings(post, pre_trace, post_trace, pre, scale * self.a_plus, scale * self.a_minus)

    def _start(
        self, pre: Tensor, post: Tensor, weight: Tensor, state: STDPState | None, lead: str, out: Tensor | None = None
    ) -> STDPState:
        state = self.checked_state(STDPState, state, pre, post, weight, lead, out)
        return self.initial_state(pre, post, weight) if state is None else state


class TripletState(NamedTuple):
    """Traces of ``TripletSTDP``.

    Attributes:
        pre, pre_slow: traces of the presynaptic spikes [B, n_pre], with tau_plus and tau_x.
        post, post_slow: traces of the postsynaptic spikes [B, n_post], with tau_minus and tau_y.
    """

    pre: Tensor
    pre_slow: Tensor
    post: Tensor
    post_slow: Tensor


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

    Raises:
        TypeError, ValueError: a number out of its range, w_min not below w_max, or an unknown word.
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
    bound: str | None = "hard"
    w_min: float = 0.0
    w_max: float = 1.0
    batch: str = "sum"
    engine: str = "auto"
    connection: Connection = EVERY_PAIR

    def __post_init__(self) -> None:
        self.check_numbers(("a2_plus", "a2_minus", "a3_plus", "a3_minus"), ("tau_plus", "tau_minus", "tau_x", "tau_y"))

    def initial_state(self, pre: Tensor, post: Tensor, weight: Tensor) -> TripletState:
        """No spikes so far, for steps like ``pre`` [..., B, n_pre] and ``post`` [..., B, n_post]."""
        before, after = self.no_spikes(pre, weight), self.no_spikes(post, weight)
        return TripletState(before, before.clone(), after, after.clone())

    @torch.no_grad()
    def step(
        self, pre: Tensor, post: Tensor, weight: Tensor, state: TripletState | None = None, *, out: Tensor | None = None
    ) -> tuple[Tensor, TripletState]:
        """One time step; arguments, results and errors as in ``PairSTDP.step``."""
        state = self._start(pre, post, weight, state, "B", out)
        pre, post = pre.to(weight.dtype), post.to(weight.dtype)
        r2, o2 = self.decay(self.tau_x) * state.pre_slow, self.decay(self.tau_y) * state.post_slow
        r1 = torch.add(pre, state.pre, alpha=self.decay(self.tau_plus))
        o1 = torch.add(post, state.post, alpha=self.decay(self.tau_minus))
        new = self.after_step(weight, self._pairings(pre, post, r1, r2, o1, o2), out)
        return new, TripletState(r1, r2 + pre, o1, o2 + post)

    @torch.no_grad()
    def run(
        self, pre: Tensor, post: Tensor, weight: Tensor, state: TripletState | None = None
    ) -> tuple[Tensor, TripletState]:
        """A whole sequence; arguments, results and errors as in ``PairSTDP.run``."""
        state = self._start(pre, post, weight, state, "T, B")
        check_finite("pre", pre)
        check_finite("post", post)
        pre, post, in_cpp = pre.to(weight.dtype), post.to(weight.dtype), self.in_cpp(weight)
        r1, pre_last = self.traced(pre, state.pre, self.tau_plus, in_cpp)
        r2, pre_slow = self.traced(pre, state.pre_slow, self.tau_x, in_cpp)
        o1, post_last = self.traced(post, state.post, self.tau_minus, in_cpp)
        o2, post_slow = self.traced(post, state.post_slow, self.tau_y, in_cpp)
        by = self._pairings(pre, post, r1, r2 - pre, o1, o2 - post)
        return self.after_run(weight, by), TripletState(pre_last, pre_slow, post_last, post_slow)

    def _pairings(self, pre: Tensor, post: Tensor, r1: Tensor, r2: Tensor, o1: Tensor, o2: Tensor) -> Pairings:
        scale = self.scale(pre.shape[-1 - self.connection.dims])
        increase = post * (self.a2_plus + self.a3_plus * o2)
        decrease = pre * (self.a2_minus + self.a3_minus * r2)
        return Pairings(increase, r1, o1, decrease, scale, scale)

    def _start(
        self,
        pre: Tensor,
        post: Tensor,
        weight: Tensor,
        state: TripletState | None,
        lead: str,
        out: Tensor | None = None,
    ) -> TripletState:
        state = self.checked_state(TripletState, state, pre, post, weight, lead, out)
        return self.initial_state(pre, post, weight) if state is None else state
