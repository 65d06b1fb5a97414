"""Named lines over a common axis: losses over batches, error against effort, rate against input."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from . import theme
from .arguments import named, number
from .arrays import as_array
from .axes import log_ticks, whole_ticks
from .strokes import SYMBOLS, add_level, add_line, add_mark

_MARKED = 40  # up to so many points, each gets a marker


def lines(
    series: Mapping[str, Any],
    *,
    x: Any = None,
    x_title: str = "",
    y_title: str = "",
    title: str = "",
    log: str = "",
    shape: str = "linear",
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
        levels: name to height of a dashed horizontal line, for example a value to expect.
        marks: name to position of a dashed vertical line.

    Raises:
        ValueError: ``series`` is empty, an x and its y differ in length, or ``log`` or ``shape`` is none of these.
        TypeError: values that are no numbers.
    """
    named(series, "series", "name to values [P]")
    if not series:
        raise ValueError("series must hold at least one name and its values [P]")
    if not isinstance(log, str) or not set(log) <= set("xy"):
        raise ValueError(f'log must be "", "x", "y" or "xy", not {log!r}')
    if shape not in ("linear", "hv"):
        raise ValueError(f'shape must be "linear" or "hv", not {shape!r}')
    levels, marks = _rulers(levels, "levels", log="y" in log), _rulers(marks, "marks", log="x" in log)
    faint = tuple(faint)
    figure, points = go.Figure(), {}
    index = itertools.count()
    for name, values in series.items():
        across, up = points[name] = _points(name, values, x)
        up = np.where(up > 0, up, math.nan) if "y" in log else up
        look: dict[str, Any] = {"colour": theme.PALE, "width": 9}
        if name not in faint:
            i = next(index)
            mark = {"symbol": SYMBOLS[i % len(SYMBOLS)]} if len(up) <= _MARKED else {"dash": theme.dash(i)}
            look = {"colour": theme.colour(i)} | mark
        hover = f"{name}<br>{x_title} %{{x:.4g}}<br>{y_title} %{{y:.4g}}<extra></extra>"
        add_line(figure, across, up, str(name), shape=shape, hovertemplate=hover, **look)
    every_x, every_y = (np.concatenate([pair[k] for pair in points.values()]) for k in (0, 1))
    for name, height in levels.items():
        add_level(figure, name, height, log="y" in log)
    for name, place in marks.items():
        add_mark(figure, name, place, every_x[every_x > 0] if "x" in log else every_x, log="x" in log)
    figure.update_layout(title={"text": title}, height=360, showlegend=len(series) > 1)
    across_look: dict[str, Any] = (
        {"type": "log", "tickvals": log_ticks(every_x)} if "x" in log else {"tickvals": whole_ticks(every_x)}
    )
    up_look: dict[str, Any] = {"type": "log", "tickvals": log_ticks(every_y)} if "y" in log else {"rangemode": "tozero"}
    figure.update_xaxes(title={"text": x_title}, **across_look)
    figure.update_yaxes(title={"text": y_title}, **up_look)
    return figure


def f_i_curve(
    currents: Any,
    rates: Mapping[str, Any] | Any,
    unit: str = "spikes per step",
    faint: Sequence[str] = (),
    title: str = "f-I curve: firing rate against input",
) -> go.Figure:
    """Firing rate against a constant input current.

    Args:
        currents: [I].
        rates: [I], or a dict of name to [I] to compare several neurons.
        unit: of the rates.
        faint: names of rates drawn as a broad pale line (a formula to compare with).

    Raises:
        ValueError: currents and rates differ in length.
    """
    several = rates if isinstance(rates, Mapping) else {"neuron": rates}
    y_title = f"firing rate ({unit})"
    return lines(several, x=currents, x_title="input current", y_title=y_title, faint=faint, title=title)


def _rulers(given: Any, argument: str, *, log: bool) -> dict[str, float]:
    """Name to place of dashed lines, checked; on a logarithmic axis there is nothing at 0 and below."""
    what, above = ("a positive number", 0.0) if log else ("a finite number", -math.inf)
    places = named({} if given is None else given, argument, "name to number")
    return {name: number(at, f"{argument}[{name!r}]", what, above=above) for name, at in places.items()}


def _points(name: str, values: Any, x: Any) -> tuple[np.ndarray, np.ndarray]:
    """The coordinates of one line."""
    own = isinstance(values, tuple) and len(values) == 2 and all(np.ndim(v) for v in values)
    across, up = values if own else (x, values)
    up = as_array(up, f"series[{name!r}]", "[P]").astype(float)
    across = np.arange(1, len(up) + 1) if across is None else as_array(across, f"x of {name!r}", "[P]")
    if len(across) != len(up):
        raise ValueError(f"series[{name!r}] has {len(up)} values, but its x has {len(across)}")
    return across, up
