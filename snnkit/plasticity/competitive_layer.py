"""A layer that learns without a teacher: neurons that compete, weights that follow spike timing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import check
from .competition import Competition
from .connection import Dense
from .pair import PairSTDP
from .triplet import TripletSTDP

# Weights begin as random shares of their range, as in Diehl & Cook's program.
_FIRST = 0.3


class LayerState(NamedTuple):
    """What a competitive layer has learned.

    Attributes:
        weight: [n_post, n_pre]; a row is a neuron's receptive field.
        theta: how far homeostasis has raised each threshold [n_post].
    """

    weight: Tensor
    theta: Tensor


@dataclass(frozen=True)
class CompetitiveLayer:
    """A dense layer whose neurons share the inputs among themselves: ``Competition``, STDP, and weights of fixed sum.

    A presentation is a sequence of spikes [T, B, n_pre], B samples at once. It begins with membranes at rest and no
    traces; after it, every neuron's weights are scaled to the sum ``total``, so that a synapse grows at the cost of the
    neuron's others: that is most of the depression. Weights and thresholds are handed in and out (``LayerState``); the
    layer holds numbers only.

    Source: Diehl & Cook 2015 (doi:10.3389/fncom.2015.00099); time constants of membranes and traces are those of their
    program.

    Args:
        competition: the neurons.
        rule: PairSTDP or TripletSTDP, with the dt of ``competition``. Of a batch, changes add up ("sum") as if the
            samples had been shown one after the other.
        total: sum of a neuron's weights after each presentation, above 0; None leaves them as the rule made them.
            Scaling may lift a weight above the rule's ``w_max``, until the rule's next step.

    Raises:
        TypeError, ValueError: another kind of object; a rule for convolutions; two different dt; with ``total``, a rule
            that lets weights fall below 0.
    """

    competition: Competition = field(default_factory=Competition)
    rule: PairSTDP | TripletSTDP = field(default_factory=lambda: PairSTDP(a_plus=0.02, a_minus=0.002, dt=5e-3))
    total: float | None = 16.0

    def __post_init__(self) -> None:
        if not isinstance(self.competition, Competition):
            raise TypeError(f"competition must be a Competition, not a {type(self.competition).__name__}")
        if not isinstance(self.rule, (PairSTDP, TripletSTDP)):
            raise TypeError(f"rule must be a PairSTDP or a TripletSTDP, not a {type(self.rule).__name__}")
        if not isinstance(self.rule.connection, Dense):
            raise ValueError(f"rule must connect every input with every neuron, Dense(), not {self.rule.connection}")
        if self.rule.dt != self.competition.dt:
            raise ValueError(
                f"rule and competition must have one dt, but theirs are {self.rule.dt!r} and {self.competition.dt!r}"
            )
        if self.total is not None:
            check.number("total", self.total, above=0.0)
            if self.rule.bound is None or self.rule.w_min < 0:
                raise ValueError(
                    "rule must hold weights at 0 or above (bound 'hard' or 'soft', w_min >= 0) for them to be scaled "
                    f"to a total, but its bound is {self.rule.bound!r} and its w_min {self.rule.w_min!r}"
                )

    def initial_state(
        self,
        n_pre: int,
        n_post: int,
        *,
        generator: torch.Generator | None = None,
        device: str | torch.device = "cpu",
    ) -> LayerState:
        """Random weights, float32, and thresholds that are not raised yet.

        Args:
            n_pre, n_post: inputs and neurons, 1 or more.
            generator: on the CPU, so that weights are the same on every device; None: PyTorch's global one.
            device: of the state.
        """
        for name, value in (("n_pre", n_pre), ("n_post", n_post)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")
        low, high = (self.rule.w_min, self.rule.w_max) if self.rule.bound is not None else (0.0, 1.0)
        weight = low + _FIRST * (high - low) * torch.rand(n_post, n_pre, generator=generator)
        return LayerState(self._scaled(weight).to(device), torch.zeros(n_post, device=device))

    @torch.no_grad()
    def learn(self, spikes: Tensor, state: LayerState) -> tuple[Tensor, LayerState]:
        """Show a batch of samples once, and learn from it.

        Args:
            spikes: [T, B, n_pre], 0 or 1 in the dtype of the weights.
            state: as it was before; it stays as it is.

        Returns:
            How often each neuron fired for each sample [B, n_post], and the new state.

        Raises:
            TypeError, ValueError: a wrong kind, shape, dtype or device.
        """
        state = _checked(spikes, state)
        weight = state.weight.detach().clone()
        counts = weight.new_zeros(spikes.shape[1], len(weight))
        cells = self.competition.initial_state(counts, state.theta)
        traces: Any = None
        for pre in spikes:
            post, cells = self.competition.step(pre @ weight.T, cells)
            _, traces = self.rule.step(pre, post, weight, traces, out=weight)
            counts += post
        return counts, LayerState(self._scaled(weight), cells.theta)

    @torch.no_grad()
    def respond(self, spikes: Tensor, state: LayerState) -> Tensor:
        """How often each neuron fires for each sample [B, n_post]: weights and thresholds stay as they are.

        Arguments and errors as in ``learn``. As weights don't change, one matrix product serves all steps.
        """
        state = _checked(spikes, state)
        current = spikes @ state.weight.T
        counts, cells = torch.zeros_like(current[0]), self.competition.initial_state(current, state.theta)
        for current_t in current:
            post, cells = self.competition.respond(current_t, cells)
            counts += post
        return counts

    def _scaled(self, weight: Tensor) -> Tensor:
        """``weight`` with rows of the sum ``total``, changed in place; a row of zeros stays."""
        if self.total is None:
            return weight
        sums = weight.sum(1, keepdim=True)
        return weight.mul_(torch.where(sums > 0, self.total / sums, 1.0))


def similarity(weight: Tensor) -> float:
    """How alike receptive fields are: the mean cosine between the rows of two neurons of ``weight`` [n, n_pre].

    1 where all neurons have learned the same, 0 where no two share an input; NaN for a single neuron.
    """
    check.weight_matrix(weight)
    unit = torch.nn.functional.normalize(weight.detach(), dim=1)
    n = len(unit)
    together = unit.sum(0).square().sum() - unit.square().sum()  # of all pairs: the square of a sum without its squares
    return float(together / (n * (n - 1))) if n > 1 else float("nan")


def _checked(spikes: Any, state: Any) -> LayerState:
    if not (isinstance(state, tuple) and len(state) == 2):
        raise TypeError(f"state must be a LayerState, as initial_state gives one, not a {type(state).__name__}")
    state = LayerState(*state)
    check.weight_matrix(state.weight)
    check.spikes("spikes", spikes, state.weight.shape[1], state.weight, "T, B")
    if spikes.dtype != state.weight.dtype:
        raise TypeError(f"spikes must be {state.weight.dtype}, as the weights are, not {spikes.dtype}")
    return state
