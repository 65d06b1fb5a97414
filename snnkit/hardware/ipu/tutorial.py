"""The network of snnTorch's IPU tutorial, ready for one, of nothing but plain PyTorch.

Source: snnTorch's ``tutorial_ipu_1`` (Eshraghian et al. 2023, doi:10.1109/JPROC.2023.3308088): 784-1000-10 ``Leaky``
neurons, beta 0.9, 25 steps of the same picture, batches of 128, cross-entropy of counts, Adam. Its script stops with
SDKs from 3.0 on (snnTorch issue 236), as a neuron decides by a buffer's value in the forward pass; here the reset is
written out, the membrane is handed from step to step, and the surrogate is in detach form. The tutorial hands its loss
the membranes while its text says spikes; here it is the spikes.

This room needs neither the engines nor the neurons of snnkit, which ask for PyTorch 2.8: it also imports beside PyTorch
2.0.1, the one that PopTorch 3.4 runs with.
"""

from __future__ import annotations

from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from .model import InOrder, IPUNet, Stateless, Steps
from .surrogates import leaky_step

__all__ = ["LeakyLayer", "tutorial_loss", "tutorial_net"]


class LeakyLayer(nn.Module):
    """``leaky_step`` at every step, from a membrane at rest.

    Args:
        beta: decay per step.
    """

    def __init__(self, beta: float) -> None:
        super().__init__()
        self.beta = beta

    def forward(self, x: Steps) -> Steps:
        mem = x.steps[0] * 0
        spikes = []
        for current in x.steps:
            spike, mem = leaky_step(mem, current, self.beta)
            spikes.append(spike)
        return Steps(spikes)

    def extra_repr(self) -> str:
        return f"beta={self.beta}"


def tutorial_net(sizes: tuple[int, ...] = (784, 1000, 10), *, beta: float = 0.9, steps: int | None = 25) -> IPUNet:
    """Linear and ``Leaky`` in turn.

    Args:
        sizes: inputs, hidden neurons, classes.
        beta: decay per step, between 0 and 1.
        steps: how often a picture is shown; None: sequences [B, T, ...] come in.

    Returns:
        From pictures [B, 784] to spikes [B, T, 10].

    Raises:
        TypeError, ValueError: fewer than two sizes, sizes or steps that are no positive whole numbers, another beta.
    """
    if not isinstance(sizes, (tuple, list)) or len(sizes) < 2:
        raise ValueError(f"sizes must be at least two whole numbers, such as (784, 1000, 10), but it is {sizes!r}")
    for name, value in (*(("sizes", size) for size in sizes), ("steps", 1 if steps is None else steps)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} of tutorial_net must be whole numbers, but there is {value!r}")
        if value < 1:
            raise ValueError(f"{name} of tutorial_net must be at least 1, but there is {value}")
    if isinstance(beta, bool) or not isinstance(beta, (int, float)):
        raise TypeError(f"beta must be a number, but it is {beta!r}")
    if not 0 <= beta <= 1:
        raise ValueError(f"beta must lie in [0, 1], but it is {beta}")
    layers: dict[str, nn.Module] = {}
    for inputs, outputs in pairwise(sizes):
        layers[str(len(layers))] = Stateless(nn.Linear(inputs, outputs), always_once=True)
        layers[str(len(layers))] = LeakyLayer(beta)
    return IPUNet(InOrder(layers), steps)


def tutorial_loss(spikes: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy of the spike counts, ``snnkit.loss.count_cross_entropy`` without its checks.

    Args:
        spikes: [T, B, C].
        y: classes, int64 [B].
    """
    return F.cross_entropy(spikes.sum(0), y)
