"""For output that goes to a file or a simple terminal: a line for each epoch, no control characters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .curves import Curves
from .rows import epoch_row
from .standing import Standing


class Lines:
    draws = extends = False

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def moved(self, standing: Standing) -> None:
        pass

    def epoch(self, series: Mapping[str, Any]) -> None:
        told = ", ".join(f"{head} {number}" for head, number in epoch_row(series).items())
        done = len(series["train_loss"])
        _write(f"epoch {done} of {max(done, self.epochs)}: {told}")

    def draw(self, figure: Any) -> None:
        pass

    def extend(self, curves: Curves) -> None:
        pass

    def end(self, message: str, figure: Any) -> None:
        _write(message)


def _write(line: str) -> None:
    from tqdm import tqdm

    tqdm.write(line)  # above fit's progress bar, if there is one
