"""What happens between updates and epochs of a run that may end at any moment: checkpoints, and orderly stops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint

from snnkit.train.lit.checkpoint import clear_leftovers
from snnkit.train.lit.preempt import Agreement, Notes, Stopped
from snnkit.train.lit.restart import settle


class Keeper(Checkpoint):
    """Saves after every epoch and every so many updates, and stops all ranks after the same update.

    Args:
        notes: what signals have asked for; it should be ``listening``.
        path: of the checkpoint; None: nothing is saved.
        every: updates between checkpoints within an epoch; None: only at the ends of epochs.
        on_epoch: called on rank 0 after each epoch, when its checkpoint is written.
        begin: called on rank 0 before the first checkpoint, when the ranks have met.
        timeout: seconds to wait for another rank.
        same: what must be the same on all ranks, by name.

    Raises:
        Stopped: out of ``Trainer.fit``, on all ranks, after they were told to stop and have saved.
    """

    def __init__(
        self,
        notes: Notes,
        path: Path | None,
        every: int | None,
        *,
        on_epoch: Callable[[LightningModule], object] = lambda module: None,
        begin: Callable[[], object] = lambda: None,
        timeout: float = 300.0,
        same: dict[str, Any] | None = None,
    ) -> None:
        self.notes, self.path, self.every = notes, path, every
        self.on_epoch, self.begin, self.timeout, self.same = on_epoch, begin, timeout, dict(same or {})
        self.agreement: Agreement | None = None
        self.updates = 0
        self._saving: str | None = None  # "batch" or "epoch", while we do
        self._said = 0

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.agreement = Agreement(self.timeout)
        self.agreement.same(**self.same)
        if trainer.is_global_zero:
            if self.path is not None:
                clear_leftovers(self.path)
            self.begin()
        _leave_signals_to_us(trainer)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.notes.take_over()
        self.updates = trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step == self.updates:  # gradients are being accumulated
            return
        self.updates = trainer.global_step
        assert self.agreement is not None
        self._said = max(self._said, self.agreement.exchange(self.notes.noted))
        if trainer.is_last_batch:  # the end of the epoch is near, and a checkpoint there says more
            return
        if self._said or (self.every is not None and self.updates % self.every == 0):
            self._save(trainer, "batch")
        if self._said:
            raise Stopped(self._said)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # The epoch that was resumed is one like any other now. Otherwise Lightning changes learning rates that follow
        # epochs a second time (2.4), or leaves out those that follow a figure of the validation (2.6).
        trainer.fit_loop._restarting = False
        assert self.agreement is not None
        self._said = max(self._said, self.agreement.now(self.notes.noted))
        self._save(trainer, "epoch")
        if trainer.is_global_zero:
            self.on_epoch(pl_module)
        last = trainer.max_epochs is not None and trainer.current_epoch + 1 >= trainer.max_epochs
        if self._said and not last:
            raise Stopped(self._said)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        if self._saving is not None:
            settle(checkpoint["loops"], epoch_ended=self._saving == "epoch")

    def _save(self, trainer: Trainer, after: str) -> None:
        if self.path is None:
            return
        self._saving = after
        try:
            trainer.save_checkpoint(self.path)
        finally:
            self._saving = None


def _leave_signals_to_us(trainer: Trainer) -> None:
    """Lightning's handlers save, or talk to other ranks (2.6), in the middle of whatever a rank is doing.

    There is no switch for them. Where a Lightning to come has other names, nothing is lost but the moments between its
    handlers and ours, which are set when the training starts.
    """
    connector = getattr(trainer, "_signal_connector", None)
    if hasattr(connector, "register_signal_handlers"):
        connector.register_signal_handlers = _nothing  # type: ignore[union-attr]
    # 2.6 asks all ranks before each batch whether one has got a SIGTERM, and waits for the device to know.
    if hasattr(trainer.fit_loop.epoch_loop, "_broadcast_sigterm_tensor"):
        trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor = _nothing


def _nothing() -> None:
    pass
