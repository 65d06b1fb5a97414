"""The score: accuracy, less a price for every spike, on samples that nobody trained on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from . import rules, task

PRICE = 0.01  # of one spike per sample: as much as one percentage point of accuracy


@dataclass(frozen=True)
class Score:
    """How well a network did on the hidden samples.

    Attributes:
        score: accuracy - PRICE · spikes: 1 would be perfect without a spike, 0.5 is what a silent network gets.
        error: standard error of the score: how far another draw of as many samples would move it.
        accuracy: share of right answers.
        spikes: per sample, of all neurons.
        samples: how many there were.
        layers: name of each layer of neurons -> its spikes per sample.
        mark: of the salt: scores with different marks are of different samples.
    """

    score: float
    error: float
    accuracy: float
    spikes: float
    samples: int
    layers: dict[str, float]
    mark: str

    def __repr__(self) -> str:
        return (
            f"score {self.score:.4f} ± {self.error:.4f}: accuracy {self.accuracy:.2%}, "
            f"{self.spikes:.2f} spikes per sample at {PRICE} each"
        )


def score(net: nn.Module, *, salt: str = task.SALT, seconds: float = rules.SECONDS) -> Score:
    """The score of ``net`` on the hidden samples; what it may be and what is counted: see ``evaluate``.

    Look at it when you have decided, not to decide: choose among networks by samples of your own, or the best of many
    scores will be a lucky one.

    Args:
        net: the network.
        salt: another one means other hidden samples; an instructor may keep one to himself.
        seconds: the longest it may take.

    Raises:
        As ``evaluate``; TypeError: ``salt`` is no text.
    """
    sets = task.hidden(salt)
    x, y = torch.cat([x for x, _ in sets], dim=1), torch.cat([y for _, y in sets])
    found = rules.evaluate(net, x, y, seconds=seconds)
    each = found.correct.double() - PRICE * found.counts.double()
    error = each.std().item() / math.sqrt(len(each))
    value = each.mean().item()
    return Score(value, error, found.accuracy, found.spikes, len(each), found.layers, task.mark(salt))
