"""Pictures: images side by side, in a network, as spikes and as events; and confused classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from torch import Tensor

from snnkit import checks
from snnkit.lab.viz import concepts, theme
from snnkit.lab.viz.drawing import (
    NOTE,
    add_marks,
    as_array,
    as_arrays,
    class_names,
    compact,
    finish,
    frame,
    panels,
    times,
)

_WIDE = 676  # pixels between the margins of a page of 700
_LARGEST = 110  # an image is drawn at most this wide
_SMALLEST = 60  # and at least so wide, so that one can see it
_LABEL = 19  # what a label over an image needs


@checks.arguments
def image_grid(
    images: Any,
    labels: Sequence[Any] | Tensor | np.ndarray | None = None,
    columns: int = 8,
    title: str = "Images",
    signed: bool = False,
) -> go.Figure:
    """Small grey images side by side, each with its label.

    Args:
        images: [N, H, W] or [N, 1, H, W], of any numeric type.
        labels: one per image, shown above it.
        columns: images per row; fewer where an image would be too small to see.
        signed: values below zero are crimson, those above it blue, and zero is clear; else the largest is white.
    """
    if hasattr(images, "ndim") and images.ndim == 4 and images.shape[1] == 1:
        images = images[:, 0]
    array = as_array(images, "images", "[N, H, W]")
    columns = checks.integer("columns", columns, at_least=1)
    if labels is not None and len(labels) != len(array):
        raise ValueError(f"labels must hold {len(array)} labels, one per image, but it holds {len(labels)}")
    texts = None if labels is None else [str(one.item() if hasattr(one, "item") else one) for one in labels]
    look: dict[str, Any] = {"name": "images", "showscale": False, "hovertemplate": "%{z:.3g}<extra></extra>"}
    if signed:
        most = float(np.nanmax(np.abs(array))) or 1.0
        look |= {"colorscale": theme.SIGNED, "zmin": -most, "zmax": most}
    else:
        look |= {"colorscale": theme.LIGHT, "paper": theme.NIGHT}
    return finish(_sheet(compact(array), texts, columns, **look), title)


def _sheet(
    pictures: np.ndarray, labels: Sequence[str] | None, columns: int, empty: float = 0, paper: str = "", **look: Any
) -> go.Figure:
    """Pictures [N, H, W] in frames, in rows of ``columns``, each under its label, as one heat map."""
    count, height, width = pictures.shape
    gap = max(1, width // 14)
    room = int(_WIDE // (_SMALLEST / width * (width + gap)))
    columns = max(1, min(columns, count, room))
    rows = -(-count // columns)
    scale = min(_WIDE / (columns * (width + gap)), _LARGEST / width)  # screen pixels per image pixel
    head = math.ceil(_LABEL / scale) if labels is not None else gap
    canvas = np.full((rows * (height + head), columns * (width + gap)), empty, dtype=pictures.dtype)
    # All frames at once at the end: one by one, each is checked with all before it, and 100 images take seconds.
    frames, notes = [], []
    for i, picture in enumerate(pictures):
        top, left = (i // columns) * (height + head) + head, (i % columns) * (width + gap)
        canvas[top : top + height, left : left + width] = picture
        frames.append(frame(left, top, width, height, paper))
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
    style = {"name": "image", "colorscale": theme.LIGHT, "showscale": False} | look
    figure.add_heatmap(z=compact(image), row=row, col=col, **style)
    figure.add_shape(**frame(0, 0, width, height, theme.NIGHT), row=row, col=col)
    trace: Any = figure.data[-1]
    figure.update_xaxes(range=[-0.6, width - 0.4], visible=False, constrain="domain", row=row, col=col)
    up = {"range": [height - 0.4, -0.6], "visible": False, "constrain": "domain", "scaleanchor": trace.xaxis or "x"}
    figure.update_yaxes(row=row, col=col, **up)


@checks.arguments
def confusion(
    matrix: Any, labels: Sequence[Any] | np.ndarray | None = None, title: str = "Confusion matrix"
) -> go.Figure:
    """The true classes against the predicted ones.

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
        font = {"color": theme.WHITE if share[row, column] > 0.785 else theme.BLACK, "size": 12}
        text = f"{counts[row, column]:g}"
        notes.append({"x": names[column], "y": names[row], "text": text, "showarrow": False, "font": font})
    right = 100 * np.trace(counts) / max(counts.sum(), 1)
    classes = {"type": "category", "showgrid": False}
    across, up = {"title_text": "predicted"} | classes, {"title_text": "true", "autorange": "reversed"} | classes
    return finish(figure, f"{title}: {right:.1f} % right", across, up, height=440, annotations=notes)


@checks.arguments
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
    ink = concepts.colour("spike" if binary else "input")
    look = bright | hover | {"colorscale": [(0, theme.faint(ink, 0)), (1, theme.faint(ink, 1))], "showscale": False}
    figure.add_heatmap(z=compact(cells), row=1, col=2, **look)
    add_image(figure, _rounded(after), 1, 3, **bright)
    steps, pixels = array.shape
    figure.update_xaxes(showgrid=False, row=1, col=2, **times(steps, None).look(8))
    figure.update_yaxes(title_text="pixel", range=[pixels - 0.5, -0.5], showgrid=False, row=1, col=2)
    return finish(figure, title, height=320, margin={"t": 64})


@checks.arguments
def compared_spikes(x: Any, yours: Any, expected: Any) -> go.Figure:
    """Spike times against brightness: a learner's are dots, the expected ones are hollow squares.

    Args:
        x: [N], the brightness of each neuron's pixel.
        yours, expected: [T, N] of 0 and 1.
    """
    given = {"x": (x, "[N]"), "expected": (expected, "[T, N]"), "yours": (yours, "[T, N]")}
    levels, *arrays = as_arrays(given)
    looks = (
        {"symbol": "square-open", "size": 13, "colour": theme.BLUE},
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


@checks.arguments
def event_cloud(events: Any, dt: float | None = None, *, title: str = "Events") -> go.Figure:
    """The events of one recording over time and the plane of its pixels. The mouse turns it.

    Args:
        events: [T, 2, H, W], non-zero where a pixel reported a change: OFF (it became darker) in channel 0, ON in
            channel 1, as ``data.events`` gives them. 4000 are drawn at most; the title counts all.
        dt: seconds per step; without it the axis counts steps.
    """
    array = as_array(events, "events", "[T, 2, H, W]")
    steps, polarities, height, width = array.shape
    if polarities != 2:
        raise ValueError(f"events must be [T, 2, H, W] with OFF and ON, but its shape is {list(array.shape)}")
    time = times(steps, dt)
    every = max(1, math.ceil(int(np.count_nonzero(array)) / 4000))
    figure, counts = go.Figure(), []
    # Plotly draws the symbol "x" in space as a character that many fonts lack.
    looks = {"on": (1, concepts.colour("on"), "circle"), "off": (0, concepts.colour("off"), "diamond")}
    for name, (channel, colour, symbol) in looks.items():
        when, rows, columns = np.nonzero(array[:, channel])
        counts.append(f"{when.size:,} {name}")
        hover = f"{name}<br>{time.title} %{{x}}<br>column %{{y}}, row %{{z}}<extra></extra>"
        figure.add_scatter3d(
            x=time.at[when[::every]], y=compact(columns[::every]), z=compact(rows[::every]), mode="markers", name=name,
            marker={"symbol": symbol, "size": 2, "color": colour}, hovertemplate=hover, showlegend=True,
        )  # fmt: skip
    thin = f"; one of {every} is drawn" if every > 1 else ""
    longest = max(height, width)
    inked: dict[str, Any] = {"tickfont": {"color": theme.INK_TEXT, "size": 12}, "color": theme.INK_TEXT}
    scene = {  # time to the right, columns into the depth, rows downwards as in a picture
        "xaxis": {"title": {"text": time.title}, "range": time.ends} | inked,
        "yaxis": {"title": {"text": "column"}, "range": [-0.5, width - 0.5], "nticks": 4} | inked,
        "zaxis": {"title": {"text": "row"}, "range": [height - 0.5, -0.5], "nticks": 6} | inked,
        "bgcolor": theme.WHITE,  # WebGL's text can't follow the page
        "aspectmode": "manual",
        "aspectratio": {"x": 2.5, "y": width / longest, "z": height / longest},
        "camera": {"eye": {"x": -1.2, "y": -2.2, "z": 0.7}, "center": {"x": 0.05, "y": 0, "z": -0.15}},
    }
    above = {"orientation": "h", "x": 0, "y": 1.01, "yanchor": "bottom", "itemsizing": "constant"}
    page = {"height": 460, "legend": above, "margin": {"l": 12, "r": 12, "t": 74, "b": 10}, "scene": scene}
    return finish(figure, f"{title} ({', '.join(counts)}{thin})", **page)


def _rounded(values: np.ndarray) -> np.ndarray:
    """Grey values to four decimals: no one sees more, and the notebook stays small."""
    return np.round(values.astype(float), 4)
