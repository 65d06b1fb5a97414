"""Benchmark records: time against the number of steps, samples per second, and predictions beside measurements."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from snnkit import checks
from snnkit.lab.viz import theme
from snnkit.lab.viz.drawing import SYMBOLS, add_line, finish, legend_below, line_look, log_ticks, panels
from snnkit.lab.viz.figures.line_plots import lines
from snnkit.lab.viz.figures.machines import Marked, marked

_MODES = ("inference", "training")
_FORWARD = "forward"  # as products call it
_PEER = "snnTorch"
_FLOOR = {"colour": theme.TEXT, "dash": "dash", "width": 1.5}

Record = Mapping[str, Any]
# Of each panel and name: x, y, the ends of its spread (or y twice) and a note for hovering of each point.
Curves = dict[tuple[int, str], list[tuple[float, float, float, float, str]]]


@checks.arguments
def races(records: Record | Sequence[Record]) -> go.Figure:
    """Milliseconds of a LIF layer against T for all contestants of one or more records, a panel for each mode.

    It shows the largest layer in float32 that all records have.

    The dashed line under those of a measured record is its floor: the time to move the necessary bytes at the bandwidth
    of a copy on the same device. Published curves have none; they are dotted lines with hollow marks. Bars reach from
    the 10th to the 90th percentile. Hovering shows where the number comes from.

    Args:
        records: from ``snnkit.records.load`` or ``snnkit.lab.bench``.
    """
    every = _checked(records)
    sizes = [{row["neurons"] for row in record["rows"] if row["dtype"] == "float32"} for record in every]
    size = max(set.intersection(*sizes) or set.union(*sizes), default=0)
    named = sum(record["kind"] != "published" for record in every) > 1  # the device is part of the name
    curves: Curves = {}
    looks: dict[str, dict[str, Any]] = {}
    for device, record in zip(_devices(every), every, strict=True):
        published, where = record["kind"] == "published", _where(record)
        suffix = f", {device}" if named or published else ""
        floors: dict[tuple[str, int], Record] = {}
        for row in record["rows"]:
            ours = not published and row["library"] in ("snnkit", "torch")
            lif = published or row["equation"] == "LIF"
            if (row["neurons"], row["dtype"]) != (size, "float32") or (ours and not lif):
                continue
            # Peers are drawn whichever equation they compute.
            name = row["contestant"] + ("" if lif else f" ({row['equation']})") + suffix
            _add(curves, _MODES.index(row["mode"]), name, row["steps"], *_times(row, 1e3), _note(row, where))
            looks.setdefault(name, _look(looks, published))
            if lif and not published:  # smaller outputs have lower floors: the largest counts
                key = row["mode"], row["steps"]
                floors[key] = max(floors.get(key, row), row, key=lambda one: one["floor_bytes"])
        for (mode, steps), row in floors.items():
            note = "<br>bytes at the bandwidth of a copy"
            _add(curves, _MODES.index(mode), "floor" + suffix, steps, row["floor_s"] * 1e3, (), note)
            looks["floor" + suffix] = _FLOOR
    if not curves:
        raise ValueError("records must hold rows in float32, but none does")
    return _against_steps(curves, looks, f"A layer of {size:,} neurons over time, float32", "milliseconds")


@checks.arguments
def per_neuron_step(records: Mapping[str, Record], *, title: str = "Time per neuron and step") -> go.Figure:
    """Nanoseconds per LIF neuron and step against T: flat lines are linear in T, and any two layers can be compared.

    It shows, for each record at its largest number of neurons in float32, the loop, the best of our compiled engines,
    and the peers that compute the same equation. Published curves are dotted with hollow marks. Bars reach from the
    10th to the 90th percentile. Hovering shows the size and where the number comes from.

    Args:
        records: name to a record, from ``snnkit.records.load`` or ``snnkit.lab.bench``.
    """
    curves: Curves = {}
    looks: dict[str, dict[str, Any]] = {}
    for label, record in zip(records, _checked(list(records.values())), strict=True):
        published, where = record["kind"] == "published", _where(record)
        rows = [row for row in record["rows"] if (row["dtype"], row["equation"]) == ("float32", "LIF")]
        rows = [row for row in rows if published or (row["out_dtype"] == "float32" and row["library"] != "torch")]
        largest = max((row["neurons"] for row in rows), default=0)
        rows = sorted((row for row in rows if row["neurons"] == largest), key=lambda row: row["steps"])
        for panel, mode in enumerate(_MODES):
            of_mode = [row for row in rows if row["mode"] == mode]
            fused = [row for row in of_mode if not published and row["engine"] not in ("", "eager")]
            last = [row for row in fused if row["steps"] == fused[-1]["steps"]]
            best = min(last, key=_seconds)["contestant"] if last else ""
            for row in of_mode:
                if row in fused and row["contestant"] != best:
                    continue
                name = f"{row['contestant']}, {label}"
                note = f"<br>{'published: ' if published else ''}{where}, N = {largest:,}"
                _add(curves, panel, name, row["steps"], *_times(row, 1e9 / largest / row["steps"]), note)
                looks.setdefault(name, _look(looks, published))
    if not curves:
        raise ValueError("records must hold rows of LIF in float32, but none does")
    return _against_steps(curves, looks, title, "ns per neuron and step")


def _against_steps(curves: Curves, looks: Mapping[str, dict[str, Any]], heading: str, y: str) -> go.Figure:
    """A panel for each mode that has curves, over T."""
    used = sorted({panel for panel, _ in curves})
    curves = {(used.index(panel), name): line for (panel, name), line in curves.items()}
    titles = [("Forward", "Forward and backward")[panel] for panel in used]
    figure = panels(1, len(used), titles, horizontal_spacing=0.09)
    _draw(figure, curves, looks, len(used), f"T = %{{x}}<br>%{{y:.4g}} {y}")
    legend_below(figure, 280, list(dict.fromkeys(name for _, name in curves)))
    figure.update_yaxes(title_text=y, row=1, col=1)
    hollow = "; hollow: published" if any(look.get("dash") == "dot" for look in looks.values()) else ""
    return finish(figure, heading + hollow, "time steps T")


@checks.arguments
def device_rates(records: Record | Sequence[Record]) -> go.Figure:
    """Samples per second against the batch, a line for each model, device and dtype: of training, if it was measured.

    Where the line of a GPU crosses that of a CPU, the GPU begins to pay.

    Args:
        records: of kind "demo", from ``snnkit.records.load`` or ``snnkit.lab.bench``.
    """
    rows = [(row, record) for record in _checked(records, "demo") for row in record["rows"]]
    mode = max(row["mode"] for row, _ in rows)  # "training" comes after "inference"
    curves: dict[str, list[tuple[float, float]]] = {}
    for row, record in rows:
        if row["mode"] == mode:
            where = _where(record) if row["device"] != "cpu" else record["provenance"]["cpu"]
            name = f"{row['model']}, {where}, {row['dtype']}"
            curves.setdefault(name, []).append((row["batch"], row["samples_per_s"]))
    series = {name: tuple(zip(*sorted(points), strict=True)) for name, points in curves.items()}
    title = f"{mode.capitalize()}: samples per second"
    page = lines(series, x_title="batch", y_title="samples per second", log="xy", title=title)
    legend_below(page, 280, list(series))
    return page.update_layout(showlegend=True)  # one line, too, needs its machine's name


@checks.arguments
def training_rates(records: Record | Sequence[Record]) -> go.Figure:
    """Samples per second of all contestants that trained a network: grouped by network, the fastest first.

    Hovering shows the spread, the time of the first update, and where the number comes from.

    Args:
        records: of kind "training", from ``snnkit.records.load`` or ``snnkit.lab.bench``.
    """
    rows = [(row, _where(record)) for record in _checked(records, "training") for row in record["rows"]]
    rows.sort(key=lambda pair: (pair[0]["net"], pair[0]["equation"], pair[0]["width"], -pair[0]["samples_per_s"]))
    numbers = []
    for row, where in rows:
        lane = f"{row['net']} {row['width']}, {row['equation']}: {row['contestant']}, {row['dtype']}"
        source = _note(row, where).removeprefix("<br>")
        numbers.append(Marked(lane, "measured", row["samples_per_s"], source=source))
    return marked(numbers, "samples per second", title="Training: samples per second")


@checks.arguments
def framework_ratios(record: Record) -> go.Figure:
    """How many times as long as the kit each framework takes, against the size of the layer.

    Panels: ``Linear(n, n)`` with n neurons above, the neurons alone below; forward, and forward and backward. Each is
    divided by our fastest engine **on its own equation**, in float32; bars reach from the 10th to the 90th percentile.

    Args:
        record: of kind "frameworks", from ``snnkit.records.load`` or ``snnkit.lab.bench``.
    """
    (content,) = _checked(record, "frameworks")
    rows = [row for row in content["rows"] if row["dtype"] == "float32"]
    best: dict[tuple[Any, ...], float] = {}
    for row in rows:
        if row["library"] == "snnkit":
            case = row["part"], row["features"], row["equation"], row["mode"]
            best[case] = min(best.get(case, math.inf), row["median_s"])
    curves: Curves = {}
    for row in rows:
        ours = best.get((row["part"], row["features"], row["equation"], row["mode"]))
        if row["library"] != "snnkit" and ours is not None:
            panel = 2 * (row["part"] == "neurons") + _MODES.index(row["mode"])
            note = f" times ours<br>{row['equation']}: {row['median_s'] * 1e3:.4g} ms, ours {ours * 1e3:.4g} ms"
            _add(curves, panel, row["contestant"], row["features"], *_times(row, 1 / ours), note)
    if not curves:
        raise ValueError("record must hold rows of another framework in float32, but it has none")
    looks = {name: line_look(i) for i, name in enumerate(dict.fromkeys(name for _, name in curves))}
    titles = ["Linear and neurons, forward", "forward and backward", "Neurons alone, forward", "forward and backward"]
    figure = panels(2, 2, titles, horizontal_spacing=0.1, vertical_spacing=0.15)
    _draw(figure, curves, looks, 2, "n = %{x}: %{y:.3g}", dict.fromkeys(range(4), (1.0,)))
    figure.update_yaxes(title_text="times ours", col=1)
    figure.update_xaxes(title_text="neurons n", row=2)
    legend_below(figure, 560, list(looks), above=20)
    return finish(figure, f"Time over ours on the same equation: {_where(content)}")


@checks.arguments
def break_even(record: Record) -> go.Figure:
    """How many times as fast a product of spikes by their places is as the faster dense one, against their density.

    A line for each shape; panels: forward, and the gradients of weights and bias with it. A line that has come down to
    1 has reached the density from which on the kit multiplies densely, too. Bars are as of ``framework_ratios``.

    Args:
        record: of kind "sparsity", from ``snnkit.records.load`` or ``snnkit.lab.bench``.
    """
    (content,) = _checked(record, "sparsity")
    cases: dict[tuple[Any, ...], dict[str, Record]] = {}
    for row in content["rows"]:
        cases.setdefault((row["mode"], row["case"], row["density"]), {})[row["contestant"]] = row
    curves: Curves = {}
    for (mode, case, density), found in cases.items():
        dense = min((found[name]["median_s"] for name in ("dense", "PyTorch") if name in found), default=None)
        if mode in (_FORWARD, _MODES[1]) and dense is not None and "snnkit" in found:
            ours = found["snnkit"]
            note = f" times as fast<br>{1e3 * ours['median_s']:.4g} ms, dense {1e3 * dense:.4g} ms"
            gains = [dense / ours[part] for part in ("median_s", "p90_s", "p10_s")]
            _add(curves, int(mode != _FORWARD), case, 100 * density, gains[0], gains[1:], note)
    if not curves:
        raise ValueError("record must hold products, ours and dense ones, but it has none")
    looks = {name: line_look(i) for i, name in enumerate(dict.fromkeys(name for _, name in curves))}
    figure = panels(1, 2, ["Forward", "Forward and gradients of the weights"], horizontal_spacing=0.09)
    _draw(figure, curves, looks, 2, "%{x:.3g} %: %{y:.3g}", dict.fromkeys(range(2), (1.0,)))
    legend_below(figure, 280, list(looks))
    figure.update_xaxes(title_text="spikes in % of the inputs")
    figure.update_yaxes(title_text="times as fast", row=1, col=1)
    return finish(figure, f"Products of spikes over dense ones: {_where(content)}")


@checks.arguments
def comparison(records: Record | Sequence[Record], *, title: str = "") -> go.Figure:
    """Training rate of the network of snnTorch's IPU tutorial, against the batch and against its size.

    Above samples per second: lines were measured, bands are predicted by ``hardware.roofline`` for IPUs on which
    nothing was run here. Below times the samples per second of eager snnTorch on the same device; points with a star
    were published by others, as ratios on machines of their own (hovering shows what and where). All are of float32, or
    of the first dtype of records without it.

    Args:
        records: of kind "compare", from ``snnkit.records.load`` or ``snnkit.lab.bench``.
    """
    every = _checked(records, "compare")
    dtypes = [row["dtype"] for record in every for row in record["rows"]]
    dtype = "float32" if "float32" in dtypes else dtypes[0]
    rows = [(row, record) for record in every for row in record["rows"] if row["dtype"] == dtype]

    def case(row: Record, record: Record) -> tuple[Any, ...]:
        return id(record), row["width"], row["steps"], row["batch"]

    slow = {case(row, record): row["samples_per_s"] for row, record in rows if row["contestant"] == _PEER}
    first = every[0]["arguments"]
    titles = [f"{first['width']} hidden neurons", f"batch {first['batch']}"] * 2
    figure = panels(2, 2, titles, horizontal_spacing=0.1, vertical_spacing=0.12)
    curves: Curves = {}
    heights: dict[int, list[float]] = {panel: [] for panel in range(4)}  # of what is no line
    for col, (key, other) in enumerate((("batch", "width"), ("width", "batch"))):
        # The size that is not on this axis is the tutorial's.
        for row, record in [pair for pair in rows if pair[0][other] == pair[1]["arguments"][other]]:
            where = _where(record)
            name = row["contestant"] + (f", {where}" if len(every) > 1 else "")
            note = f"<br>measured: {row['p10_s'] * 1e3:.4g} - {row['p90_s'] * 1e3:.4g} ms per update<br>{where}"
            rate, base = row["samples_per_s"], slow.get(case(row, record))
            _add(curves, col, name, row[key], rate, (), f" samples/s{note}")
            if base is not None:
                _add(curves, 2 + col, name, row[key], rate / base, (), f" times eager snnTorch{note}")
        predicted: dict[str, dict[int, Record]] = {}
        for record in every:
            for band in record["predictions"]:
                if band["dtype"] == dtype and band[other] == record["arguments"][other]:
                    predicted.setdefault(band["chip"], {}).setdefault(band[key], band)
        heights[col] = _add_bands(figure, predicted, col)
    claims = {claim["who"]: claim for record in every for claim in record["claims"]} if slow else {}
    heights[2] = heights[3] = [claim[end] for claim in claims.values() for end in ("low", "high")]
    looks = {name: line_look(i) for i, name in enumerate(dict.fromkeys(name for _, name in curves))}
    _draw(figure, curves, looks, 2, "%{x}: %{y:,.4g}", heights)
    for col, (key, name) in enumerate((("batch", "batch"), ("hidden", "hidden neurons")), start=1):
        _add_claims(figure, claims, key, col)
        figure.update_xaxes(title_text=name, col=col)
    for row, text in enumerate(("samples per second", "times eager snnTorch"), start=1):
        figure.update_yaxes(title_text=text, row=row, col=1)
    legend_below(figure, 610, _names(figure), above=20)
    usual = f"784-N-10 over {first['steps']} steps, {dtype}: lines measured, bands predicted, stars published"
    return finish(figure, title or usual)


def _add_bands(figure: go.Figure, predicted: Mapping[str, Mapping[int, Record]], col: int) -> list[float]:
    """A band for each chip, of the first record that predicts it; its ends."""
    ends: list[float] = []
    for i, (chip, by_size) in enumerate(predicted.items()):
        name = f"predicted: {chip}, {next(iter(by_size.values()))['precision']}"
        sizes = sorted(by_size)
        low, high = ([by_size[size][end] for size in sizes] for end in ("low", "high"))
        ends += [*low, *high]
        ink = theme.PALETTE[-1 - i % len(theme.PALETTE)]
        # Its edge has a dash of its own, so that overlapping bands can be distinguished without their colours.
        edge = {"color": ink, "width": 1.5, "dash": theme.DASHES[1 + i % (len(theme.DASHES) - 1)]}
        figure.add_scatter(
            x=[*sizes, *reversed(sizes)], y=[*high, *reversed(low)], mode="lines", line=edge, name=name, fill="toself",
            fillcolor=theme.faint(ink, 0.2), hoveron="fills", hoverinfo="text", legendgroup=name, row=1, col=col + 1,
            text=f"{name}<br>by a model whose constants are partly assumed; never run",
            showlegend=name not in _names(figure),
        )  # fmt: skip
    return ends


def _add_claims(figure: go.Figure, claims: Mapping[str, Record], key: str, col: int) -> None:
    """A marked point for each published ratio, a stroke between two where a range was published."""
    for i, (who, claim) in enumerate(claims.items()):
        name = f"{'derived' if claim['derived'] else 'published'}: {who}"
        ends = list(dict.fromkeys((claim["low"], claim["high"])))
        words = textwrap.wrap(f"{claim['said']} times: {claim['what']}", 70)
        colour = theme.colour(i + 1)
        figure.add_scatter(
            x=[claim[key]] * len(ends), y=ends, name=name, mode="lines+markers", hoverinfo="text+y", row=2, col=col,
            line={"color": colour, "width": 1.5, "dash": "dot"}, marker={"symbol": "star", "size": 11, "color": colour},
            text="<br>".join([name, *words, claim["source"], claim["url"]]), legendgroup=name,
            showlegend=name not in _names(figure),
        )  # fmt: skip


def _draw(
    figure: go.Figure,
    curves: Curves,
    looks: Mapping[str, dict[str, Any]],
    columns: int,
    hover: str,
    others: Mapping[int, Sequence[float]] | None = None,
) -> None:
    """All curves, and logarithmic axes with ticks at the sizes; ``others`` are heights that a panel has besides."""
    for (panel, name), points in curves.items():
        x, y, low, high, notes = zip(*sorted(points, key=lambda point: point[0]), strict=True)
        place: dict[str, Any] = {"row": panel // columns + 1, "col": panel % columns + 1}
        template = f"{name}<br>{hover}%{{customdata}}<extra></extra>"
        entry: dict[str, Any] = {"legendgroup": name, "showlegend": name not in _names(figure)}
        if high != low:
            up, down = np.subtract(high, y), np.subtract(y, low)
            entry["error_y"] = {"array": up, "arrayminus": down, "symmetric": False, "thickness": 1, "width": 3}
        add_line(figure, x, y, name, customdata=notes, hovertemplate=template, **entry, **place, **looks[name])
    for panel in {panel for panel, _ in curves}:
        points = [point for (its, _), line in curves.items() if its == panel for point in line]
        place: dict[str, Any] = {"row": panel // columns + 1, "col": panel % columns + 1}
        sizes = sorted({point[0] for point in points})
        figure.update_xaxes(type="log", tickvals=sizes, ticktext=list(map(str, sizes)), **place)
        heights = [*(y for point in points for y in point[1:4]), *(others or {}).get(panel, ())]
        figure.update_yaxes(type="log", tickvals=log_ticks(heights), **place)


def _add(curves: Curves, panel: int, name: str, x: float, y: float, spread: Sequence[float], note: str) -> None:
    low, high = spread or (y, y)
    curves.setdefault((panel, name), []).append((x, y, low, high, note))


def _times(row: Record, unit: float) -> tuple[float, tuple[float, ...]]:
    """The median, and the 10th and 90th percentile of a measured row, each times ``unit``."""
    return _seconds(row) * unit, tuple(row[end] * unit for end in ("p10_s", "p90_s") if end in row)


def _names(figure: go.Figure) -> list[str]:
    """The names of the traces, each once."""
    traces: Any = figure.data
    return list(dict.fromkeys(trace.name for trace in traces))


def _look(looks: Mapping[str, Any], published: bool) -> dict[str, Any]:
    """The look of the next line; published ones are dotted with hollow marks."""
    i = sum(look is not _FLOOR for look in looks.values())
    if published:
        return {"colour": theme.colour(i), "symbol": f"{SYMBOLS[i % len(SYMBOLS)]}-open", "dash": "dot"}
    return line_look(i)


def _where(record: Record) -> str:
    origin = record["provenance"]
    return origin["hardware"] if record["kind"] == "published" else origin["device"]["name"]


def _devices(every: Sequence[Record]) -> list[str]:
    """The device of each record; of one that occurs again, with a number, or their curves would become one."""
    names = [_where(record).partition(",")[0] for record in every]
    return [f"{name} ({earlier + 1})" if (earlier := names[:i].count(name)) else name for i, name in enumerate(names)]


def _seconds(row: Record) -> float:
    return row["seconds"] if "seconds" in row else row["median_s"]


def _note(row: Record, where: str) -> str:
    if "p10_s" not in row:
        return f"<br>published: {where}"
    each = f" per update of {row['batch']}" if "batch" in row else ""
    first = f"<br>first update: {row['first_s']:.3g} s" if "first_s" in row else ""
    spread = f"<br>10-90 %: {row['p10_s'] * 1e3:.4g} - {row['p90_s'] * 1e3:.4g} ms{each}{first}"
    return f"{spread}<br>{row['over_floor']:.2f} times its floor<br>{where}"


def _checked(records: Record | Sequence[Record], kind: str = "") -> list[Record]:
    """The records as a list; each must be of ``kind`` and say where its numbers come from."""
    every = [records] if isinstance(records, Mapping) else records
    if not every:
        raise ValueError("records must hold at least one record, but it is empty")
    for record in every:
        checks.mapping("each of records", record, "what records.load gives")
        if not record.get("provenance") or "rows" not in record:
            raise ValueError("records must say where their numbers come from (provenance), else they are not shown")
        if kind and record["kind"] != kind:
            raise ValueError(f"records must be of kind {kind!r}, but one is of kind {record['kind']!r}")
    if not any(record["rows"] for record in every):
        raise ValueError("records must hold rows, but none does")
    return list(every)
