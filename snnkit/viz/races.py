"""The figure of the neuron benchmark: time against the number of steps on logarithmic axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from . import theme
from .arguments import whole
from .axes import log_ticks
from .panels import panels
from .rates import checked
from .strokes import SYMBOLS, add_line, published_look

_PLOT_HEIGHT, _LEGEND_WIDTH = 280, 620  # pixels
_TITLES = {"inference": "Inference", "training": "Forward and backward"}


def races(
    records: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    neurons: int | None = None,
    dtype: str = "float32",
    equation: str = "LIF",
    modes: Sequence[str] = tuple(_TITLES),
    title: str = "",
) -> go.Figure:
    """Milliseconds against T for everybody in one or more records, a panel for each mode.

    Under the lines of a measured record runs its floor, dashed: the bytes that have to be moved at the bandwidth of a
    copy on the same device. Published curves have none; they are dotted lines with hollow marks. Hovering shows the
    spread, and where the number comes from.

    Args:
        records: from ``snnkit.records.load``, ``snnkit.records.read`` or ``snnkit.bench.neurons.benchmark``.
        neurons: N; the largest that all records have where it is not given.
        dtype: of the input.
        equation: of our engines ("LIF", "Leaky", "CubaLIF"). Peers are drawn whichever equation they compute.
        modes: which panels: "inference", "training".

    Raises:
        ValueError: nothing to draw, or a record that does not say where its numbers come from.
    """
    every = checked(records)
    neurons = None if neurons is None else whole(neurons, "neurons")
    wanted = set(modes)
    if not wanted <= set(_TITLES):
        raise ValueError(f"modes must be some of {', '.join(map(repr, _TITLES))}, but they are {modes!r}")
    size = neurons or _largest(every, dtype)
    measured = sum(record["kind"] != "published" for record in every)
    lines = [line for record in every for line in _lines(record, size, dtype, equation, measured > 1)]
    shown = [mode for mode in _TITLES if mode in wanted and any(line["mode"] == mode for line in lines)]
    if not shown:
        sizes = sorted({(row["neurons"], row["dtype"]) for record in every for row in record["rows"]})
        raise ValueError(f"no row has neurons {size} and dtype {dtype!r}; there are {', '.join(map(str, sizes))}")
    figure = panels(1, len(shown), [_TITLES[mode] for mode in shown], horizontal_spacing=0.09)
    names = list(dict.fromkeys(line["name"] for line in lines if not line["floor"]))
    known: set[str] = set()
    for line in lines:
        if line["mode"] not in shown:
            continue
        name = line["name"]
        more: dict[str, Any] = {"row": 1, "col": shown.index(line["mode"]) + 1, "customdata": line["notes"]}
        more |= {"legendgroup": name, "showlegend": name not in known} | _look(line, names)
        hover = f"{name}<br>T = %{{x}}<br>%{{y:.4g}} ms%{{customdata}}<extra></extra>"
        add_line(figure, line["steps"], line["ms"], name, hovertemplate=hover, **more)
        known.add(name)
    # The plot keeps its height; the page grows with the rows of the legend under it.
    columns = max(1, _LEGEND_WIDTH // (60 + 7 * max(map(len, known))))
    margin = {"t": theme.MARGIN["t"], "b": 70 + 20 * -(-len(known) // columns)}
    legend = theme.LEGEND_BELOW | {"y": -66 / _PLOT_HEIGHT}
    height = _PLOT_HEIGHT + margin["t"] + margin["b"]
    heading = title or f"A layer of {size:,} neurons over time, {dtype}"
    heading += "; hollow: published" if any(line["published"] for line in lines) else ""
    figure.update_layout(title={"text": heading}, height=height, legend=legend, margin=margin)
    steps = {step for line in lines for step in line["steps"]}
    figure.update_xaxes(type="log", title={"text": "time steps T"}, tickvals=sorted(steps))
    figure.update_yaxes(type="log")
    for col, mode in enumerate(shown, start=1):
        ms = [value for line in lines if line["mode"] == mode for value in line["ms"]]
        figure.update_yaxes(tickvals=log_ticks(ms), row=1, col=col)
    figure.update_yaxes(title={"text": "milliseconds"}, row=1, col=1)
    return figure


def _lines(record: Mapping[str, Any], size: int, dtype: str, equation: str, named: bool) -> list[dict[str, Any]]:
    """The curves of one record: mode, name, steps, ms, notes for hovering, and whether it is a floor.

    ``named``: the device belongs to the name, as there are others. That of published figures always does.
    """
    measured = record["kind"] != "published"
    origin = record["provenance"]
    where = origin["device"]["name"] if measured else origin["hardware"]
    found: dict[tuple[str, str], dict[str, Any]] = {}

    def add(row: Mapping[str, Any], name: str, seconds: float, note: str, floor: bool = False) -> None:
        name = f"{name}, {where.partition(',')[0]}" if named or not measured else name
        entry = {"mode": row["mode"], "name": name, "floor": floor, "published": not measured}
        entry |= {"steps": [], "ms": [], "notes": []}
        line = found.setdefault((row["mode"], name), entry)
        line["steps"].append(row["steps"])
        line["ms"].append(seconds * 1e3)
        line["notes"].append(note)

    for row in sorted(record["rows"], key=lambda row: row["steps"]):
        if row["neurons"] != size or row["dtype"] != dtype:
            continue
        if not measured:
            add(row, row["contestant"], row["seconds"], f"<br>published: {origin['hardware']}")
            continue
        if row["library"] not in ("snnkit", "torch"):
            name = row["contestant"] + (f" ({row['equation']})" if row["equation"] != equation else "")
        elif row["equation"] == equation:
            name = row["contestant"]
        else:
            continue
        spread = f"<br>10-90 %: {row['p10_s'] * 1e3:.4g} - {row['p90_s'] * 1e3:.4g} ms"
        add(row, name, row["median_s"], f"{spread}<br>{row['over_floor']:.2f} times its floor<br>{where}")
    for row in _one_floor_each(record["rows"], size, dtype, equation) if measured else ():
        add(row, "floor", row["floor_s"], "<br>bytes at the bandwidth of a copy", floor=True)
    return list(found.values())


def _one_floor_each(rows: Sequence[Mapping[str, Any]], size: int, dtype: str, equation: str) -> list[Mapping[str, Any]]:
    """A row for each mode and T, the one that moves most bytes: smaller outputs have lower floors."""
    best: dict[tuple[str, int], Mapping[str, Any]] = {}
    for row in rows:
        if (row["neurons"], row["dtype"], row["equation"]) != (size, dtype, equation):
            continue
        key = row["mode"], row["steps"]
        if key not in best or row["floor_bytes"] > best[key]["floor_bytes"]:
            best[key] = row
    return sorted(best.values(), key=lambda row: row["steps"])


def _look(line: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    if line["floor"]:
        return {"colour": theme.TEXT, "dash": "dash", "width": 1.5}
    i = names.index(line["name"])
    if line["published"]:
        return published_look(i)
    # Past the six colours the dash changes, so that no two lines look alike.
    return {"colour": theme.colour(i), "symbol": SYMBOLS[i % len(SYMBOLS)], "dash": theme.dash(i // len(theme.PALETTE))}


def _largest(records: Sequence[Mapping[str, Any]], dtype: str) -> int:
    """The largest N that all records have with this dtype; of any one where they share none."""
    sizes = [{row["neurons"] for row in record["rows"] if row["dtype"] == dtype} for record in records]
    common = set.intersection(*sizes) or set.union(*sizes)
    if not common:
        known = ", ".join(sorted({row["dtype"] for record in records for row in record["rows"]}))
        raise ValueError(f"no row has dtype {dtype!r}; there are {known}")
    return max(common)
