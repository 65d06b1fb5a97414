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
from ..drawing import add_marks, compact
from ..figures import event_cloud
from .lab import Lab, add_note

SIZE, STEPS = 16, 24  # pixels of the camera in both directions; time steps for one way round the triangle

CONTROLS: dict[str, Any] = {
    "step": (0, STEPS - 1),
    "digit": (0, 9),
    "amplitude": (0.5, 4.0, 0.25),
    "threshold": (0.05, 1.0, 0.05),
    "noise": (0.0, 0.05, 0.005),
}


def figure(
    step: Annotated[int, "which time step the left picture shows"] = STEPS // 4,
    digit: Annotated[int, "which digit the camera looks at"] = 3,
    amplitude: Annotated[float, "of the eye movements, in pixels"] = 2.0,
    threshold: Annotated[float, "change of the logarithm of brightness per event"] = 0.2,
    noise: Annotated[float, "share of pixels that report spuriously, per step and polarity"] = 0.0,
) -> go.Figure:
    """Left: the picture as it moves before the camera and the events of one step. Right: all events over time."""
    image = _images()[digit]
    path = saccades(STEPS, amplitude)
    seed = torch.Generator().manual_seed(0)
    events = events_of(image[None, None], path, threshold=threshold, noise=noise, generator=seed)[0]
    page: Any = event_cloud(events, title=f"A {digit} before an event camera")
    # The camera looks at path[step + 1] after the step, so the picture has moved the other way.
    column, row = (-path[step + 1]).tolist()
    pale: dict[str, Any] = {"zmin": 0, "zmax": 1.6, "colorscale": theme.INK, "showscale": False, "hoverinfo": "skip"}
    page.add_heatmap(z=np.round(image.numpy().astype(float), 2), x0=column, y0=row, dx=1, dy=1, **pale)
    for like, polarity in zip(page.data[:2], events[step].numpy(), strict=True):
        rows, columns = np.nonzero(polarity)
        look = {"symbol": like.marker.symbol, "colour": like.marker.color, "size": 8, "name": like.name}
        hover = f"{like.name}<br>column %{{x}}, row %{{y}}<extra></extra>"
        add_marks(page, compact(columns), compact(rows), hovertemplate=hover, **look)
    on, off = (int(polarity.count_nonzero()) for polarity in events[step])
    add_note(page, f"step {step}: {on} on, {off} off")
    scene = {"domain": {"x": [0.45, 1]}, "camera": {"eye": {"x": -1.6, "y": -3.0, "z": 1.1}}}
    page.update_layout(scene=scene, margin={"l": 46, "r": 8, "t": 70, "b": 40}, height=400)
    page.update_xaxes(domain=[0, 0.34], range=[-0.5, SIZE - 0.5], title={"text": "column (pixel)"}, showgrid=False)
    up = {"range": [SIZE - 0.5, -0.5], "title": {"text": "row (pixel)"}, "showgrid": False}
    return page.update_yaxes(scaleanchor="x", constrain="domain", **up)


@functools.lru_cache(maxsize=1)
def _images() -> Tensor:
    """One image of each digit, [10, SIZE, SIZE] in [0, 1]."""
    images, labels = load("digits")
    first = [int((labels == label).nonzero()[0]) for label in range(10)]
    return F.interpolate(to_unit(images[first]), size=(SIZE, SIZE), mode="bilinear", align_corners=False)[:, 0]


event_player = Lab("event_player", figure, CONTROLS)
