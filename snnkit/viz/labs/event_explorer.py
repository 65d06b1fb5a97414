"""The event player: a digit before a synthetic event camera, step by step and as a cloud in space and time."""

from __future__ import annotations

import functools
from typing import Annotated, Any

import numpy as np
import plotly.graph_objects as go
import torch
import torch.nn.functional as F
from torch import Tensor

from snnkit.data import load, to_unit
from snnkit.data.events import events_of, saccades

from .. import theme
from ..drawing import compact
from ..figures import event_cloud
from ..frame_slider import slid
from .lab import Lab

SIZE = 16  # pixels of the camera, in both directions
PACE = 140  # milliseconds per step of the playback

CONTROLS: dict[str, Any] = {
    "digit": (0, 9),
    "amplitude": (0.5, 4.0, 0.25),
    "threshold": (0.05, 1.0, 0.05),
    "noise": (0.0, 0.05, 0.005),
    "steps": [8, 16, 24, 32],
}


def figure(
    digit: Annotated[int, "which digit the camera looks at"] = 3,
    amplitude: Annotated[float, "of the eye movements, in pixels"] = 2.0,
    threshold: Annotated[float, "change of the logarithm of brightness per event"] = 0.2,
    noise: Annotated[float, "share of pixels that report spuriously, per step and polarity"] = 0.0,
    steps: Annotated[int, "time steps for one way round the triangle"] = 16,
) -> go.Figure:
    """Left: the picture as it moves before the camera and the events of one step. Right: all events over time.

    The slider under the picture and the buttons beside it play the steps; they need no kernel.
    """
    image = _images()[digit]
    path = saccades(steps, amplitude)
    seed = torch.Generator().manual_seed(0)
    events = events_of(image[None, None], path, threshold=threshold, noise=noise, generator=seed)[0]
    page: Any = event_cloud(events, title=f"A {digit} before an event camera")
    scene = {"domain": {"x": [0.45, 1]}, "camera": {"eye": {"x": -1.6, "y": -3.0, "z": 1.1}}}
    page.update_layout(scene=scene, margin={"l": 46, "r": 8, "t": 70, "b": 40}, height=400)
    page.update_xaxes(domain=[0, 0.34], range=[-0.5, SIZE - 0.5], title={"text": "column (pixel)"}, showgrid=False)
    up = {"range": [SIZE - 0.5, -0.5], "title": {"text": "row (pixel)"}, "showgrid": False}
    page.update_yaxes(scaleanchor="x", constrain="domain", **up)
    first = len(page.data)
    start = steps // 4
    changes = [_at(step, events[step], path[step + 1], first) for step in range(steps)]
    _draw(page, image, changes[start])
    return slid(page, changes, "step", range(steps), start, PACE)


@functools.lru_cache(maxsize=1)
def _images() -> Tensor:
    """One image of each digit, [10, SIZE, SIZE] in [0, 1]."""
    images, labels = load("digits")
    first = [int((labels == label).nonzero()[0]) for label in range(10)]
    return F.interpolate(to_unit(images[first]), size=(SIZE, SIZE), mode="bilinear", align_corners=False)[:, 0]


def _at(step: int, events: Tensor, gaze: Tensor, first: int) -> dict[str, Any]:
    """What changes of the left panel, whose traces follow ``first`` others: picture, ON and OFF, and the note above.

    ``gaze`` [2] is where the camera looks after the step; the picture is drawn at its negative.
    """
    column, row = (-gaze).tolist()
    data: list[dict[str, Any]] = [{"type": "heatmap", "x0": column, "y0": row}]
    for polarity in events.numpy():
        rows, columns = np.nonzero(polarity)
        data.append({"type": "scatter", "x": compact(columns), "y": compact(rows)})
    on, off = (len(trace["x"]) for trace in data[1:])
    note = {"x": 0, "xref": "paper", "xanchor": "left", "y": 1, "yref": "paper", "yanchor": "bottom", "yshift": 4}
    note |= {"text": f"step {step}: {on} on, {off} off", "showarrow": False, "font": {"size": 12, "color": theme.TEXT}}
    return {"data": data, "traces": list(range(first, first + len(data))), "layout": {"annotations": [note]}}


def _draw(page: Any, image: Tensor, change: dict[str, Any]) -> None:
    """The left panel at the step of ``change``; marks look as in the cloud."""
    picture, *marks = change["data"]
    pale = {"zmin": 0, "zmax": 1.6, "colorscale": theme.INK, "showscale": False, "hoverinfo": "skip"}
    page.add_trace({**picture, "z": _rounded(image), "dx": 1, "dy": 1, **pale})
    for mark, like in zip(marks, page.data[: len(marks)], strict=True):
        marker = {"symbol": like.marker.symbol, "color": like.marker.color, "size": 8}
        hover = f"{like.name}<br>column %{{x}}, row %{{y}}<extra></extra>"
        page.add_trace({**mark, "mode": "markers", "marker": marker, "hovertemplate": hover, "showlegend": False})
    page.update_layout(change["layout"])


def _rounded(image: Tensor) -> np.ndarray:
    """To two decimals: more is invisible, and the notebook stays small."""
    return np.round(image.numpy().astype(float), 2)


event_player = Lab(
    "event_player",
    "Event player",
    figure,
    CONTROLS,
    "A still picture makes no events, a moving one reports its edges: what do threshold, motion and noise change?",
)
