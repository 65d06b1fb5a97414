"""Lines over a common axis."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go

from ... import checks
from .. import theme
from ..drawing import (
    SYMBOLS,
    add_level,
    add_line,
    add_mark,
    as_array,
    as_arrays,
    finish,
    scale_of,
    whole_ticks,
)

_MARKED = 40  # up to so many points, each gets a marker


def lines(
    series: Mapping[str, Any],
    *,
    x: Any = None,
    x_title: str = "",
    y_title: str = "",
    title: str = "",
    log: Literal["", "x", "y", "xy"] = "",
    shape: Literal["linear", "hv"] = "linear",
    faint: Sequence[str] = (),
    levels: Mapping[str, float] | None = None,
    marks: Mapping[str, float] | None = None,
) -> go.Figure:
    """One line for each entry of ``series``, with a marker at each point where there are at most 40.

    Args:
        series: name to y [P], or to a tuple of its own x [P] and y [P].
        x: [P], common to all that have none of their own; without it 1, 2, 3, …
        log: which axes are logarithmic: "", "x", "y" or "xy". On a logarithmic y axis zeros are left out.
        shape: "linear", or "hv" for values that hold until the next one.
        faint: names drawn as a broad pale line without markers (theory, a reference).
        levels: name to height of a dashed horizontal line, for example an expected value.
        marks: name to position of a dashed vertical line.
    """
    if not series:
        raise ValueError("series must hold at least one name and its values [P], but it is empty")
    figure, points = go.Figure(), []
    index = itertools.count()
    for name, values in series.items():
        across, up = _points(name, values, x)
        points.append((across, up))
        up = np.where(up > 0, up, math.nan) if "y" in log else up
        look: dict[str, Any] = {"colour": theme.PALE, "width": 9}
        if name not in faint:
            i = next(index)
            mark = {"symbol": SYMBOLS[i % len(SYMBOLS)]} if len(up) <= _MARKED else {"dash": theme.dash(i)}
            look = {"colour": theme.colour(i)} | mark
        hover = f"{name}<br>{x_title} %{{x:.4g}}<br>{y_title} %{{y:.4g}}<extra></extra>"
        add_line(figure, across, up, str(name), shape=shape, hovertemplate=hover, **look)
    every_x, every_y = (np.concatenate(column) for column in zip(*points, strict=True))
    for name, height in (levels or {}).items():
        above = 0 if "y" in log else None  # on a logarithmic axis there is nothing at 0 and below
        add_level(figure, name, checks.number(f"levels[{name!r}]", height, above=above), log="y" in log)
    for name, place in (marks or {}).items():
        at = checks.number(f"marks[{name!r}]", place, above=0 if "x" in log else None)
        add_mark(figure, name, at, every_x[every_x > 0] if "x" in log else every_x, log="x" in log)
    across_look = {"title_text": x_title} | (scale_of("x", log, every_x) or {"tickvals": whole_ticks(every_x)})
    up_look = {"title_text": y_title} | (scale_of("y", log, every_y) or {"rangemode": "tozero"})
    return finish(figure, title, across_look, up_look, height=360, showlegend=len(series) > 1)


def _points(name: str, values: Any, x: Any) -> tuple[np.ndarray, np.ndarray]:
    """The coordinates of one line."""
    own = isinstance(values, tuple) and len(values) == 2 and all(np.ndim(v) for v in values)
    across, up = values if own else (x, values)
    argument = f"series[{name!r}]"
    if across is None:
        up = as_array(up, argument, "[P]")
        return np.arange(1, len(up) + 1), up.astype(float)
    across, up = as_arrays({f"x of {name!r}": (across, "[P]"), argument: (up, "[P]")})
    return across, up.astype(float)
