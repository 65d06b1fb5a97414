"""Pictures: images side by side, one image on its way through a network, and which class is taken for which."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from torch import Tensor

from ... import checks
from .. import theme
from ..drawing import (
    NOTE,
    add_line,
    add_marks,
    as_array,
    as_arrays,
    class_names,
    compact,
    finish,
    frame,
    panels,
    whole_ticks,
)

_WIDE = 676  # pixels between the margins of a page of 700
_LARGEST = 110  # an image is drawn at most this wide
_LABEL = 19  # what a label over an image needs


def image_grid(
    images: Any, labels: Sequence[Any] | Tensor | np.ndarray | None = None, columns: int = 8, title: str = "Images"
) -> go.Figure:
    """Small grey images side by side, each with its label.

    Args:
        images: [N, H, W] or [N, 1, H, W], of any numeric type.
        labels: one per image, shown above it.
        columns: images per row.
    """
    if hasattr(images, "ndim") and images.ndim == 4 and images.shape[1] == 1:
        images = images[:, 0]
    array = as_array(images, "images", "[N, H, W]")
    columns = checks.integer("columns", columns, at_least=1)
    if labels is not None and len(labels) != len(array):
        raise ValueError(f"labels must hold {len(array)} labels, one per image, but it holds {len(labels)}")
    texts = None if labels is None else [str(one.item() if hasattr(one, "item") else one) for one in labels]
    look = {"name": "images", "colorscale": theme.INK, "showscale": False, "hovertemplate": "%{z:.3g}<extra></extra>"}
    return finish(_sheet(compact(array), texts, columns, **look), title)


def _sheet(
    pictures: np.ndarray, labels: Sequence[str] | None, columns: int, empty: float = 0, **look: Any
) -> go.Figure:
    """Pictures [N, H, W] in frames, in rows of ``columns``, each under its label, as one heat map."""
    count, height, width = pictures.shape
    columns = min(columns, count)
    rows, gap = -(-count // columns), max(1, width // 14)
    scale = min(_WIDE / (columns * (width + gap)), _LARGEST / width)  # screen pixels per image pixel
    head = math.ceil(_LABEL / scale) if labels is not None else gap
    canvas = np.full((rows * (height + head), columns * (width + gap)), empty, dtype=pictures.dtype)
    # All frames at once at the end: one by one, each is checked with all before it, and 100 images take seconds.
    frames, notes = [], []
    for i, picture in enumerate(pictures):
        top, left = (i // columns) * (height + head) + head, (i % columns) * (width + gap)
        canvas[top : top + height, left : left + width] = picture
        frames.append(frame(left, top, width, height))
        if labels is not None:
            notes.append({"text": labels[i], "x": left + (width - 1) / 2, "y": top - 0.5, "yanchor": "bottom"} | NOTE)
    figure = go.Figure(go.Heatmap(z=canvas, **look))
    edges = {"l": 12, "r": 12, "t": 40, "b": 12}
    figure.update_layout(height=52 + math.ceil(scale * len(canvas)), margin=edges, shapes=frames, annotations=notes)
    figure.update_xaxes(visible=False, constrain="domain", range=[-0.5 - gap / 2, canvas.shape[1] - 0.5 - gap / 2])
    figure.update_yaxes(visible=False, range=[len(canvas) - 0.4, -0.5], scaleanchor="x", constrain="domain")
    return figure


def add_image(figure: go.Figure, image: np.ndarray, row: int, col: int, **look: Any) -> None:
    """A grey image [H, W] in a frame, as a panel of its own without axes. ``look`` is for ``add_heatmap``."""
    height, width = image.shape
    style = {"name": "image", "colorscale": theme.INK, "showscale": False} | look
    figure.add_heatmap(z=compact(image), row=row, col=col, **style)
    figure.add_shape(**frame(0, 0, width, height), row=row, col=col)
    trace: Any = figure.data[-1]
    figure.update_xaxes(range=[-0.6, width - 0.4], visible=False, constrain="domain", row=row, col=col)
    up = {"range": [height - 0.4, -0.6], "visible": False, "constrain": "domain", "scaleanchor": trace.xaxis or "x"}
    figure.update_yaxes(row=row, col=col, **up)


def inference(image: Any, hidden: Any, output: Any, label: int, names: Sequence[str]) -> go.Figure:
    """Three panels: the image, the raster of a hidden layer, and the spikes of each output neuron counted so far.

    The neurons in the raster are sorted, the busiest at the bottom. The right class is green; the answer, if it is
    another class, is red; the others are grey.

    Args:
        image: [H, W].
        hidden: [T, N], non-zero where a hidden neuron spiked.
        output: [T, C], the same of the output neurons.
        label: the right class.
        names: of the classes.
    """
    picture = as_array(image, "image", "[H, W]")
    spikes, fired = as_arrays({"hidden": (hidden, "[T, N]"), "output": (output, "[T, C]")})
    votes = (fired != 0).cumsum(axis=0)
    steps, classes = votes.shape
    label = checks.integer("label", label, at_least=0, at_most=classes - 1)
    named = class_names(names, classes, "names")
    titles = ("image", f"hidden layer: {np.count_nonzero(spikes)} spikes", "output: spikes so far")
    figure = panels(1, 3, titles, column_widths=[0.9, 1.5, 1.5], horizontal_spacing=0.1)
    add_image(figure, picture, 1, 1, hovertemplate="%{z:.3g}<extra></extra>")
    rank = np.argsort(np.argsort(-(spikes != 0).sum(axis=0), kind="stable"), kind="stable")
    when, who = np.nonzero(spikes)
    dots = {"symbol": "circle", "size": 3, "colour": theme.BLUE, "hovertemplate": "step %{x}<extra></extra>"}
    add_marks(figure, compact(when + 1), rank[who], row=1, col=2, name="hidden spikes", **dots)
    answer = int(votes[-1].argmax()) if votes[-1].any() else None
    for k in range(classes):
        colour = theme.GREEN if k == label else theme.VERMILION if k == answer else theme.AXIS
        dash = "dash" if k == answer and k != label else "solid"
        look = {"colour": colour, "width": 3 if k in (label, answer) else 1.2, "dash": dash, "showlegend": False}
        hover = f"{named[k]}<br>step %{{x}}<br>%{{y}} spikes<extra></extra>"
        add_line(figure, np.arange(1, steps + 1), votes[:, k], named[k], hovertemplate=hover, row=1, col=3, **look)
    room = 0.08
    for count in np.unique(votes[-1][votes[-1] > 0]):  # classes that end level share a label
        level = [k for k in range(classes) if votes[-1, k] == count]
        text = ", ".join(named[k] for k in level)
        room = max(room, 0.04 * len(text))
        place = {"x": steps, "y": int(count), "xref": "x3", "yref": "y3", "xanchor": "left", "xshift": 4}
        figure.add_annotation(text=f"<b>{text}</b>" if {label, answer} & set(level) else text, **place, **NOTE)
    for col, end in ((2, steps + 0.5), (3, steps + 0.5 + room * steps)):
        ticks = {"range": [0.5, end], "tickvals": whole_ticks([1, steps], 6), "title_text": "time step"}
        figure.update_xaxes(row=1, col=col, **ticks)
    figure.update_yaxes(range=[-1, spikes.shape[1]], title_text="neuron (sorted)", row=1, col=2)
    counts = {"range": [0, steps + 0.5], "tickvals": whole_ticks([0, steps])}
    figure.update_yaxes(title_text="spikes", row=1, col=3, **counts)
    title = "No answer: the output is silent"
    if answer is not None:
        title = f"The answer is {named[answer]} ({'right' if answer == label else f'wrong: it is {named[label]}'})"
    return finish(figure, title, height=360, margin={"t": 64})


def confusion(matrix: Any, labels: Sequence[str] | None = None, title: str = "Confusion matrix") -> go.Figure:
    """Which class is taken for which.

    Args:
        matrix: [C, C] counts; row: the true class, column: the predicted one.
        labels: names of the classes; without them their numbers.
    """
    counts = as_array(matrix, "matrix", "[C, C]")
    size = len(counts)
    if counts.shape[1] != size or not (np.isfinite(counts.astype(float)) & (counts >= 0)).all():
        raise ValueError(f"matrix must be square [C, C] with counts of at least 0, but it is {checks.shown(matrix)}")
    names = class_names(labels, size, "labels")
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    hover = "true %{y}, taken for %{x}<br>%{customdata} times (%{z:.1f} %)<extra></extra>"
    look = {"name": "share in %", "zmin": 0, "zmax": 100, "colorscale": theme.INK_ON_PAPER, "xgap": 1, "ygap": 1}
    look |= {"showscale": False, "customdata": compact(counts), "hovertemplate": hover}
    figure = go.Figure(go.Heatmap(z=compact(share * 100), x=names, y=names, **look))
    notes = []
    for row, column in np.argwhere(counts):
        font = {"color": theme.WHITE if share[row, column] > 0.6 else theme.BLACK, "size": 11}
        text = f"{counts[row, column]:g}"
        notes.append({"x": names[column], "y": names[row], "text": text, "showarrow": False, "font": font})
    right = 100 * np.trace(counts) / max(counts.sum(), 1)
    classes = {"type": "category", "showgrid": False}
    across, up = {"title_text": "predicted"} | classes, {"title_text": "true", "autorange": "reversed"} | classes
    return finish(figure, f"{title}: {right:.1f} % right", across, up, height=440, annotations=notes)
