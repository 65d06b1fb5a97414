"""A slider that works without a kernel: every position is computed beforehand and travels inside the figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.basedatatypes import BaseFigure

from snnkit import checks

from . import theme

FOLLOWING = ("title", "tickvals", "ticktext")  # of an axis, these may change from frame to frame
_MOST = 60  # more positions than this make a notebook heavy
_TALL = 86  # pixels that the slider takes
_LETTER, _GRIP = 7, 10  # pixels of a label's letter, and from the end of a slider to that of its track


def frames(
    fn: Callable[[Any], go.Figure], name: str, values: Sequence[Any], start: int = 0, *, play: int = 0
) -> go.Figure:
    """A figure with a slider over ``values``, computed by ``fn(value) -> Figure`` for each: client side only.

    It answers on Colab, in exported HTML and on slides, because it needs no kernel. All figures must have
    the same number of traces. Titles, annotations, shapes and ticks follow the slider; axes are fixed so that they hold
    all, but one whose title changes (another quantity, or another unit) has a range for each position. What all figures
    share is stored once.

    Args:
        name: shown before the value, e.g. "beta".
        values: at most 60 positions.
        start: index of the first shown.
        play: milliseconds per position, for buttons that play them in a row; 0: no buttons.

    Raises:
        ValueError: no values or too many, a start that is none of them, figures with different numbers of traces, a
            negative ``play``.
        TypeError: ``fn`` returns no Figure.
    """
    values = list(values)
    if not 1 <= len(values) <= _MOST:
        raise ValueError(f"values must hold 1 to {_MOST} positions, but there are {len(values)}")
    if not 0 <= start < len(values):
        raise ValueError(f"start must be an index into the {len(values)} values, but it is {start!r}")
    checks.integer("play", play, at_least=0)
    figures: list[Any] = [fn(value) for value in values]
    counts = [_count(figure, f"{name} = {value}") for value, figure in zip(values, figures, strict=True)]
    for value, count in zip(values, counts, strict=True):
        if count != counts[0]:
            drawn = f"{count} at {name} = {value} and {counts[0]} at {values[0]}"
            raise ValueError(f"fn must draw the same number of traces at every value, but it drew {drawn}")
    return framed(figures, name, values, start, play)


def framed(figures: Sequence[Any], name: str, values: Sequence[Any], start: int, play: int = 0) -> go.Figure:
    """As ``frames``, of figures that have been computed: one per value, each with the same number of traces."""
    whole = go.Figure(figures[start])
    indices, traces = _changing_traces(figures)
    layouts = _changing_layouts(figures)
    for letter in "xy":
        shared = _ranges(figures, letter)
        own = [_ranges([figure], letter) | _fixed(figure, letter) for figure in figures]
        for axis, ends in shared.items():
            if any("title" in layout.get(axis, {}) for layout in layouts):
                for layout, ranges in zip(layouts, own, strict=True):
                    layout[axis]["range"] = list(ranges.get(axis, ends))
                ends = layouts[start][axis]["range"]
            whole.update_layout({axis: {"range": list(ends), "autorange": False}})
    changes = [{"data": d, "traces": indices, "layout": layout} for d, layout in zip(traces, layouts, strict=True)]
    return slid(whole, changes, name, values, start, play)


def slid(
    figure: go.Figure, changes: Sequence[dict[str, Any]], name: str, values: Sequence[Any], start: int, play: int = 0
) -> go.Figure:
    """``figure``, which shows the position ``start``, with a slider added.

    Args:
        changes: for each value plotly's "data", "traces" (their indices) and "layout" of a frame.
    """
    layout: Any = figure.layout
    height = (layout.height or theme.HEIGHT) + _TALL
    # In a page that follows its container, animating to a frame that has no height makes the plot collapse.
    figure.frames = [
        change | {"name": str(i), "layout": change["layout"] | {"height": height}} for i, change in enumerate(changes)
    ]
    now = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    steps = [{"method": "animate", "label": _label(v), "args": [[str(i)], now]} for i, v in enumerate(values)]
    # The slider sits under the axis title, so the page grows by as much as it takes.
    below = layout.margin.b
    below = theme.MARGIN["b"] if below is None else below
    beside = theme.MARGIN["r"] if layout.margin.r is None else layout.margin.r
    pad = {"t": max(below - 4, 4), "b": 4, "r": _room(steps[-1], beside)}
    slider = {"active": start, "currentvalue": {"prefix": f"{name} = "}, "steps": steps, "pad": pad}
    if play:
        slider |= {"x": 0.16, "len": 0.84, "pad": pad | {"l": _room(steps[0], 0)}}
        figure.update_layout(updatemenus=[_player(play, pad["t"])])
    return figure.update_layout(sliders=[slider], height=height, margin={"b": below + _TALL})


def _room(step: Mapping[str, Any], beside: float) -> int:
    """Pixels by which a slider must end earlier, so that the label of its last position, whose middle is at the end of
    its track, needs no more than ``beside``: plotly neither moves nor wraps it, but cuts it off at the page's edge."""
    return max(0, math.ceil(_LETTER * len(step["label"]) / 2 - _GRIP - beside))


def _player(duration: int, above: float) -> dict[str, Any]:
    """Buttons left of the slider: play from where it is, and stop."""
    still = {"transition": {"duration": 0}}
    run = {"fromcurrent": True, "frame": {"duration": duration, "redraw": True}} | still
    stop = {"mode": "immediate", "frame": {"duration": 0, "redraw": False}} | still
    buttons = [
        {"label": "▶ play", "method": "animate", "args": [None, run]},
        {"label": "❚❚ stop", "method": "animate", "args": [[None], stop]},
    ]
    place = {"x": 0, "xanchor": "left", "y": 0, "yanchor": "top", "pad": {"t": above + 4, "r": 0}}
    look = {"bgcolor": theme.GRID, "bordercolor": theme.AXIS, "font": {"color": theme.TEXT, "size": 12}}
    return {"type": "buttons", "direction": "down", "showactive": False, "buttons": buttons} | place | look


def _count(figure: Any, where: str) -> int:
    if not isinstance(figure, BaseFigure):
        raise TypeError(f"fn must return a plotly Figure, but at {where} it is {checks.shown(figure)}")
    return len(list(figure.select_traces()))


def _ranges(figures: Sequence[Any], letter: str) -> dict[str, tuple[float, float]]:
    """For each axis: a range that holds those that the figures have fixed, or else the data of all of them."""
    ends_of: dict[str, list[float]] = {}
    for figure in figures:
        for trace in figure.data:
            axis = f"{letter}axis{(trace[f'{letter}axis'] or letter)[1:]}" if f"{letter}axis" in trace else ""
            if axis and figure.layout[axis].range is None and trace.type in ("scatter", "scattergl", "bar"):
                ends_of.setdefault(axis, []).extend(_extent(trace, letter, figure.layout[axis]))
    pads = {axis: 0.05 * (max(ends) - min(ends)) or 0.5 for axis, ends in ends_of.items() if ends}
    ranges = {axis: (min(ends_of[axis]) - pad, max(ends_of[axis]) + pad) for axis, pad in pads.items()}
    for axis in (a for a in figures[0].layout if a.startswith(f"{letter}axis")):
        fixed = [figure.layout[axis].range for figure in figures if figure.layout[axis].range is not None]
        if len(set(fixed)) > 1:
            low, high = min(map(min, fixed)), max(map(max, fixed))
            ranges[axis] = (high, low) if fixed[0][0] > fixed[0][1] else (low, high)
    return ranges


def _fixed(figure: Any, letter: str) -> dict[str, tuple[float, float]]:
    """The ranges that a figure has fixed."""
    axes = (axis for axis in figure.layout if axis.startswith(f"{letter}axis"))
    return {axis: figure.layout[axis].range for axis in axes if figure.layout[axis].range is not None}


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


def _changing_traces(figures: Sequence[Any]) -> tuple[list[int], list[list[dict[str, Any]]]]:
    """Indices of the traces that change, and for each figure these traces without what is the same in all of them."""
    every = [[trace.to_plotly_json() for trace in figure.data] for figure in figures]
    indices: list[int] = []
    changed: list[list[dict[str, Any]]] = [[] for _ in figures]
    for index, same_trace in enumerate(zip(*every, strict=True)):
        keys = [key for key in dict.fromkeys(key for trace in same_trace for key in trace) if _differs(key, same_trace)]
        if not keys:
            continue
        indices.append(index)
        for changes, trace in zip(changed, same_trace, strict=True):
            # A trace without a type would be a line to plotly.
            changes.append({"type": trace["type"]} | {key: trace[key] for key in keys if key in trace})
    return indices, changed


def _changing_layouts(figures: Sequence[Any]) -> list[dict[str, Any]]:
    """For each figure: its title, annotations and shapes, and the titles and ticks of axes that have not the same."""
    every = [figure.layout.to_plotly_json() for figure in figures]
    changed = [{key: layout[key] for key in ("title", "annotations", "shapes") if key in layout} for layout in every]
    for axis in dict.fromkeys(key for layout in every for key in layout if key[1:].startswith("axis")):
        axes = [layout.get(axis, {}) for layout in every]
        keys = [key for key in FOLLOWING if _differs(key, axes)]
        for changes, spec in zip(changed, axes, strict=True):
            if keys:
                changes[axis] = {key: spec[key] for key in keys if key in spec}
    return changed


def _differs(key: str, dictionaries: Sequence[dict[str, Any]]) -> bool:
    first = dictionaries[0]
    return any((key in one) != (key in first) or not _same(one.get(key), first.get(key)) for one in dictionaries[1:])


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        one, other = np.asarray(one), np.asarray(other)
        numbers = one.dtype.kind in "fc" and other.dtype.kind in "fc"  # NaN is a gap in both
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=numbers)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
