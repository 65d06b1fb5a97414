"""A slider that works without a kernel: every position is computed beforehand and travels inside the figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.basedatatypes import BaseFigure

from . import theme

_MOST = 60  # more positions than this make a notebook heavy
_TALL = 86  # pixels that the slider takes


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
    height = (figures[start].layout.height or theme.HEIGHT) + _TALL
    # In a page that follows its container, animating to a frame that has no height makes the plot collapse.
    layouts = [_moving(figure) | {"height": height} for figure in figures]
    whole.frames = [go.Frame(name=str(i), data=figures[i].data, layout=layouts[i]) for i in range(len(figures))]
    now = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    steps = [{"method": "animate", "label": _label(v), "args": [[str(i)], now]} for i, v in enumerate(values)]
    # The slider sits under the axis title, so the page grows by as much as it takes.
    below = figures[start].layout.margin.b
    below = theme.MARGIN["b"] if below is None else below
    pad = {"t": max(below - 4, 4), "b": 4}
    slider = {"active": start, "currentvalue": {"prefix": f"{name} = "}, "steps": steps, "pad": pad}
    whole.update_layout(sliders=[slider], height=height, margin={"b": below + _TALL})
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
    """For each axis: a range that holds those that the figures have fixed, or else the data of all of them."""
    found: dict[str, list[float]] = {}
    for figure in figures:
        for trace in figure.data:
            axis = f"{letter}axis{(trace[f'{letter}axis'] or letter)[1:]}" if f"{letter}axis" in trace else ""
            if axis and figure.layout[axis].range is None and trace.type in ("scatter", "scattergl", "bar"):
                found.setdefault(axis, []).extend(_extent(trace, letter, figure.layout[axis]))
    pads = {axis: 0.05 * (max(ends) - min(ends)) or 0.5 for axis, ends in found.items() if ends}
    ranges = {axis: (min(found[axis]) - pad, max(found[axis]) + pad) for axis, pad in pads.items()}
    for axis in (a for a in figures[0].layout if a.startswith(f"{letter}axis")):
        fixed = [figure.layout[axis].range for figure in figures if figure.layout[axis].range is not None]
        if len(set(fixed)) > 1:
            low, high = min(map(min, fixed)), max(map(max, fixed))
            ranges[axis] = (high, low) if fixed[0][0] > fixed[0][1] else (low, high)
    return ranges


def _extent(trace: Any, letter: str, axis: Any) -> list[float]:
    """The ends of a trace's numbers along an axis (as exponents of ten on a logarithmic one); none for texts."""
    values = np.asarray(trace[letter] if trace[letter] is not None else [])
    if values.dtype.kind not in "biuf":
        return []
    values = values[np.isfinite(values.astype(float))].astype(float)
    if axis.type == "log":
        values = np.log10(values[values > 0])
    elif axis.rangemode == "tozero" or (trace.type == "bar" and letter == ("x" if trace.orientation == "h" else "y")):
        values = np.append(values, 0.0)
    return [float(values.min()), float(values.max())] if values.size else []


def _label(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
