"""Figures of what neurons do: spikes, membrane potentials, firing rates, and statistics of populations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from ... import checks
from .. import theme
from ..drawing import (
    SPIKE,
    SPIKES,
    TICK,
    add_line,
    add_marks,
    add_threshold,
    as_array,
    as_arrays,
    check_length,
    class_names,
    compact,
    finish,
    legend_below,
    panels,
    tick_size,
    times,
    whole_ticks,
)

_BARS = {"silent": 1, "active": 0, "saturated": 3}  # each kind's colour and pattern among the theme's bars
_PANEL = 170  # pixels


def raster(spikes: Any, dt: float | None = None, title: str = "Spikes") -> go.Figure:
    """One mark per spike: time to the right, neurons upwards.

    Args:
        spikes: [T, N], non-zero where a neuron spiked.
        dt: seconds per step; without it the axis counts steps.
    """
    array = as_array(spikes, "spikes", "[T, N]")
    time = times(len(array), dt)
    figure = go.Figure()
    _add_raster(figure, array, time, theme.BLUE, 160)
    counted = f"{title} ({np.count_nonzero(array):,} of {array.size:,} neuron-steps)"
    neurons = array.shape[1]
    rows = {"title_text": "neuron", "range": [-0.7, neurons - 0.3], "tickvals": whole_ticks([0, neurons - 1])}
    return finish(figure, counted, time.look(), rows, height=340)


def _add_raster(figure: go.Figure, spikes: np.ndarray, time: Any, colour: str, pixels: float, **place: Any) -> None:
    when, who = np.nonzero(spikes)
    look = {"symbol": TICK, "size": tick_size(spikes.shape[1], pixels), "colour": colour, "name": "spikes"}
    hover = f"neuron %{{y}}<br>{time.title} %{{x}}<extra></extra>"
    add_marks(figure, time.at[when], who, hovertemplate=hover, **look, **place)


def traces(
    v: Any,
    spikes: Any = None,
    threshold: float | None = None,
    current: Any = None,
    dt: float | None = None,
    title: str = "Membrane potential",
) -> go.Figure:
    """Membrane potential over time, with the threshold, the spikes and the input current where given.

    Args:
        v: [T], or a dict of name to [T] to compare several.
        spikes: [T] of 0/1, or (when ``v`` is a dict) a dict of name to [T].
        threshold: drawn as a line.
        current: [T], drawn in a panel of its own above.
        dt: seconds per step; without it the axis counts steps.
    """
    potentials = as_arrays(v, "v", "membrane", "[T]")
    marks = as_arrays(spikes, "spikes", "membrane", "[T]") if spikes is not None else {}
    if unknown := sorted(set(marks) - set(potentials)):
        raise ValueError(f"spikes must hold names of v ({', '.join(potentials)}), but it holds {', '.join(unknown)}")
    steps = len(next(iter(potentials.values())))
    series = {f"v[{k!r}]": a for k, a in potentials.items()} | {f"spikes[{k!r}]": a for k, a in marks.items()}
    if current is not None:
        series["current"] = as_array(current, "current", "[T]")
    for name, array in series.items():
        check_length(array, name, steps)
    time = times(steps, dt)
    rows = 2 if current is not None else 1
    figure = panels(rows, 1, shared_xaxes=True, row_heights=[0.27, 0.73][-rows:], vertical_spacing=0.07)
    if current is not None:
        look = {"colour": theme.TEXT, "width": 1.8, "shape": "hv", "showlegend": False}
        hover = "input %{y:.3g}<extra></extra>"
        add_line(figure, time.at, series["current"], "input", hovertemplate=hover, row=1, col=1, **look)
        figure.update_yaxes(title_text="input", row=1, col=1)
    threshold = None if threshold is None else checks.number("threshold", threshold)
    peak = max(float(np.nanmax(a)) for a in potentials.values())
    top = peak if threshold is None else max(peak, threshold)
    span = max(top - min(float(np.nanmin(a)) for a in potentials.values()), 1e-6)
    place: dict[str, Any] = {"row": rows, "col": 1}
    for i, (name, array) in enumerate(potentials.items()):
        look = {"colour": theme.colour(i), "dash": theme.dash(i), "showlegend": len(potentials) > 1}
        add_line(figure, time.at, array, name, hovertemplate=f"{name} %{{y:.4g}}<extra></extra>", **look, **place)
        if name in marks:
            when = np.nonzero(marks[name])[0]
            look = {"symbol": SPIKES[i % len(SPIKES)], "size": 8, "colour": theme.colour(i)}
            look |= {"name": f"spikes of {name}"}
            look |= {"hovertemplate": f"{name} spikes at {time.title} %{{x}}<extra></extra>"}
            add_marks(figure, time.at[when], top + (0.08 + 0.07 * i) * span, **look, **place)
    if threshold is not None:
        add_threshold(figure, time, threshold, **place)
    figure.update_yaxes(title_text="potential", **place)
    across = {"range": time.ends, "tickvals": whole_ticks(time.at)}
    finish(figure, title, across, height=(340, 430)[rows - 1], showlegend=len(potentials) > 1)
    return figure.update_xaxes(title_text=time.title, **place)


def membrane_and_raster(
    v: Any, spikes: Any, threshold: float | None = None, dt: float | None = None, title: str = "Membrane and spikes"
) -> go.Figure:
    """The membrane of the first neuron above the spikes of all.

    Args:
        v: [T], membrane potential of neuron 0.
        spikes: [T, N], non-zero where a neuron spiked; neuron 0 is the lowest row.
        threshold: drawn as a line.
        dt: seconds per step; without it the axis counts steps.
    """
    membrane, fired = as_array(v, "v", "[T]"), as_array(spikes, "spikes", "[T, N]")
    steps, neurons = fired.shape
    check_length(membrane, "v", steps)
    time = times(steps, dt)
    figure = panels(2, 1, shared_xaxes=True, row_heights=[0.6, 0.4], vertical_spacing=0.06)
    above: dict[str, Any] = {"row": 1, "col": 1}
    below: dict[str, Any] = {"row": 2, "col": 1}
    hover = f"potential %{{y:.4g}}<br>{time.title} %{{x}}<extra></extra>"
    add_line(figure, time.at, membrane, "membrane", colour=theme.BLUE, hovertemplate=hover, **above)
    threshold = None if threshold is None else checks.number("threshold", threshold)
    peak = float(membrane.max()) if threshold is None else max(float(membrane.max()), threshold)
    look: dict[str, Any] = {"symbol": SPIKE, "size": 8, "colour": theme.BLUE, "name": "its spikes", "showlegend": True}
    look |= {"hovertemplate": f"spike at {time.title} %{{x}}<extra></extra>"}
    add_marks(figure, time.at[np.nonzero(fired[:, 0])[0]], peak + 0.12 * max(abs(peak), 1e-6), **look, **above)
    if threshold is not None:
        add_threshold(figure, time, threshold, **above)
    _add_raster(figure, fired, time, theme.GREEN, 85, **below)
    figure.update_yaxes(title_text="potential", **above)
    rows = {"range": [-0.7, neurons - 0.3], "tickvals": whole_ticks([0, neurons - 1], 6)}
    figure.update_yaxes(title_text="neuron", **rows, **below)
    finish(figure, title, {"range": time.ends, "tickvals": whole_ticks(time.at)}, height=430)
    return figure.update_xaxes(title_text=time.title, **below)


def gallery(
    runs: Mapping[str, tuple[Any, Any]], columns: int = 2, dt: float | None = None, title: str = "Neurons side by side"
) -> go.Figure:
    """One small panel per neuron: its membrane, a mark for each of its spikes, and its own scale.

    Args:
        runs: name to (v [T], spikes [T]).
        columns: panels per row.
        dt: seconds per step; without it the axes count steps.
    """
    for name, pair in checks.mapping("runs", runs, "name to (v, spikes)").items():
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"runs[{name!r}] must be a pair (v, spikes), but it is {checks.shown(pair)}")
    if not runs:
        raise ValueError("runs must hold at least one neuron, but it is empty")
    columns = min(checks.integer("columns", columns, at_least=1), len(runs))
    rows = -(-len(runs) // columns)
    spacing = {"vertical_spacing": 0.3 / rows, "horizontal_spacing": 0.1}
    figure = panels(rows, columns, list(runs), shared_xaxes=True, **spacing)
    for i, (name, (v, spikes)) in enumerate(runs.items()):
        membrane, fired = as_array(v, f"v of {name}", "[T]"), as_array(spikes, f"spikes of {name}", "[T]")
        check_length(fired, f"spikes of {name}", len(membrane))
        time = times(len(membrane), dt)
        place: dict[str, Any] = {"row": i // columns + 1, "col": i % columns + 1}
        look = {"colour": theme.colour(i), "width": 1.6, "showlegend": False}
        add_line(figure, time.at, membrane, name, hovertemplate=f"{name}<br>%{{y:.3g}}<extra></extra>", **look, **place)
        low, high = float(np.nanmin(membrane)), float(np.nanmax(membrane))
        span = max(high - low, 1e-6)
        look = {"symbol": TICK, "size": 9, "colour": theme.colour(i), "hoverinfo": "x", "name": f"spikes of {name}"}
        add_marks(figure, time.at[np.nonzero(fired)[0]], high + 0.2 * span, **look, **place)
        figure.update_yaxes(range=[low - 0.08 * span, high + 0.36 * span], **place)
        figure.update_xaxes(range=time.ends, tickvals=whole_ticks(time.at, 6), **place)
        if i + columns >= len(runs):
            figure.update_xaxes(title_text=time.title, showticklabels=True, **place)
    figure.update_yaxes(title_text="potential", col=1)
    return finish(figure, title, height=90 + 165 * rows)


def rate_histogram(
    spikes: Any, dt: float | None = None, *, saturated: float = 0.9, bins: int = 20, title: str = "Firing rates"
) -> go.Figure:
    """How many neurons fire how often, a panel for each layer; silent, active and saturated neurons are distinguished.

    A neuron that never fires has no spikes to learn from, and one that fires in nearly every step says the same
    whatever its input: both waste their place in the network.

    Args:
        spikes: [T, N], non-zero where a neuron spiked, or known rates in spikes per step, [N] in [0, 1]; or a dict of
            layer to either. (Of a batch [T, B, N] take ``spikes.flatten(0, 1)``.)
        dt: seconds per step: rates are then in Hz, else in spikes per step.
        saturated: share of the steps from which on a neuron counts as saturated, above 0 and at most 1.
        bins: between 0 and a spike in every step.
    """
    dt = None if dt is None else checks.number("dt", dt, above=0)
    saturated = checks.number("saturated", saturated, above=0, at_most=1)
    bins = checks.integer("bins", bins, at_least=1)
    given = spikes if isinstance(spikes, Mapping) else {"neurons": spikes}
    if not given:
        raise ValueError("spikes must hold at least one layer, but it is empty")
    layers = {
        name: _rates(one, "spikes" if given is not spikes else f"spikes[{name!r}]") for name, one in given.items()
    }
    unit, scale = ("Hz", 1 / dt) if dt else ("spikes per step", 1.0)
    count = len(layers)
    top = max(float(rates.max()) for rates in layers.values()) or 1.0
    edges = np.linspace(0.0, top, bins + 1)
    heads, kinds = [], []
    for name, rates in layers.items():
        silent, full = rates == 0, rates >= saturated - 1e-6  # float32 may have rounded a share down
        words = f"{rates.size:,} neurons, {silent.sum():,} silent, {full.sum():,} saturated"
        heads.append(words if count == 1 else f"{name}: {words}")
        middles = (edges[:-1] + edges[1:]) / 2
        kinds.append(
            {
                "silent": (np.array([edges[0] - edges[1]]), np.array([silent.sum()])),  # apart, to the left of 0
                "active": (middles, np.histogram(rates[~silent & ~full], bins=edges)[0]),
                "saturated": (middles, np.histogram(rates[full], bins=edges)[0]),
            }
        )
    figure = panels(count, 1, heads, shared_xaxes=True, vertical_spacing=0.34 / count)
    for row, bars in enumerate(kinds, start=1):
        for kind, (places, counts) in bars.items():
            some = counts > 0  # a bar of height 0 has no label
            at = f"%{{x:.3g}} {unit}<br>" if kind != "silent" else ""
            figure.add_bar(
                x=compact(places[some] * scale), y=compact(counts[some]), name=kind, legendgroup=kind,
                width=[0.92 * float(edges[1]) * scale] * int(some.sum()), showlegend=row == 1, row=row, col=1,
                text=[f"{n:,}" for n in counts[some]] if kind != "active" else None, textposition="outside",
                marker=theme.bar(_BARS[kind]), hovertemplate=f"{at}%{{y}} {kind}<extra></extra>",
            )  # fmt: skip
        highest = int(max((bars["active"][1] + bars["saturated"][1]).max(), bars["silent"][1].max()))
        up = {"range": [0, 1.18 * highest], "tickvals": whole_ticks([0, highest])}
        figure.update_yaxes(title_text="neurons", row=row, col=1, **up)
    legend_below(figure, _PANEL * count, list(_BARS), above=28)
    finish(figure, title, {"range": [-2 * top / bins * scale, 1.03 * top * scale]}, barmode="stack")
    return figure.update_xaxes(title_text=f"firing rate ({unit})", row=count, col=1)


def _rates(spikes: Any, name: str) -> np.ndarray:
    """Spikes per step of each neuron, [N]."""
    rows = isinstance(spikes, (list, tuple)) and any(isinstance(row, (list, tuple)) for row in spikes)
    if getattr(spikes, "ndim", 2 if rows else 1) != 1:
        return (as_array(spikes, name, "[T, N]") != 0).mean(axis=0)
    rates = as_array(spikes, name, "[N]").astype(float)
    if not ((rates >= 0) & (rates <= 1)).all():
        ends = f"from {rates.min()} to {rates.max()}"
        raise ValueError(f"{name} must hold rates in [0, 1] spikes per step, but it reaches {ends}")
    return rates


def population_statistics(
    statistics: Any, labels: Any, names: Sequence[str] | None = None, title: str = "Populations"
) -> go.Figure:
    """A panel for each statistic: its mean over the samples of a class (rows), for each population (columns).

    Args:
        statistics: a named tuple of [B, populations] each, such as ``models.Statistics``.
        labels: [B], the class of each sample.
        names: of the classes; without them their numbers.
    """
    fields = getattr(statistics, "_fields", None)
    if not fields:
        what = "a named tuple of [B, populations] each"
        raise TypeError(f"statistics must be {what}, but it is {checks.shown(statistics)}")
    classes = as_array(labels, "labels", "[B]").astype(int)
    count = int(classes.max()) + 1 if names is None else len(names)
    named = class_names(names, count, "names")
    if classes.min() < 0 or classes.max() >= count:
        raise ValueError(f"labels must be in 0 … {count - 1}, but they reach from {classes.min()} to {classes.max()}")
    present = [k for k in range(count) if (classes == k).any()]
    means = {}
    for field, values in zip(fields, statistics, strict=True):
        array = as_array(values, field, "[B, populations]").astype(float)
        check_length(array, field, len(classes), "rows, one per label")
        means[field] = np.stack([array[classes == k].mean(axis=0) for k in present])
    titles = [f"{field}: {mean.min():.2g} to {mean.max():.2g}" for field, mean in means.items()]
    rows = -(-len(fields) // 2)
    figure = panels(rows, 2, titles, horizontal_spacing=0.12, vertical_spacing=0.34 / rows)
    for i, (field, mean) in enumerate(means.items()):
        low, high = float(mean.min()), float(mean.max())
        figure.add_heatmap(
            name=field, z=compact(mean), y=[named[k] for k in present], zmin=low, zmax=high if high > low else low + 1,
            colorscale=theme.INK, showscale=False, row=i // 2 + 1, col=i % 2 + 1,
            hovertemplate=f"population %{{x}}<br>class %{{y}}<br>{field} %{{z:.3g}}<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(title_text="population", row=rows)
    figure.update_yaxes(title_text="class", col=1)
    classes_down = {"type": "category", "autorange": "reversed", "showgrid": False}
    return finish(figure, title, {"showgrid": False}, classes_down, height=230 * rows + 60, margin={"t": 80})
