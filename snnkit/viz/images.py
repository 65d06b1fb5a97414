"""Small grey images: one as a panel of a figure, or many side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from . import theme
from .arguments import whole
from .arrays import as_array, compact

_WIDE = 676  # pixels between the margins of a page of 700
_LARGEST = 110  # an image is drawn at most this wide
_LABEL = 19  # what a label over an image needs


def image_grid(images: Any, labels: Sequence[Any] | Any = None, columns: int = 8, title: str = "Images") -> go.Figure:
    """Small grey images side by side, each with its label.

    Args:
        images: [N, H, W] or [N, 1, H, W], of any numeric type.
        labels: one per image, shown above it.
        columns: images per row.

    Raises:
        ValueError: images is of another shape, labels are not one per image, or columns is below 1.
    """
    if hasattr(images, "ndim") and images.ndim == 4 and images.shape[1] == 1:
        images = images[:, 0]
    array = as_array(images, "images", "[N, H, W]")
    count, height, width = array.shape
    columns = whole(columns, "columns")
    if labels is not None and len(labels) != count:
        raise ValueError(f"labels must hold {count} labels, one per image, not {len(labels)}")
    columns = min(columns, count)
    rows, gap = -(-count // columns), max(1, width // 14)
    scale = min(_WIDE / (columns * (width + gap)), _LARGEST / width)  # screen pixels per image pixel
    head = math.ceil(_LABEL / scale) if labels is not None else gap
    canvas = np.zeros((rows * (height + head), columns * (width + gap)), dtype=compact(array).dtype)
    # All at once at the end: one by one, each is checked with all before it, and 100 images take seconds.
    frames, notes = [], []
    for i in range(count):
        top, left = (i // columns) * (height + head) + head, (i % columns) * (width + gap)
        canvas[top : top + height, left : left + width] = array[i]
        frames.append(_frame(top, left, height, width))
        if labels is not None:
            text = str(labels[i].item() if hasattr(labels[i], "item") else labels[i])
            at = {"x": left + (width - 1) / 2, "y": top - 0.5, "yanchor": "bottom", "showarrow": False}
            notes.append({"text": text, "font": {"size": 12, "color": theme.TEXT}, **at})
    figure = go.Figure()
    figure.add_heatmap(
        z=canvas, name="images", colorscale=theme.INK, showscale=False, hovertemplate="%{z:.3g}<extra></extra>"
    )
    edges = {"l": 12, "r": 12, "t": 40, "b": 12}
    figure.update_layout(title={"text": title}, height=52 + math.ceil(scale * len(canvas)), margin=edges)
    figure.update_layout(shapes=frames, annotations=notes)
    figure.update_xaxes(visible=False, constrain="domain", range=[-0.5 - gap / 2, canvas.shape[1] - 0.5 - gap / 2])
    figure.update_yaxes(visible=False, range=[len(canvas) - 0.4, -0.5], scaleanchor="x", constrain="domain")
    return figure


def add_image(figure: go.Figure, image: np.ndarray, row: int, col: int, **look: Any) -> None:
    """A grey image [H, W] in a frame, as a panel of its own without axes. ``look`` is for ``add_heatmap``."""
    height, width = image.shape
    style = {"name": "image", "colorscale": theme.INK, "showscale": False} | look
    figure.add_heatmap(z=compact(image), row=row, col=col, **style)
    figure.add_shape(**_frame(0, 0, height, width), row=row, col=col)
    trace: Any = figure.data[-1]
    figure.update_xaxes(range=[-0.6, width - 0.4], visible=False, constrain="domain", row=row, col=col)
    up = {"range": [height - 0.4, -0.6], "visible": False, "constrain": "domain", "scaleanchor": trace.xaxis or "x"}
    figure.update_yaxes(row=row, col=col, **up)


def _frame(top: float, left: float, height: int, width: int) -> dict[str, Any]:
    box = {"x0": left - 0.5, "x1": left + width - 0.5, "y0": top - 0.5, "y1": top + height - 0.5}
    return {"type": "rect", "line": {"color": theme.AXIS, "width": 1}, **box}
