"""Builds and fills the network that a learner repairs in notebook 05."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .exercise import NotWritten, Violation


def build(candidate: Any, gain: Tensor, sizes: tuple[int, ...] = (6, 5, 3)) -> nn.Module:
    """A learner's network; "to do" while one of its attributes is still ``...``."""
    try:
        net = candidate(sizes, gain)
    except KeyError as error:
        if "already exists" not in str(error):
            raise
        told = "register_buffer makes the attribute by itself: nothing of that name may be there before."
        raise Violation(told, yours=error.args[0], hint=1) from None
    if any(value is ... for value in vars(net).values()):
        raise NotWritten("A `...` is still in your code.")
    return net


def lively(net: nn.Module) -> Tensor:
    """Weights with which some of the neurons fire at some of the steps, and a sequence that makes them do so."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator) * 1.2 - 0.3)
    return torch.rand(9, 4, 6, generator=generator)
