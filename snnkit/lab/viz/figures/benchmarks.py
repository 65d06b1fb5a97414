"""Benchmark records: time against the number of steps, samples per second, and predictions beside measurements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from snnkit import checks
from snnkit.lab.viz import concepts, theme
from snnkit.lab.viz.drawing import (
    NOTE,
    RULER,
    SYMBOLS,
    add_line,
    add_marks,
    ends_of,
    finish,
    label_lines,
    legend_below,
    line_looks,
    log_ticks,
    panels,
    scale_of,
)
from snnkit.lab.viz.figures.line_plots import lines

_MODES = ("inference", "training")
_FORWARD = "forward"  # as products call it
_PEER = "snnTorch"
_MODELLED = "by a model whose constants are partly assumed; never run"
_NEAR = 12  # pixels from a label to a line
_ROW = 46  # pixels of a network, of a framework
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
    kinds: dict[str, str] = {}
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
            kinds.setdefault(name, "published" if published else "")
            if lif and not published:  # smaller outputs have lower floors: the largest counts
                key = row["mode"], row["steps"]
                floors[key] = max(floors.get(key, row), row, key=lambda one: one["floor_bytes"])
        for (mode, steps), row in floors.items():
            note = "<br>bytes at the bandwidth of a copy"
            _add(curves, _MODES.index(mode), "floor" + suffix, steps, row["floor_s"] * 1e3, (), note)
            kinds["floor" + suffix] = "floor"
    if not curves:
        raise ValueError("records must hold rows in float32, but none does")
    heading = f"{_fastest(curves)}{size:,} neurons, float32"
    return _against_steps(curves, kinds, heading, "milliseconds")


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
    kinds: dict[str, str] = {}
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
                kinds.setdefault(name, "published" if published else "")
    if not curves:
        raise ValueError("records must hold rows of LIF in float32, but none does")
    return _against_steps(curves, kinds, title, "ns per neuron and step")


def _fastest(curves: Curves) -> str:
    """How many times as fast as the loop the best engine is, forward over the most steps that both have."""
    at = {name: {x: y for x, y, *_ in line} for (panel, name), line in curves.items() if panel == 0}
    engines = {name: line for name, line in at.items() if name in concepts.TABLE["engines"] and name != "eager"}
    if "eager" not in at or not engines:
        return "A layer over time: "
    last = max(at["eager"])
    best = min(engines, key=lambda name: engines[name].get(last, math.inf))
    if last not in engines[best]:
        return "A layer over time: "
    return f"Over {last} steps, {best} is {at['eager'][last] / engines[best][last]:.2g} times as fast as the loop: "


def _against_steps(curves: Curves, kinds: Mapping[str, str], heading: str, y: str) -> go.Figure:
    """A panel for each mode that has curves, over T."""
    looks = _looks(kinds)
    used = sorted({panel for panel, _ in curves})
    curves = {(used.index(panel), name): line for (panel, name), line in curves.items()}
    titles = [("Forward", "Forward and backward")[panel] for panel in used]
    figure = panels(1, len(used), titles, horizontal_spacing=0.09)
    _draw(figure, curves, looks, len(used), f"T = %{{x}}<br>%{{y:.4g}} {y}")
    _label(figure, curves, looks, len(used), 300)
    figure.update_yaxes(title_text=y, row=1, col=1)
    hollow = "; hollow: published" if "published" in kinds.values() else ""
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
    if len(series) == 1:  # one line, too, needs its machine's name
        legend_below(page, 280, list(series))
        page.update_layout(showlegend=True)
    return page


@checks.arguments
def training_rates(records: Record | Sequence[Record]) -> go.Figure:
    """Samples per second of all libraries that trained a network: a row for each network, a dot for each library.

    A library has the variant that was fastest, filled in float32 and hollow in bfloat16; our loop over time has dots of
    its own. Hovering shows the variant, the spread and where the number comes from.

    Args:
        records: of kind "training", from ``snnkit.records.load`` or ``snnkit.lab.bench``.
    """
    rows = [(row, _where(record)) for record in _checked(records, "training") for row in record["rows"]]
    best: dict[tuple[str, str, str], tuple[Record, str]] = {}  # of each network, library and dtype
    for row, where in rows:
        key = f"{row['net']} {row['width']}, {row['equation']}", _library(row), row["dtype"]
        if key not in best or row["samples_per_s"] > best[key][0]["samples_per_s"]:
            best[key] = row, where
    nets = {net: i for i, net in enumerate(dict.fromkeys(net for net, _, _ in sorted(best)))}
    names = list(dict.fromkeys(library for _, library, _ in best))
    figure = go.Figure()
    for i, (name, ink) in enumerate(zip(names, concepts.colours(names), strict=True)):
        for dtype, up, hollow in (("float32", -0.14, ""), ("bfloat16", 0.14, "-open")):
            fastest = {net: one for (net, library, kind), one in best.items() if (library, kind) == (name, dtype)}
            notes = [f"{net}: {row['contestant']}, {dtype}{_note(row, where)}" for net, (row, where) in fastest.items()]
            look = {"symbol": f"{SYMBOLS[i % len(SYMBOLS)]}{hollow}", "size": 10, "colour": ink, "name": name}
            look |= {"text": notes, "hoverinfo": "text", "legendgroup": name, "showlegend": not hollow}
            x, y = [row["samples_per_s"] for row, _ in fastest.values()], [nets[net] + up for net in fastest]
            if fastest:
                add_marks(figure, x, y, **look)
    every = [row["samples_per_s"] for row, _ in best.values()]
    legend_below(figure, _ROW * len(nets), names)
    across = scale_of("x", "x", every) | {"title_text": "samples per second", "range": ends_of(every, log=True)}
    up = {"tickvals": list(nets.values()), "ticktext": list(nets), "range": [len(nets) - 0.5, -0.5], "showgrid": False}
    for edge in range(1, len(nets)):
        figure.add_hline(y=edge - 0.5, line={"color": theme.AXIS, "width": 0.5})
    return finish(figure, f"{_lead(best)}; hollow: bfloat16", across, up)


def _library(row: Record) -> str:
    """Of a row: "snnkit", the loop, or another library."""
    return "eager" if row["contestant"] == "eager" else row["library"]


def _lead(best: Mapping[tuple[str, str, str], tuple[Record, str]]) -> str:
    """How many times as fast as the next library ours trains, from network to network, in float32."""
    times = []
    for net in {net for net, _, _ in best}:
        rates = {library: row["samples_per_s"] for (its, library, dtype), (row, _) in best.items()
                 if (its, dtype) == (net, "float32")}  # fmt: skip
        others = [rate for library, rate in rates.items() if library not in ("snnkit", "eager")]
        if "snnkit" in rates and others:
            times.append(rates["snnkit"] / max(others))
    if not times:
        return "Training: samples per second"
    low, high = f"{min(times):.2g}", f"{max(times):.2g}"
    return f"Training: snnkit is {low if low == high else f'{low} to {high}'} times as fast as the next library"


@checks.arguments
def framework_ratios(record: Record) -> go.Figure:
    """How many times as long as the kit each framework takes: a row for each, a dot for each size of the layer.

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
    ratios: dict[tuple[int, str], dict[int, tuple[float, float, float, str]]] = {}
    for row in rows:
        ours = best.get((row["part"], row["features"], row["equation"], row["mode"]))
        if row["library"] != "snnkit" and ours is not None:
            panel = 2 * (row["part"] == "neurons") + _MODES.index(row["mode"])
            note = f"{row['equation']}: {row['median_s'] * 1e3:.4g} ms, ours {ours * 1e3:.4g} ms"
            ends = (row[end] / ours for end in ("median_s", "p10_s", "p90_s"))
            ratios.setdefault((panel, row["contestant"]), {})[row["features"]] = (*ends, note)
    if not ratios:
        raise ValueError("record must hold rows of another framework in float32, but it has none")
    names = list(dict.fromkeys(name for _, name in ratios))
    sizes = sorted({size for points in ratios.values() for size in points})
    titles = ["Linear and neurons, forward", "forward and backward", "Neurons alone, forward", "forward and backward"]
    figure = panels(2, 2, titles, horizontal_spacing=0.05, vertical_spacing=0.17, shared_yaxes=True)
    inks = dict(zip(names, concepts.colours(names), strict=True))
    for (panel, name), points in ratios.items():
        place: dict[str, Any] = {"row": panel // 2 + 1, "col": panel % 2 + 1}
        for size, (middle, low, high, note) in points.items():
            # From the smallest layer, a small hollow dot, to the largest.
            share = sizes.index(size) / max(len(sizes) - 1, 1)
            look = {"symbol": "circle" if share == 1 else "circle-open", "size": 7 + 4 * share, "colour": inks[name]}
            hover = f"{name}, n = {size}<br>{middle:.3g} times ours<br>{note}<extra></extra>"
            spread = {"array": [high - middle], "arrayminus": [middle - low], "symmetric": False, "thickness": 1}
            row = [names.index(name)]
            add_marks(figure, [middle], row, name=name, hovertemplate=hover, error_x=spread, **look, **place)
    rows_look = {"tickvals": list(range(len(names))), "ticktext": names, "range": [len(names) - 0.5, -0.5]}
    figure.update_yaxes(**rows_look, showgrid=False)
    for panel in range(4):
        every = [
            1.0,
            *(end for (its, _), points in ratios.items() if its == panel for one in points.values() for end in one[:3]),
        ]
        look = scale_of("x", "x", every) | {"range": ends_of(every, log=True)}
        place = {"row": panel // 2 + 1, "col": panel % 2 + 1}
        figure.update_xaxes(**look, **place)
        figure.add_vline(x=1, line=RULER, **place)
    marks = f"hollow: n = {sizes[0]:,}, filled: n = {sizes[-1]:,}" if len(sizes) > 1 else f"n = {sizes[0]:,}"
    height = 2 * 30 * len(names) + 200
    figure.update_layout(height=height, margin={"t": theme.MARGIN["t"] + 22, "l": 150, "b": 76}, showlegend=False)
    figure.update_xaxes(title_text="times ours", row=2)
    below = {"x": 0.5, "y": 0, "xref": "paper", "yref": "paper", "yanchor": "top", "yshift": -46}
    figure.add_annotation(text=marks, **(NOTE | below))
    middles = [one[0] for points in ratios.values() for one in points.values()]
    span = " to ".join(f"{end:,.0f}" if end >= 10 else f"{end:.2g}" for end in (min(middles), max(middles)))
    return finish(figure, f"On the same equation others take {span} times as long as ours")


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
    for (mode, case, density), products in cases.items():
        dense = min((products[name]["median_s"] for name in ("dense", "PyTorch") if name in products), default=None)
        if mode in (_FORWARD, _MODES[1]) and dense is not None and "snnkit" in products:
            ours = products["snnkit"]
            note = f" times as fast<br>{1e3 * ours['median_s']:.4g} ms, dense {1e3 * dense:.4g} ms"
            gains = [dense / ours[part] for part in ("median_s", "p90_s", "p10_s")]
            _add(curves, int(mode != _FORWARD), case, 100 * density, gains[0], gains[1:], note)
    if not curves:
        raise ValueError("record must hold products, ours and dense ones, but it has none")
    looks = _looks(name for _, name in curves)
    figure = panels(1, 2, ["Forward", "Forward and gradients of the weights"], horizontal_spacing=0.09)
    _draw(figure, curves, looks, 2, "%{x:.3g} %: %{y:.3g}", dict.fromkeys(range(2), (1.0,)))
    legend_below(figure, 280, list(looks))
    figure.update_xaxes(title_text="spikes in % of the inputs")
    figure.update_yaxes(title_text="times as fast", row=1, col=1)
    slower = {x for line in curves.values() for x, y, *_ in line if y <= 1.05}
    below = [x for x in {x for line in curves.values() for x, *_ in line} if all(x < one for one in slower)]
    lead = f"Up to {max(below):g} % of spikes, products by their places are faster" if below else "Products by places"
    return finish(figure, f"{lead}: {_where(content)}")


@checks.arguments
def comparison(records: Record | Sequence[Record], *, title: str = "") -> go.Figure:
    """Training rate of the network of snnTorch's IPU tutorial, against the batch and against its size.

    Lines were measured: our loop and our fastest engine, and of each other library what it does by itself and its
    fastest variant. Bands are predicted by ``hardware.roofline`` for IPUs, on which nothing was run here. All are of
    float32, or of the first dtype of records without it.

    Args:
        records: of kind "compare", from ``snnkit.records.load`` or ``snnkit.lab.bench``.
        title: "": how many times as fast as snnTorch ours is, at the size of the tutorial.
    """
    every = _checked(records, "compare")
    dtypes = [row["dtype"] for record in every for row in record["rows"]]
    dtype = "float32" if "float32" in dtypes else dtypes[0]
    first = every[0]["arguments"]
    titles = [f"{first['width']} hidden neurons", f"batches of {first['batch']}"]
    figure = panels(1, 2, titles, horizontal_spacing=0.07, shared_yaxes=True)
    curves: Curves = {}
    heights: list[float] = []
    edges: dict[str, tuple[float, float, str]] = {}  # where the name of a band is
    finding = ""
    for record in every:
        rows = [row for row in record["rows"] if row["dtype"] == dtype]
        shown, lead = _summary(rows, record["arguments"])
        finding = finding or lead
        where = _where(record)
        for row in rows:
            name = row["contestant"] + (f", {where}" if len(every) > 1 else "")
            note = f"<br>measured: {row['p10_s'] * 1e3:.4g} - {row['p90_s'] * 1e3:.4g} ms per update<br>{where}"
            for panel, (key, other) in enumerate((("batch", "width"), ("width", "batch"))):
                # The size that is not on this axis is the tutorial's.
                if row["contestant"] in shown and row[other] == record["arguments"][other]:
                    _add(curves, panel, name, row[key], row["samples_per_s"], (), f" samples/s{note}")
    for panel, (key, other) in enumerate((("batch", "width"), ("width", "batch"))):
        predicted: dict[str, dict[int, Record]] = {}
        for record in every:
            for band in record["predictions"]:
                if band["dtype"] == dtype and band[other] == record["arguments"][other]:
                    predicted.setdefault(band["chip"], {}).setdefault(band[key], band)
        ends, edges = _add_bands(figure, predicted, panel)
        heights += ends
    looks = _looks(name for _, name in curves)
    heights += [point[2] for line in curves.values() for point in line]
    _draw(figure, curves, looks, 2, "%{x}: %{y:,.4g}", dict.fromkeys(range(2), heights))
    _label(figure, curves, looks, 2, 320, more=edges)
    for col, name in enumerate(("batch", "hidden neurons"), start=1):
        figure.update_xaxes(title_text=name, col=col)
    figure.update_yaxes(title_text=f"samples per second, {dtype}", col=1)
    return finish(figure, title or finding or f"Training 784-N-10 over {first['steps']} steps, {dtype}")


def _summary(rows: Sequence[Record], size: Record) -> tuple[set[str], str]:
    """Contestants that are drawn, and what they tell at the tutorial's batch and width."""
    at = [row for row in rows if (row["batch"], row["width"]) == (size["batch"], size["width"])]
    shown = {"eager"} | {row["library"] for row in rows}
    best: dict[str, Record] = {}
    for row in at:
        if row["samples_per_s"] > best.get(row["library"], row)["samples_per_s"] or row["library"] not in best:
            best[row["library"]] = row
    shown |= {row["contestant"] for row in best.values()}
    plain = next((row for row in at if row["contestant"] == _PEER), None)
    ours = best.get("snnkit")
    if plain is None or ours is None:
        return shown, ""
    times = ours["samples_per_s"] / plain["samples_per_s"]
    return shown, f"Batches of {size['batch']}: {ours['contestant']} trains {times:.2g} times as fast as {_PEER}"


def _add_bands(
    figure: go.Figure, predicted: Mapping[str, Mapping[int, Record]], panel: int
) -> tuple[list[float], dict[str, tuple[float, float, str]]]:
    """A band for each chip, of the first record that predicts it. Returns its ends, and the place of its name."""
    ends: list[float] = []
    places: dict[str, tuple[float, float, str]] = {}
    names = [f"{chip}, predicted" for chip in predicted]
    for i, (name, by_size, ink) in enumerate(zip(names, predicted.values(), concepts.colours(names), strict=True)):
        sizes = sorted(by_size)
        low, high = ([by_size[size][end] for size in sizes] for end in ("low", "high"))
        ends += [*low, *high]
        places[name] = sizes[-1], math.sqrt(low[-1] * high[-1]), ink
        # Its edge has a dash of its own, so that overlapping bands can be distinguished without their colours.
        edge = {"color": ink, "width": 1.5, "dash": theme.DASHES[1 + i % (len(theme.DASHES) - 1)]}
        figure.add_scatter(
            x=[*sizes, *reversed(sizes)], y=[*high, *reversed(low)], mode="lines", line=edge, name=name, fill="toself",
            fillcolor=theme.faint(ink, 0.2), hoveron="fills", hoverinfo="text", legendgroup=name, row=1, col=panel + 1,
            text=f"{name} in {by_size[sizes[0]]['precision']}<br>{_MODELLED}", showlegend=name not in _names(figure),
        )  # fmt: skip
    return ends, places


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
        across = ends_of(sizes, log=True)
        figure.update_xaxes(type="log", tickvals=sizes, ticktext=list(map(str, sizes)), range=across, **place)
        heights = [*(y for point in points for y in point[1:4]), *(others or {}).get(panel, ())]
        figure.update_yaxes(type="log", tickvals=log_ticks(heights), dtick=1, range=ends_of(heights, log=True), **place)


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


def _looks(kinds: Mapping[str, str] | Iterable[str]) -> dict[str, dict[str, Any]]:
    """The look of each line, of a name or of a name to its kind: published ones are dotted with hollow marks."""
    kinds = kinds if isinstance(kinds, Mapping) else dict.fromkeys(kinds, "")
    looks = line_looks(name for name, kind in kinds.items() if kind != "floor")
    for name in (name for name, kind in kinds.items() if kind == "published"):
        looks[name] |= {"symbol": f"{looks[name]['symbol']}-open", "dash": "dot"}
    return {name: looks.get(name, _FLOOR) for name in kinds}


def _label(
    figure: go.Figure,
    curves: Curves,
    looks: Mapping[str, dict[str, Any]],
    columns: int,
    plot: float,
    more: Mapping[str, tuple[float, float, str]] | None = None,
) -> None:
    """Names beside the last panel of the first row; below, as a legend, if they have no room there."""
    names, panel = list(dict.fromkeys(name for _, name in curves)), columns - 1
    there = {name: max(line, key=lambda point: point[0]) for (its, name), line in curves.items() if its == panel}
    axis = str(panel + 1) if panel else ""
    layout: Any = figure.layout
    ranges = layout[f"xaxis{axis}"].range, layout[f"yaxis{axis}"].range
    ends = {name: (point[0], point[1], looks[name]["colour"]) for name, point in there.items()}
    alone = {name for name in there if _alone(curves, panel, name, ranges[1], plot)}
    ends |= more or {}
    figure.update_layout(height=plot + theme.MARGIN["t"] + theme.MARGIN["b"])
    look = {"plot": plot, "log": "xy", "axis": axis, "alone": alone}
    if len(there) < len(names) or not label_lines(figure, ends, *ranges, **look):
        legend_below(figure, plot, names)


def _alone(curves: Curves, panel: int, name: str, heights: Sequence[float], plot: float) -> bool:
    """No other line of the panel comes near the height of this line's end, to the right of it."""
    x, y = max(point[:2] for point in curves[panel, name])
    for (its, other), line in curves.items():
        if its != panel or other == name:
            continue
        across, up = np.log10(np.array(sorted(point[:2] for point in line))).T
        right = np.append(across[across > math.log10(x)], math.log10(x))
        off = np.interp(right, across, up, left=math.nan, right=math.nan) - math.log10(y)
        off = off[np.isfinite(off)]
        if off.size and (off.min() * off.max() < 0 or abs(off).min() * plot < _NEAR * (heights[1] - heights[0])):
            return False
    return True


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
