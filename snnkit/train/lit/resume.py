"""Lightning checkpoints from which a run resumes exactly, even if it was killed while it wrote one."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from lightning.fabric.plugins import CheckpointIO
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint

from snnkit import checks
from snnkit.files import destination, expanded, remove_leftovers
from snnkit.train.checkpoint import FORMAT, LIGHTNING_KEY, check_plain, read_archive, writable, write_archive
from snnkit.train.lit.preemption import RankConsensus, SignalFlags, Stopped

Place = str | os.PathLike[str]


class AtomicCheckpointIO(CheckpointIO):
    """For ``Trainer(plugins=[AtomicCheckpointIO()])``: how checkpoints are written and read.

    A checkpoint is written to a second file, forced to the disk, and renamed in one step. So after a kill there is the
    old one or the new one. Reading compares every byte with its checksum, and reads only tensors and plain values: an
    untrusted file can't run code.
    """

    @checks.arguments
    def save_checkpoint(self, checkpoint: dict[str, Any], path: Place, storage_options: Any | None = None) -> None:
        """Raises TypeError, naming the entry, for values that can't be read back, and OSError if the disk is full."""
        check_plain(checkpoint)
        write_archive(writable(path, "path"), checkpoint)

    @checks.arguments
    def load_checkpoint(self, path: Place, map_location: Any | None = None, weights_only: bool | None = None) -> Any:
        """Raise FileNotFoundError if there is no file, ValueError, naming it, if it is damaged or not Lightning's."""
        path, content = read_archive(path, "checkpoint", "cpu" if map_location is None else map_location)
        if isinstance(content, dict) and isinstance(content.get(LIGHTNING_KEY), str):
            return content
        if isinstance(content, dict) and content.get("format") == FORMAT:
            raise ValueError(
                f"{path} is a checkpoint of train.fit, and only that can resume from it: use `snnkit train` without "
                "--devices and --nodes, outside of torchrun and srun"
            )
        raise ValueError(f"{path} must be a checkpoint of Lightning's Trainer, but it is none")

    @checks.arguments
    def remove_checkpoint(self, path: Place) -> None:
        """If there is one."""
        expanded(path).unlink(missing_ok=True)


class ResumableCheckpoint(Checkpoint):
    """Saves after every epoch and every so many updates, and stops all ranks after the same update.

    Args:
        flags: signals that were received; it should be ``listening``.
        path: of the checkpoint; None: nothing is saved.
        every: updates between checkpoints within an epoch; None: only at the ends of epochs.
        begin, on_epoch: called on rank 0, when all ranks have started and when the checkpoint of an epoch is written.
        timeout: seconds to wait for another rank.
        same: values that must be the same on all ranks, by name.

    Raises:
        Stopped: from ``Trainer.fit``, on all ranks, after a signal to stop and a checkpoint.
    """

    @checks.arguments
    def __init__(
        self,
        flags: SignalFlags,
        path: Place | None,
        every: int | None,
        *,
        on_epoch: Callable[[], object] = lambda: None,
        begin: Callable[[], object] = lambda: None,
        timeout: float = 300.0,
        same: dict[str, Any] | None = None,
    ) -> None:
        self.flags, self.path, self.every = flags, None if path is None else expanded(path), every
        self.on_epoch, self.begin, self.timeout, self.same = on_epoch, begin, timeout, dict(same or {})
        self.updates = 0
        self._saving: str | None = None  # "batch" or "epoch", while it does
        self._stop = 0

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.consensus = RankConsensus(self.timeout)
        self.consensus.check_same(**self.same)
        if trainer.is_global_zero:
            if self.path is not None:
                file = destination(self.path)
                remove_leftovers(file.parent, of=file.name)  # it is about to be the only writer
            self.begin()
        _disable_lightning_signals(trainer)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.flags.handle_all()
        self.updates = trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step == self.updates:  # gradients are being accumulated
            return
        self.updates = trainer.global_step
        self._stop = max(self._stop, self.consensus.exchange(self.flags.received))
        if trainer.is_last_batch or _is_over(trainer):  # the epoch ends soon, and a checkpoint there has its metrics
            return
        if self._stop or (self.every is not None and self.updates % self.every == 0):
            self._save(trainer, "batch")
        if self._stop:
            raise Stopped(self._stop)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # The epoch that was resumed is like any other now; else Lightning treats learning rates in another way.
        trainer.fit_loop._restarting = False
        self._stop = max(self._stop, self.consensus.exchange(self.flags.received, wait=True))
        self._save(trainer, "epoch")
        if trainer.is_global_zero:
            self.on_epoch()
        if self._stop and not _is_over(trainer, trainer.current_epoch + 1):
            raise Stopped(self._stop)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        if self._saving is not None:
            fix_loop_progress(checkpoint["loops"], epoch_ended=self._saving == "epoch")

    def _save(self, trainer: Trainer, after: str) -> None:
        if self.path is None:
            return
        self._saving = after
        try:
            trainer.save_checkpoint(self.path)
        finally:
            self._saving = None


def _is_over(trainer: Trainer, epochs: int = 0) -> bool:
    """Whether a run ends anyway after so many epochs, or the updates made so far. -1 bounds nothing."""
    return -1 != trainer.max_steps <= trainer.global_step or trainer.max_epochs in range(epochs + 1)


# Lightning counts a thing (a batch, an epoch) as ready, started, processed and completed, and writes a checkpoint when
# its callbacks run: after the last batch was processed and before it is completed. At a restart it guesses what to do
# with such a thing, and the guess depends on whether there is validation. Counters that mark what is done as done leave
# nothing to guess.


def fix_loop_progress(loops: dict[str, Any], *, epoch_ended: bool) -> None:
    """Mark in ``checkpoint["loops"]`` the batch just trained on as done, and the epoch if it has ended.

    For a checkpoint that is written in ``on_train_batch_end``, between updates, or in ``on_train_epoch_end``.
    """
    fit = loops["fit_loop"]
    batches, epochs = fit["epoch_loop.batch_progress"], fit["epoch_progress"]
    for part in ("total", "current"):
        for counter in [batches[part], *([epochs[part]] if epoch_ended else [])]:
            counter.update(dict.fromkeys(counter, counter["processed"]))
    # For the steps of loggers only; Lightning adds to it once the callbacks have run.
    if not epoch_ended:
        fit["epoch_loop.state_dict"]["_batches_that_stepped"] += 1


def epoch_in_progress(loops: dict[str, Any]) -> bool:
    """Whether ``checkpoint["loops"]`` were written within an epoch."""
    epochs = loops["fit_loop"]["epoch_progress"]["current"]
    return epochs["ready"] != epochs["processed"]


def _disable_lightning_signals(trainer: Trainer) -> None:
    """Lightning's handlers save, or talk to other ranks, in the middle of whatever a rank is doing; there is no switch.

    Where a future Lightning has other names, only the moments between its handlers and ours, which are set when the
    training starts, are unprotected.
    """
    connector, loop = getattr(trainer, "_signal_connector", None), trainer.fit_loop.epoch_loop
    if hasattr(connector, "register_signal_handlers"):
        connector.register_signal_handlers = lambda: None  # type: ignore[union-attr]
    # It asks all ranks before each batch whether one has received a SIGTERM, and waits for the device to know.
    if hasattr(loop, "_broadcast_sigterm_tensor"):
        loop._broadcast_sigterm_tensor = lambda: None
