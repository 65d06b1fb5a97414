"""The figure of ``snnkit bench compare``: measured as lines, predicted as bands, published as marked points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from . import theme
from .axes import log_ticks
from .panels import panels
from .rates import checked
from .strokes import SYMBOLS, add_line

_PLOT_HEIGHT, _GAP, _LEGEND_ROW, _LEGEND_WIDTH = 270, 70, 20, 620  # pixels
_PEER = "snnTorch"
_AXES = (("batch", "batch"), ("width", "hidden neurons"))


def comparison(
    records: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, dtype: str = "float32", title: str = ""
) -> go.Figure:
    """How fast the network of snnTorch's IPU tutorial is trained: against the batch, and against its size.

    Above samples per second: lines were measured, bands are predicted by ``hardware.roofline`` for IPUs that nobody ran
    here. Below times the samples per second of eager snnTorch on the same device; points with a star were published by
    others, as ratios on machines of their own (hovering tells what and where). Without snnTorch in the record there is
    nothing below.

    Args:
        records: of kind "compare", from ``snnkit.records.load`` or ``snnkit.bench.compare.benchmark``.
        dtype: of the measured rows.

    Raises:
        ValueError: nothing to draw, or a record that does not say where its numbers come from.
    """
    every = checked(records, "compare")
    rows = [(row, record) for record in every for row in record["rows"] if row["dtype"] == dtype]
    if not rows:
        known = sorted({row["dtype"] for record in every for row in record["rows"]})
        raise ValueError(f"no row has dtype {dtype!r}; there are {', '.join(map(repr, known)) or 'none'}")
    slow = {_case(row, record): row["samples_per_s"] for row, record in rows if row["contestant"] == _PEER}
    count = 2 if slow else 1
    plot = _PLOT_HEIGHT * count + _GAP * (count - 1)
    first = every[0]["arguments"]
    titles = [f"{first['width']} hidden neurons", f"batch {first['batch']}"] * count
    figure = panels(count, 2, titles, horizontal_spacing=0.1, vertical_spacing=_GAP / plot if count > 1 else 0)
    legend = _Legend(figure)
    for col, (key, name) in enumerate(_AXES, start=1):
        here = [(row, record) for row, record in rows if _other(key, row, record)]
        drawn = _bands(legend, every, key, dtype, col)
        drawn += _lines(
            legend, here, key, len(every) > 1, lambda row, record: row["samples_per_s"], "samples/s", 1, col
        )
        _axes(figure, key, name, here, drawn, 1, col)
        if slow:
            drawn = _claims(legend, every, key, col)
            compared = [(row, record) for row, record in here if _case(row, record) in slow]
            drawn += _lines(
                legend, compared, key, len(every) > 1,
                lambda row, record: row["samples_per_s"] / slow[_case(row, record)], "times eager snnTorch", 2, col,
            )  # fmt: skip
            _axes(figure, key, name, here, drawn, 2, col)
    for row, text in enumerate(("samples per second", "times eager snnTorch")[:count], start=1):
        figure.update_yaxes(title={"text": text}, row=row, col=1)
    columns = max(1, _LEGEND_WIDTH // (60 + 7 * max(map(len, legend.known))))
    margin = {"t": theme.MARGIN["t"] + 20, "b": 70 + _LEGEND_ROW * -(-len(legend.known) // columns)}
    below = theme.LEGEND_BELOW | {"y": -62 / plot}
    heading = (
        title or f"784-N-10 over {first['steps']} steps, {dtype}: lines measured, bands predicted, stars published"
    )
    figure.update_layout(title={"text": heading}, height=plot + margin["t"] + margin["b"], legend=below, margin=margin)
    return figure


class _Legend:
    """Draws traces, each name in the legend once."""

    def __init__(self, figure: go.Figure) -> None:
        self.figure = figure
        self.known: list[str] = []
        self.lines: list[str] = []

    def entry(self, name: str) -> dict[str, Any]:
        new = name not in self.known
        if new:
            self.known.append(name)
        return {"legendgroup": name, "showlegend": new}

    def look(self, name: str) -> dict[str, Any]:
        if name not in self.lines:
            self.lines.append(name)
        i = self.lines.index(name)
        return {
            "colour": theme.colour(i),
            "symbol": SYMBOLS[i % len(SYMBOLS)],
            "dash": theme.dash(i // len(theme.PALETTE)),
        }


def _lines(
    legend: _Legend,
    rows: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
    key: str,
    named: bool,
    height: Callable[[Mapping[str, Any], Mapping[str, Any]], float],
    unit: str,
    row: int,
    col: int,
) -> list[float]:
    """A line for each contestant; their heights. ``named``: the device belongs to the name, as there are others."""
    found: dict[str, list[tuple[Mapping[str, Any], float, str]]] = {}
    for entry, record in sorted(rows, key=lambda pair: pair[0][key]):
        where = record["provenance"]["device"]["name"]
        name = entry["contestant"] + (f", {where}" if named else "")
        note = f"measured: {entry['p10_s'] * 1e3:.4g} - {entry['p90_s'] * 1e3:.4g} ms per update<br>{where}"
        found.setdefault(name, []).append((entry, height(entry, record), note))
    for name, points in found.items():
        more: dict[str, Any] = legend.entry(name) | {"row": row, "col": col}
        hover = f"{name}<br>{key} %{{x}}: %{{y:,.4g}} {unit}<br>%{{customdata}}<extra></extra>"
        heights = [value for _, value, _ in points]
        notes = [note for _, _, note in points]
        add_line(
            legend.figure, [entry[key] for entry, _, _ in points], heights, name,
            hovertemplate=hover, customdata=notes, **legend.look(name), **more,
        )  # fmt: skip
    return [value for points in found.values() for _, value, _ in points]


def _bands(legend: _Legend, records: Sequence[Mapping[str, Any]], key: str, dtype: str, col: int) -> list[float]:
    """A band for each chip, of the first record that predicts it; its ends."""
    found: dict[str, dict[int, Mapping[str, Any]]] = {}
    for record in records:
        for band in record["predictions"]:
            if band["dtype"] == dtype and _other(key, band, record):
                found.setdefault(band["chip"], {}).setdefault(band[key], band)
    for i, (chip, by_size) in enumerate(found.items()):
        name = f"predicted: {chip}, {next(iter(by_size.values()))['precision']}"
        sizes = sorted(by_size)
        low, high = ([by_size[size][end] for size in sizes] for end in ("low", "high"))
        ink = theme.PALETTE[-1 - i % len(theme.PALETTE)]
        more: dict[str, Any] = legend.entry(name) | {"row": 1, "col": col}
        if len(sizes) == 1:  # a point has no area
            shape = {"mode": "lines", "line": {"color": ink, "width": 12}, "x": [*sizes, *sizes], "y": [*low, *high]}
        else:
            # Its edge has a dash of its own, so that overlapping bands are told apart without their colours.
            edge = {"color": ink, "width": 1.5, "dash": theme.DASHES[1 + i % (len(theme.DASHES) - 1)]}
            shape = {"mode": "lines", "line": edge, "fill": "toself", "fillcolor": theme.faint(ink, 0.2)}
            shape |= {"hoveron": "fills"}
            shape |= {"x": [*sizes, *reversed(sizes)], "y": [*high, *reversed(low)]}
        note = f"{name}<br>by a model whose constants are partly assumed; never run"
        legend.figure.add_scatter(name=name, text=note, hoverinfo="text", **shape, **more)
    return [band[end] for by_size in found.values() for band in by_size.values() for end in ("low", "high")]


def _claims(legend: _Legend, records: Sequence[Mapping[str, Any]], key: str, col: int) -> list[float]:
    """A marked point for each published ratio, a stroke between two where a range was published; their heights."""
    claims = {claim["who"]: claim for record in records for claim in record["claims"]}
    for i, (who, claim) in enumerate(claims.items()):
        name = f"{'derived' if claim['derived'] else 'published'}: {who}"
        ends = list(dict.fromkeys((claim["low"], claim["high"])))
        at = claim["batch" if key == "batch" else "hidden"]
        said = _wrapped(f"{claim['said']} times: {claim['what']}")
        mark = "<br>the ratio of two published times" if claim["derived"] else ""
        note = f"{name}{mark}<br>{said}<br>{claim['source']}<br>{claim['url']}"
        colour = theme.colour(i + 1)
        legend.figure.add_scatter(
            x=[at] * len(ends), y=ends, name=name, mode="lines+markers" if len(ends) > 1 else "markers",
            line={"color": colour, "width": 1.5, "dash": "dot"}, marker={"symbol": "star", "size": 11, "color": colour},
            text=note, hoverinfo="text+y", row=2, col=col, **legend.entry(name),
        )  # fmt: skip
    return [claim[end] for claim in claims.values() for end in ("low", "high")]


def _axes(
    figure: go.Figure, key: str, name: str, rows: Iterable[Any], heights: Sequence[float], row: int, col: int
) -> None:
    sizes = sorted({entry[key] for entry, _ in rows})
    figure.update_xaxes(
        type="log", tickvals=sizes, ticktext=list(map(str, sizes)), title={"text": name}, row=row, col=col
    )
    figure.update_yaxes(type="log", tickvals=log_ticks(heights), row=row, col=col)


def _other(key: str, row: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Whether the size that is not on this axis is the tutorial's."""
    other = "width" if key == "batch" else "batch"
    return row[other] == record["arguments"][other]


def _case(row: Mapping[str, Any], record: Mapping[str, Any]) -> tuple[Any, ...]:
    return id(record), row["width"], row["steps"], row["batch"]


def _wrapped(text: str, width: int = 70) -> str:
    import textwrap

    return "<br>".join(textwrap.wrap(text, width))
