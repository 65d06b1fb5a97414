"""Bars: the parts of a whole, and what happens when."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from snnkit import checks
from snnkit.lab.viz import concepts, theme
from snnkit.lab.viz.drawing import NOTE, finish, legend_below

if TYPE_CHECKING:
    from snnkit.lab.hardware import roofline

Span = tuple[str, float, float]
_BAR = 34  # pixels of a bar with the gap after it
_LETTER, _PLOT_WIDTH = 7, 520  # pixels, of a letter and of the plot in a PNG
_TILES = 6  # so many are drawn, evenly chosen


@checks.arguments
def shares(wholes: Mapping[str, Mapping[str, float]], unit: str = "", title: str = "Shares") -> go.Figure:
    """A horizontal bar for each entry of ``wholes``, stacked from its parts in the order in which they first occur.

    Args:
        wholes: name of a bar to {name of a part: value of at least 0}. A part has the same colour in all bars. A bar
            without parts is a gap, "not measured".
        unit: of the values, such as "ms".
    """
    for bar, parts in wholes.items():
        for part, value in parts.items():
            checks.number(f"{part!r} of {bar!r}", value, at_least=0)
    names = list(dict.fromkeys(part for parts in wholes.values() for part in parts))
    if not names:
        raise ValueError("wholes must hold at least one bar with at least one part, but it has none")
    totals = {bar: float(sum(parts.values())) for bar, parts in wholes.items()}
    figure = go.Figure()
    for i, (part, ink) in enumerate(zip(names, concepts.colours(names), strict=True)):
        values = [float(parts.get(part, 0.0)) for parts in wholes.values()]
        of_all = [f"{value / total:.1%}" if total else "" for total, value in zip(totals.values(), values, strict=True)]
        figure.add_bar(
            x=values, y=list(wholes), name=part, orientation="h", marker=theme.bar(i, ink), customdata=of_all,
            hovertemplate=f"{part}<br>%{{x:.4g}} {unit}<br>%{{customdata}} of %{{y}}<extra></extra>", showlegend=True,
        )  # fmt: skip
    texts = {bar: f"{_digits(total)} {unit}".strip() for bar, total in totals.items()}
    texts |= {bar: "not measured" for bar, parts in wholes.items() if not parts}
    for bar, total in totals.items():
        figure.add_annotation(x=total, y=bar, text=texts[bar], xanchor="left", xshift=4, **NOTE)
    # The longest bar leaves room for the longest total.
    room = min(0.5, (_LETTER * max(map(len, texts.values())) + 14) / _PLOT_WIDTH)
    legend_below(figure, _BAR * len(wholes) + 10, names)
    across = {"title_text": unit, "range": [0, max(totals.values()) / (1 - room) or 1]}
    if len(names) == 1:  # the axis says what a legend of one colour would
        across["title_text"] = f"{names[0]} ({unit})" if unit else names[0]
        figure.update_layout(height=_BAR * len(wholes) + 10 + theme.MARGIN["t"] + 50, margin_b=50)
    up = {"type": "category", "autorange": "reversed", "showgrid": False}
    looks = {"barmode": "stack", "legend_traceorder": "normal", "showlegend": len(names) > 1}
    return finish(figure, title, across, up, **looks)


def _digits(number: float) -> str:
    """Three digits at least: 0.205, 12.7, 1,010."""
    return f"{number:,.0f}" if number >= 999.5 else f"{number:.3g}"


@checks.arguments
def spans(
    lanes: Mapping[Any, Sequence[Span | list[Any]]], unit: str = "ms", title: str = "What happens when"
) -> go.Figure:
    """A lane for each entry of ``lanes``, the first on top, with a bar from start to end of each span.

    Args:
        lanes: name to (what, start, end) of each span. Equal names have the same colour in all lanes.
        unit: unit of the times; all lanes start at the same time.
    """
    for lane, parts in lanes.items():
        for what, start, end in parts:
            checks.number(f"end of {what!r} of {lane!r}", end, at_least=checks.number(f"start of {what!r}", start))
    names = list(dict.fromkeys(what for lane in lanes.values() for what, _, _ in lane))
    if not names:
        raise ValueError("lanes must hold at least one lane with at least one span, but there is none")
    figure = go.Figure()
    for i, (name, ink) in enumerate(zip(names, concepts.colours(names), strict=True)):
        rows = enumerate(lanes.values())
        of_name = [(row, start, end) for row, lane in rows for what, start, end in lane if what == name]
        figure.add_bar(
            x=[end - start for _, start, end in of_name], y=[row for row, _, _ in of_name], name=name, orientation="h",
            base=[start for _, start, _ in of_name], width=[0.72] * len(of_name), showlegend=True,
            marker=theme.bar(i, ink),
            hovertemplate=f"{name}<br>%{{x:.4g}} {unit} long, from %{{base:.4g}}<extra></extra>",
        )  # fmt: skip
    legend_below(figure, _BAR * len(lanes), names)
    ends = [at for lane in lanes.values() for _, start, end in lane for at in (start, end)]
    up = {"tickvals": list(range(len(lanes))), "ticktext": list(lanes), "range": [len(lanes) - 0.5, -0.5]}
    across = {"title_text": unit, "range": [min(ends), max(ends)]}
    return finish(figure, title, across, up | {"showgrid": False}, barmode="overlay", legend_traceorder="normal")


@checks.arguments
def supersteps(work: roofline.Work, operations: Sequence[roofline.Operation], title: str = "") -> go.Figure:
    """The work of some tiles of a GC200, a bulk-synchronous machine, over time: compute, wait for all, exchange, and go
    on.

    Predicted by the terms of ``roofline.ipu`` in float32, never run. The values of an operation are spread evenly. With
    fewer values than tiles, some tiles have none: they compute nothing and wait.

    Args:
        work: the training step that the operations belong to.
        operations: one superstep each.
        title: "": how long they take.
    """
    from snnkit.lab.hardware import chips, roofline  # imports training and benchmarks, which other figures do not need

    count = int(chips.get("GC200").value("tiles"))
    lanes: dict[int, list[Span]] = {round(i * (count - 1) / (_TILES - 1)): [] for i in range(_TILES)}
    start = 0.0
    for op in operations:
        parts = roofline.ipu(replace(work, operations=(op,)), "GC200", precision="float32").parts
        microseconds = {name: seconds.value * 1e6 for name, seconds in parts.items()}
        computed = start + microseconds["matmul"] + microseconds["elementwise"]
        synced = computed + microseconds["sync"]
        exchanged = synced + microseconds["exchange"]
        for tile, lane in lanes.items():
            busy = op.flops > 0 or tile * math.ceil(op.numel / count) < op.numel  # products are spread evenly
            if busy:
                lane.append(("matrix product" if op.flops else "elementwise", start, computed))
            lane.append(("waiting for all", computed if busy else start, synced))
            if exchanged > synced:
                lane.append(("exchange", synced, exchanged))
        start = exchanged
    named = {f"tile {tile:,}": lane for tile, lane in lanes.items()}
    return spans(named, "µs (predicted)", title or f"{len(operations)} supersteps take {start:.3g} µs")
