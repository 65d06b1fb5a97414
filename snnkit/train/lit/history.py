"""The history of a run, as ``fit`` gives it, of one that goes through Lightning."""

from __future__ import annotations

import time
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from snnkit.train.history import History

# Where a figure of the history stands among those that ``SpikingModule`` logs.
_LOGGED = {
    "train_loss": "train/loss",
    "train_accuracy": "train/acc",
    "output_rate": "train/rate",
    "test_loss": "val/loss",
    "test_accuracy": "val/acc",
}


class Chronicle(Callback):
    """Writes each epoch into ``history``, the same on all ranks, and keeps it in checkpoints.

    The figures are those of a ``SpikingModule`` over all ranks; its validation data are called test data here, as in
    ``fit``. The seconds of an epoch that was interrupted are those of its parts; what was lost between the last
    checkpoint and a kill, and trained on again, is not in them.
    """

    def __init__(self) -> None:
        self.history = History()
        self._seconds = 0.0  # of this epoch, before the last look at the clock
        self._looked: float | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._looked = time.perf_counter()

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._looked = time.perf_counter()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._look()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # Every rank asks, as the figures are added up over ranks when they are asked for.
        logged, history = trainer.callback_metrics, self.history
        for name, key in _LOGGED.items():
            if key in logged:
                getattr(history, name).append(float(logged[key]))
        history.seconds.append(self._seconds)
        history.samples_per_second.append(_samples(trainer) / max(self._seconds, 1e-9))
        self._seconds = 0.0

    def state_dict(self) -> dict[str, Any]:
        return {"history": self.history.to_dict(), "seconds": self._seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.history, self._seconds = History.from_dict(state_dict["history"]), state_dict["seconds"]

    def _look(self) -> None:
        now = time.perf_counter()
        if self._looked is not None:
            self._seconds += now - self._looked
        self._looked = now


def _samples(trainer: Trainer) -> int:
    """Of an epoch, on all ranks together."""
    loader: Any = trainer.train_dataloader
    return len(loader.labels)
