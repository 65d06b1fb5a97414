"""Codes with their readers: from brightness to spikes, and from spikes back to brightness.

A code is worth what somebody can read back from it. Each reader takes spikes [T, ...] and gives brightness [...].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from snnkit import encode

GAIN = 4.0  # current per brightness into the LIF code: pixels darker than 1 / GAIN never fire
_KEEP = 0.9  # what that code's membrane keeps of its voltage in a step: 1 - dt tau_mem_inv
DELTA = 0.1  # smallest change that the delta code sends


class Code(NamedTuple):
    """One code.

    Attributes:
        write: (x [B, ...] in [0, 1], steps) to [T, B, ...].
        read: its reader.
    """

    write: Callable[[Tensor, int], Tensor]
    read: Callable[[Tensor], Tensor]


def read_rate(spikes: Tensor) -> Tensor:
    """The mean over time."""
    return spikes.mean(0)


def read_latency(spikes: Tensor) -> Tensor:
    """Of at most one spike per pixel, the earlier the brighter: 1 - t / (T - 1); silence is black."""
    when = spikes.argmax(0).to(spikes.dtype)
    return torch.where(spikes.any(0), 1 - when / max(len(spikes) - 1, 1), 0.0)


def read_lif(spikes: Tensor) -> Tensor:
    """Inverts the rate of a LIF neuron that integrates a constant current for as long as its period."""
    rate = spikes.mean(0)
    period = 1 / rate.clamp(min=1e-9) - 0.5  # it crossed the threshold somewhere within the last step
    current = 1 / (1 - _KEEP ** period.clamp(min=0.3))
    return torch.where(rate > 0, (current / GAIN).clamp(max=1), 0.0)


def read_delta(spikes: Tensor) -> Tensor:
    """What all changes together come to."""
    return DELTA * spikes.sum(0)


def _poisson(x: Tensor, steps: int) -> Tensor:
    # The same draw at every move of a slider: what changes then is the setting and not the dice.
    return encode.poisson(x, steps, generator=torch.Generator().manual_seed(0))


CODES = {
    "Poisson": Code(_poisson, read_rate),
    "latency": Code(lambda x, steps: encode.latency(x, steps, linear=True), read_latency),
    "latency (logarithm)": Code(encode.latency, read_latency),
    "LIF neuron": Code(lambda x, steps: encode.constant_current_lif(GAIN * x, steps), read_lif),
    "delta": Code(lambda x, steps: encode.delta(encode.repeat(x, steps), threshold=DELTA), read_delta),
    "direct": Code(encode.repeat, read_rate),
}
