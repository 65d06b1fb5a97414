"""The history of a run, as a callback for Lightning's Trainer."""

from __future__ import annotations

import time
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from snnkit.train.history import History


class HistoryCallback(Callback):
    """Writes each epoch into ``history``, the same on all ranks, and into checkpoints.

    The figures are those of a ``SpikingModule`` with a data module of the kit over all ranks; its validation data are
    called test data here, as in ``fit``. The seconds of an interrupted epoch are the sum of its parts. Work that a kill
    lost after the last checkpoint is not counted.
    """

    state_key = "Chronicle"  # type: ignore[assignment]  # its name in checkpoints, since the first release
    _LOGGED = {  # noqa: RUF012
        "train_loss": "train/loss",
        "train_accuracy": "train/acc",
        "output_rate": "train/rate",
        "test_loss": "val/loss",
        "test_accuracy": "val/acc",
    }

    def __init__(self) -> None:
        self.history = History()
        self._seconds = 0.0  # of this epoch, up to the last batch
        self._clock = 0.0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._clock = time.perf_counter()  # in the middle of an epoch, where the run is resumed there

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._clock = time.perf_counter()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.is_last_batch and pl_module.device.type == "cuda":
            torch.cuda.synchronize(pl_module.device)  # the last updates may still be under way
        now = time.perf_counter()
        self._seconds += now - self._clock
        self._clock = now

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # On every rank, as metrics are added up over ranks when they are read.
        logged, history = trainer.callback_metrics, self.history
        for name, key in self._LOGGED.items():
            if key in logged:
                getattr(history, name).append(float(logged[key]))
        samples = len(trainer.train_dataloader.labels)  # type: ignore[union-attr]  # of all ranks together
        history.seconds.append(self._seconds)
        history.samples_per_second.append(samples / max(self._seconds, 1e-9))
        self._seconds = 0.0

    def state_dict(self) -> dict[str, Any]:
        return {"history": self.history.to_dict(), "seconds": self._seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.history, self._seconds = History.from_dict(state_dict["history"]), state_dict["seconds"]
