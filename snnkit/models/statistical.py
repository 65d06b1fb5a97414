"""A network that is read out by the statistics of its firing, not by its spikes."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..encode import poisson
from ..neuron import Leaky
from ..nn import Sequential
from ..surrogate import ATan, Surrogate
from ._check import check_count
from .population import Population, Statistics


class Answer(NamedTuple):
    """What ``StatisticalSNN.process_input`` gives.

    Attributes:
        output: one logit per class, [B, classes]; the class is ``output.argmax(1)``.
        statistics: of the hidden populations.
    """

    output: Tensor
    statistics: Statistics


class StatisticalSNN(Sequential):
    """Populations of spiking neurons whose statistics over time are all that the readout sees::

        flatten → linear → Leaky → Population (rate, spread, Fano factor, synchrony of each) → linear

    Called on [T, B, ...] with ``inputs`` values per sample and step, it gives logits [1, B, classes], one step for the
    whole sequence: train it with ``loss.count_cross_entropy``, and with ``encode`` of its own::

        net = StatisticalSNN(64)
        train.fit(net, data.load("digits"), encode=net.encode, loss=loss.count_cross_entropy, lr=5e-3, epochs=10)
        net.process_input(images).statistics.rate          # [B, populations]

    The state of ``out, state = net(x, state)`` holds what the statistics are made of: a sequence in two chunks, the
    state handed on, is answered as one.

    Args:
        inputs: values per sample.
        hidden: neurons, a multiple of ``populations``.
        classes: number of outputs.
        populations: groups of hidden neurons, each seen by the readout as four numbers.
        steps: T of ``encode``.
        value_range: the values that ``encode`` takes as never and always a spike, (lowest, highest).
        beta: of the ``Leaky`` neurons.
        surrogate: of the neurons; None: ``ATan()``.
        engine: of the neurons.

    Raises:
        TypeError, ValueError: a count that is no positive int, ``hidden`` that can't be divided into ``populations``, a
            range that is not two increasing numbers; what ``Leaky`` refuses.
    """

    def __init__(
        self,
        inputs: int = 784,
        hidden: int = 512,
        classes: int = 10,
        *,
        populations: int = 64,
        steps: int = 25,
        value_range: tuple[float, float] = (0.0, 1.0),
        beta: float = 0.9,
        surrogate: Surrogate | None = None,
        engine: str = "auto",
    ) -> None:
        check_count(inputs, "inputs")
        check_count(hidden, "hidden")
        check_count(classes, "classes")
        check_count(populations, "populations")
        check_count(steps, "steps")
        if hidden % populations:
            raise ValueError(f"hidden must be a multiple of populations, but {hidden} is none of {populations}")
        super().__init__(
            nn.Flatten(),
            nn.Linear(inputs, hidden),
            Leaky(beta, surrogate=ATan() if surrogate is None else surrogate, engine=engine),
            Population(hidden, populations),
            nn.Linear(4 * populations, classes),
        )
        self.inputs = inputs
        self.steps = steps
        self.value_range = _checked_range(value_range)

    @property
    def population(self) -> Population:
        """The module that computes the statistics."""
        return self[3]  # type: ignore[return-value]

    def encode(self, x: Tensor) -> Tensor:
        """Values [B, ...] to ``steps`` steps of independent random spikes [T, B, ...] (``encode.poisson``).

        A value is mapped linearly from ``value_range`` to the probability of a spike per step. PyTorch's global
        generator draws.

        Raises:
            ValueError: a value outside of ``value_range``, or not finite (found on a CPU only).
        """
        low, high = self.value_range
        if x.device.type == "cpu" and not torch.compiler.is_compiling() and bool(((x < low) | (x > high)).any()):
            raise ValueError(
                f"x must lie in value_range, {low:g} to {high:g}, but it goes from {x.min():g} to {x.max():g}"
            )
        # Rounding may take the ends of the range past 0 and 1.
        return poisson(x if (low, high) == (0.0, 1.0) else ((x - low) / (high - low)).clamp(0.0, 1.0), self.steps)

    def process_input(self, x: Any) -> Answer:
        """From plain data to the answer and the statistics behind it.

        Args:
            x: [B, ...] with ``inputs`` values per sample, such as features [B, inputs] or images [B, 1, 28, 28]: a
                tensor, an array or nested lists. uint8 is taken as images and scaled to [0, 1] whatever
                ``value_range`` is; all else must lie in that range. It is moved to the network's device and dtype.

        Returns:
            The answer, with gradients unless in ``torch.no_grad()``.
        """
        x = self._placed(x)
        sequence = poisson(x.to(self._like.dtype) / 255, self.steps) if x.dtype == torch.uint8 else self.encode(x)
        record = self.record(sequence)
        return Answer(record.out[0], self.population.split(record.layers[3][0]))

    @property
    def _like(self) -> Tensor:
        return self[1].weight  # type: ignore[return-value]

    def _placed(self, x: Any) -> Tensor:
        try:
            x = torch.as_tensor(x)
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"x must be a tensor, an array or nested lists of numbers [B, ...]: {error}") from None
        if x.is_complex() or x.dtype == torch.bool:
            raise TypeError(f"x must hold real numbers, but its dtype is {x.dtype}")
        if x.ndim < 2 or len(x) == 0 or x[0].numel() != self.inputs:
            raise ValueError(f"x must be [B, ...] with {self.inputs} values per sample, but it is {list(x.shape)}")
        return x.to(self._like.device, None if x.dtype == torch.uint8 else self._like.dtype)


def _checked_range(value: Any) -> tuple[float, float]:
    try:
        low, high = (float(bound) for bound in value)
    except (TypeError, ValueError):
        raise TypeError(f"value_range must be two numbers, such as (0.0, 1.0), but it is {value!r}") from None
    if not low < high or high - low == float("inf"):
        raise ValueError(f"value_range must be two finite numbers, the lower first, but it is {value!r}")
    return low, high
