"""Figures of single neurons and layers: rasters, membrane traces, rates, surrogates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from . import theme
from .arrays import as_array, compact, times

_MANY = 5000  # from here on WebGL draws markers faster than SVG


def raster(spikes: Any, dt: float | None = None, title: str = "Spikes") -> go.Figure:
    """One mark per spike: time to the right, neurons upwards.

    Args:
        spikes: [T, N], non-zero where a neuron spiked.
        dt: seconds per step; without it the axis counts steps.
    """
    array = as_array(spikes, "spikes", "[T, N]")
    steps, neurons = array.shape
    when, who = np.nonzero(array)
    axis, label = times(steps, dt)
    kind = go.Scattergl if when.size > _MANY else go.Scatter
    figure = go.Figure(
        kind(
            x=axis[when],
            y=compact(who),
            mode="markers",
            marker={"symbol": "line-ns-open", "size": max(3, min(14, 220 // neurons)), "color": theme.BLUE},
            hovertemplate=f"neuron %{{y}}<br>{label} %{{x}}<extra></extra>",
            showlegend=False,
        )
    )
    edge = 0.5 * float(axis[1] - axis[0]) if steps > 1 else 0.5
    figure.update_layout(title={"text": f"{title} ({when.size:,} of {array.size:,} neuron-steps)"}, height=340)
    figure.update_xaxes(title={"text": label}, range=[float(axis[0]) - edge, float(axis[-1]) + edge])
    figure.update_yaxes(title={"text": "neuron"}, range=[-0.7, neurons - 0.3])
    return figure


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
    potentials = _named(v, "v", "membrane")
    marks = _named(spikes, "spikes", "membrane") if spikes is not None else {}
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
    axis, label = times(steps, dt)

    rows = 2 if current is not None else 1
    heights = [0.27, 0.73] if rows == 2 else [1.0]
    figure = make_subplots(rows=rows, cols=1, shared_xaxes=True, row_heights=heights, vertical_spacing=0.07)
    if current is not None:
        line = {"color": theme.TEXT, "width": 1.8, "shape": "hv"}
        hover = "input %{y:.3g}<extra></extra>"
        figure.add_scatter(
            x=axis, y=compact(given["current"]), line=line, mode="lines", showlegend=False, hovertemplate=hover
        )
        figure.update_yaxes(title={"text": "input"}, row=1, col=1)
    peak = max(float(np.nanmax(a)) for a in potentials.values())
    top = max(peak, threshold if threshold is not None else peak)
    span = max(top - min(float(np.nanmin(a)) for a in potentials.values()), 1e-6)
    for i, (name, array) in enumerate(potentials.items()):
        figure.add_scatter(
            x=axis,
            y=compact(array),
            name=name,
            mode="lines",
            line={"color": theme.colour(i), "dash": theme.dash(i), "width": 2},
            showlegend=len(potentials) > 1,
            hovertemplate=f"{name} %{{y:.4g}}<extra></extra>",
            row=rows,
            col=1,
        )
        if name in marks:
            when = np.nonzero(marks[name])[0]
            height = np.full(len(when), top + (0.08 + 0.07 * i) * span, dtype=np.float32)
            symbol = {"symbol": "triangle-down", "size": 8, "color": theme.colour(i)}
            hover = f"{name} spikes at {label} %{{x}}<extra></extra>"
            figure.add_scatter(
                x=axis[when],
                y=height,
                mode="markers",
                marker=symbol,
                showlegend=False,
                hovertemplate=hover,
                row=rows,
                col=1,
            )
    if threshold is not None:
        figure.add_scatter(
            x=axis[[0, -1]],
            y=[threshold, threshold],
            name="threshold",
            mode="lines",
            line={"color": theme.TEXT, "dash": "dash", "width": 1.5},
            hovertemplate="threshold %{y:.4g}<extra></extra>",
            row=rows,
            col=1,
        )
    figure.update_layout(title={"text": title}, height=430 if rows == 2 else 340)
    figure.update_yaxes(title={"text": "potential"}, row=rows, col=1)
    figure.update_xaxes(title={"text": label}, row=rows, col=1)
    return figure


def surrogate_curves(surrogates: Sequence[Any] | Mapping[str, Any], limit: float = 2.0, points: int = 201) -> go.Figure:
    """The step a spike makes forward, the smooth functions that replace it, and their derivatives.

    Args:
        surrogates: surrogates of ``snnkit.surrogate`` (anything with ``primitive(u)`` and ``derivative(u)``), or a
            dict of label to surrogate.
        limit: the curves run from -limit to limit.
    """
    import torch

    if not limit > 0:
        raise ValueError(f"limit must be a positive number, not {limit!r}")
    if not isinstance(surrogates, Mapping):
        surrogates = {repr(s): s for s in surrogates}
    if not surrogates:
        raise ValueError("surrogates must hold at least one surrogate")
    u = torch.linspace(-limit, limit, points, dtype=torch.float64)
    x = compact(u.numpy())
    panels = ("Forward: step and primitive", "Backward: derivative")
    figure = make_subplots(rows=1, cols=2, subplot_titles=panels, horizontal_spacing=0.1)
    step = {"color": theme.TEXT, "width": 1.5}
    figure.add_scatter(
        x=[-limit, 0, 0, limit],
        y=[0, 0, 1, 1],
        name="step",
        mode="lines",
        line=step,
        hoverinfo="skip",
        row=1,
        col=1,
    )
    for i, (label, surrogate) in enumerate(surrogates.items()):
        line = {"color": theme.colour(i), "dash": theme.dash(i), "width": 2}
        for col, curve in enumerate(_curves(surrogate, u), start=1):
            if curve is None:
                continue
            figure.add_scatter(
                x=x,
                y=compact(as_array(curve, label, "[points]")),
                name=label,
                legendgroup=label,
                showlegend=col == 2,
                mode="lines",
                line=line,
                hovertemplate=f"{label}<br>u %{{x:.3g}}<br>%{{y:.4g}}<extra></extra>",
                row=1,
                col=col,
            )
    below = {"legend": theme.LEGEND_BELOW, "margin": {"b": 96}}
    figure.update_layout(title={"text": "Surrogate gradients"}, height=400, **below)
    figure.update_annotations(font={"size": theme.FONT_SIZE})
    figure.update_xaxes(title={"text": "u = potential − threshold"})
    return figure


def firing_rate(spikes: Any, dt: float | None = None, bins: int = 20, title: str = "Firing rates") -> go.Figure:
    """How many neurons fire how often.

    Args:
        spikes: [T, N], non-zero where a neuron spiked.
        dt: seconds per step: rates are then in Hz, else in spikes per step.
    """
    array = as_array(spikes, "spikes", "[T, N]")
    if bins < 1:
        raise ValueError(f"bins must be at least 1, not {bins!r}")
    times(1, dt)  # refuses a dt that is not positive
    unit = "Hz" if dt else "spikes per step"
    rates = (array != 0).mean(axis=0) / (dt or 1.0)
    counts, edges = np.histogram(rates, bins=bins, range=(0.0, max(float(rates.max()), 1e-6)))
    middles, widths = (edges[:-1] + edges[1:]) / 2, np.diff(edges)
    hover = f"%{{x:.3g}} {unit}<br>%{{y}} neurons<extra></extra>"
    figure = go.Figure(go.Bar(x=compact(middles), y=compact(counts), width=compact(widths * 0.92), hovertemplate=hover))
    figure.update_traces(marker={"color": theme.BLUE}, showlegend=False)
    mean = float(rates.mean())
    figure.add_vline(x=mean, line={"color": theme.VERMILION, "dash": "dash", "width": 1.5})
    silent = int((rates == 0).sum())
    told = f"{title}: mean {mean:.3g} {unit}, {silent} of {rates.size} silent"
    figure.update_layout(title={"text": told}, height=320)
    figure.update_xaxes(title={"text": f"firing rate ({unit})"})
    figure.update_yaxes(title={"text": "neurons"})
    return figure


def f_i_curve(currents: Any, rates: Mapping[str, Any] | Any, unit: str = "spikes per step") -> go.Figure:
    """Firing rate against a constant input current.

    Args:
        currents: [I].
        rates: [I], or a dict of name to [I] to compare several neurons.
        unit: of the rates.
    """
    x = as_array(currents, "currents", "[I]")
    figure = go.Figure()
    symbols = ("circle", "square", "diamond", "triangle-up", "cross", "x")
    named = _named(rates, "rates", "neuron", "[I]")
    for i, (name, array) in enumerate(named.items()):
        if len(array) != len(x):
            raise ValueError(f"rates[{name!r}] has {len(array)} values, but currents has {len(x)}")
        figure.add_scatter(
            x=compact(x),
            y=compact(array),
            name=name,
            mode="lines+markers",
            line={"color": theme.colour(i), "width": 2},
            marker={"symbol": symbols[i % len(symbols)], "size": 6, "color": theme.colour(i)},
            hovertemplate=f"{name}<br>input %{{x:.3g}}<br>%{{y:.3g}} {unit}<extra></extra>",
            showlegend=len(named) > 1,
        )
    figure.update_layout(title={"text": "f-I curve: firing rate against input"}, height=340)
    figure.update_xaxes(title={"text": "input current"})
    figure.update_yaxes(title={"text": f"firing rate ({unit})"}, rangemode="tozero")
    return figure


def _named(value: Any, name: str, alone: str, shape: str = "[T]") -> dict[str, np.ndarray]:
    if isinstance(value, Mapping):
        if not value:
            raise ValueError(f"{name} must hold at least one {shape} array")
        return {str(key): as_array(one, f"{name}[{key!r}]", shape) for key, one in value.items()}
    return {alone: as_array(value, name, shape)}


def _curves(surrogate: Any, u: Any) -> tuple[Any, Any]:
    """Primitive and derivative; None for a primitive that the surrogate does not define."""
    try:
        return surrogate.primitive(u), surrogate.derivative(u)
    except (TypeError, NotImplementedError, AttributeError):
        return None, surrogate.derivative(u)
