"""Figures of membranes: potentials over time, alone, over a raster, or one panel per neuron."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from . import theme
from .arguments import named, number, told, whole
from .arrays import as_array, as_arrays
from .axes import times, whole_ticks
from .panels import panels
from .strokes import SPIKE, SPIKES, TICK, add_line, add_marks, add_threshold, tick_size


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

    Raises:
        ValueError: lengths differ, spikes holds a name that v has not, or dt is not positive.
    """
    potentials = as_arrays(v, "v", "membrane", "[T]")
    marks = as_arrays(spikes, "spikes", "membrane", "[T]") if spikes is not None else {}
    strangers = sorted(set(marks) - set(potentials))
    if strangers:
        raise ValueError(f"spikes holds {', '.join(strangers)}, but v holds {', '.join(potentials)}")
    steps = len(next(iter(potentials.values())))
    given = {f"v[{k!r}]": a for k, a in potentials.items()} | {f"spikes[{k!r}]": a for k, a in marks.items()}
    if current is not None:
        given["current"] = as_array(current, "current", "[T]")
    for name, array in given.items():
        if len(array) != steps:
            raise ValueError(f"{name} has {len(array)} steps, but the first potential has {steps}")
    time = times(steps, dt)

    rows = 2 if current is not None else 1
    heights = [0.27, 0.73] if rows == 2 else [1.0]
    figure = panels(rows, 1, shared_xaxes=True, row_heights=heights, vertical_spacing=0.07)
    if current is not None:
        look = {"colour": theme.TEXT, "width": 1.8, "shape": "hv", "showlegend": False}
        hover = "input %{y:.3g}<extra></extra>"
        add_line(figure, time.at, given["current"], "input", hovertemplate=hover, row=1, col=1, **look)
        figure.update_yaxes(title={"text": "input"}, row=1, col=1)
    threshold = None if threshold is None else number(threshold, "threshold")
    peak = max(float(np.nanmax(a)) for a in potentials.values())
    top = max(peak, threshold if threshold is not None else peak)
    span = max(top - min(float(np.nanmin(a)) for a in potentials.values()), 1e-6)
    place: dict[str, Any] = {"row": rows, "col": 1}
    for i, (name, array) in enumerate(potentials.items()):
        look = {"colour": theme.colour(i), "dash": theme.dash(i), "showlegend": len(potentials) > 1}
        add_line(figure, time.at, array, name, hovertemplate=f"{name} %{{y:.4g}}<extra></extra>", **look, **place)
        if name in marks:
            when = np.nonzero(marks[name])[0]
            hover = f"{name} spikes at {time.title} %{{x}}<extra></extra>"
            symbol = SPIKES[i % len(SPIKES)]
            look = {"symbol": symbol, "size": 8, "colour": theme.colour(i), "hovertemplate": hover}
            look["name"] = f"spikes of {name}"
            add_marks(figure, time.at[when], top + (0.08 + 0.07 * i) * span, **look, **place)
    if threshold is not None:
        add_threshold(figure, time.at[[0, -1]], threshold, **place)
    height = 430 if rows == 2 else 340
    figure.update_layout(title={"text": title}, height=height, showlegend=len(potentials) > 1)
    figure.update_yaxes(title={"text": "potential"}, **place)
    figure.update_xaxes(range=time.ends, tickvals=whole_ticks(time.at))
    figure.update_xaxes(title={"text": time.title}, **place)
    return figure


def membrane_and_raster(
    v: Any, spikes: Any, threshold: float | None = None, dt: float | None = None, title: str = "Membrane and spikes"
) -> go.Figure:
    """The membrane of the first neuron above the spikes of all.

    Args:
        v: [T], membrane potential of neuron 0.
        spikes: [T, N], non-zero where a neuron spiked; neuron 0 is the lowest row.
        threshold: drawn as a line.
        dt: seconds per step; without it the axis counts steps.

    Raises:
        ValueError: v and spikes differ in length, or dt is not positive.
    """
    membrane, fired = as_array(v, "v", "[T]"), as_array(spikes, "spikes", "[T, N]")
    steps, neurons = fired.shape
    if len(membrane) != steps:
        raise ValueError(f"v has {len(membrane)} steps, but spikes has {steps}")
    time = times(steps, dt)
    figure = panels(2, 1, shared_xaxes=True, row_heights=[0.6, 0.4], vertical_spacing=0.06)
    above: dict[str, Any] = {"row": 1, "col": 1}
    below: dict[str, Any] = {"row": 2, "col": 1}
    hover = f"potential %{{y:.4g}}<br>{time.title} %{{x}}<extra></extra>"
    add_line(figure, time.at, membrane, "membrane", colour=theme.BLUE, hovertemplate=hover, **above)
    threshold = None if threshold is None else number(threshold, "threshold")
    peak = max(float(membrane.max()), threshold if threshold is not None else float(membrane.max()))
    own = np.nonzero(fired[:, 0])[0]
    look = {"symbol": SPIKE, "size": 8, "colour": theme.BLUE, "name": "its spikes", "showlegend": True}
    look["hovertemplate"] = f"spike at {time.title} %{{x}}<extra></extra>"
    add_marks(figure, time.at[own], peak + 0.12 * max(abs(peak), 1e-6), **look, **above)
    if threshold is not None:
        add_threshold(figure, time.at[[0, -1]], threshold, **above)
    when, who = np.nonzero(fired)
    look = {"symbol": TICK, "size": tick_size(neurons, 85), "colour": theme.GREEN, "name": "spikes"}
    look["hovertemplate"] = f"neuron %{{y}}<br>{time.title} %{{x}}<extra></extra>"
    add_marks(figure, time.at[when], who, **look, **below)
    figure.update_layout(title={"text": title}, height=430)
    figure.update_yaxes(title={"text": "potential"}, **above)
    rows = {"range": [-0.7, neurons - 0.3], "tickvals": whole_ticks([0, neurons - 1], 6)}
    figure.update_yaxes(title={"text": "neuron"}, **rows, **below)
    figure.update_xaxes(range=time.ends, tickvals=whole_ticks(time.at))
    figure.update_xaxes(title={"text": time.title}, **below)
    return figure


def gallery(
    runs: Mapping[str, tuple[Any, Any]], columns: int = 2, dt: float | None = None, title: str = "Neurons side by side"
) -> go.Figure:
    """One small panel per neuron: its membrane, a mark for each of its spikes, and its own scale.

    Args:
        runs: name to (v [T], spikes [T]).
        columns: panels per row.
        dt: seconds per step; without it the axes count steps.

    Raises:
        ValueError: runs is empty, columns is below 1, v and spikes differ in length, or dt is not positive.
    """
    for name, pair in named(runs, "runs", "name to (v, spikes)").items():
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"runs[{name!r}] must be a pair (v, spikes), not {told(pair)}")
    if not runs:
        raise ValueError("runs must hold at least one neuron: name -> (v, spikes)")
    columns = whole(columns, "columns")
    columns = min(columns, len(runs))
    rows = -(-len(runs) // columns)
    spacing = {"vertical_spacing": 0.3 / rows, "horizontal_spacing": 0.1}
    figure = panels(rows, columns, list(runs), shared_xaxes=True, **spacing)
    for i, (name, (v, spikes)) in enumerate(runs.items()):
        membrane, fired = as_array(v, f"v of {name}", "[T]"), as_array(spikes, f"spikes of {name}", "[T]")
        if len(membrane) != len(fired):
            raise ValueError(f"v of {name} has {len(membrane)} steps, but its spikes have {len(fired)}")
        time = times(len(membrane), dt)
        place: dict[str, Any] = {"row": i // columns + 1, "col": i % columns + 1}
        look = {"colour": theme.colour(i), "width": 1.6, "showlegend": False}
        add_line(figure, time.at, membrane, name, hovertemplate=f"{name}<br>%{{y:.3g}}<extra></extra>", **look, **place)
        low, high = float(np.nanmin(membrane)), float(np.nanmax(membrane))
        span = max(high - low, 1e-6)
        when = np.nonzero(fired)[0]
        look = {"symbol": TICK, "size": 9, "colour": theme.colour(i), "hoverinfo": "x", "name": f"spikes of {name}"}
        add_marks(figure, time.at[when], high + 0.2 * span, **look, **place)
        figure.update_yaxes(range=[low - 0.08 * span, high + 0.36 * span], **place)
        figure.update_xaxes(range=time.ends, tickvals=whole_ticks(time.at, 6), **place)
        if place["col"] == 1:
            figure.update_yaxes(title={"text": "potential"}, **place)
        if place["row"] == rows or i + columns >= len(runs):
            figure.update_xaxes(title={"text": time.title}, showticklabels=True, **place)
    figure.update_layout(title={"text": title}, height=90 + 165 * rows)
    return figure
