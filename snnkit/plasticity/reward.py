"""Reward-modulated STDP: pairs of spikes make a synapse eligible, and a later reward changes its weight."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from snnkit import checks
from snnkit.plasticity.connection import Pairings, as_state, check_like
from snnkit.plasticity.rule import check_spikes, check_values
from snnkit.plasticity.spike_timing import PairSTDP


class RewardState(NamedTuple):
    """Traces of the spikes, as in ``STDPState``, and eligibilities of ``RewardSTDP``."""

    pre: Tensor
    post: Tensor
    eligibility: Tensor  #: the decaying sum of what STDP would have changed, for each sample ``[B, *weight.shape]``


@checks.arguments
@dataclass(frozen=True)
class RewardSTDP:
    """Reward-modulated STDP: eligibility ← exp(-dt / tau) eligibility + STDP;  w ← w + reward × eligibility.

    Every sample has its own rewards and eligibility. A pair of spikes is eligible from the step of its later spike on,
    also for a reward in that step.

    Sources: Izhikevich 2007 (doi:10.1093/cercor/bhl152), with the reward instead of the concentration of dopamine;
    Frémaux & Gerstner 2016 (doi:10.3389/fncir.2015.00085).

    Args:
        pair: the rule that makes a synapse eligible, with its connection, dt, batch and bounds. Bounds are "hard" or
            None: changes by soft bounds would depend on the sign of a reward that is not known yet.
        tau_eligibility: seconds for which a synapse remembers.
    """

    pair: PairSTDP = field(default_factory=PairSTDP)
    tau_eligibility: float = 1.0

    def __post_init__(self) -> None:
        checks.choice("bound of pair", self.pair.bound, ("hard", None))
        checks.number("tau_eligibility", self.tau_eligibility, above=0)

    @checks.arguments
    def initial_state(self, pre: Tensor, post: Tensor, weight: Tensor) -> RewardState:
        """No spikes so far, for steps like ``pre`` [..., B, n_pre] and ``post`` [..., B, n_post]."""
        start = self.pair.initial_state(pre, post, weight)
        samples = pre.shape[-1 - self.pair.connection.dims]
        return RewardState(
            start.pre, start.post, torch.zeros(samples, *weight.shape, dtype=weight.dtype, device=weight.device)
        )

    @torch.no_grad()
    def step(
        self, pre: Tensor, post: Tensor, reward: Tensor, weight: Tensor, state: RewardState | None = None
    ) -> tuple[Tensor, RewardState]:
        """One time step.

        Args:
            pre, post: spikes [B, n_pre] and [B, n_post] of this step, or as the connection has its neurons.
            reward: of each sample in this step [B]; negative ones punish.
            weight: [n_post, n_pre], or as the connection has it; float32 or float64.
            state: of the step before; None: there were no spikes.

        Returns:
            The new weight, a new tensor without gradient, and the new state.
        """
        state = self._checked(pre, post, reward, weight, state, "B")
        new, eligibility = _copy(weight), _copy(state.eligibility)
        return new, self._go_on(pre, post, reward.to(weight.dtype), new, state, eligibility)

    @torch.no_grad()
    def run(
        self, pre: Tensor, post: Tensor, reward: Tensor, weight: Tensor, state: RewardState | None = None
    ) -> tuple[Tensor, RewardState]:
        """A whole sequence: ``step`` after ``step`` on pre [T, B, n_pre], post [T, B, n_post] and reward [T, B].

        Weight and eligibility are copied once and then changed in place.
        """
        state = self._checked(pre, post, reward, weight, state, "T, B")
        check_spikes(pre=pre, post=post)
        check_values("finite", reward.isfinite(), "reward", reward)
        new, eligibility = _copy(weight), _copy(state.eligibility)
        for pre_t, post_t, reward_t in zip(pre, post, reward.to(weight.dtype), strict=True):
            state = self._go_on(pre_t, post_t, reward_t, new, state, eligibility)
        return new, state

    def _go_on(
        self, pre: Tensor, post: Tensor, reward: Tensor, weight: Tensor, state: RewardState, eligibility: Tensor
    ) -> RewardState:
        """A step that writes to ``weight`` and ``eligibility``."""
        pair, samples = self.pair, len(pre)
        pre, post = pre.to(weight.dtype), post.to(weight.dtype)
        pre_trace = torch.add(pre, state.pre, alpha=pair.decay(pair.tau_plus))
        post_trace = torch.add(post, state.post, alpha=pair.decay(pair.tau_minus))
        by = Pairings(post, pre_trace, post_trace, pre, pair.a_plus, pair.a_minus).flat(pair.connection, weight)
        # Gains and losses, each [B positions, n] → [B, 2 positions, n].
        left = _by_sample(by.up * by.up_post, -by.down * by.down_post, samples)
        right = _by_sample(by.up_pre, by.down_pre, samples)
        products = eligibility.view(samples, -1, right.shape[-1])
        products.baddbmm_(left.mT, right, beta=pair.decay(self.tau_eligibility))
        weight.view(-1).addmv_(eligibility.view(samples, -1).T, reward * pair.scale(pre))
        if pair.bound == "hard":
            weight.clamp_(pair.w_min, pair.w_max)
        return RewardState(pre_trace, post_trace, eligibility)

    def _checked(self, pre: Any, post: Any, reward: Any, weight: Any, state: Any, lead: str) -> RewardState:
        state = as_state(RewardState, state)
        self.pair.checked_state(None if state is None else state[:2], pre, post, weight, lead)
        checks.instance("reward", reward, Tensor, f"a torch.Tensor [{lead}]")
        each = pre.shape[: -self.pair.connection.dims]
        if reward.shape != each or reward.is_complex() or reward.device != weight.device:
            raise ValueError(
                f"reward must be real numbers {list(each)} on {weight.device}, one for each sample and step, "
                f"but it is {reward.dtype} {list(reward.shape)} on {reward.device}"
            )
        if state is None:
            return self.initial_state(pre, post, weight)
        check_like("state.eligibility", state.eligibility, (each[-1], *weight.shape), weight)
        return state


def _by_sample(gains: Tensor, losses: Tensor, samples: int) -> Tensor:
    return torch.cat([rows.unflatten(0, (samples, -1)) for rows in (gains, losses)], dim=1)


def _copy(tensor: Tensor) -> Tensor:
    """A contiguous copy: the numbers of each sample are used as a row."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)
