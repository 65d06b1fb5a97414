"""A slider that works without a kernel: every position is computed beforehand and travels inside the figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.basedatatypes import BaseFigure

_MOST = 60  # more positions than this make a notebook heavy


def frames(fn: Callable[[Any], go.Figure], name: str, values: Sequence[Any], start: int = 0) -> go.Figure:
    """A figure with a slider over ``values``, computed by ``fn(value) -> Figure`` for each: client side only.

    It answers on Colab, in exported HTML and on slides, because nothing is asked of the kernel. All figures must have
    the same number of traces. Titles, annotations and shapes follow the slider; axes are fixed so that they hold all.

    Args:
        name: shown before the value, e.g. "beta".
        values: at most 60 positions.
        start: index of the first shown.

    Raises:
        ValueError: no values or too many, a start that is none of them, figures with different numbers of traces.
        TypeError: ``fn`` returns no Figure.
    """
    values = list(values)
    if not 1 <= len(values) <= _MOST:
        raise ValueError(f"values must hold 1 to {_MOST} positions, not {len(values)}")
    if not 0 <= start < len(values):
        raise ValueError(f"start must be an index into the {len(values)} values, not {start!r}")
    figures: list[Any] = [fn(value) for value in values]
    counts = [_count(figure, f"{name} = {value}") for value, figure in zip(values, figures, strict=True)]
    for value, count in zip(values, counts, strict=True):
        if count != counts[0]:
            drew = f"{count} traces at {name} = {value} and {counts[0]} at {values[0]}"
            raise ValueError(f"fn must draw the same number of traces at every value; it drew {drew}")
    whole = go.Figure(figures[start])
    whole.frames = [go.Frame(name=str(i), data=figure.data, layout=_moving(figure)) for i, figure in enumerate(figures)]
    now = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    steps = [{"method": "animate", "label": _label(v), "args": [[str(i)], now]} for i, v in enumerate(values)]
    # The slider sits under the axis title, so the page grows by as much as it takes.
    whole.update_layout(
        sliders=[{"active": start, "currentvalue": {"prefix": f"{name} = "}, "steps": steps, "pad": {"t": 44, "b": 8}}],
        height=(figures[start].layout.height or 380) + 90,
        margin={"b": 130},
    )
    for letter in "xy":
        for axis, (low, high) in _ranges(figures, letter).items():
            whole.update_layout({axis: {"range": [low, high], "autorange": False}})
    return whole


def _count(figure: Any, where: str) -> int:
    if not isinstance(figure, BaseFigure):
        raise TypeError(f"fn must return a plotly Figure, not {type(figure).__name__} (at {where})")
    return len(list(figure.select_traces()))


def _moving(figure: go.Figure) -> dict[str, Any]:
    """What of the layout follows the slider."""
    layout = figure.layout.to_plotly_json()
    return {key: layout[key] for key in ("title", "annotations", "shapes") if key in layout}


def _ranges(figures: list[Any], letter: str) -> dict[str, tuple[float, float]]:
    """For each axis that no figure has fixed: a range that holds the scatter and bar data of all of them."""
    found: dict[str, list[float]] = {}
    for figure in figures:
        for trace in figure.data:
            axis = f"{letter}axis{(trace[f'{letter}axis'] or letter)[1:]}" if f"{letter}axis" in trace else ""
            if trace.type not in ("scatter", "scattergl", "bar") or trace[letter] is None:
                continue
            values = np.asarray(trace[letter])
            if values.dtype.kind not in "biuf" or figure.layout[axis].range is not None:
                continue
            low = 0.0 if trace.type == "bar" and letter == ("x" if trace.orientation == "h" else "y") else math.inf
            values = values[np.isfinite(values.astype(float))].astype(float)
            if figure.layout[axis].type == "log":
                values, low = np.log10(values[values > 0]), math.inf
            if values.size:
                floor = 0.0 if figure.layout[axis].rangemode == "tozero" else low
                found.setdefault(axis, []).extend((min(float(values.min()), floor), float(values.max())))
    pads = {axis: 0.05 * (max(ends) - min(ends)) or 0.5 for axis, ends in found.items()}
    return {axis: (min(ends) - pads[axis], max(ends) + pads[axis]) for axis, ends in found.items()}


def _label(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
