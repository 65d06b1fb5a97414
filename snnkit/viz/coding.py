"""Figures of spike codes: an image or a signal beside its spikes and what a reader makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from . import theme
from .arguments import whole
from .arrays import as_array, as_arrays, compact
from .axes import times, whole_ticks
from .images import add_image
from .panels import panels
from .strokes import add_line, add_marks


def coded_image(image: Any, spikes: Any, decoded: Any, title: str = "One image as spikes") -> go.Figure:
    """Three panels: the image, its spikes over time, and the image that is read back from them.

    Args:
        image: [H, W], values in [0, 1].
        spikes: [T, H·W], one row of the middle panel per pixel, in reading order from the top left. Values other than
            0 and 1 (direct coding) are drawn as grey levels between them.
        decoded: [H, W], on the scale of ``image``.

    Raises:
        ValueError: the shapes do not fit together.
    """
    before, after = as_array(image, "image", "[H, W]"), as_array(decoded, "decoded", "[H, W]")
    raster = as_array(spikes, "spikes", "[T, H·W]")
    if after.shape != before.shape:
        raise ValueError(f"decoded must have the shape of image, {before.shape}, not {after.shape}")
    if raster.shape[1] != before.size:
        raise ValueError(f"spikes must be [T, {before.size}], one column per pixel, not of shape {raster.shape}")
    binary = np.isin(raster, (0, 1)).all()
    titles = ("image", f"{'spikes' if binary else 'numbers'}: {np.count_nonzero(raster):,}", "read back")
    figure = panels(1, 3, titles, column_widths=[1, 1.5, 1], horizontal_spacing=0.09)
    scale = {"zmin": 0, "zmax": 1}
    bright = {"hovertemplate": "brightness %{z:.3f}<extra></extra>"} | scale
    add_image(figure, _rounded(before), 1, 1, **bright)
    cells = raster.T.astype(np.uint8) if binary else _rounded(raster.T)
    look = {"colorscale": theme.INK, "showscale": False, "hovertemplate": "step %{x}, pixel %{y}<extra></extra>"}
    figure.add_heatmap(z=compact(cells), row=1, col=2, **look, **scale)
    add_image(figure, _rounded(after), 1, 3, **bright)
    steps, pixels = raster.shape
    figure.update_xaxes(showgrid=False, row=1, col=2, **times(steps, None).look(8))
    figure.update_yaxes(title={"text": "pixel"}, range=[pixels - 0.5, -0.5], showgrid=False, row=1, col=2)
    figure.update_layout(title={"text": title}, height=320, margin={"t": 64})
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

    Raises:
        ValueError: lengths differ, or dt is not positive.
    """
    curve = as_array(signal, "signal", "[T]")
    arrays = as_arrays(spikes, "spikes", "spikes", "[T]")
    read = as_arrays(decoded, "decoded", "decoded", "[T]") if _given(decoded) else {}
    for name, array in [*arrays.items(), *read.items()]:
        if len(array) != len(curve):
            raise ValueError(f"{name!r} has {len(array)} steps, but the signal has {len(curve)}")
    time = times(len(curve), dt)
    figure = panels(2, 1, shared_xaxes=True, row_heights=[0.68, 0.32], vertical_spacing=0.06)
    for i, (name, array) in enumerate(({"signal": curve} | read).items()):
        look = {"colour": theme.TEXT, "width": 3} if i == 0 else {"colour": theme.colour(i - 1), "width": 1.8}
        hover = f"{name} %{{y:.3f}}<extra></extra>"
        add_line(figure, time.at, _rounded(array), name, hovertemplate=hover, row=1, col=1, **look)
    ticks = []
    for i, (name, array) in enumerate(arrays.items()):
        for sign, symbol in ((1, "triangle-up"), (-1, "triangle-down")):
            when = np.nonzero(np.sign(array) == sign)[0]
            at = -i + 0.22 * sign
            ticks.append((at, f"{name} {'up' if sign > 0 else 'down'}"))
            hover = f"{time.title} %{{x}}<extra>{'+' if sign > 0 else '−'}1</extra>"
            look = {"symbol": symbol, "size": 6, "colour": theme.colour(i), "hovertemplate": hover}
            look["name"] = ticks[-1][1]
            add_marks(figure, time.at[when], at, row=2, col=1, **look)
    ends = [-len(arrays) + 0.4, 0.6]
    values, texts = [at for at, _ in ticks], [text for _, text in ticks]
    figure.update_yaxes(range=ends, tickvals=values, ticktext=texts, showgrid=False, row=2, col=1)
    figure.update_xaxes(range=time.ends, tickvals=whole_ticks(time.at))
    figure.update_xaxes(title={"text": time.title}, row=2, col=1)
    figure.update_layout(title={"text": title}, height=420, margin={"l": 145})
    return figure


def compared_spikes(x: Any, yours: Any, expected: Any, title: str = "When each grey level spikes") -> go.Figure:
    """Spike times against brightness, a learner's as dots on the large marks of what is expected.

    Args:
        x: [N], the brightness of each neuron's pixel.
        yours, expected: [T, N] of 0 and 1.

    Raises:
        ValueError: yours or expected is not [T, N].
    """
    levels = as_array(x, "x", "[N]")
    figure = go.Figure()
    looks = {
        "expected": (expected, {"symbol": "square", "size": 13, "colour": theme.faint(theme.BLUE, 0.3)}),
        "yours": (yours, {"symbol": "circle", "size": 6, "colour": theme.VERMILION}),
    }
    for name, (spikes, look) in looks.items():
        array = as_array(spikes, name, "[T, N]")
        if array.shape[1] != len(levels):
            raise ValueError(f"{name} must be [T, {len(levels)}], not of shape {array.shape}")
        when, who = np.nonzero(array)
        hover = f"{name}<br>step %{{x}}, brightness %{{y:.3f}}<extra></extra>"
        more = {"name": name, "showlegend": True, "hovertemplate": hover}
        add_marks(figure, compact(when), levels[who], **look, **more)
    time = times(len(as_array(expected, "expected", "[T, N]")), None)
    figure.update_layout(title={"text": title}, height=320, showlegend=True)
    figure.update_xaxes(**time.look())
    figure.update_yaxes(title={"text": "brightness"}, range=[-0.06, 1.06])
    return figure


def rate_against_brightness(x: Any, rate: Any, steps: int, title: str = "Rate against brightness") -> go.Figure:
    """Measured spike rates, and the band that holds 95 % of the rates of Poisson encoders.

    Args:
        x: [N], the brightness of each pixel.
        rate: [N], spikes per step.
        steps: over how many steps the rates were measured.

    Raises:
        ValueError: x and rate differ in length, or steps is below 1.
    """
    levels, rates = as_array(x, "x", "[N]").astype(float), as_array(rate, "rate", "[N]")
    if levels.shape != rates.shape:
        raise ValueError(f"rate must be [{len(levels)}], one per pixel, not of shape {rates.shape}")
    steps = whole(steps, "steps")
    fine = np.linspace(0, 1, 101)
    half = 1.96 * np.sqrt(fine * (1 - fine) / steps)
    figure = go.Figure()
    look: dict[str, Any] = {"colour": theme.GREEN, "width": 1.2, "dash": "dot"}
    look["hovertemplate"] = "edge of the band: %{y:.3f} at brightness %{x:.2f}<extra></extra>"
    add_line(figure, fine, fine + half, "95 % of fair encoders", **look)
    add_line(figure, fine, fine - half, "95 % of fair encoders", showlegend=False, **look)
    look = {"symbol": "circle", "size": 7, "colour": theme.VERMILION}
    look["hovertemplate"] = "brightness %{x:.3f}<br>%{y:.3f} spikes per step<extra></extra>"
    add_marks(figure, levels, rates, name="yours", showlegend=True, **look)
    figure.update_layout(title={"text": f"{title}, {steps} steps"}, height=320)
    figure.update_xaxes(title={"text": "brightness x"}, range=[-0.03, 1.03])
    figure.update_yaxes(title={"text": "spikes per step"}, range=[-0.06, 1.06])
    return figure


def _given(arrays: Any) -> bool:
    return arrays is not None and not (isinstance(arrays, Mapping) and not arrays)


def _rounded(values: np.ndarray) -> np.ndarray:
    """Grey values to four decimals: nobody sees more, and the notebook stays small."""
    return np.round(values.astype(float), 4)
