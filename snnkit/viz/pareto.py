"""Results that pull in two directions: every run as a mark, and the front that no run is beyond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from . import theme
from .arguments import told
from .axes import log_ticks
from .strokes import add_line, add_marks

_MANY = 60  # marks from which on beaten ones are drawn smaller


@dataclass(frozen=True)
class Objectives:
    """Two columns of a table, of N rows.

    Attributes:
        names: of the columns: across, up.
        directions: "minimise" or "maximise", of each.
        values: [N, 2], nan where a row has no number.
        usable: [N], whether both numbers are there and finite.
    """

    names: tuple[str, str]
    directions: tuple[str, str]
    values: np.ndarray
    usable: np.ndarray

    @property
    def costs(self) -> np.ndarray:
        """[N, 2]: less is better in both."""
        return self.values * [1 if direction == "minimise" else -1 for direction in self.directions]


def objectives(
    table: Mapping[str, Sequence[Any]], maximise: str | Sequence[str] = (), minimise: str | Sequence[str] = ()
) -> Objectives:
    """The two columns, what is minimised across. Raises ValueError or TypeError where they are not two of numbers."""
    names: dict[str, str] = {}
    for direction, given in (("minimise", minimise), ("maximise", maximise)):
        for name in [given] if isinstance(given, str) else given:
            if name not in table:
                raise ValueError(f"{direction} must name a column ({', '.join(table)}), was {name!r}")
            names.setdefault(name, direction)
    if len(names) != 2:
        raise ValueError(f"maximise and minimise must name two columns in all, but they name {list(names) or 'none'}")
    columns = [_numbers(name, table[name]) for name in names]
    if len(columns[0]) != len(columns[1]):
        raise ValueError(f"the columns of table must be equally long, but they have {[len(c) for c in columns]} rows")
    values = np.stack(columns, axis=1)
    across, up = names
    return Objectives((across, up), (names[across], names[up]), values, np.asarray(np.isfinite(values).all(axis=1)))


def undominated(costs: np.ndarray) -> np.ndarray:
    """Indices of the rows of ``costs`` [N, 2] that no row beats, by ascending first cost; of equal rows all.

    A row beats another one if it is nowhere worse and somewhere better. In the order of the first cost (of the second
    among equals) these are the rows that bring a smaller second cost than all before: N log N steps.
    """
    order = np.lexsort((costs[:, 1], costs[:, 0]))
    kept: list[int] = []
    for i in order:
        if not kept or costs[i, 1] < costs[kept[-1], 1] or (costs[i] == costs[kept[-1]]).all():
            kept.append(int(i))
    return np.array(kept, dtype=int)


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
            are told on hovering.
        maximise, minimise: names of columns, two in all. What is minimised lies across.
        seeds: the column in which repetitions differ, such as "SEED": then marks and front are of the means over rows
            that agree in all other parameters, and the single rows stand behind them as dots.
        log: which axes are logarithmic: "", "x", "y" or "xy".

    Raises:
        ValueError, TypeError: naming the argument; no row has both numbers.
    """
    if not isinstance(log, str) or not set(log) <= set("xy"):
        raise ValueError(f'log must be "", "x", "y" or "xy", not {log!r}')
    columns = _columns(table)
    found = objectives(columns, maximise, minimise)
    good = found.usable & np.array([state == "ok" for state in columns.get("status", ["ok"] * len(found.usable))], bool)
    if not good.any():
        raise ValueError(f"table must hold a row with finite numbers of {' and '.join(found.names)}, but none has")
    parameters = [name for name in columns if name.isupper()]
    if seeds is not None and seeds not in columns:
        raise ValueError(f"seeds must name a column ({', '.join(columns)}), was {seeds!r}")
    rows = np.flatnonzero(good).tolist()
    points, notes = found.values[good], [_note(columns, parameters, row) for row in rows]
    figure = go.Figure()
    hover = f"{found.names[0]} %{{x:.4g}}, {found.names[1]} %{{y:.4g}}<br>%{{customdata}}<extra></extra>"
    if seeds is not None:
        shared = [name for name in parameters if name != seeds]
        groups: dict[str, list[int]] = {}
        for place, row in enumerate(rows):
            groups.setdefault(_note(columns, shared, row), []).append(place)
        marks: dict[str, Any] = {"symbol": "x", "size": 5, "colour": theme.PALE, "showlegend": True}
        add_marks(figure, *points.T, name="single runs", customdata=notes, hovertemplate=hover, **marks)
        points = np.stack([points[members].mean(axis=0) for members in groups.values()])
        notes = [f"{note or 'all'}<br>mean of {len(members)}" for note, members in groups.items()]
    signs = [1 if direction == "minimise" else -1 for direction in found.directions]
    best = undominated(points * signs)
    beaten = np.setdiff1d(np.arange(len(points)), best)
    what = "means" if seeds is not None else "runs"
    if len(beaten):
        size = 9 if len(beaten) < _MANY else 6
        marks = {"symbol": "circle-open", "size": size, "colour": theme.SKY, "showlegend": True}
        rest = [notes[i] for i in beaten]
        add_marks(
            figure, *points[beaten].T, name=f"{what} that others beat", customdata=rest, hovertemplate=hover, **marks
        )
    look: dict[str, Any] = {"colour": theme.VERMILION, "shape": "hv", "symbol": "diamond"}
    told_best = [notes[i] for i in best]
    across, up = points[best].T
    add_line(figure, across, up, f"front: {what} none beats", customdata=told_best, hovertemplate=hover, **look)
    figure.update_traces(marker_size=10, selector={"mode": "lines+markers"})
    figure.update_layout(title={"text": title}, legend=theme.LEGEND_BELOW, margin=theme.MARGIN | {"b": 92})
    for axis, name, direction, letter, values in zip(
        (figure.update_xaxes, figure.update_yaxes), found.names, found.directions, "xy", points.T, strict=True
    ):
        scale: dict[str, Any] = {"type": "log", "tickvals": log_ticks(values)} if letter in log else {}
        axis(title={"text": f"{name} ({'less' if direction == 'minimise' else 'more'} is better)"}, **scale)
    return figure


def _columns(table: Any) -> Mapping[str, Sequence[Any]]:
    if isinstance(table, Mapping):
        return table
    if hasattr(table, "to_dict") and hasattr(table, "columns"):  # polars, without importing it
        return {name: table[name].to_list() for name in table.columns}
    raise TypeError(f"table must be a DataFrame, or a dict of column to values, not {told(table)}")


def _numbers(name: str, values: Any) -> np.ndarray:
    """[N] float64, nan for None."""
    if any(isinstance(value, str) for value in values):
        raise TypeError(f"the column {name!r} must hold numbers, but it holds text")
    try:
        return np.array([np.nan if value is None else float(value) for value in values], dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"the column {name!r} must hold numbers, not {told(values)}") from None


def _note(columns: Mapping[str, Sequence[Any]], names: Sequence[str], row: int) -> str:
    values = ((name, columns[name][row]) for name in names)
    return "<br>".join(
        f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}" for name, value in values
    )
