"""The live panel as a callback of Lightning."""

from __future__ import annotations

import math
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from snnkit.lab.viz.live.panel import LivePanel
from snnkit.train import BatchInfo

# Names under which SpikingModule logs, to those of the curves in a History.
_SERIES = {
    "train/loss": "train_loss",
    "val/loss": "test_loss",
    "train/acc": "train_accuracy",
    "val/acc": "test_accuracy",
    "train/rate": "output_rate",
}


class NotebookPanel(Callback):
    """Loss, accuracy, mean output, time left and a stop button: ``Trainer(callbacks=[NotebookPanel()])``.

    It draws on a ``viz.LivePanel``. A run resumed from a checkpoint continues its curves. Only rank 0 draws. The button
    sets the trainer's ``should_stop`` if there is a single rank; others would not learn of it.

    Attributes:
        series: the curves, one number per epoch in each list.
    """

    def __init__(self) -> None:
        self.series: dict[str, list[float]] = {}
        self._panel: LivePanel | None = None

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        batches = trainer.num_training_batches
        if not trainer.is_global_zero or not math.isfinite(batches):
            return
        loss = outputs["loss"] if isinstance(outputs, dict) else outputs
        loss = loss.detach() if isinstance(loss, Tensor) else torch.tensor(math.nan)
        figures = torch.stack([loss.float(), *loss.new_full((2,), math.nan, dtype=torch.float32)])
        panel = self._panel_of(trainer)
        panel.follow(BatchInfo(trainer.current_epoch, batch_idx, int(batches), _samples(batch), figures, loss))
        if trainer.world_size == 1 and panel.stop_requested():
            trainer.should_stop = True

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        metric = getattr(pl_module, "metric_name", "accuracy")
        for logged, name in (_SERIES | {f"train/{metric}": "train_metric", f"val/{metric}": "test_metric"}).items():
            if logged in trainer.callback_metrics:
                self.series.setdefault(name, []).append(float(trainer.callback_metrics[logged]))
        if not trainer.is_global_zero or "train_loss" not in self.series:
            return
        named = {} if metric == "accuracy" else {"metric": metric}
        self._panel_of(trainer).record(self.series | named)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._panel is not None:
            self._panel.finish()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self.on_train_end(trainer, pl_module)

    def state_dict(self) -> dict[str, Any]:
        return {"series": self.series}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.series = {name: list(values) for name, values in state_dict["series"].items()}

    def _panel_of(self, trainer: Trainer) -> LivePanel:
        if self._panel is None:
            per_epoch = math.ceil(trainer.num_training_batches / trainer.accumulate_grad_batches)
            updates = trainer.estimated_stepping_batches  # by max_epochs or max_steps
            epochs = math.ceil(updates / per_epoch) if math.isfinite(updates) and per_epoch else 1
            self._panel = LivePanel(max(epochs, len(self.series.get("train_loss", ())), 1))
        return self._panel


def _samples(batch: Any) -> int:
    first = batch[0] if isinstance(batch, (tuple, list)) else batch
    return len(first) if isinstance(first, Tensor) and first.ndim else 0
