"""Figures of spike codes: an image beside its spikes and what a reader makes of them, signals, error against effort."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from . import theme
from .arrays import as_array, compact, times

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")


def coded_image(image: Any, spikes: Any, decoded: Any, title: str = "One image as spikes") -> go.Figure:
    """Three panels: the image, its spikes over time, and the image that is read back from them.

    Args:
        image: [H, W], values in [0, 1].
        spikes: [T, H·W], one row of the middle panel per pixel, in reading order from the top left. Values other than
            0 and 1 (direct coding) are drawn as grey levels between them.
        decoded: [H, W], on the scale of ``image``.
    """
    before, after = as_array(image, "image", "[H, W]"), as_array(decoded, "decoded", "[H, W]")
    raster = as_array(spikes, "spikes", "[T, H·W]")
    if after.shape != before.shape:
        raise ValueError(f"decoded must have the shape of image, {before.shape}, not {after.shape}")
    if raster.shape[1] != before.size:
        raise ValueError(f"spikes must be [T, {before.size}], one column per pixel, not of shape {raster.shape}")
    binary = np.isin(raster, (0, 1)).all()
    panels = ("image", f"{'spikes' if binary else 'numbers'}: {np.count_nonzero(raster):,}", "read back")
    figure = make_subplots(rows=1, cols=3, column_widths=[1, 1.5, 1], subplot_titles=panels, horizontal_spacing=0.09)
    look = {"colorscale": theme.INK, "showscale": False, "zmin": 0, "zmax": 1}
    for col, cells in enumerate((before, raster.T, after), start=1):
        # Grey values to four decimals: nobody sees more, and the notebook stays small.
        cells = cells.astype(np.uint8) if col == 2 and binary else np.round(cells.astype(float), 4)
        place = "step %{x}, pixel %{y}" if col == 2 else "brightness %{z:.3f}"
        figure.add_heatmap(z=compact(cells), hovertemplate=f"{place}<extra></extra>", row=1, col=col, **look)
    steps, pixels = raster.shape
    height, width = before.shape
    for col in (1, 3):
        axis = "x" if col == 1 else "x3"
        box = {"x0": -0.5, "x1": width - 0.5, "y0": -0.5, "y1": height - 0.5}
        figure.add_shape(type="rect", line={"color": theme.AXIS, "width": 1}, row=1, col=col, **box)
        figure.update_xaxes(range=[-0.6, width - 0.4], visible=False, constrain="domain", row=1, col=col)
        figure.update_yaxes(range=[height - 0.4, -0.6], visible=False, constrain="domain", row=1, col=col)
        figure.update_yaxes(scaleanchor=axis, row=1, col=col)
    figure.update_xaxes(title={"text": "time step"}, range=[-0.5, steps - 0.5], showgrid=False, row=1, col=2)
    figure.update_yaxes(title={"text": "pixel"}, range=[pixels - 0.5, -0.5], showgrid=False, row=1, col=2)
    figure.update_layout(title={"text": title}, height=330, margin={"t": 80})
    return figure


def curves(
    series: Mapping[str, tuple[Any, Any]],
    title: str,
    x_title: str,
    y_title: str,
    *,
    log: str = "",
    faint: Sequence[str] = (),
) -> go.Figure:
    """Named curves with a marker at each point.

    Args:
        series: name to (x, y), both [P].
        log: which axes are logarithmic: "", "x", "y" or "xy". On a logarithmic y axis zeros are left out.
        faint: names that are drawn as a broad pale line without markers (theory, a reference).
    """
    if not series:
        raise ValueError("series must hold at least one curve")
    if not set(log) <= set("xy"):
        raise ValueError(f'log must be "", "x", "y" or "xy", not {log!r}')
    figure = go.Figure()
    for i, (name, (x, y)) in enumerate(series.items()):
        across, up = as_array(x, f"x of {name!r}", "[P]"), as_array(y, f"y of {name!r}", "[P]").astype(float)
        if across.shape != up.shape:
            raise ValueError(f"x and y of {name!r} must have one length, not {len(across)} and {len(up)}")
        if "y" in log:
            up = np.where(up > 0, up, math.nan)
        quiet = name in faint
        line = {"color": theme.GRID, "width": 9} if quiet else {"color": theme.colour(i), "width": 2}
        figure.add_scatter(
            x=compact(across),
            y=compact(up),
            name=name,
            mode="lines" if quiet else "lines+markers",
            line=line,
            marker={"symbol": _SYMBOLS[i % len(_SYMBOLS)], "size": 7},
            hovertemplate=f"{name}<br>{x_title} %{{x:.4g}}<br>{y_title} %{{y:.4g}}<extra></extra>",
        )
    figure.update_layout(title={"text": title}, height=360, showlegend=len(series) > 1)
    figure.update_xaxes(title={"text": x_title}, type="log" if "x" in log else None)
    figure.update_yaxes(title={"text": y_title}, type="log" if "y" in log else None)
    return figure


def coded_signal(
    signal: Any, spikes: Any, decoded: Mapping[str, Any], dt: float | None = None, title: str = "A signal as spikes"
) -> go.Figure:
    """A signal over time, what is read back from its spikes, and the spikes with their sign.

    Args:
        signal: [T].
        spikes: [T] of −1, 0 and 1, or a dict of name to [T].
        decoded: name to [T].
        dt: seconds per step; without it the axis counts steps.
    """
    curve = as_array(signal, "signal", "[T]")
    rows = dict(spikes) if isinstance(spikes, Mapping) else {"spikes": spikes}
    arrays = {name: as_array(value, f"spikes of {name!r}", "[T]") for name, value in rows.items()}
    read = {name: as_array(value, f"decoded {name!r}", "[T]") for name, value in decoded.items()}
    for name, array in [*arrays.items(), *read.items()]:
        if len(array) != len(curve):
            raise ValueError(f"{name!r} has {len(array)} steps, but the signal has {len(curve)}")
    axis, label = times(len(curve), dt)
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.68, 0.32], vertical_spacing=0.06)
    lines = {"signal": curve} | read
    for i, (name, array) in enumerate(lines.items()):
        line = {"color": theme.TEXT if i == 0 else theme.colour(i - 1), "width": 3 if i == 0 else 1.8}
        y = compact(np.round(array.astype(float), 4))
        hover = f"{name} %{{y:.3f}}<extra></extra>"
        figure.add_scatter(x=axis, y=y, name=name, mode="lines", line=line, hovertemplate=hover, row=1, col=1)
    ticks = []
    for i, (name, array) in enumerate(arrays.items()):
        for sign, symbol in ((1, "triangle-up"), (-1, "triangle-down")):
            when = np.nonzero(np.sign(array) == sign)[0]
            at = -i + 0.22 * sign
            ticks.append((at, f"{name} {'up' if sign > 0 else 'down'}"))
            figure.add_scatter(
                x=axis[when],
                y=np.full(len(when), at, dtype=np.float32),
                mode="markers",
                marker={"symbol": symbol, "size": 6, "color": theme.colour(i)},
                hovertemplate=f"{label} %{{x}}<extra>{'+' if sign > 0 else '−'}1</extra>",
                showlegend=False,
                row=2,
                col=1,
            )
    ends = [-len(arrays) + 0.4, 0.6]
    values, texts = [at for at, _ in ticks], [text for _, text in ticks]
    figure.update_yaxes(range=ends, tickvals=values, ticktext=texts, showgrid=False, row=2, col=1)
    figure.update_xaxes(range=[float(axis[0]), float(axis[-1])])
    figure.update_xaxes(title={"text": label}, row=2, col=1)
    figure.update_layout(title={"text": title}, height=420, margin={"l": 145})
    return figure


def compared_spikes(x: Any, yours: Any, expected: Any, title: str = "When each grey level spikes") -> go.Figure:
    """Spike times against brightness, a learner's as dots on the large marks of what is expected.

    Args:
        x: [N], the brightness of each neuron's pixel.
        yours, expected: [T, N] of 0 and 1.
    """
    levels = as_array(x, "x", "[N]")
    figure = go.Figure()
    looks = {
        "expected": (expected, {"symbol": "square", "size": 13, "color": theme.faint(theme.BLUE, 0.3)}),
        "yours": (yours, {"symbol": "circle", "size": 6, "color": theme.VERMILION}),
    }
    for name, (spikes, marker) in looks.items():
        array = as_array(spikes, name, "[T, N]")
        if array.shape[1] != len(levels):
            raise ValueError(f"{name} must be [T, {len(levels)}], not of shape {array.shape}")
        when, who = np.nonzero(array)
        hover = f"{name}<br>step %{{x}}, brightness %{{y:.3f}}<extra></extra>"
        figure.add_scatter(
            x=compact(when), y=compact(levels[who]), name=name, mode="markers", marker=marker, hovertemplate=hover
        )
    steps = len(as_array(expected, "expected", "[T, N]"))
    figure.update_layout(title={"text": title}, height=320, showlegend=True)
    figure.update_xaxes(title={"text": "time step"}, range=[-0.7, steps - 0.3])
    figure.update_yaxes(title={"text": "brightness"}, range=[-0.06, 1.06])
    return figure


def rate_against_brightness(x: Any, rate: Any, steps: int, title: str = "Rate against brightness") -> go.Figure:
    """Measured spike rates [N] of pixels x [N], and the band that holds 95 % of Poisson rates over ``steps`` steps."""
    levels, rates = as_array(x, "x", "[N]").astype(float), as_array(rate, "rate", "[N]")
    if levels.shape != rates.shape:
        raise ValueError(f"rate must be [{len(levels)}], one per pixel, not of shape {rates.shape}")
    if steps < 1:
        raise ValueError(f"steps must be at least 1, not {steps!r}")
    fine = np.linspace(0, 1, 101)
    half = 1.96 * np.sqrt(fine * (1 - fine) / steps)
    figure = go.Figure()
    for name, edge in (("95 % of fair encoders", fine + half), ("lower edge", fine - half)):
        line = {"color": theme.GREEN, "width": 1.2, "dash": "dot"}
        figure.add_scatter(
            x=compact(fine), y=compact(edge), name=name, mode="lines", line=line, showlegend=name[0] == "9"
        )
    marker = {"size": 7, "color": theme.VERMILION}
    figure.add_scatter(x=compact(levels), y=compact(rates), name="yours", mode="markers", marker=marker)
    figure.update_layout(title={"text": f"{title}, {steps} steps"}, height=320)
    figure.update_xaxes(title={"text": "brightness x"}, range=[-0.03, 1.03])
    figure.update_yaxes(title={"text": "spikes per step"}, range=[-0.06, 1.06])
    return figure
