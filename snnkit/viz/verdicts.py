"""Who is ahead, size by size, when all that is known are two ranges: this one, the other, or nobody can say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from . import theme
from .panels import panels

_CELL, _ROOM = 46, 132  # pixels: of a row, and of all else
# From "behind for certain" over "open" to "ahead for certain": pale enough for black text.
_INKS = ("#f2c9ad", "#e4e4e4", "#a9d0e8")
_WORDS = {-1: "behind for certain", 0: "open", 1: "ahead for certain"}
_SCALE = [(at, ink) for i, ink in enumerate(_INKS) for at in (i / 3, (i + 1) / 3)]


def verdict(low: float, high: float) -> int:
    """Of a ratio that lies between the two: 1 ahead for certain, -1 behind for certain, 0 open."""
    if not 0 <= low <= high:  # NaN is not, either
        raise ValueError(f"a ratio must have 0 <= low <= high, but they are {low} and {high}")
    return 1 if low > 1 else -1 if high < 1 else 0


def verdicts(
    ratios: dict[str, Sequence[Sequence[tuple[float, float] | None]]],
    x: Sequence[Any],
    y: Sequence[Any],
    *,
    x_title: str = "",
    y_title: str = "",
    title: str = "",
) -> go.Figure:
    """A panel for each entry of ``ratios``: blue where the ratio is above 1 whatever holds, red where below, else grey.

    Args:
        ratios: title of a panel to [row of y][column of x] of (low, high); None where there is none.
        x, y: sizes of columns and rows.

    Raises:
        ValueError: no panel, one whose rows and columns are not those of y and x, or ends that are none.
    """
    if not ratios:
        raise ValueError("ratios must hold at least one panel")
    for name, rows in ratios.items():
        if len(rows) != len(y) or any(len(row) != len(x) for row in rows):
            raise ValueError(f"{name!r} must have {len(y)} rows of {len(x)}, but has {[len(row) for row in rows]}")
    figure = panels(1, len(ratios), list(ratios), horizontal_spacing=0.07, shared_yaxes=True)
    for col, rows in enumerate(ratios.values(), start=1):
        z = [[None if cell is None else verdict(*cell) for cell in row] for row in rows]
        told = [[_told(cell) for cell in row] for row in rows]
        figure.add_heatmap(
            name="verdict", z=z, x=list(range(len(x))), y=list(range(len(y))), zmin=-1.5, zmax=1.5,
            colorscale=_SCALE, showscale=False, xgap=2, ygap=2, text=told,
            hovertemplate=f"{name}<br>%{{text}}<extra></extra>", row=1, col=col,
        )  # fmt: skip
        for j, row in enumerate(rows):
            for i, cell in enumerate(row):
                text = "does<br>not fit" if cell is None else f"{_short(cell[0])} …<br>{_short(cell[1])}"
                ink = theme.TEXT if cell is None else theme.BLACK
                note: dict[str, Any] = {"showarrow": False, "font": {"color": ink, "size": 11}}
                figure.add_annotation(x=i, y=j, text=text, row=1, col=col, **note)
        ticks = {"tickvals": list(range(len(x))), "ticktext": [str(size) for size in x], "showgrid": False}
        figure.update_xaxes(title={"text": x_title}, row=1, col=col, **ticks)
        figure.update_yaxes(
            tickvals=list(range(len(y))), ticktext=[str(size) for size in y], showgrid=False, row=1, col=col
        )
    figure.update_yaxes(title={"text": y_title}, row=1, col=1)
    for col in range(2, len(ratios) + 1):
        figure.update_yaxes(ticks="", row=1, col=col)
    margin = {"t": theme.MARGIN["t"] + 22, "b": 58}
    figure.update_layout(title={"text": title}, height=_CELL * len(y) + _ROOM, margin=margin)
    return figure


def _told(cell: tuple[float, float] | None) -> str:
    if cell is None:
        return "does not fit"
    return f"{_short(cell[0])} to {_short(cell[1])} times: {_WORDS[verdict(*cell)]}"


def _short(number: float) -> str:
    """Two digits, without an exponent."""
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"
