"""Two neurons found by an evolution strategy: what gradients do not find in this landscape of stairs.

Ten numbers describe a layer of two leaky neurons that hear both groups of channels and each other. Their score is
flat almost everywhere, as spikes are counted; so nothing is differentiated here. Each generation draws candidates
around a mean, keeps the best quarter, and moves mean and spread towards them, as a cross-entropy method does
(de Boer, Kroese, Mannor, Rubinstein, Annals of Operations Research 134 (2005), doi:10.1007/s10479-005-5724-z).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import torch
from torch import Tensor

from . import task
from .scoring import PRICE

NUMBERS = 10
# Of neuron 0, which detects two cues of 0 and votes against, and neuron 1, which fires otherwise, unless it is stopped:
# weights of both groups for either (in tenths), recurrent weights [to, from], biases (in thirtieths).
START = (0.5, -0.5, 0.25, -0.15, 0.0, 0.0, -2.0, 0.0, 0.9, 1.25)
TAU = 50.0  # steps
SPREAD = 0.15
CANDIDATES, MALLOC_SETTINGS = 48, 12
DRAWN, SAMPLES = 800, 8000  # of the samples, so many are drawn anew for each generation


def unpack(numbers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``numbers`` [P, 10] of P candidates to input weights [P, 2, 2], recurrent ones [P, 2, 2] and biases [P, 2]."""
    numbers = numbers.double()
    return numbers[:, :4].unflatten(1, (2, 2)) / 10, numbers[:, 4:8].unflatten(1, (2, 2)), numbers[:, 8:] / 30


def scores(numbers: Tensor, heard: Tensor, y: Tensor) -> Tensor:
    """Score [P] of candidates [P, 10] on spikes per group [T, B, 2] and labels [B]; all at once.

    v ← v - v / tau + W x + R s + b; s = H(v - 1); v ← v - s: the ``LIF`` of the kit with a reset by subtraction, inside
    a ``Recurrent``.
    """
    inward, among, bias = unpack(numbers)
    v = fired = total = torch.zeros(len(numbers), heard.shape[1], 2, dtype=torch.float64)
    for x in heard.double():
        current = torch.einsum("bg,png->pbn", x, inward) + torch.einsum("pbm,pnm->pbn", fired, among)
        v = v + current + bias[:, None] - v / TAU
        fired = (v >= 1).double()
        v = v - fired
        total = total + fired
    right = (total[..., 1] > total[..., 0]) == (y == 1)
    return right.double().mean(1) - PRICE * total.sum(2).mean(1)


def evolve(generations: int = 800, seed: int = 0) -> Tensor:
    """The mean [10] after so many generations."""
    heard, y = _heard()
    generator = torch.Generator().manual_seed(seed)
    mean, spread = torch.tensor(START), torch.full((NUMBERS,), SPREAD)
    for _ in range(generations):
        rows = torch.randint(SAMPLES, (DRAWN,), generator=generator)
        drawn = mean + spread * torch.randn(CANDIDATES, NUMBERS, generator=generator)
        best = drawn[scores(drawn, heard[:, rows], y[rows]).topk(MALLOC_SETTINGS).indices]
        spread = 0.9 * spread + 0.1 * (best - mean).square().mean(0).sqrt()
        mean = mean + 0.7 * (best.mean(0) - mean)
    return mean


def best_of(seeds: Iterable[int], generations: int = 800) -> Tensor:
    """The best of several evolutions, by the samples on which they evolved."""
    heard, y = _heard()
    found = torch.stack([evolve(generations, seed) for seed in seeds])
    return found[scores(found, heard, y).argmax()]


@functools.lru_cache(maxsize=1)
def _heard() -> tuple[Tensor, Tensor]:
    """Spikes of either group of channels [T, N, 2], and labels [N]."""
    x, y = task.samples(SAMPLES)
    return x.unflatten(2, (2, -1)).sum(3), y
