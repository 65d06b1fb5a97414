"""A slider that works without a kernel: every position is computed beforehand and is a part of the figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.basedatatypes import BaseFigure
from plotly.io.json import to_json_plotly

from snnkit import checks
from snnkit.lab.viz import theme

_FOLLOWING = ("title", "tickvals", "ticktext")  # of an axis, these change from frame to frame, as its range does
_MOST = 60  # more positions than this make a notebook heavy
_FLAT = ("scatter", "scattergl", "bar")  # traces that a range is made from
_TALL = 86  # pixels that the slider takes


@checks.arguments
def frames(fn: Callable[[Any], go.Figure], name: str, values: Iterable[Any], start: int = 0) -> go.Figure:
    """A figure with a slider over ``values``, computed by ``fn(value) -> Figure`` for each: client side only.

    It answers on Colab, in exported HTML and on slides, because it needs no kernel. Titles, annotations, shapes and
    ticks follow the slider. Positions whose axes have the same titles share ranges that hold all of them.

    Args:
        name: shown before the value, e.g. "beta"; "": the values say what they are.
        values: at most 60 positions.
        start: index of the first shown.

    Raises:
        ValueError: there are no values or too many, ``start`` is none of them, or figures have different numbers of
            traces.
        TypeError: ``fn`` returns no Figure.
    """
    values = list(values)
    if not 1 <= len(values) <= _MOST:
        raise ValueError(f"values must hold 1 to {_MOST} positions, but there are {len(values)}")
    checks.integer("start", start, at_least=0, at_most=len(values) - 1)
    figures: list[Any] = [
        checks.instance("the result of fn", fn(value), BaseFigure, "a plotly Figure") for value in values
    ]
    counts = [len(figure.data) for figure in figures]
    if len(set(counts)) > 1:
        raise ValueError(f"fn must draw the same number of traces at every value, but it drew {counts}")
    whole: Any = go.Figure(figures[start])
    layout = whole.layout
    height = (layout.height or theme.HEIGHT) + _TALL
    below = theme.MARGIN["b"] if layout.margin.b is None else layout.margin.b
    # What all figures share is stored once.
    traces = range(len(whole.data))
    moving = [i for i in traces if len({to_json_plotly(figure.data[i]) for figure in figures}) > 1]
    whole.frames = [
        {
            "name": str(i),
            "data": [figure.data[k] for k in moving],
            "traces": moving,
            # In a page that follows its container, animating to a frame that has no height makes the plot collapse.
            "layout": _layout(figure, figures) | {"height": height},
        }
        for i, figure in enumerate(figures)
    ]
    now = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    steps: list[dict[str, Any]] = [
        {"method": "animate", "label": _label(v), "args": [[str(i)], now]} for i, v in enumerate(values)
    ]
    # The slider is under the axis title, so the page grows by as much as it takes.
    before, beyond = (4 * len(steps[end]["label"]) for end in (0, -1))  # half of a label is beyond the slider's end
    left = theme.MARGIN["l"] if layout.margin.l is None else layout.margin.l
    pad = {"t": max(below - 4, 4), "b": 4, "l": max(0, before - left), "r": max(20, beyond)}
    slider: dict[str, Any] = {
        "active": start,
        "currentvalue": {"prefix": name and f"{name} = "},
        "steps": steps,
        "pad": pad,
    }
    whole.update_layout(_layout(figures[start], figures))
    return whole.update_layout(sliders=[slider], height=height, margin={"b": below + _TALL})


def _label(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _layout(figure: Any, figures: Sequence[Any]) -> dict[str, Any]:
    """What a frame sets: title, annotations, shapes, and of each axis its title, ticks and range."""
    layout = figure.layout.to_plotly_json()
    changes = {key: layout[key] for key in ("title", "annotations", "shapes") if key in layout}
    drawn = [trace for trace in figure.data if trace.type in _FLAT]
    of_traces = [f"{letter}axis{(trace[f'{letter}axis'] or letter)[1:]}" for trace in drawn for letter in "xy"]
    for axis in dict.fromkeys([*(key for key in layout if key[1:].startswith("axis")), *of_traces]):
        alike = [one for one in figures if one.layout[axis].title.text == figure.layout[axis].title.text]
        ends = _range(axis, alike)
        fixed = {} if ends is None else {"range": ends, "autorange": False}
        given = layout.get(axis, {})
        changes[axis] = {key: given[key] for key in _FOLLOWING if key in given} | fixed
    return changes


def _range(axis: str, figures: Sequence[Any]) -> list[float] | None:
    """What holds the ranges that the figures have fixed, or else their data; None for categories."""
    letter, short = axis[0], axis[0] + axis[5:]
    fixed = [figure.layout[axis].range for figure in figures if figure.layout[axis].range is not None]
    if fixed:
        low, high = min(map(min, fixed)), max(map(max, fixed))
        return [high, low] if fixed[0][0] > fixed[0][1] else [low, high]
    spec, ends = figures[0].layout[axis], []
    for trace in [trace for figure in figures for trace in figure.data]:
        if trace.type not in _FLAT or (trace[f"{letter}axis"] or letter) != short:
            continue
        values = np.asarray(trace[letter] if trace[letter] is not None else [])
        if values.dtype.kind not in "biuf":
            return None
        values = values[np.isfinite(values)].astype(float)
        values = np.log10(values[values > 0]) if spec.type == "log" else values
        along = trace.type == "bar" and letter == ("x" if trace.orientation == "h" else "y")
        ends += [*values, 0.0] if spec.rangemode == "tozero" or along else [*values]
    if not ends or spec.autorange == "reversed":
        return None
    pad = 0.05 * (max(ends) - min(ends)) or 0.5
    return [min(ends) - pad, max(ends) + pad]
