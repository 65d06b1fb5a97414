"""Spike-timing-dependent plasticity of triplets of spikes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import check
from .change import Pairings
from .connection import EVERY_PAIR, Connection
from .rule import Rule


class TripletState(NamedTuple):
    """What synapses remember.

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
    """Triplet STDP, all-to-all: what a pair of spikes does depends on the spikes before, and so on rates.

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
        TypeError, ValueError: a number out of its range, w_min not below w_max, or a word that there is not.
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
        state = self._checked(pre, post, weight, state, "B", out)
        pre, post = pre.to(weight.dtype), post.to(weight.dtype)
        r2, o2 = self._decay(self.tau_x) * state.pre_slow, self._decay(self.tau_y) * state.post_slow
        r1 = torch.add(pre, state.pre, alpha=self._decay(self.tau_plus))
        o1 = torch.add(post, state.post, alpha=self._decay(self.tau_minus))
        new = self.after_step(weight, self._pairings(pre, post, r1, r2, o1, o2), out)
        return new, TripletState(r1, r2 + pre, o1, o2 + post)

    @torch.no_grad()
    def run(
        self, pre: Tensor, post: Tensor, weight: Tensor, state: TripletState | None = None
    ) -> tuple[Tensor, TripletState]:
        """A whole sequence; arguments, results and errors as in ``PairSTDP.run``."""
        state = self._checked(pre, post, weight, state, "T, B")
        check.finite("pre", pre)
        check.finite("post", post)
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

    def _decay(self, tau: float) -> float:
        return math.exp(-self.dt / tau)

    def _checked(self, pre: Any, post: Any, weight: Any, state: Any, lead: str, out: Any = None) -> TripletState:
        if type(state) is not TripletState and state is not None:
            if not (isinstance(state, tuple) and len(state) == 4):
                self.check_sides(pre, post, weight, None, lead, out)
                raise TypeError(f"state must be a TripletState or None, not a {type(state).__name__}")
            state = TripletState(*state)
        self.check_sides(pre, post, weight, state, lead, out)
        return self.initial_state(pre, post, weight) if state is None else state
