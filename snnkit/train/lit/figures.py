"""Loss, accuracy and output rate of an epoch, over all ranks, by torchmetrics."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torchmetrics import Metric
from torchmetrics.classification import MulticlassAccuracy

# Sums over many batches in float64; MPS has none.
_DTYPE = torch.float32 if torch.backends.mps.is_available() else torch.float64


class Mean(Metric):
    """Mean of numbers with weights, over all batches and ranks; nothing in it waits for the device."""

    full_state_update = False
    total: Tensor
    weight: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.zeros((), dtype=_DTYPE), dist_reduce_fx="sum")
        self.add_state("weight", torch.zeros((), dtype=_DTYPE), dist_reduce_fx="sum")

    def update(self, value: Tensor, weight: int) -> None:
        if self.total.dtype != _DTYPE:  # as where a trainer made the whole module one of bfloat16
            self.total, self.weight = self.total.to(_DTYPE), self.weight.to(_DTYPE)
        if weight:
            self.total.add_(value.detach(), alpha=weight)
            self.weight.add_(weight)

    def compute(self) -> Tensor:
        return self.total / self.weight


class Figures(nn.Module):
    """What is counted in one stage, over samples.

    Attributes:
        loss: mean per sample.
        acc: share of samples whose largest output, summed over time, is that of the label (as ``loss.accuracy``).
        rate: mean output per neuron and step: the rate of its spikes, if it spikes.
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.loss = Mean()
        self.acc = MulticlassAccuracy(classes, average="micro", validate_args=False)
        self.rate = Mean()

    def add(self, loss: Tensor, out: Tensor, labels: Tensor, counts: bool = True) -> None:
        """A batch: its mean loss, output [T, B, C] and labels [B].

        A rank whose samples are none of its own adds nothing (``counts`` False), but it has to add that: ranks log the
        same figures, or they wait for each other in vain.
        """
        out, n = out.detach(), len(labels) if counts else 0
        self.loss.update(loss, n)
        if n:
            self.acc.update(out.sum(0).argmax(1), labels)
        else:  # it takes no empty batch
            self.acc._update_count += 1
        self.rate.update(out.mean(), n)

    def metrics(self) -> dict[str, Metric]:
        return {"loss": self.loss, "acc": self.acc, "rate": self.rate}

    def reset(self) -> None:
        for metric in self.metrics().values():
            metric.reset()

    def sums(self) -> Tensor:
        """All that was counted on this rank; those of several ranks may be added."""
        return torch.cat([getattr(metric, name).reshape(-1).to(_DTYPE) for metric, name in self._states()])

    def put(self, sums: Tensor) -> None:
        """Go on from ``sums``."""
        sizes = [getattr(metric, name).numel() for metric, name in self._states()]
        for (metric, name), part in zip(self._states(), sums.split(sizes), strict=True):
            own = getattr(metric, name)
            setattr(metric, name, part.reshape(own.shape).to(own.device, own.dtype))
            metric._update_count = 1  # or it would warn that there is nothing to compute

    def _states(self) -> list[tuple[Any, str]]:
        return [(metric, name) for metric in self.metrics().values() for name in sorted(metric._defaults)]
