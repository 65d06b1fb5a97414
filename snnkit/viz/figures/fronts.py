"""Results that pull in two directions: every run as a mark, and the Pareto front that no run is beyond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from ... import checks
from .. import theme
from ..drawing import add_line, add_marks, finish, scale_of


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
        dots = {"symbol": "x", "size": 5, "colour": theme.PALE}
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
