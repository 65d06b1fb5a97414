"""The channels of a convolutional layer as pictures, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from . import theme
from .arrays import as_array, class_names, compact

_HOVER = "%{z:.3g} spikes<extra></extra>"
_WIDE, _LARGEST = 600, 90  # pixels: of all maps side by side, and the most that one takes


def feature_maps(spikes: Any, names: Sequence[Any] | None = None, title: str = "Feature maps") -> go.Figure:
    """A column for each channel, a row for each time step, and below the mean over time.

    Args:
        spikes: [T, C, H, W] of one sample, in [0, 1]; a pixel is a neuron.
        names: of the channels; without them their numbers.

    Raises:
        ValueError: spikes is of another shape, or names are not C.
    """
    array = as_array(spikes, "spikes", "[T, C, H, W]").astype(float)
    steps, channels, height, width = array.shape
    called = class_names(names, channels, "names")
    maps = np.concatenate([array, array.mean(axis=0, keepdims=True)])
    gap, line = max(1, width // 12), max(1, height // 12)
    rows = [i * (height + line) + (line if i == steps else 0) for i in range(steps + 1)]
    columns = [i * (width + gap) for i in range(channels)]
    canvas = np.zeros((rows[-1] + height, columns[-1] + width))
    figure = go.Figure()
    for i, top in enumerate(rows):
        for j, left in enumerate(columns):
            canvas[top : top + height, left : left + width] = maps[i, j]
            box = {"x0": left - 0.5, "x1": left + width - 0.5, "y0": top - 0.5, "y1": top + height - 0.5}
            figure.add_shape(type="rect", line={"color": theme.AXIS, "width": 1}, **box)
    figure.add_heatmap(
        z=compact(canvas), name="maps", colorscale=theme.INK, zmin=0, zmax=1, showscale=False, hovertemplate=_HOVER
    )
    scale = min(_WIDE / canvas.shape[1], _LARGEST / width)
    figure.update_layout(title={"text": title}, height=round(scale * len(canvas)) + 96, margin={"t": 52, "b": 44})
    middle = (width - 1) / 2
    look = {"showgrid": False, "showline": False, "ticks": "", "constrain": "domain"}
    across = {"tickvals": [left + middle for left in columns], "ticktext": called, "title": {"text": "channel"}}
    up = {"tickvals": [top + (height - 1) / 2 for top in rows]}
    up["ticktext"] = [*(f"step {t + 1}" for t in range(steps)), "mean"]
    figure.update_xaxes(range=[-1, canvas.shape[1]], **across, **look)
    figure.update_yaxes(range=[len(canvas), -1], scaleanchor="x", **up, **look)
    return figure
