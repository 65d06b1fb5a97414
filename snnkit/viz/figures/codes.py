"""Figures of spike codes and events: an image beside its spikes and what is decoded from them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go

from .. import theme
from ..drawing import (
    add_marks,
    as_array,
    as_arrays,
    compact,
    finish,
    panels,
    times,
)
from .pictures import add_image


def coded_image(image: Any, spikes: Any, decoded: Any, title: str = "One image as spikes") -> go.Figure:
    """Three panels: the image, its spikes over time, and the image that is decoded from them.

    Args:
        image: [H, W], values in [0, 1].
        spikes: [T, H·W], one row of the middle panel per pixel, in reading order from the top left. Values other than
            0 and 1 (direct coding) are drawn as grey levels between them.
        decoded: [H, W], on the scale of ``image``.
    """
    before, after = as_arrays({"image": (image, "[H, W]"), "decoded": (decoded, "[H, W]")})
    array = as_array(spikes, "spikes", "[T, H·W]")
    if array.shape[1] != before.size:
        raise ValueError(f"spikes must be [T, {before.size}], but its shape is {list(array.shape)}")
    binary = np.isin(array, (0, 1)).all()
    titles = ("image", f"{'spikes' if binary else 'numbers'}: {np.count_nonzero(array):,}", "read back")
    figure = panels(1, 3, titles, column_widths=[1, 1.5, 1], horizontal_spacing=0.09)
    bright = {"hovertemplate": "brightness %{z:.3f}<extra></extra>", "zmin": 0, "zmax": 1}
    add_image(figure, _rounded(before), 1, 1, **bright)
    cells = array.T.astype(np.uint8) if binary else _rounded(array.T)
    hover = {"hovertemplate": "step %{x}, pixel %{y}<extra></extra>"}
    look = bright | hover | {"colorscale": theme.INK, "showscale": False}
    figure.add_heatmap(z=compact(cells), row=1, col=2, **look)
    add_image(figure, _rounded(after), 1, 3, **bright)
    steps, pixels = array.shape
    figure.update_xaxes(showgrid=False, row=1, col=2, **times(steps, None).look(8))
    figure.update_yaxes(title_text="pixel", range=[pixels - 0.5, -0.5], showgrid=False, row=1, col=2)
    return finish(figure, title, height=320, margin={"t": 64})


def compared_spikes(x: Any, yours: Any, expected: Any) -> go.Figure:
    """Spike times against brightness, a learner's as dots on the large marks of what is expected.

    Args:
        x: [N], the brightness of each neuron's pixel.
        yours, expected: [T, N] of 0 and 1.
    """
    given = {"x": (x, "[N]"), "expected": (expected, "[T, N]"), "yours": (yours, "[T, N]")}
    levels, *arrays = as_arrays(given)
    looks = (
        {"symbol": "square", "size": 13, "colour": theme.faint(theme.BLUE, 0.3)},
        {"symbol": "circle", "size": 6, "colour": theme.VERMILION},
    )
    figure = go.Figure()
    for name, array, look in zip(("expected", "yours"), arrays, looks, strict=True):
        when, who = np.nonzero(array)
        hover = f"{name}<br>step %{{x}}, brightness %{{y:.3f}}<extra></extra>"
        add_marks(figure, compact(when), levels[who], name=name, showlegend=True, hovertemplate=hover, **look)
    up = {"title_text": "brightness", "range": [-0.06, 1.06]}
    across = times(len(arrays[0]), None).look()
    return finish(figure, "When each grey level spikes", across, up, height=320, showlegend=True)


def event_cloud(events: Any, dt: float | None = None, *, title: str = "Events") -> go.Figure:
    """The events of one recording over time and the plane of its pixels; to be turned with the mouse.

    Args:
        events: [T, 2, H, W], non-zero where a pixel reported a change: ON (it became brighter) in channel 0, OFF in
            channel 1, as ``data.events.events_of`` gives them. 4000 are drawn at most; the title counts all.
        dt: seconds per step; without it the axis counts steps.
    """
    array = as_array(events, "events", "[T, 2, H, W]")
    steps, polarities, height, width = array.shape
    if polarities != 2:
        raise ValueError(f"events must be [T, 2, H, W] with ON and OFF, but its shape is {list(array.shape)}")
    time = times(steps, dt)
    every = max(1, math.ceil(int(np.count_nonzero(array)) / 4000))
    figure, counts = go.Figure(), []
    # Plotly draws the symbol "x" in space as a character that many fonts lack.
    looks = {"on": (theme.BLUE, "circle"), "off": (theme.VERMILION, "diamond-open")}
    for channel, (name, (colour, symbol)) in enumerate(looks.items()):
        when, rows, columns = np.nonzero(array[:, channel])
        counts.append(f"{when.size:,} {name}")
        hover = f"{name}<br>{time.title} %{{x}}<br>column %{{y}}, row %{{z}}<extra></extra>"
        figure.add_scatter3d(
            x=time.at[when[::every]], y=compact(columns[::every]), z=compact(rows[::every]), mode="markers", name=name,
            marker={"symbol": symbol, "size": 4, "color": colour}, hovertemplate=hover, showlegend=True,
        )  # fmt: skip
    thin = f"; one of {every} is drawn" if every > 1 else ""
    longest = max(height, width)
    scene = {  # time to the right, columns into the depth, rows downwards as in a picture
        "xaxis": {"title": {"text": time.title}, "range": time.ends},
        "yaxis": {"title": {"text": "column (pixel)"}, "range": [-0.5, width - 0.5], "nticks": 4},
        "zaxis": {"title": {"text": "row (pixel)"}, "range": [height - 0.5, -0.5], "nticks": 6},
        "aspectmode": "manual",
        "aspectratio": {"x": 2.5, "y": width / longest, "z": height / longest},
        "camera": {"eye": {"x": -1.6, "y": -3.3, "z": 1.1}},
    }
    beside = {"x": 0.99, "xanchor": "right", "y": 0.98, "yanchor": "top"}
    page = {"height": 430, "legend": beside, "margin": {"l": 30, "r": 30, "t": 44, "b": 10}, "scene": scene}
    return finish(figure, f"{title} ({', '.join(counts)}{thin})", **page)


def _rounded(values: np.ndarray) -> np.ndarray:
    """Grey values to four decimals: no one sees more, and the notebook stays small."""
    return np.round(values.astype(float), 4)
