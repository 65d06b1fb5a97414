"""For a terminal: a table of epochs that grows, and under it how the present one goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .curves import Curves
from .rows import epoch_row
from .standing import Standing

ROWS = 8  # the latest epochs that the table shows


def interactive() -> bool:
    """Whether rich is installed and standard output is a terminal that can move its cursor."""
    try:
        from rich.console import Console
    except ImportError:
        return False
    console = Console()
    return console.is_terminal and not console.is_dumb_terminal


class TerminalTable:
    """Redrawn in place on ``console`` (by default standard output); what others print appears above it."""

    draws = extends = False

    def __init__(self, epochs: int, console: Any = None) -> None:
        from rich.live import Live

        self.epochs = epochs
        self._series: Mapping[str, Any] = {}
        self._standing: Standing | None = None
        self._message = ""
        self._live = Live(console=console, auto_refresh=False, get_renderable=self._page)
        self._live.start()
        # A run that is cut off between updates must not leave a terminal without a cursor.
        self._live.console.show_cursor(True)

    def moved(self, standing: Standing) -> None:
        self._standing = standing
        self._live.refresh()

    def epoch(self, series: Mapping[str, Any]) -> None:
        self._series = series
        self._live.refresh()

    def draw(self, figure: Any) -> None:
        pass

    def extend(self, curves: Curves) -> None:
        pass

    def end(self, message: str, figure: Any) -> None:
        self._message = message
        self._live.refresh()
        self._live.stop()

    def _page(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        parts = [self._table()] if self._series else []
        if self._message:
            return Group(*parts, Text(self._message, style="bold"))
        return Group(*parts, *([self._progress(self._standing)] if self._standing else []))

    def _table(self) -> Any:
        from rich import box
        from rich.table import Table

        done = len(self._series["train_loss"])
        table = Table(
            box=box.SIMPLE_HEAD, title=f"Training: epoch {done} of {max(done, self.epochs)}", title_justify="left"
        )
        shown = range(max(0, done - ROWS), done)
        table.add_column("epoch", justify="right")
        for head in epoch_row(self._series):
            table.add_column(head, justify="right")
        for index in shown:
            table.add_row(str(index + 1), *epoch_row(self._series, index).values())
        return table

    def _progress(self, standing: Standing) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        rows = Table.grid()
        rows.add_row(ProgressBar(total=1.0, completed=standing.share, width=60))
        rows.add_row(Text(" · ".join([*standing.words(), "Ctrl-C stops"])))
        return rows
