"""A learning rate that changes with every update: a whole cycle in a single epoch, if there is only one."""

from __future__ import annotations

import math

import torch

from snnkit.train.loop import BatchInfo

RISE = 0.1  # share of the updates in which the rate rises


class OneCycle:
    """Sets the learning rate of the next update: ``train.fit(..., on_batch=OneCycle(optimizer, lr, updates))``.

    It rises linearly to ``lr`` in the first tenth of all ``updates`` and falls to 0 in the rest, half a cosine. It
    follows from how many updates there were, so a resumed run goes on with the right one. Source: the policy of Smith
    and Topin (2018, arXiv:1708.07120), without its cycle of momentum.

    Args:
        optimizer: all its groups get the same rate.
        lr: the highest.
        updates: of the whole run.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, lr: float, updates: int) -> None:
        self.optimizer, self.lr, self.updates = optimizer, lr, updates
        self._set(0)

    def __call__(self, info: BatchInfo) -> None:
        self._set(info.epoch * info.batches + info.batch + 1)

    def rate(self, update: int) -> float:
        """The learning rate of an update, counted from 0."""
        update += 1  # so that no update has a rate of 0
        top = RISE * self.updates
        if update < top:
            return self.lr * update / top
        return self.lr * (1 + math.cos(math.pi * (update - top) / (self.updates + 1 - top))) / 2

    def _set(self, update: int) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(update)
