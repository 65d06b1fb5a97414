"""Events in space and time: each a mark at its moment and its pixel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go

from . import theme
from .arrays import as_array, compact, ordinal
from .axes import times

# Brighter and darker differ in colour, symbol and name. (Plotly draws the symbol "x" in space as a character that many
# fonts lack.)
_LOOKS = {"on": (theme.BLUE, "circle"), "off": (theme.VERMILION, "diamond-open")}
_SLIM = 2.5  # times as long as the picture is wide: how far time reaches


def event_cloud(events: Any, dt: float | None = None, *, most: int = 4000, title: str = "Events") -> go.Figure:
    """The events of one recording over time and the plane of its pixels; to be turned with the mouse.

    Args:
        events: [T, 2, H, W], non-zero where a pixel reported a change: ON (it became brighter) in channel 0, OFF in
            channel 1, as ``data.events.events_of`` gives them.
        dt: seconds per step; without it the axis counts steps.
        most: so many events are drawn at most, evenly chosen; the title counts all.

    Raises:
        ValueError: events is of another shape, ``dt`` is not positive, or ``most`` is below 1.
    """
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ValueError(f"most must be a whole number of at least 1, not {most!r}")
    array = as_array(events, "events", "[T, 2, H, W]")
    steps, polarities, height, width = array.shape
    if polarities != 2:
        raise ValueError(f"events must be [T, 2, H, W] with the channels ON and OFF, not of shape {array.shape}")
    time = times(steps, dt)
    total = int(np.count_nonzero(array))
    every = max(1, math.ceil(total / most))
    figure, counts = go.Figure(), []
    for channel, (name, (colour, symbol)) in enumerate(_LOOKS.items()):
        when, rows, columns = np.nonzero(array[:, channel])
        counts.append(f"{when.size:,} {name}")
        hover = f"{name}<br>{time.title} %{{x}}<br>column %{{y}}, row %{{z}}<extra></extra>"
        figure.add_scatter3d(
            x=time.at[when[::every]], y=compact(columns[::every]), z=compact(rows[::every]), mode="markers", name=name,
            marker={"symbol": symbol, "size": 4, "color": colour}, hovertemplate=hover, showlegend=True,
        )  # fmt: skip
    thin = f"; every {ordinal(every)} is drawn" if every > 1 else ""
    figure.update_layout(title={"text": f"{title} ({', '.join(counts)}{thin})"}, height=430, legend=_BESIDE)
    figure.update_layout(margin={"l": 30, "r": 30, "t": 44, "b": 10}, scene=_scene(time, height, width))
    return figure


_BESIDE = {"x": 0.99, "xanchor": "right", "y": 0.98, "yanchor": "top"}


def _scene(time: Any, height: int, width: int) -> dict[str, Any]:
    """Time to the right, columns into the depth, rows downwards as in a picture."""
    longest = max(height, width)
    return {
        "xaxis": {"title": {"text": time.title}, "range": time.ends},
        "yaxis": {"title": {"text": "column (pixel)"}, "range": [-0.5, width - 0.5], "nticks": 4},
        "zaxis": {"title": {"text": "row (pixel)"}, "range": [height - 0.5, -0.5], "nticks": 6},
        "aspectmode": "manual",
        "aspectratio": {"x": _SLIM, "y": width / longest, "z": height / longest},
        "camera": {"eye": {"x": -1.6, "y": -3.3, "z": 1.1}},
    }
