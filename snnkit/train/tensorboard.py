"""What a run does, as TensorBoard shows it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from torch import nn

from snnkit.train.history import History

# Where a list of the history stands in TensorBoard: curves that belong together share the first word.
TAGS = {
    "train_loss": "loss/train",
    "test_loss": "loss/test",
    "train_accuracy": "accuracy/train",
    "test_accuracy": "accuracy/test",
    "output_rate": "output_rate",
    "seconds": "speed/seconds_per_epoch",
    "samples_per_second": "speed/samples_per_second",
}


class TensorBoard:
    """Writes every epoch of a run into a folder: ``train.fit(..., on_epoch=TensorBoard("runs/mnist"))``.

    Look at it with ``tensorboard --logdir runs``, while the training runs, too. The steps are epochs, from 1. A run
    that is resumed into the same folder writes all its epochs again: they take the place of those that were there, so
    there is neither a gap nor a bump where it stopped. Close it after the run, or use it in a ``with`` block.

    Args:
        folder: made when the first epoch is over.
        settings: shown under "text", for instance ``recipe.settings()``.

    Raises:
        ImportError: the package tensorboard is not installed; before anything is trained.
        ValueError: ``folder`` is a file.
    """

    def __init__(self, folder: str | os.PathLike[str], settings: Mapping[str, Any] | None = None) -> None:
        if not isinstance(folder, (str, os.PathLike)):
            raise TypeError(f"folder must be a path; got {folder!r} ({type(folder).__name__})")
        self.folder = Path(folder).expanduser()
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"folder must be one for TensorBoard's files; {str(self.folder)!r} is a file")
        self.settings = dict(settings or {})
        self._class = _writer_class()
        self._writer: Any = None
        self._written = 0

    def __call__(self, history: History, model: nn.Module | None = None) -> None:
        """After an epoch: what ``fit`` hands to ``on_epoch``."""
        if self._writer is None:
            # Tells TensorBoard to forget what an earlier part of the run wrote from this step on.
            self._writer = self._class(str(self.folder), purge_step=1)
            if self.settings:
                text = json.dumps(self.settings, indent=1, ensure_ascii=False, default=str)
                self._writer.add_text("settings", "    " + text.replace("\n", "\n    "), 0)
        for epoch in range(self._written, history.epochs):
            for name, tag in TAGS.items():
                values = getattr(history, name)
                if epoch < len(values):
                    self._writer.add_scalar(tag, values[epoch], epoch + 1)
        self._written = history.epochs
        self._writer.flush()

    def close(self) -> None:
        """Finish the file; nothing happens if there is none."""
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _writer_class() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ImportError(
            "TensorBoard's files need the package tensorboard, which can't be imported "
            f'({error}): pip install "snnkit[scale]", or pip install tensorboard'
        ) from error
    return SummaryWriter
