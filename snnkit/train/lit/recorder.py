"""What a rank computes in each update, and when, as a callback for Lightning's Trainer."""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as dist
from lightning.pytorch import Callback, LightningModule, Trainer


class RankRecorder(Callback):
    """What this rank computes in each update, and when: to compare ranks with each other, and with one process.

    Attributes:
        spans: of each update a list of (what, start, end), in seconds since 1970: "forward", "backward", "optimizer",
            and "all-reduce", which overlaps with backward. On a GPU these are the times at which work was sent to it.
        labels: of each batch, int64 [B].
        losses: of each batch, as ``SpikingModule.step_loss`` has them.
        gradient: of the first update, [W], after the all-reduce; an empty list before.
        weights: after each update, [W] each.
    """

    _SEEN = ("spans", "labels", "losses", "gradient", "weights")

    def __init__(self) -> None:
        self.spans: list[list[tuple[str, float, float]]] = []
        self.labels: list[torch.Tensor] = []
        self.losses: list[float] = []
        self.gradient: torch.Tensor | list[Any] = []
        self.weights: list[torch.Tensor] = []
        self.last = 0.0

    def seen(self) -> dict[str, Any]:
        """The attributes by name, tensors and plain values: what a rank hands over."""
        return {name: getattr(self, name) for name in self._SEEN}

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.world_size > 1:
            trainer.strategy.model.register_comm_hook(self, _all_reduce)  # type: ignore[union-attr, operator]

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.labels.append(batch.labels.cpu())
        self.spans.append([])
        self.last = time.time()

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: torch.Tensor) -> None:
        self._note("forward")

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._note("backward")
        if not len(self.gradient):
            self.gradient = torch.cat([p.grad.flatten() for p in pl_module.parameters() if p.grad is not None]).cpu()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._note("optimizer")
        self.losses.append(float(pl_module.step_loss))  # type: ignore[arg-type]
        self.weights.append(torch.cat([p.detach().flatten() for p in pl_module.parameters()]).cpu())

    def _note(self, what: str) -> None:
        start, self.last = self.last, time.time()
        self.spans[-1].append((what, start, self.last))


def _all_reduce(recorder, bucket):  # DDP refuses hooks whose annotations are texts
    """What DDP does by default, with its start and its end."""
    start, spans = time.time(), recorder.spans[-1]
    work: Any = dist.all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True)

    def done(future: Any) -> Any:
        spans.append(("all-reduce", start, time.time()))
        return future.value()[0]

    return work.get_future().then(done)
