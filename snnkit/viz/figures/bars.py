"""Bars: the parts of a whole, memory against what a device has, and what happens when."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from ... import checks
from .. import theme
from ..drawing import NOTE, add_mark, finish, legend_below

if TYPE_CHECKING:
    from ...hardware import roofline

Span = tuple[str, float, float]
_BAR = 34  # pixels of a bar with the gap after it
_LETTER, _PLOT_WIDTH = 7, 520  # pixels, of a letter and of the plot in a PNG
_UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))
_FAR = 5  # times the longest bar: a limit beyond would leave the bars no room, and is written at the edge


def shares(
    wholes: Mapping[str, Mapping[str, float]], unit: str = "", title: str = "Shares", digits: int = 3
) -> go.Figure:
    """A horizontal bar for each entry of ``wholes``, stacked from its parts in the order in which they first occur.

    Args:
        wholes: name of a bar to {name of a part: value of at least 0}. A part has the same colour in all bars.
        unit: of the values, such as "ms".
        digits: of the total beside each bar.
    """
    wholes = _checked_parts(wholes)
    totals = {bar: sum(parts.values()) for bar, parts in wholes.items()}
    figure = go.Figure()
    _add_parts(figure, wholes, totals, unit)
    texts = {bar: f"{total:.{digits}g} {unit}".strip() for bar, total in totals.items()}
    for bar, total in totals.items():
        figure.add_annotation(x=total, y=bar, text=texts[bar], xanchor="left", xshift=4, **NOTE)
    # The longest bar leaves room for the longest total.
    room = min(0.5, (_LETTER * max(map(len, texts.values())) + 14) / _PLOT_WIDTH)
    return finish(figure, title, {"title_text": unit, "range": [0, max(totals.values()) / (1 - room) or 1]})


def memory_bars(
    wholes: Mapping[str, Mapping[str, float]],
    limits: Mapping[str, float] | None = None,
    *,
    title: str = "Memory",
) -> go.Figure:
    """A bar for each whole, stacked from its parts, and a dashed line for each limit: what stops before it fits.

    The unit (kB, MB, GB, powers of 1000) is that of the longest bar. Beside each bar is which limits it exceeds.

    Args:
        wholes: name of a bar to {name of a part: bytes}, for example {"training": {"weights": 4e6, "activity": 9e8}}.
        limits: name to available bytes, for example {"a T4": 16e9}.
    """
    room = checks.mapping("limits", {} if limits is None else limits, "name to bytes")
    limits = {name: checks.number(f"limits[{name!r}]", limit, above=0) for name, limit in room.items()}
    wholes = _checked_parts(wholes)
    totals = {bar: sum(parts.values()) for bar, parts in wholes.items()}
    longest = max(totals.values())
    unit, scale = next(((unit, scale) for unit, scale in _UNITS if longest >= scale), _UNITS[-1])
    scaled = {bar: {part: value / scale for part, value in parts.items()} for bar, parts in wholes.items()}
    figure = go.Figure()
    _add_parts(figure, scaled, {bar: total / scale for bar, total in totals.items()}, unit, above=20)
    near = {name: limit for name, limit in limits.items() if limit <= _FAR * longest}
    end = max([longest, *near.values()]) / scale or 1.0
    reach = 1.05 * end
    for bar, total in totals.items():
        over = [name for name, limit in limits.items() if total > limit]
        verdict = f", too much for {', '.join(over)}" if over else ", fits" if limits else ""
        text = f"{total / scale:.3g} {unit}{verdict}"
        figure.add_annotation(x=total / scale, y=bar, text=text, xanchor="left", xshift=4, **NOTE)
        # The text beside the bar keeps its size when the axis grows.
        reach = max(reach, total / scale / (1 - min((_LETTER * len(text) + 8) / 560, 0.7)))
    for name, limit in near.items():
        add_mark(figure, f"{name}: {_size(limit)}", limit / scale, [0, end])
    if far := [f"{name}: {_size(limit)}" for name, limit in limits.items() if name not in near]:
        at = {"x": 1, "xref": "paper", "xanchor": "right", "y": 1, "yref": "paper", "yanchor": "bottom", "yshift": 2}
        figure.add_annotation(text=f"{', '.join(far)} →", **at, **NOTE)
    return finish(figure, title, {"title_text": f"memory ({unit})", "range": [0, reach]})


def _size(count: float) -> str:
    unit, scale = next(((unit, scale) for unit, scale in _UNITS if count >= scale), _UNITS[-1])
    return f"{count / scale:.3g} {unit}"


def _checked_parts(wholes: Any) -> dict[str, dict[str, float]]:
    """Name of a bar to {name of a part: value}."""
    checked = {
        bar: {
            part: checks.number(f"{part!r} of {bar!r}", value, at_least=0)
            for part, value in checks.mapping(f"wholes[{bar!r}]", parts, "part to value").items()
        }
        for bar, parts in checks.mapping("wholes", wholes, "bar to its parts").items()
    }
    if not any(checked.values()):
        raise ValueError("wholes must hold at least one bar with at least one part, but it has none")
    return checked


def _add_parts(
    figure: go.Figure, wholes: Mapping[str, Mapping[str, float]], totals: Mapping[str, float], unit: str, above: int = 0
) -> None:
    """Stacked bars, and a page that is as high as they and their legend need."""
    names = list(dict.fromkeys(part for parts in wholes.values() for part in parts))
    for i, part in enumerate(names):
        values = [float(parts.get(part, 0.0)) for parts in wholes.values()]
        of_all = [f"{value / total:.1%}" if total else "" for total, value in zip(totals.values(), values, strict=True)]
        figure.add_bar(
            x=values, y=list(wholes), name=part, orientation="h", marker=theme.bar(i), customdata=of_all,
            hovertemplate=f"{part}<br>%{{x:.4g}} {unit}<br>%{{customdata}} of %{{y}}<extra></extra>", showlegend=True,
        )  # fmt: skip
    legend_below(figure, _BAR * len(wholes) + 10, names, above)
    figure.update_layout(barmode="stack", legend_traceorder="normal")
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False)


def spans(lanes: Mapping[str, Sequence[Span]], unit: str = "ms", title: str = "What happens when") -> go.Figure:
    """A lane for each entry of ``lanes``, the first on top, with a bar from start to end of each span.

    Args:
        lanes: name to (what, start, end) of each span. What has one name has one colour in all lanes.
        unit: of the times, which all lanes count from the same moment.
    """
    for lane, parts in checks.mapping("lanes", lanes, "name to its spans").items():
        for part in parts if isinstance(parts, (list, tuple)) else [parts]:
            if not isinstance(part, (tuple, list)) or len(part) != 3:
                raise TypeError(f"lanes[{lane!r}] must hold (what, start, end), but it holds {checks.shown(part)}")
            what, start, end = part
            where = f"{what!r} of {lane!r}"
            if not checks.number(f"start of {where}", start) <= checks.number(f"end of {where}", end):
                raise ValueError(f"{where} must end after it begins, but it is {start!r} to {end!r}")
    names = list(dict.fromkeys(what for lane in lanes.values() for what, _, _ in lane))
    if not names:
        raise ValueError("lanes must hold at least one lane with at least one span, but there is none")
    figure = go.Figure()
    for i, name in enumerate(names):
        rows = enumerate(lanes.values())
        of_name = [(row, start, end) for row, lane in rows for what, start, end in lane if what == name]
        figure.add_bar(
            x=[end - start for _, start, end in of_name], y=[row for row, _, _ in of_name], name=name, orientation="h",
            base=[start for _, start, _ in of_name], width=[0.72] * len(of_name), marker=theme.bar(i), showlegend=True,
            hovertemplate=f"{name}<br>%{{x:.4g}} {unit} long, from %{{base:.4g}}<extra></extra>",
        )  # fmt: skip
    legend_below(figure, _BAR * len(lanes), names)
    ends = [at for lane in lanes.values() for _, start, end in lane for at in (start, end)]
    up = {"tickvals": list(range(len(lanes))), "ticktext": list(lanes), "range": [len(lanes) - 0.5, -0.5]}
    across = {"title_text": unit, "range": [min(ends), max(ends)]}
    return finish(figure, title, across, up | {"showgrid": False}, barmode="overlay", legend_traceorder="normal")


def supersteps(
    work: roofline.Work,
    operations: Sequence[roofline.Operation],
    chip: str = "GC200",
    *,
    tiles: int = 6,
    precision: str = "float32",
    title: str = "",
) -> go.Figure:
    """What some tiles of a bulk-synchronous machine do when: compute, wait for all, exchange, and go on.

    Predicted by the terms of ``roofline.ipu``, never run. The values of an operation are spread evenly, so where there
    are fewer values than tiles, some tiles have none: they compute nothing and wait.

    Args:
        work: the training step that the operations belong to.
        operations: one superstep each.
        chip: an IPU.
        tiles: how many are drawn, evenly chosen.
        precision: "float32" or "float16".
    """
    from ...hardware import chips, roofline  # imports training and benchmarks, which other figures do not need

    checks.instance("work", work, roofline.Work, "a hardware.roofline.Work")
    operations = list(operations)
    if not operations:
        raise ValueError("operations must hold at least one operation, but it is empty")
    count = int(chips.get(chip).value("tiles"))
    tiles = checks.integer("tiles", tiles, at_least=2, at_most=count)
    shown = [round(i * (count - 1) / (tiles - 1)) for i in range(tiles)]
    lanes: dict[int, list[Span]] = {tile: [] for tile in shown}
    start = 0.0
    for op in operations:
        checks.instance("each of operations", op, roofline.Operation, "a hardware.roofline.Operation")
        parts = roofline.ipu(replace(work, operations=(op,)), chip, precision=precision).parts
        microseconds = {name: seconds.value * 1e6 for name, seconds in parts.items()}
        compute = microseconds["matmul"] + microseconds["elementwise"]
        kind = "matrix product" if op.flops else "elementwise"
        share = math.ceil(op.numel / count)
        synced = start + compute + microseconds["sync"]
        for tile, lane in lanes.items():
            busy = op.flops > 0 or tile * share < op.numel  # products are assumed to be spread evenly
            if busy:
                lane.append((kind, start, start + compute))
            lane.append(("waiting for all", start + compute if busy else start, synced))
            if microseconds["exchange"]:
                lane.append(("exchange", synced, synced + microseconds["exchange"]))
        start = synced + microseconds["exchange"]
    named = {f"tile {tile:,}": lane for tile, lane in lanes.items()}
    return spans(named, "µs (predicted)", title or f"{chip}: {len(operations)} supersteps, {start:.1f} µs")
