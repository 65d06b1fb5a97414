"""Learning without labels: neurons that inhibit each other and adapt, a layer of them with STDP, and their labels.

Source: Diehl & Cook 2015 (doi:10.3389/fncom.2015.00099).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from snnkit import checks
from snnkit.data import resolve_device
from snnkit.plasticity.connection import DTYPES, Dense, as_state, check_like, check_spikes, check_weight
from snnkit.plasticity.spike_timing import PairSTDP, TripletSTDP

# Weights begin as random shares of their range, as in Diehl & Cook's program.
_FIRST = 0.3


class CompetitionState(NamedTuple):
    """State of neurons that compete."""

    v: Tensor  #: membrane potential of every sample [B, n]
    theta: Tensor  #: how far homeostasis has raised each neuron's threshold [n]; all samples share it


@dataclass(frozen=True)
class Competition:
    """Leaky integrate-and-fire neurons with lateral inhibition and a threshold that adapts. In every step and sample:

        v ← exp(-dt / tau) v + current
        the neuron that is farthest above threshold + theta fires, if there is one; its v becomes 0
        every other neuron's v falls by ``inhibition``, but not below -``inhibition``

    and once for all samples, which count as if they had been shown one after the other:

        theta ← exp(-B dt / tau_theta) theta + ``theta_plus`` × spikes

    Inhibition is quicker than a time step, so that one neuron fires per step and sample at most. Without it all neurons
    above their threshold fire; with ``theta_plus`` = 0 there is no homeostasis.

    Source: Diehl & Cook 2015 (doi:10.3389/fncom.2015.00099), with the effect of the inhibitory layer instead of the
        layer; samples in parallel as in Saunders et al. 2019 (doi:10.1016/j.neunet.2019.08.016). The defaults suit the
        digits.

    Args:
        tau: time constant of the membrane in seconds.
        threshold: potential at which a neuron fires if it has never fired.
        inhibition: drop of the potential of the others at a spike, 0 or more.
        theta_plus: rise of a neuron's threshold at its spike, 0 or more.
        tau_theta: time constant in seconds of the threshold's return.
        dt: seconds per step.
    """

    tau: float = 0.1
    threshold: float = 8.0
    inhibition: float = 20.0
    theta_plus: float = 0.4
    tau_theta: float = 500.0
    dt: float = 5e-3

    def __post_init__(self) -> None:
        for name in ("tau", "threshold", "tau_theta", "dt"):
            checks.number(name, getattr(self, name), above=0)
        for name in ("inhibition", "theta_plus"):
            checks.number(name, getattr(self, name), at_least=0)

    @checks.arguments
    def initial_state(self, current: Tensor, theta: Tensor | None = None) -> CompetitionState:
        """At rest, for steps like ``current`` [..., B, n]; thresholds raised by ``theta`` [n], or not yet (None)."""
        if current.ndim < 2:
            raise ValueError(f"current must be [..., B, n], but its shape is {list(current.shape)}")
        if theta is None:
            theta = current.new_zeros(current.shape[-1])
        return CompetitionState(current.new_zeros(current.shape[-2:]), theta)

    @torch.no_grad()
    def step(self, current: Tensor, state: CompetitionState | None = None) -> tuple[Tensor, CompetitionState]:
        """One time step, in which thresholds adapt, from ``current`` [B, n] and the state before (None: at rest).

        Returns spikes [B, n], 0 or 1 in the dtype of ``current``, float32 or float64, and the new state.
        """
        spikes, (v, theta) = self.respond(current, state)
        forget = math.exp(-len(current) * self.dt / self.tau_theta)
        return spikes, CompetitionState(v, torch.add(theta * forget, spikes.sum(0), alpha=self.theta_plus))

    @torch.no_grad()
    def respond(self, current: Tensor, state: CompetitionState | None = None) -> tuple[Tensor, CompetitionState]:
        """``step`` without a change of thresholds."""
        state = self._checked(current, state)
        v = torch.add(current, state.v, alpha=math.exp(-self.dt / self.tau))
        above = v - (state.theta + self.threshold)
        if self.inhibition:
            best, winner = above.max(dim=1, keepdim=True)
            fires = (best >= 0).to(v.dtype)
            spikes = torch.zeros_like(v).scatter_(1, winner, fires)
            v = v.sub_(fires, alpha=self.inhibition).clamp_(min=-self.inhibition)
        else:
            spikes = (above >= 0).to(v.dtype)
        return spikes, CompetitionState(v.mul_(1 - spikes), state.theta)

    def _checked(self, current: Tensor, state: CompetitionState | None) -> CompetitionState:
        # Without checks.arguments, which would take longer: this runs in every step.
        checks.instance("current", current, Tensor, "a torch.Tensor")
        state = as_state(CompetitionState, state)
        if current.dtype not in DTYPES or current.dim() != 2 or 0 in current.shape:
            actual = f"{current.dtype} {list(current.shape)}"
            raise ValueError(f"current must be float32 or float64 [B, n], none of them 0, but it is {actual}")
        if state is None:
            return self.initial_state(current)
        check_like("state.v", state.v, current.shape, current, "current")
        check_like("state.theta", state.theta, current.shape[1:], current, "current")
        return state


class LayerState(NamedTuple):
    """The learned values of a ``CompetitiveLayer``."""

    weight: Tensor  #: [n_post, n_pre]; a row is a neuron's receptive field
    theta: Tensor  #: how far homeostasis has raised each threshold [n_post]


@checks.arguments
@dataclass(frozen=True)
class CompetitiveLayer:
    """A dense layer of neurons that compete for inputs: ``Competition``, STDP, and weights of fixed sum.

    A presentation is a sequence of spikes [T, B, n_pre], B samples at once. It begins with membranes at rest and no
    traces; after it, every neuron's weights are scaled to the sum ``total``, so a synapse that grows makes the neuron's
    others smaller. This is most of the depression. Weights and thresholds are arguments and results (``LayerState``).
    Source: Diehl & Cook 2015 (doi:10.3389/fncom.2015.00099).

    Args:
        competition: the neurons.
        rule: PairSTDP or TripletSTDP, with the dt of ``competition``. Of a batch, changes add up ("sum") as if the
            samples had been shown one after the other.
        total: sum of a neuron's weights after each presentation, above 0; None leaves them as the rule made them.
            Scaling may set a weight above the rule's ``w_max``, until the rule's next step.
    """

    competition: Competition = field(default_factory=Competition)
    rule: PairSTDP | TripletSTDP = field(default_factory=lambda: PairSTDP(a_plus=0.02, a_minus=0.002, dt=5e-3))
    total: float | None = 16.0

    def __post_init__(self) -> None:
        if not isinstance(self.rule.connection, Dense):
            raise ValueError(f"connection of rule must be Dense(), but it is {self.rule.connection}")
        if self.rule.dt != self.competition.dt:
            raise ValueError(
                f"rule and competition must have one dt, but theirs are {self.rule.dt!r} and {self.competition.dt!r}"
            )
        if self.total is not None:
            checks.number("total", self.total, above=0)
            if self.rule.bound is None or self.rule.w_min < 0:
                raise ValueError(
                    "rule must hold weights at 0 or above (bound 'hard' or 'soft', w_min >= 0) for them to be scaled "
                    f"to a total, but its bound is {self.rule.bound!r} and its w_min {self.rule.w_min!r}"
                )

    @checks.arguments
    def initial_state(
        self, n_pre: int, n_post: int, *, generator: torch.Generator | None = None, device: str | torch.device = "cpu"
    ) -> LayerState:
        """Random weights, float32, and thresholds that are not raised yet.

        Args:
            n_pre, n_post: inputs and neurons, 1 or more.
            generator: on the CPU, so that weights are the same on every device; None: PyTorch's global one.
            device: of the state.
        """
        checks.counts(n_pre=n_pre, n_post=n_post)
        low, high = (self.rule.w_min, self.rule.w_max) if self.rule.bound is not None else (0.0, 1.0)
        device = resolve_device(device)
        weight = low + _FIRST * (high - low) * torch.rand(n_post, n_pre, generator=generator)
        return LayerState(self._scaled(weight).to(device), torch.zeros(n_post, device=device))

    @checks.arguments
    @torch.no_grad()
    def learn(self, spikes: Tensor, state: LayerState) -> tuple[Tensor, LayerState]:
        """Show a batch of samples once, and learn from it. ``state`` does not change.

        ``spikes`` [T, B, n_pre] are 0 or 1 in the dtype of the weights. Returns how often each neuron fired for each
        sample [B, n_post], and the new state.
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

    @checks.arguments
    @torch.no_grad()
    def respond(self, spikes: Tensor, state: LayerState) -> Tensor:
        """Spike counts of each neuron for each sample [B, n_post], without a change of weights and thresholds.

        Arguments as in ``learn``. Weights don't change, so one matrix product is enough for all steps.
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
    """Similarity of receptive fields: the mean cosine between the rows of two neurons of ``weight`` [n, n_pre].

    It is 1 if all neurons have learned the same, 0 if no two share an input, and NaN for a single neuron.
    """
    check_weight(weight)
    unit = torch.nn.functional.normalize(weight.detach(), dim=1)
    n = len(unit)
    together = unit.sum(0).square().sum() - unit.square().sum()  # of all pairs: the square of a sum without its squares
    return float(together / (n * (n - 1))) if n > 1 else float("nan")


def _checked(spikes: Tensor, state: LayerState) -> LayerState:
    check_weight(state.weight)
    check_spikes("spikes", spikes, "T, B, n_pre", state.weight, state.weight.shape[1])
    if spikes.dtype != state.weight.dtype:
        raise TypeError(f"spikes must be {state.weight.dtype}, as the weights are, but they are {spikes.dtype}")
    return state


@checks.arguments
def assign_labels(counts: Tensor, labels: Tensor, classes: int) -> Tensor:
    """The class to which each neuron responds most, by its mean spike count over the samples of each class.

    Use training samples: labels derived from the test set would leak its answers.

    Args:
        counts: spikes of each neuron for each sample [N, n].
        labels: int64 [N], 0 to ``classes`` - 1.
        classes: how many there are.

    Returns:
        int64 [n]; -1 for a neuron that never fired. In a tie, the first class.
    """
    _check_classes("labels", labels, classes, lowest=0, expected=counts.shape[:1])
    members = torch.nn.functional.one_hot(labels, classes).to(counts.dtype)
    means = (members.T @ counts) / members.sum(0).clamp(min=1).unsqueeze(1)
    return torch.where(counts.sum(0) > 0, means.argmax(0), -1)


@checks.arguments
def vote(counts: Tensor, assigned: Tensor, classes: int) -> Tensor:
    """The class whose neurons fired most for each sample, on average over the neurons of a class (Diehl & Cook 2015).

    Args:
        counts: spikes of each neuron for each sample [N, n].
        assigned: class of each neuron, int64 [n], -1 for one that has no vote (``assign_labels``).
        classes: how many there are.

    Returns:
        int64 [N]; -1 for a sample for which no neuron with a vote fired. In a tie, the first class.
    """
    _check_classes("assigned", assigned, classes, lowest=-1, expected=counts.shape[1:])
    # Class 0 of the table is for neurons without a vote; a class without neurons gets nothing.
    members = torch.nn.functional.one_hot(assigned + 1, classes + 1)[:, 1:].to(counts.dtype)
    means = (counts @ members) / members.sum(0).clamp(min=1)
    most, which = means.max(dim=1)
    return torch.where(most > 0, which, -1)


def _check_classes(name: str, value: Tensor, classes: int, *, lowest: int, expected: torch.Size) -> None:
    checks.counts(classes=classes)
    if value.dtype != torch.int64 or value.shape != expected:
        raise ValueError(
            f"{name} must be int64 {list(expected)} to fit counts, but it is {value.dtype} {list(value.shape)}"
        )
    low, high = int(value.min()), int(value.max())
    if low < lowest or high >= classes:
        raise ValueError(f"{name} must be in {lowest} .. {classes - 1}, but they go from {low} to {high}")
