"""Samples per second: of networks in training, library beside library, and of models on one device and another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from . import theme
from .arguments import told
from .axes import log_ticks
from .panels import panels
from .strokes import SYMBOLS, add_line

_BAR, _PLOT_HEIGHT, _LEGEND_ROW = 24, 240, 20  # pixels
_LIBRARIES = {"snnkit": theme.BLUE, "SpikingJelly": theme.VERMILION, "snnTorch": theme.GREEN, "Norse": theme.ORANGE}


def training_rates(
    records: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, net: str | None = None, title: str = ""
) -> go.Figure:
    """Samples per second of everybody who trained a network, the fastest at the top; a panel for each equation.

    Hovering tells the spread, the time of the first update, and where the number comes from.

    Args:
        records: of kind "training", from ``snnkit.records.load`` or ``snnkit.bench.training.benchmark``.
        net: "conv" or "mlp"; None draws all there are.

    Raises:
        ValueError: nothing to draw, or a record that does not say where its numbers come from.
    """
    every = checked(records, "training")
    cases: dict[str, list[tuple[Mapping[str, Any], str]]] = {}
    for record in every:
        where = record["provenance"]["device"]["name"]
        for row in record["rows"]:
            if net in (None, row["net"]):
                name = f"{row['net']}, {row['equation']} neurons, width {row['width']}"
                cases.setdefault(name, []).append((row, where))
    if not cases:
        raise ValueError(f"no record has rows of the net {net!r}")
    sizes = [len(rows) for rows in cases.values()]
    heights = [size / sum(sizes) for size in sizes]
    plot = _BAR * sum(sizes) + 60 * len(sizes)
    figure = panels(len(cases), 1, list(cases), row_heights=heights, vertical_spacing=min(0.2, 60 / plot))
    known: set[str] = set()
    for index, rows in enumerate(cases.values(), start=1):
        rows.sort(key=lambda pair: pair[0]["samples_per_s"])
        names = [f"{row['contestant']}, {row['dtype']}" for row, _ in rows]
        for library in dict.fromkeys(row["library"] for row, _ in rows):
            mine = [(place, row, where) for place, (row, where) in enumerate(rows) if row["library"] == library]
            figure.add_bar(
                x=[row["samples_per_s"] for _, row, _ in mine],
                y=[place for place, _, _ in mine],
                hovertext=[names[place] for place, _, _ in mine],
                orientation="h",
                name=library,
                legendgroup=library,
                showlegend=library not in known,
                marker={"color": _LIBRARIES.get(library, theme.PURPLE)},
                customdata=[_note(row, where) for _, row, where in mine],
                hovertemplate="%{hovertext}<br>%{x:,.0f} samples/s%{customdata}<extra></extra>",
                row=index,
                col=1,
            )
            known.add(library)
        figure.update_yaxes(tickvals=list(range(len(names))), ticktext=names, row=index, col=1)
    figure.update_xaxes(title={"text": "samples per second"}, row=len(cases), col=1)
    margin = {"t": theme.MARGIN["t"] + 20, "b": 100, "l": 230}
    height = plot + margin["t"] + margin["b"]
    legend = theme.LEGEND_BELOW | {"y": -60 / plot}
    heading = title or "Training: samples per second"
    figure.update_layout(title={"text": heading}, height=height, legend=legend, margin=margin, barmode="overlay")
    return figure


def device_rates(
    records: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, mode: str = "training", title: str = ""
) -> go.Figure:
    """Samples per second against the batch, a panel for each model, a line for each device and dtype.

    Where the line of a GPU crosses that of a CPU, the GPU begins to pay.

    Args:
        records: of kind "demo", from ``snnkit.records.load`` or ``snnkit.bench.demo.benchmark``.
        mode: "training" or "inference".

    Raises:
        ValueError: nothing to draw, or a record that does not say where its numbers come from.
    """
    every = checked(records, "demo")
    lines: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for record in every:
        origin = record["provenance"]
        for row in record["rows"]:
            if row["mode"] == mode:
                where = origin["device"]["name"] if row["device"] != "cpu" else origin["cpu"]
                lines.setdefault((row["model"], f"{where}, {row['dtype']}"), []).append(row)
    if not lines:
        modes = sorted({row["mode"] for record in every for row in record["rows"]})
        raise ValueError(f"no row has the mode {mode!r}; there are {', '.join(modes)}")
    models = list(dict.fromkeys(model for model, _ in lines))
    names = list(dict.fromkeys(name for _, name in lines))
    columns = min(3, len(models))
    count = -(-len(models) // columns)
    figure = panels(count, columns, models, horizontal_spacing=0.09, vertical_spacing=0.35 / count)
    known: set[str] = set()
    for (model, name), rows in lines.items():
        rows.sort(key=lambda row: row["batch"])
        place = models.index(model)
        at: dict[str, Any] = {"row": place // columns + 1, "col": place % columns + 1}
        i = names.index(name)
        add_line(
            figure, [row["batch"] for row in rows], [row["samples_per_s"] for row in rows], name,
            colour=theme.colour(i), symbol=SYMBOLS[i % len(SYMBOLS)], dash=theme.dash(i // len(theme.PALETTE)),
            legendgroup=name, showlegend=name not in known,
            hovertemplate=f"{name}<br>batch %{{x}}<br>%{{y:,.0f}} samples/s<extra></extra>", **at,
        )  # fmt: skip
        known.add(name)
    for place, model in enumerate(models):
        at: dict[str, Any] = {"row": place // columns + 1, "col": place % columns + 1}
        mine = [row for (its, _), rows in lines.items() if its == model for row in rows]
        batches = sorted({row["batch"] for row in mine})
        figure.update_xaxes(type="log", tickvals=batches, title={"text": "batch"}, **at)
        figure.update_yaxes(type="log", tickvals=log_ticks([row["samples_per_s"] for row in mine]), **at)
    figure.update_yaxes(title={"text": "samples per second"}, col=1)
    plot = _PLOT_HEIGHT * count
    margin = {"t": theme.MARGIN["t"] + 20, "b": 80 + _LEGEND_ROW * len(names)}
    legend = theme.LEGEND_BELOW | {"y": -66 / plot}
    heading = title or f"{mode.capitalize()}: samples per second"
    figure.update_layout(title={"text": heading}, height=plot + margin["t"] + margin["b"], legend=legend, margin=margin)
    return figure


def checked(records: Any, kind: str = "") -> list[Mapping[str, Any]]:
    """The records as a list.

    Raises:
        TypeError: they are no records.
        ValueError: there is none, or one that is of another kind or does not say where its numbers come from.
    """
    if not isinstance(records, (Mapping, list, tuple)):
        raise TypeError(f"records must be a record or a list of records, not {told(records)}")
    every = [records] if isinstance(records, Mapping) else list(records)
    if not every:
        raise ValueError("records must hold at least one record")
    for record in every:
        if not isinstance(record, Mapping):
            raise TypeError(f"records must hold records as of snnkit.records.load, not {told(record)}")
        if not record.get("provenance") or "rows" not in record:
            raise ValueError("records must say where their numbers come from (provenance), else they are not shown")
        if kind and record["kind"] != kind:
            raise ValueError(f"records must be of kind {kind!r}, but one is of kind {record['kind']!r}")
    return every


def _note(row: Mapping[str, Any], where: str) -> str:
    return (
        f"<br>10-90 %: {row['p10_s'] * 1e3:.4g} - {row['p90_s'] * 1e3:.4g} ms per update of {row['batch']}"
        f"<br>first update: {row['first_s']:.3g} s<br>{row['over_floor']:.2f} times its floor<br>{where}"
    )
