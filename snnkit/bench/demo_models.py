"""Every model of the kit with something to work on, so that devices can be compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import encode, loss, models


@dataclass(frozen=True)
class Demo:
    """A model and how it is run.

    Attributes:
        name: as users import it.
        steps: T.
        make: to the model.
        inputs: number of samples to random ones, [B, ...].
        call: (model, inputs) to its output [T, B, ...].
        loss: (output, labels int64 [B] in 0 … 9) to a scalar.
    """

    name: str
    steps: int
    make: Callable[[], nn.Module]
    inputs: Callable[[int], Tensor]
    call: Callable[[Any, Tensor], Tensor]
    loss: Callable[[Tensor, Tensor], Tensor]


def demos() -> dict[str, Demo]:
    """Name to demo, in the order in which they are shown."""
    steps = 25

    def repeated(model: Any, x: Tensor) -> Tensor:
        return model(encode.repeat(x, steps))[0]

    every = [
        Demo("mlp", steps, models.mlp, _images, repeated, loss.count_cross_entropy),
        Demo("ConvNet", steps, models.ConvNet, _images, repeated, loss.membrane_max_cross_entropy),
        Demo(
            "FashionConvNet", 4, models.FashionConvNet, _images,
            lambda model, x: model(encode.repeat(x, 4))[0], loss.rate_mse,
        ),
        Demo(
            "StatisticalSNN", steps, models.StatisticalSNN, _images,
            lambda model, x: model(model.encode(x))[0], loss.count_cross_entropy,
        ),
        Demo("SpikingEmbedding", 16, _embedding, _words, lambda model, x: model(x)[0], _towards_labels),
    ]  # fmt: skip
    return {demo.name: demo for demo in every}


_WORDS = 1000


def _images(batch: int) -> Tensor:
    return torch.rand(batch, 1, 28, 28)


def _embedding() -> nn.Module:
    from ..text import SpikingEmbedding, Vocabulary

    text = " ".join(f"word{_letters(i)}" for i in range(_WORDS))
    return SpikingEmbedding(Vocabulary.build([text]))


def _letters(number: int) -> str:
    """A number as letters, for a word of its own."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def _words(batch: int) -> Tensor:
    """Numbers of words, batch of them."""
    return torch.randint(_WORDS, (batch,))


def _towards_labels(spikes: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of the rates of the first ten neurons: it sends a gradient through the spikes to the table."""
    return F.cross_entropy(spikes.float().mean(0)[:, :10], labels)
