"""For output that goes to a file or a simple terminal: a line for each epoch, no control characters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .rows import epoch_row
from .standing import Standing
from .trail import Trail


class Lines:
    draws = extends = False

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def moved(self, standing: Standing) -> None:
        pass

    def epoch(self, series: Mapping[str, Any]) -> None:
        told = ", ".join(f"{head} {number}" for head, number in epoch_row(series).items())
        _write(f"epoch {len(series['train_loss'])} of {self.epochs}: {told}")

    def draw(self, figure: Any) -> None:
        pass

    def extend(self, trail: Trail) -> None:
        pass

    def end(self, message: str, figure: Any) -> None:
        _write(message)


def _write(line: str) -> None:
    from tqdm import tqdm

    tqdm.write(line)  # above fit's progress bar, if there is one
