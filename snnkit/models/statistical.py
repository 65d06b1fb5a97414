"""A network that is read out by the statistics of its firing, not by its spikes; and these statistics."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from snnkit import checks
from snnkit.encode import poisson
from snnkit.engine import state_dtype
from snnkit.neuron import Leaky
from snnkit.nn import Sequential


class Statistics(NamedTuple):
    """Four numbers per sample and population, each [B, populations].

    Attributes:
        rate: mean number of spikes per neuron and step, in [0, 1].
        spread: variance of the rates of its neurons: 0 if all fire equally often, up to 0.25 if half of them always
            fire.
        fano: Fano factor of the number of spikes per step: its variance over time divided by its mean. 0 for a constant
            number, 1 - rate for independent neurons that draw each spike independently, larger if they fire together.
        synchrony: variance over time of the mean over neurons, divided by the mean over neurons of their variances. It
            is 1 if all fire together, about 1 / (number of neurons) if they fire independently. Golomb and Rinzel's χ²
            (1993, doi:10.1103/PhysRevE.48.4810), of spikes instead of potentials.

    The last two are 0 if no neuron fires, or if every neuron fires at every step.
    """

    rate: Tensor
    spread: Tensor
    fano: Tensor
    synchrony: Tensor


class PopulationState(NamedTuple):
    """The sums behind the statistics, so that they can continue in the next chunk of time."""

    steps: Tensor  #: [], how many there were
    counts: Tensor  #: spikes of each neuron, [B, N]
    squares: Tensor  #: sum over time of the squared number of spikes per step of each population, [B, populations]


class Population(nn.Module):
    """Summarise spikes [T, B, N] of N neurons, in equal populations of neighbours, by the ``Statistics`` of each.

    ``out, state = population(spikes, state=None)`` with out [1, B, 4 populations]: all rates, then all spreads, Fano
    factors and synchronies. It is one step for the whole sequence, which continues from ``state``. It is computed in
    float32 or wider, and gradients reach the spikes.

    Args:
        neurons: N.
        populations: number of populations, a divisor of N.
    """

    def __init__(self, neurons: int, populations: int) -> None:
        super().__init__()
        checks.counts(neurons=neurons, populations=populations)
        if neurons % populations:
            raise ValueError(
                f"neurons must fall into populations of equal size, but {neurons} is no multiple of {populations}"
            )
        self.neurons = neurons
        self.populations = populations

    def initial_state(self, x: Tensor) -> PopulationState:
        """The state before the first step, for spikes [B, N] like ``x``."""
        checks.instance("x", x, Tensor, "a tensor [B, N]")
        if x.ndim != 2:
            raise ValueError(f"x must be [B, N], but its shape is {list(x.shape)}")
        zeros = torch.zeros(x.shape, dtype=state_dtype(x), device=x.device)
        return PopulationState(zeros.new_zeros(()), zeros, zeros.new_zeros(x.shape[0], self.populations))

    def forward(self, spikes: Tensor, state: PopulationState | None = None) -> tuple[Tensor, PopulationState]:
        """Spikes [T, B, N] to [1, B, 4 populations] and the state."""
        checks.instance("spikes of Population", spikes, Tensor, "a tensor [T, B, N]")
        if spikes.ndim != 3 or spikes.shape[0] < 1 or spikes.shape[2] != self.neurons:
            raise ValueError(
                f"spikes of Population must be [T, B, {self.neurons}], T at least 1, but the shape is "
                f"{list(spikes.shape)}"
            )
        if state is None:
            state = self.initial_state(spikes[0])
        checks.instance("state", state, PopulationState, "a PopulationState or None")
        if state.counts.shape != spikes.shape[1:]:
            raise ValueError(
                f"state of Population must be of {list(spikes.shape[1:])} neurons, but its counts are "
                f"{list(state.counts.shape)}"
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
        """The statistics of all steps up to ``state``."""
        checks.instance("state", state, PopulationState, "a PopulationState")
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

    @checks.arguments
    def split(self, features: Tensor) -> Statistics:
        """The four parts of an output [..., 4 populations]."""
        if features.shape[-1:] != (4 * self.populations,):
            raise ValueError(f"features must be [..., {4 * self.populations}], but it is {list(features.shape)}")
        return Statistics(*features.unflatten(-1, (4, self.populations)).unbind(-2))

    def extra_repr(self) -> str:
        return f"{self.neurons}, {self.populations}"


class Answer(NamedTuple):
    """The result of ``StatisticalSNN.process_input``."""

    output: Tensor  #: one logit per class, [B, classes]; the class is ``output.argmax(1)``
    statistics: Statistics  #: of the hidden populations


class StatisticalSNN(Sequential):
    """Populations of spiking neurons; the readout sees only their statistics over time::

        flatten → linear → Leaky → Population (rate, spread, Fano factor, synchrony of each) → linear

    Called on [T, B, ...] with ``inputs`` values per sample and step, it gives logits [1, B, classes], one step for the
    whole sequence: train it with ``loss.count_cross_entropy``, and with ``encode`` of its own::

        net = StatisticalSNN(64)
        train.fit(net, data.load("digits"), encode=net.encode, loss=loss.count_cross_entropy, lr=5e-3, epochs=10)
        net.process_input(images).statistics.rate          # [B, populations]

    Args:
        inputs: values per sample.
        hidden: neurons, a multiple of ``populations``.
        classes: number of outputs.
        populations: groups of hidden neurons; the readout gets four numbers of each.
        steps: T of ``encode``.
        engine: of the neurons.
    """

    def __init__(
        self,
        inputs: int = 784,
        hidden: int = 512,
        classes: int = 10,
        *,
        populations: int = 64,
        steps: int = 25,
        engine: str = "auto",
    ) -> None:
        checks.counts(inputs=inputs, hidden=hidden, classes=classes, steps=steps)
        population = Population(hidden, populations)
        super().__init__(
            nn.Flatten(),
            nn.Linear(inputs, hidden),
            Leaky(0.9, engine=engine),
            population,
            nn.Linear(4 * populations, classes),
        )
        self.inputs = inputs
        self.steps = steps

    @property
    def population(self) -> Population:
        """The module that computes the statistics."""
        return self[3]  # type: ignore[return-value]

    def encode(self, x: Tensor) -> Tensor:
        """Values [B, ...] in [0, 1] to ``steps`` steps of independent random spikes [T, B, ...] (``encode.poisson``).

        PyTorch's global generator draws.
        """
        return poisson(x, self.steps)

    def process_input(self, x: Any) -> Answer:
        """From plain data to the answer and the statistics behind it.

        Args:
            x: [B, ...] with ``inputs`` values per sample, such as features [B, inputs] or images [B, 1, 28, 28]: a
                tensor, an array or nested lists. uint8 is scaled to [0, 1] as images are; other values must be in that
                range. It is moved to the network's device and dtype.

        Returns:
            The answer, with gradients unless in ``torch.no_grad()``.
        """
        try:
            x, weight = torch.as_tensor(x), self[1].weight
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"x must be numbers [B, ...], but it is {checks.shown(x)} ({error})") from None
        if x.ndim < 2 or len(x) == 0 or x[0].numel() != self.inputs:
            raise ValueError(f"x must be [B, ...] with {self.inputs} values per sample, but it is {list(x.shape)}")
        values = x.to(weight)
        record = self.record(self.encode(values / 255 if x.dtype == torch.uint8 else values))
        return Answer(record.out[0], self.population.split(record.layers[3][0]))
