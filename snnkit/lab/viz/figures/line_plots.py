"""Lines over a common axis; and two results that work against each other, with their Pareto front."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go

from snnkit import checks
from snnkit.lab.viz import concepts, theme
from snnkit.lab.viz.drawing import (
    SYMBOLS,
    add_level,
    add_line,
    add_mark,
    add_marks,
    as_array,
    as_arrays,
    ends_of,
    finish,
    label_lines,
    scale_of,
    whole_ticks,
)

_MARKED = 40  # up to so many points, each gets a marker
_HEIGHT = 360
_PLOT = _HEIGHT - theme.MARGIN["t"] - theme.MARGIN["b"]


@checks.arguments
def lines(
    series: Mapping[Any, Any],
    *,
    x: Any = None,
    x_title: str = "",
    y_title: str = "",
    title: str = "",
    log: Literal["", "x", "y", "xy"] = "",
    shape: Literal["linear", "hv"] = "linear",
    faint: Sequence[Any] | set[Any] = (),
    levels: Mapping[str, float] | None = None,
    marks: Mapping[str, float] | None = None,
    between: Sequence[float] | None = None,
    labels: bool = True,
) -> go.Figure:
    """One line for each entry of ``series``, with markers if it has at most 40 points. The others differ in dash.

    Names are beside the ends of their lines, or in a legend if there is no room. A line that is named like a concept
    of ``viz.concepts`` has its colour.

    Args:
        series: name to y [P], or to a tuple of its own x [P] and y [P].
        x: [P], for all series without an x of their own; None: 1, 2, 3, …
        log: which axes are logarithmic: "", "x", "y" or "xy". On a logarithmic y axis zeros are left out.
        shape: "linear", or "hv" for values that hold until the next one.
        faint: names drawn as a broad pale line without markers (theory, a reference).
        levels: name to height of a dashed horizontal line, for example an expected value.
        marks: name to position of a dashed vertical line.
        between: the lowest and the highest y to show; None: all, and 0 on a linear axis.
        labels: False: a legend, for a figure to which more is added.
    """
    if not series:
        raise ValueError("series must hold at least one name and its values [P], but it is empty")
    figure, points = go.Figure(), []
    index, unmarked = itertools.count(), itertools.count()
    strong = [name for name in series if name not in faint]
    inks = dict.fromkeys(series, theme.PALE) | dict(zip(strong, concepts.colours(strong), strict=True))
    last: dict[str, tuple[float, float, str]] = {}
    for name, values in sorted(series.items(), key=lambda one: one[0] not in faint):  # broad lines behind the others
        across, up = _points(name, values, x)
        points.append((across, up))
        up = np.where(up > 0, up, math.nan) if "y" in log else up
        look: dict[str, Any] = {"colour": theme.PALE, "width": 9}
        if name not in faint:
            i = next(index)
            symbol = {"symbol": SYMBOLS[i % len(SYMBOLS)]}
            mark = symbol if len(up) <= _MARKED else {"dash": theme.dash(next(unmarked))}
            look = {"colour": inks[name]} | mark
        hover = f"{name}<br>{x_title} %{{x:.4g}}<br>{y_title} %{{y:.4g}}<extra></extra>"
        add_line(figure, across, up, str(name), shape=shape, hovertemplate=hover, **look)
        drawn = np.flatnonzero(np.isfinite(up) & (across > 0 if "x" in log else True))
        if drawn.size:
            end = max(drawn.tolist(), key=lambda i: float(across[i]))
            last[str(name)] = float(across[end]), float(up[end]), inks[name]
    every_x, every_y = (np.concatenate(column) for column in zip(*points, strict=True))
    above = 0 if "y" in log else None  # on a logarithmic axis there is nothing at 0 and below
    heights = {name: checks.number(f"levels[{name!r}]", height, above=above) for name, height in (levels or {}).items()}
    across_look = {"title_text": x_title} | (scale_of("x", log, every_x) or {"tickvals": whole_ticks(every_x)})
    up_look = {"title_text": y_title} | scale_of("y", log, every_y if between is None else between)
    x_ends = ends_of(every_x, "x" in log, zero=False)
    y_ends = ends_of(every_y, "y" in log, (levels or {}).values())
    if between is not None:
        low, high = between
        y_ends = [math.log10(low), math.log10(high)] if "y" in log else [low, high]
    for name, height in heights.items():
        add_level(figure, name, height, points, x_ends, y_ends, plot=_PLOT, log=log)
    for name, place in (marks or {}).items():
        at = checks.number(f"marks[{name!r}]", place, above=0 if "x" in log else None)
        add_mark(figure, name, at, every_x[every_x > 0] if "x" in log else every_x, log="x" in log)
    finish(figure, title, across_look | {"range": x_ends}, up_look | {"range": y_ends}, height=_HEIGHT)
    labelled = labels and len(series) > 1 and label_lines(figure, last, x_ends, y_ends, plot=_PLOT, log=log)
    return figure.update_layout(showlegend=len(series) > 1 and not labelled)


@checks.arguments
def accuracy_over_time(
    curves: Mapping[Any, Any], ann: float | None = None, *, title: str = "Accuracy against time steps"
) -> go.Figure:
    """How many steps answers take, with the steps on a logarithmic axis.

    Args:
        curves: name to accuracies in [0, 1] after 1, 2, …, T steps [T], as ``loss.accuracy_over_time`` gives them.
        ann: accuracy of the network without spikes that was converted, for a dashed line; None: no line.
    """
    percent = {name: 100 * as_array(curve, f"curves[{name!r}]", "[T]") for name, curve in curves.items()}
    for name, curve in percent.items():
        if not ((curve >= 0) & (curve <= 100)).all():
            raise ValueError(f"curves[{name!r}] must be in [0, 1], but it is not")
    if not percent:
        raise ValueError("curves must hold at least one name and its accuracies [T], but it is empty")
    levels = {}
    if ann is not None:
        ann = 100 * checks.number("ann", ann, at_least=0, at_most=1)
        levels = {f"without spikes: {ann:.1f} %": ann}
    lowest = min(curve.min() for curve in percent.values())
    highest = max(ann or 0.0, *(curve.max() for curve in percent.values()))
    margin = 0.08 * (highest - lowest) or 1.0
    axes = {"x_title": "time steps", "y_title": "accuracy in %", "between": (lowest - margin, highest + 2 * margin)}
    return lines(percent, title=title, log="x", levels=levels, **axes)


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


def objectives(
    table: Mapping[str, Sequence[Any]], maximise: str | Sequence[str] = (), minimise: str | Sequence[str] = ()
) -> tuple[dict[str, str], np.ndarray, np.ndarray]:
    """Two columns of a table, the minimised one first. Returns each name with "minimise" or "maximise"; the values [N,
    2], nan where a row has no number; and signs [2]: multiplied by them, less is better in both columns."""
    names: dict[str, str] = {}
    for direction, given in (("minimise", minimise), ("maximise", maximise)):
        for name in [given] if isinstance(given, str) else given:
            names.setdefault(checks.choice(direction, name, table), direction)
    if len(names) != 2:
        raise ValueError(f"maximise and minimise must name two columns in all, but they name {list(names) or 'none'}")
    try:
        values = np.array([[np.nan if cell is None else cell for cell in table[name]] for name in names], dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{' and '.join(names)} must be columns of numbers, equally long: {error}") from None
    signs = np.array([1 if direction == "minimise" else -1 for direction in names.values()])
    return names, values.T, signs


def undominated(costs: np.ndarray) -> np.ndarray:
    """Indices of the rows of ``costs`` [N, 2] that no row dominates, by ascending first cost; of equal rows all.

    A row dominates another one if no cost is larger and at least one is smaller. In the order of the first cost (then
    of the second), the result is the rows with a smaller second cost than all before: N log N steps.
    """
    best: list[int] = []
    for i in np.lexsort((costs[:, 1], costs[:, 0])):
        if not best or costs[i, 1] < costs[best[-1], 1] or (costs[i] == costs[best[-1]]).all():
            best.append(int(i))
    return np.array(best, dtype=int)


@checks.arguments
def pareto(
    table: Any,
    *,
    maximise: str | Sequence[str] = (),
    minimise: str | Sequence[str] = (),
    seeds: str | None = None,
    log: str = "",
    title: str = "Pareto front",
) -> go.Figure:
    """Runs by two results that work against each other, and the front: the runs that no other run beats.

    Args:
        table: column to values [N]: a dict, or a polars DataFrame as of ``sweep.results``. Rows whose ``status`` is
            not "ok" are left out, as are those without a finite number. Columns in upper case are parameters, which
            are shown on hovering.
        maximise, minimise: names of columns, two in all. The minimised one is the x axis.
        seeds: the column in which repetitions differ, such as "SEED": then marks and front are of the means over rows
            that agree in all other parameters, and the single rows are dots behind them.
        log: which axes are logarithmic: "", "x", "y" or "xy".
    """
    columns = {name: table[name].to_list() for name in table.columns} if hasattr(table, "columns") else table
    checks.mapping("table", columns, "column to values, or a DataFrame")
    names, values, signs = objectives(columns, maximise, minimise)
    if seeds is not None:
        checks.choice("seeds", seeds, columns)
    status = columns.get("status", ["ok"] * len(values))
    rows = [i for i, state in enumerate(status) if state == "ok" and np.isfinite(values[i]).all()]
    if not rows:
        raise ValueError(f"table must hold a row with finite numbers of {' and '.join(names)}, but none has")
    shared = [name for name in columns if name.isupper() and name != seeds]
    points, notes = values[rows], [_note(columns, shared, row) for row in rows]
    figure = go.Figure()
    first, second = names
    hover = f"{first} %{{x:.4g}}, {second} %{{y:.4g}}<br>%{{customdata}}<extra></extra>"
    look: dict[str, Any] = {"showlegend": True, "hovertemplate": hover}
    if seeds is not None:
        dots = {"symbol": "x", "size": 6, "colour": theme.TEXT}
        add_marks(figure, *points.T, name="single runs", customdata=notes, **dots, **look)
        groups: dict[str, list[int]] = {}
        for i, note in enumerate(notes):
            groups.setdefault(note, []).append(i)
        points = np.stack([points[members].mean(axis=0) for members in groups.values()])
        notes = [f"{note or 'all'}<br>mean of {len(members)}" for note, members in groups.items()]
    best = undominated(points * signs)
    beaten = np.setdiff1d(np.arange(len(points)), best)
    what = "means" if seeds is not None else "runs"
    if len(beaten):
        marks = {"symbol": "circle-open", "size": 8, "colour": theme.SKY, "customdata": [notes[i] for i in beaten]}
        add_marks(figure, *points[beaten].T, name=f"{what} that others beat", **marks, **look)
    front = {"colour": theme.VERMILION, "shape": "hv", "symbol": "diamond", "customdata": [notes[i] for i in best]}
    across, up = points[best].T
    add_line(figure, across, up, f"front: {what} none beats", **front, **look)
    figure.update_traces(marker_size=10, selector={"mode": "lines+markers"})
    x_axis, y_axis = (
        {"title_text": f"{name} ({'less' if direction == 'minimise' else 'more'} is better)"}
        | scale_of(letter, log, at)
        for letter, (name, direction), at in zip("xy", names.items(), points.T, strict=True)
    )
    return finish(figure, title, x_axis, y_axis, legend=theme.LEGEND_BELOW, margin=theme.MARGIN | {"b": 92})


def _note(columns: Mapping[str, Sequence[Any]], names: Sequence[str], row: int) -> str:
    values = ((name, columns[name][row]) for name in names)
    return "<br>".join(f"{name} = {value:{'g' if isinstance(value, float) else ''}}" for name, value in values)
