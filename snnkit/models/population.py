"""Statistics of populations over time: how much they fire, how evenly, how variably and how synchronously."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..engine import state_dtype
from ._check import check_count


class Statistics(NamedTuple):
    """Four numbers per sample and population, each [B, populations].

    Attributes:
        rate: mean number of spikes per neuron and step, in [0, 1].
        spread: variance of the rates of its neurons: 0 if all fire equally often, up to 0.25 if half of them always
            fire.
        fano: Fano factor of the number of spikes per step, its variance over time by its mean. 0 for a constant number,
            1 - rate for independent neurons that draw each spike anew, larger if they fire together.
        synchrony: variance over time of the mean over neurons, by the mean over neurons of their variances: 1 if all
            fire as one, about 1 / (number of neurons) if each fires for itself. Golomb and Rinzel's χ² (1993,
            doi:10.1103/PhysRevE.48.4810), of spikes instead of potentials.

    The last two are 0 where nobody fires, or everybody at every step.
    """

    rate: Tensor
    spread: Tensor
    fano: Tensor
    synchrony: Tensor


class PopulationState(NamedTuple):
    """What the statistics are made of, so that they can go on in the next chunk of time.

    Attributes:
        steps: [], how many there were.
        counts: spikes of each neuron, [B, N].
        squares: sum over time of the squared number of spikes per step of each population, [B, populations].
    """

    steps: Tensor
    counts: Tensor
    squares: Tensor


class Population(nn.Module):
    """Summarise spikes [T, B, N] of N neurons, in equal populations of neighbours, by the ``Statistics`` of each.

    ``out, state = population(spikes, state=None)`` with out [1, B, 4 populations]: all rates, then all spreads, Fano
    factors and synchronies. It is one step for the whole sequence, begun where ``state`` says. Computed in float32 at
    least; gradients reach the spikes.

    Args:
        neurons: N.
        populations: how many, a divisor of N.

    Raises:
        TypeError, ValueError: a count that is no positive int, or N that can't be divided so.
    """

    def __init__(self, neurons: int, populations: int) -> None:
        super().__init__()
        check_count(neurons, "neurons")
        check_count(populations, "populations")
        if neurons % populations:
            raise ValueError(
                f"neurons must fall into populations of equal size, but {neurons} is no multiple of {populations}"
            )
        self.neurons = neurons
        self.populations = populations

    def initial_state(self, x: Tensor) -> PopulationState:
        """Before the first step, for spikes [B, N] like ``x``."""
        zeros = torch.zeros(x.shape, dtype=state_dtype(x), device=x.device)
        return PopulationState(zeros.new_zeros(()), zeros, zeros.new_zeros(x.shape[0], self.populations))

    def forward(self, spikes: Tensor, state: PopulationState | None = None) -> tuple[Tensor, PopulationState]:
        """Spikes [T, B, N] to [1, B, 4 populations] and the state."""
        self._check(spikes)
        if state is None:
            state = self.initial_state(spikes[0])
        elif state.counts.shape != spikes.shape[1:] or state.squares.shape != (spikes.shape[1], self.populations):
            raise ValueError(
                f"state of Population must be of {spikes.shape[1]} samples, {self.neurons} neurons and "
                f"{self.populations} populations, but its counts are {list(state.counts.shape)} and its squares "
                f"{list(state.squares.shape)}"
            )
        dtype = state.counts.dtype
        together = spikes.unflatten(2, (self.populations, -1)).sum(3, dtype=dtype)  # per step, [T, B, populations]
        state = PopulationState(
            state.steps + spikes.shape[0],
            state.counts + spikes.sum(0, dtype=dtype),
            state.squares + together.square().sum(0),
        )
        return torch.cat(self.statistics(state), 1).unsqueeze(0), state

    def statistics(self, state: PopulationState) -> Statistics:
        """Those of all steps up to ``state``."""
        size = self.neurons // self.populations
        rates = (state.counts / state.steps).unflatten(1, (self.populations, size))
        rate = rates.mean(2)
        spread = rates.var(2, correction=0)
        variance = (state.squares / state.steps - (rate * size).square()).clamp(min=0)
        # Of a number that is 0 or 1 the square is itself, so its variance is r - r². A single spike in all steps gives
        # these denominators; they only stay clear of 0 / 0 below.
        least = 1 / state.steps
        fano = variance / torch.maximum(rate * size, least)
        synchrony = variance / size**2 / torch.maximum((rates - rates.square()).mean(2), least.square() / size)
        return Statistics(rate, spread, fano, synchrony)

    def split(self, features: Tensor) -> Statistics:
        """The parts of what a call gives, [..., 4 populations]."""
        return Statistics(*features.unflatten(-1, (4, self.populations)).unbind(-2))

    def extra_repr(self) -> str:
        return f"{self.neurons}, {self.populations}"

    def _check(self, spikes: Tensor) -> None:
        if not isinstance(spikes, Tensor) or not spikes.is_floating_point():
            got = spikes.dtype if isinstance(spikes, Tensor) else type(spikes).__name__
            raise TypeError(f"spikes of Population must be a floating-point tensor [T, B, N], but it is {got}")
        if spikes.ndim != 3 or spikes.shape[0] < 1 or spikes.shape[2] != self.neurons:
            raise ValueError(
                f"spikes of Population must be [T, B, {self.neurons}], T at least 1, but the shape is "
                f"{list(spikes.shape)}"
            )
