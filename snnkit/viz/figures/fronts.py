"""Results that pull in two directions: every run as a mark, and the Pareto front that no run is beyond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from ... import checks
from .. import theme
from ..drawing import add_line, add_marks, check_log, finish, scale_of

_MANY = 60  # marks from which on dominated ones are drawn smaller


def objectives(
    table: Mapping[str, Sequence[Any]], maximise: str | Sequence[str] = (), minimise: str | Sequence[str] = ()
) -> tuple[dict[str, str], np.ndarray, np.ndarray]:
    """Two columns of a table, what is minimised first.

    Returns:
        Each name with "minimise" or "maximise"; the values [N, 2], nan where a row has no number; and [2] signs: times
        these, less is better in both columns.

    Raises:
        ValueError, TypeError: they are not two columns of numbers.
    """
    names: dict[str, str] = {}
    for direction, given in (("minimise", minimise), ("maximise", maximise)):
        for name in [given] if isinstance(given, str) else given:
            if name not in table:
                raise ValueError(f"{direction} must name a column ({', '.join(table)}), but it is {name!r}")
            names.setdefault(name, direction)
    if len(names) != 2:
        raise ValueError(f"maximise and minimise must name two columns in all, but they name {list(names) or 'none'}")
    columns = [_numbers(name, table[name]) for name in names]
    if len(columns[0]) != len(columns[1]):
        raise ValueError(f"the columns of table must be equally long, but they have {[len(c) for c in columns]} rows")
    signs = np.array([1 if direction == "minimise" else -1 for direction in names.values()])
    return names, np.stack(columns, axis=1), signs


def undominated(costs: np.ndarray) -> np.ndarray:
    """Indices of the rows of ``costs`` [N, 2] that no row dominates, by ascending first cost; of equal rows all.

    A row dominates another one if it is nowhere worse and somewhere better. In the order of the first cost (of the
    second among equals) these are the rows that bring a smaller second cost than all before: N log N steps.
    """
    best: list[int] = []
    for i in np.lexsort((costs[:, 1], costs[:, 0])):
        if not best or costs[i, 1] < costs[best[-1], 1] or (costs[i] == costs[best[-1]]).all():
            best.append(int(i))
    return np.array(best, dtype=int)


def pareto(
    table: Any,
    *,
    maximise: str | Sequence[str] = (),
    minimise: str | Sequence[str] = (),
    seeds: str | None = None,
    log: str = "",
    title: str = "Pareto front",
) -> go.Figure:
    """Runs by two results, one of which gets worse as the other gets better, and the front: the runs no other beats.

    Args:
        table: column to values [N]: a dict, or a polars DataFrame as of ``sweep.results``. Rows whose ``status`` is
            not "ok" are left out, as are those without a finite number. Columns in upper case are parameters, which
            are shown on hovering.
        maximise, minimise: names of columns, two in all. What is minimised is across.
        seeds: the column in which repetitions differ, such as "SEED": then marks and front are of the means over rows
            that agree in all other parameters, and the single rows are dots behind them.
        log: which axes are logarithmic: "", "x", "y" or "xy".
    """
    check_log(log)
    columns = _columns(table)
    names, values, signs = objectives(columns, maximise, minimise)
    usable = np.isfinite(values).all(axis=1)
    status = columns.get("status", ["ok"] * len(values))
    rows = np.flatnonzero(usable & np.array([state == "ok" for state in status], bool)).tolist()
    if not rows:
        raise ValueError(f"table must hold a row with finite numbers of {' and '.join(names)}, but none has")
    parameters = [name for name in columns if name.isupper()]
    if seeds is not None and seeds not in columns:
        raise ValueError(f"seeds must name a column ({', '.join(columns)}), but it is {seeds!r}")
    points, notes = values[rows], [_note(columns, parameters, row) for row in rows]
    figure = go.Figure()
    (first, _), (second, _) = names.items()
    hover = f"{first} %{{x:.4g}}, {second} %{{y:.4g}}<br>%{{customdata}}<extra></extra>"
    look: dict[str, Any] = {"showlegend": True, "hovertemplate": hover}
    if seeds is not None:
        shared = [name for name in parameters if name != seeds]
        groups: dict[str, list[int]] = {}
        for place, row in enumerate(rows):
            groups.setdefault(_note(columns, shared, row), []).append(place)
        dots = {"symbol": "x", "size": 5, "colour": theme.PALE}
        add_marks(figure, *points.T, name="single runs", customdata=notes, **dots, **look)
        points = np.stack([points[members].mean(axis=0) for members in groups.values()])
        notes = [f"{note or 'all'}<br>mean of {len(members)}" for note, members in groups.items()]
    best = undominated(points * signs)
    beaten = np.setdiff1d(np.arange(len(points)), best)
    what = "means" if seeds is not None else "runs"
    if len(beaten):
        marks = {"symbol": "circle-open", "size": 9 if len(beaten) < _MANY else 6, "colour": theme.SKY}
        rest = [notes[i] for i in beaten]
        add_marks(figure, *points[beaten].T, name=f"{what} that others beat", customdata=rest, **marks, **look)
    front = {"colour": theme.VERMILION, "shape": "hv", "symbol": "diamond", "customdata": [notes[i] for i in best]}
    across, up = points[best].T
    add_line(figure, across, up, f"front: {what} none beats", **front, **look)
    figure.update_traces(marker_size=10, selector={"mode": "lines+markers"})
    x_axis, y_axis = (
        {"title_text": f"{name} ({'less' if direction == 'minimise' else 'more'} is better)"}
        | scale_of(letter, log, at)
        for letter, name, direction, at in zip("xy", names, names.values(), points.T, strict=True)
    )
    return finish(figure, title, x_axis, y_axis, legend=theme.LEGEND_BELOW, margin=theme.MARGIN | {"b": 92})


def _columns(table: Any) -> Mapping[str, Sequence[Any]]:
    if isinstance(table, Mapping):
        return table
    if hasattr(table, "to_dict") and hasattr(table, "columns"):  # polars, without importing it
        return {name: table[name].to_list() for name in table.columns}
    raise TypeError(f"table must be a DataFrame, or a dict of column to values, but it is {checks.shown(table)}")


def _numbers(name: str, values: Any) -> np.ndarray:
    """[N] float64, nan for None."""
    if any(isinstance(value, str) for value in values):
        raise TypeError(f"the column {name!r} must hold numbers, but it holds text")
    try:
        return np.array([np.nan if value is None else float(value) for value in values], dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"the column {name!r} must hold numbers, but it is {checks.shown(values)}") from None


def _note(columns: Mapping[str, Sequence[Any]], names: Sequence[str], row: int) -> str:
    values = ((name, columns[name][row]) for name in names)
    return "<br>".join(f"{name} = {value:{'g' if isinstance(value, float) else ''}}" for name, value in values)
