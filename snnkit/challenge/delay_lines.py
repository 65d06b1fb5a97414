"""One neuron behind delay lines: delays bring the first cue beside the second, so that coincidence tells all.

Without spikes there is something to differentiate: the highest value that a weighted sum of delayed inputs reaches is
trained, by logistic regression, to be positive for the samples of class 1 alone. The neuron behind it fires when its
input is positive, and then is silent for the rest of the sample.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from . import task
from .delays import Delays

LATE = tuple(range(task.STEPS))
# Where to begin, for either group: cue 0 first and 1 second meet with these delays, and cue 1 first and 0 second
# with others, so that what belongs to one order doesn't meet what belongs to the other.
BEGIN = {0: (5, 6, 7, 12, 13, 14), 1: (0, 1, 2, 19, 20, 21)}


def fit(updates: int = 3000, seed: int = 0) -> tuple[Tensor, float]:
    """Weights [delay, group] and a bias."""
    x, y = task.samples(20000, seed=seed)
    heard, _ = Delays(LATE)(x.unflatten(2, (2, -1)).sum(3))  # [T, N, delay * 2 + group]
    weights = torch.zeros(len(LATE), 2)
    for group, delays in BEGIN.items():
        weights[list(delays), group] = 0.5
    weights, bias = weights.flatten().requires_grad_(), torch.tensor(-3.0, requires_grad=True)
    optimizer = torch.optim.Adam([weights, bias], lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(updates):
        rows = torch.randint(len(y), (256,), generator=generator)
        highest = (heard[:, rows] @ weights + bias).amax(0)
        loss = functional.binary_cross_entropy_with_logits(highest, y[rows].float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return weights.detach().unflatten(0, (-1, 2)), float(bias.detach())
