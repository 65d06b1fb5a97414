"""Spike-timing-dependent plasticity of pairs of spikes, with exponential traces."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import check, kernel
from .change import Pairings
from .connection import EVERY_PAIR, Connection
from .rule import Rule


class STDPState(NamedTuple):
    """What synapses remember.

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

    The rule holds numbers only; traces are handed in and out (``STDPState``). Nothing of it is seen by autograd, and
    weights that require gradients are read, and written only where they are handed over as ``out``.

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
        TypeError, ValueError: a number out of its range, w_min not below w_max, or a word that there is not.
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
        """The STDP window: what one pair with t_post - t_pre = ``lag`` seconds does to a weight far from its bounds."""
        check.number("lag", lag)
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
            out: where the new weight is written. ``out=weight`` changes the weight in place, which is
                several times quicker for large ones: fresh memory costs more than the arithmetic.

        Returns:
            The new weight, ``out`` or a tensor of its own without gradient, and the new state.

        Raises:
            TypeError, ValueError: a wrong kind, shape, dtype or device.
        """
        state = self._checked(pre, post, weight, state, "B", out)
        pre, post, before_pre, before_post = self.as_weights_are(weight, pre, post, *state)
        decays = math.exp(-self.dt / self.tau_plus), math.exp(-self.dt / self.tau_minus)
        dense = self.connection.dims == 1
        if dense and kernel.takes(self.engine, self.connection, weight, weight if out is None else out):
            new = torch.empty_like(weight) if out is None else out
            by = self._pairings(pre, post, before_pre, before_post)
            return new, STDPState(*kernel.step_of_pairs(weight, by, decays, self.limits, new))
        pre_trace = torch.add(pre, before_pre, alpha=decays[0])
        post_trace = torch.add(post, before_post, alpha=decays[1])
        new = self.after_step(weight, self._pairings(pre, post, pre_trace, post_trace), out)
        return new, STDPState(pre_trace, post_trace)

    @torch.no_grad()
    def run(
        self, pre: Tensor, post: Tensor, weight: Tensor, state: STDPState | None = None
    ) -> tuple[Tensor, STDPState]:
        """A whole sequence: what ``step`` after ``step`` comes to.

        The traces of all steps are made by an engine. In C++ all steps then pass over a few rows of the weight at a
        time, which stay in the cache.

        Args:
            pre, post: spikes [T, B, n_pre] and [T, B, n_post], or as the connection has its neurons; 0 or 1 in any
                dtype.
            weight, state: as in ``step``.

        Returns:
            The weight and the state after the last step.

        Raises:
            TypeError, ValueError: a wrong kind, shape, dtype or device; NaN or infinity (found on a CPU only).
        """
        state = self._checked(pre, post, weight, state, "T, B")
        check.finite("pre", pre)
        check.finite("post", post)
        pre, post, in_cpp = pre.to(weight.dtype), post.to(weight.dtype), self.in_cpp(weight)
        pre_trace, last_pre = self.traced(pre, state.pre, self.tau_plus, in_cpp)
        post_trace, last_post = self.traced(post, state.post, self.tau_minus, in_cpp)
        by = self._pairings(pre, post, pre_trace, post_trace)
        return self.after_run(weight, by), STDPState(last_pre, last_post)

    def _pairings(self, pre: Tensor, post: Tensor, pre_trace: Tensor, post_trace: Tensor) -> Pairings:
        """Post spikes with what is left of pre spikes, and pre spikes with what is left of post spikes."""
        scale = self.scale(pre.shape[-1 - self.connection.dims])
        return Pairings(post, pre_trace, post_trace, pre, scale * self.a_plus, scale * self.a_minus)

    def _checked(self, pre: Any, post: Any, weight: Any, state: Any, lead: str, out: Any = None) -> STDPState:
        if type(state) is not STDPState and state is not None:
            if not (isinstance(state, tuple) and len(state) == 2):
                self.check_sides(pre, post, weight, None, lead, out)
                raise TypeError(f"state must be an STDPState or None, not a {type(state).__name__}")
            state = STDPState(*state)
        self.check_sides(pre, post, weight, state, lead, out)
        return self.initial_state(pre, post, weight) if state is None else state
