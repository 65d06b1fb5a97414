"""Records of several machines and sizes in one figure: time per neuron and step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from . import theme
from .axes import log_ticks
from .panels import panels
from .rates import checked
from .strokes import SYMBOLS, add_line, published_look

_TITLES = {"inference": "Forward", "training": "Forward and backward"}
_PLOT_HEIGHT, _ROW = 280, 20  # pixels


def per_neuron_step(
    records: Sequence[Mapping[str, Any]],
    *,
    dtype: str = "float32",
    equation: str = "LIF",
    title: str = "Time per neuron and step",
) -> go.Figure:
    """Nanoseconds per neuron and step against T: flat lines are linear in T, and layers of any size can be compared.

    Of each record, at its largest number of neurons: the loop, the best of our compiled engines, and the peers that
    compute the same equation. Published curves are dotted with hollow marks. Hovering tells the size and where the
    number comes from.

    Args:
        records: from ``snnkit.records.load``, ``snnkit.records.read`` or ``snnkit.bench.neurons.benchmark``.
        dtype: of the input.
        equation: "LIF", "Leaky" or "CubaLIF".

    Raises:
        ValueError: nothing to draw, or a record that does not say where its numbers come from.
    """
    lines = [line for record in checked(records) for line in _lines(record, dtype, equation)]
    if not lines:
        raise ValueError(f"no record has rows of dtype {dtype!r} and equation {equation!r}")
    shown = [mode for mode in _TITLES if any(line["mode"] == mode for line in lines)]
    figure = panels(1, len(shown), [_TITLES[mode] for mode in shown], horizontal_spacing=0.09)
    names = list(dict.fromkeys(line["name"] for line in lines))
    for line in lines:
        name, i = line["name"], names.index(line["name"])
        first = next(other for other in lines if other["name"] == name)
        look = {"colour": theme.colour(i), "symbol": SYMBOLS[i % len(SYMBOLS)]}
        look = published_look(i) if line["published"] else look | {"dash": theme.dash(i // len(theme.PALETTE))}
        hover = f"{name}<br>T = %{{x}}<br>%{{y:.3g}} ns<br>%{{customdata}}<extra></extra>"
        more: dict[str, Any] = {"customdata": line["notes"], "hovertemplate": hover, "legendgroup": name}
        more |= {"showlegend": line is first, "row": 1, "col": shown.index(line["mode"]) + 1}
        add_line(figure, line["steps"], line["ns"], name, **look, **more)
    legend = theme.LEGEND_BELOW | {"y": -66 / _PLOT_HEIGHT}
    margin = {"t": theme.MARGIN["t"], "b": 70 + _ROW * len(names)}
    height = _PLOT_HEIGHT + margin["t"] + margin["b"]
    heading = f"{title}; hollow: published" if any(line["published"] for line in lines) else title
    figure.update_layout(title={"text": heading}, height=height, legend=legend, margin=margin)
    steps = sorted({step for line in lines for step in line["steps"]})
    figure.update_xaxes(type="log", title={"text": "time steps T"}, tickvals=steps)
    figure.update_yaxes(type="log")
    for col, mode in enumerate(shown, start=1):
        ns = [value for line in lines if line["mode"] == mode for value in line["ns"]]
        figure.update_yaxes(tickvals=log_ticks(ns), row=1, col=col)
    figure.update_yaxes(title={"text": "ns per neuron and step"}, row=1, col=1)
    return figure


def _lines(record: Mapping[str, Any], dtype: str, equation: str) -> list[dict[str, Any]]:
    """The curves of one record: mode, name, steps, ns, notes for hovering."""
    published, origin = record["kind"] == "published", record["provenance"]
    time = "seconds" if published else "median_s"
    where = origin["hardware"] if published else origin["device"]["name"]
    rows = [row for row in record["rows"] if row["dtype"] == dtype and row["equation"] == equation]
    rows = [row for row in rows if published or row["out_dtype"] == dtype]
    largest = max((row["neurons"] for row in rows), default=0)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["steps"]):
        if row["neurons"] != largest:
            continue
        key = row["mode"], row["contestant"]
        name = f"{row['contestant']}, {where.partition(',')[0]}"
        line = found.setdefault(key, {"mode": row["mode"], "name": name, "steps": [], "ns": [], "notes": []})
        line["published"] = published
        line["engine"] = "" if published else row["engine"]
        line["library"] = "" if published else row["library"]
        line["steps"].append(row["steps"])
        line["ns"].append(row[time] / row["neurons"] / row["steps"] * 1e9)
        line["notes"].append(f"{'published: ' if published else ''}{where}, N = {largest:,}")
    return [line for line in found.values() if _is_drawn(line, found.values())]


def _is_drawn(line: Mapping[str, Any], every: Any) -> bool:
    """All but our slower engines, and the loop under plain ``torch.compile``."""
    if line["library"] == "torch":
        return False
    if line["engine"] in ("", "eager"):
        return True
    rivals = [o for o in every if o["mode"] == line["mode"] and o["engine"] not in ("", "eager")]
    return line is min(rivals, key=lambda other: other["ns"][-1])
