"""Weights as pictures: a matrix, the receptive fields of its rows, or the kernels of a convolution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from . import theme
from .arrays import as_array, axes, ordinal

_READABLE = 12  # up to so many rows and columns, each cell holds its number
_PICTURES, _CHANNELS = 64, 16  # so many are drawn if nobody says
_CELLS = 12_000  # more of a matrix would make the notebook heavy
# Pixels: of all pictures side by side, of all one under the other, the most that one takes, a label's height.
_WIDE, _HIGH, _LARGEST, _LABEL = 560, 520, 90, 17


def weights(
    matrix: Any, *, shape: Sequence[int] | None = None, most: int | None = None, title: str = "Weights"
) -> go.Figure:
    """Weights on a scale that is symmetric about zero: blue excites, orange inhibits, clear is nothing.

    Args:
        matrix: [out, in], drawn as one map; or convolution kernels [out, in, h, w], one small picture each: a row for
            each output channel and a column for each input channel.
        shape: (H, W) of the input: each row of a matrix [out, H·W] is then drawn as a picture, the neuron's receptive
            field.
        most: how many receptive fields, or channels (out and in), are drawn, the first ones; None: 64 and 16.

    A small matrix has its numbers in its cells. Of a very large one every k-th row and column is drawn, and the title
    says so. Weights that are not finite leave holes; the title counts them, too.

    Raises:
        TypeError: matrix holds no numbers.
        ValueError: matrix is of another shape, ``shape`` does not fit it, or ``most`` is below 1.
    """
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
        raise ValueError(f"most must be a whole number of at least 1, not {most!r}")
    kernels = axes(matrix) == 4
    array = as_array(matrix, "matrix", "[out, in, h, w]" if kernels else "[out, in]").astype(np.float32)
    if shape is not None and (kernels or not _fits(shape, array.shape[1])):
        fits = "None for kernels [out, in, h, w]" if kernels else f"(H, W) with H * W = {array.shape[1]}"
        raise ValueError(f"shape must be {fits}, not {shape!r}")
    limit = _limit(array)
    many = (most or _CHANNELS) if kernels and array.shape[1] > 1 else (most or _PICTURES)
    if kernels and array.shape[1] == 1:
        figure = _pictures(array[:many, 0], "kernel", limit)
        drawn = f"{many} of {len(array)} kernels" if many < len(array) else ""
    elif kernels:
        figure, drawn = _kernels(array, many, limit)
    elif shape is not None:
        figure = _pictures(array[:many].reshape(-1, *shape), "neuron", limit)
        drawn = f"{many} of {len(array)} neurons" if many < len(array) else ""
    else:
        figure, drawn = _matrix(array, limit)
    figure.update_layout(title={"text": f"{title}: {', '.join(filter(None, (_range(array), drawn)))}"})
    return figure


def _fits(shape: Any, pixels: int) -> bool:
    pair = isinstance(shape, (tuple, list)) and len(shape) == 2
    return pair and all(isinstance(side, int) and side > 0 for side in shape) and math.prod(shape) == pixels


def _limit(array: np.ndarray) -> float:
    """The largest size of a weight: the ends of the scale. 1 where there is none."""
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) or 1.0 if finite.size else 1.0


def _range(array: np.ndarray) -> str:
    finite = array[np.isfinite(array)]
    holes = f"{array.size - finite.size:,} not finite" if finite.size < array.size else ""
    if not finite.size:
        return holes
    low, high = float(finite.min()), float(finite.max())
    told = f"{low:.2g} to {high:.2g}".replace("-", "−") + f", {(finite < 0).mean():.0%} below 0"
    return f"{told}, {holes}" if holes else told


def _look(limit: float, *, paper: bool = False) -> dict[str, Any]:
    """How a heat map of weights is drawn. ``paper``: on a ground of its own, for cells that hold text."""
    scale = theme.SIGNED_ON_PAPER if paper else theme.SIGNED
    bar = {"title": {"text": "weight"}, "thickness": 12, "outlinewidth": 0}
    return {"name": "weight", "zmin": -limit, "zmax": limit, "colorscale": scale, "colorbar": bar, "hoverongaps": False}


def _clean(array: np.ndarray) -> np.ndarray:
    """NaN where a weight is not finite: plotly leaves a hole there."""
    return np.where(np.isfinite(array), array, np.float32(math.nan))


def _matrix(array: np.ndarray, limit: float) -> tuple[go.Figure, str]:
    every = math.ceil(math.sqrt(array.size / _CELLS)) if array.size > _CELLS else 1
    shown = _clean(array[::every, ::every])
    rows, columns = (np.arange(0, size, every) for size in array.shape)
    small = max(shown.shape) <= _READABLE
    hover = "to %{y} from %{x}<br>weight %{z:.4g}<extra></extra>"
    gaps = {"xgap": 1, "ygap": 1} if small else {}
    figure = go.Figure(go.Heatmap(z=shown, x=columns, y=rows, hovertemplate=hover, **_look(limit, paper=small), **gaps))
    if small:
        _write(figure, shown, limit)
        figure.update_xaxes(tickvals=columns.tolist())
        figure.update_yaxes(tickvals=rows.tolist())
    half = every / 2
    figure.update_xaxes(title={"text": "from neuron (in)"}, range=[-half, columns[-1] + half], showgrid=False)
    figure.update_yaxes(title={"text": "to neuron (out)"}, range=[rows[-1] + half, -half], showgrid=False)
    figure.update_layout(height=min(max(220, 30 * len(rows)), 460) + 90)
    return figure, f"every {ordinal(every)} neuron" if every > 1 else ""


def _write(figure: go.Figure, shown: np.ndarray, limit: float) -> None:
    """Each number in its cell."""
    notes: list[dict[str, Any]] = []
    for row, values in enumerate(shown):
        for column, value in enumerate(values.tolist()):
            if math.isfinite(value):
                ink = theme.ink_on(theme.colour_at(theme.SIGNED_ON_PAPER, (value / limit + 1) / 2))
                text, font = f"{value:.2g}".replace("-", "−"), {"color": ink, "size": 11}
                notes.append({"x": column, "y": row, "text": text, "font": font, "showarrow": False})
    figure.update_layout(annotations=notes)  # all at once: plotly looks through the others at each that is added


def _pictures(pictures: np.ndarray, kind: str, limit: float) -> go.Figure:
    """Pictures [count, h, w] side by side, each with its number above."""
    count, high, wide = pictures.shape
    columns = min(count, 8)
    rows = -(-count // columns)
    scale = min(_WIDE / columns / (wide + 1), _LARGEST / wide)  # screen pixels per weight
    gap = math.ceil(_LABEL / scale)
    canvas = _canvas(pictures, rows, columns, gap)
    figure = _picture(canvas, limit, scale)
    corners = [((i % columns) * (wide + 1), (i // columns) * (high + gap) + gap) for i in range(count)]
    look = {"yanchor": "bottom", "showarrow": False, "font": {"size": 11, "color": theme.TEXT}}
    notes = [
        {"text": f"{kind} {i}", "x": left + (wide - 1) / 2, "y": top - 0.5} | look
        for i, (left, top) in enumerate(corners)
    ]
    figure.update_layout(annotations=notes, shapes=[_frame(*corner, wide, high) for corner in corners])
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    return figure


def _kernels(array: np.ndarray, most: int, limit: float) -> tuple[go.Figure, str]:
    """A row of pictures for each output channel, a column for each input channel."""
    shown = array[:most, :most]
    out, into, high, wide = shown.shape
    scale = min(_WIDE / into / (wide + 1), _HIGH / out / (high + 1), _LARGEST / wide)
    canvas = _canvas(shown.reshape(-1, high, wide), out, into, 1)
    figure = _picture(canvas, limit, scale)
    corners = [((i % into) * (wide + 1), (i // into) * (high + 1) + 1) for i in range(out * into)]
    figure.update_layout(shapes=[_frame(*corner, wide, high) for corner in corners])
    across = [i * (wide + 1) + (wide - 1) / 2 for i in range(into)]
    up = [i * (high + 1) + 1 + (high - 1) / 2 for i in range(out)]
    look = {"showgrid": False, "showline": False, "ticks": ""}
    figure.update_xaxes(title={"text": "from channel (in)"}, **_numbered(across), **look)
    figure.update_yaxes(title={"text": "to channel (out)"}, **_numbered(up), **look)
    layout: Any = figure.layout
    figure.update_layout(margin={"l": 62, "b": 50}, height=layout.height + 40)
    whole = shown.size == array.size
    return figure, "" if whole else f"{out} × {into} of {array.shape[0]} × {array.shape[1]} kernels"


def _canvas(pictures: np.ndarray, rows: int, columns: int, gap: int) -> np.ndarray:
    """All pictures [count, h, w] on one sheet, with holes between them: one column, and ``gap`` rows above each."""
    count, high, wide = pictures.shape
    canvas = np.full((rows * (high + gap), columns * (wide + 1) - 1), math.nan, dtype=np.float32)
    for i in range(count):
        top, left = (i // columns) * (high + gap) + gap, (i % columns) * (wide + 1)
        canvas[top : top + high, left : left + wide] = _clean(pictures[i])
    return canvas


def _picture(canvas: np.ndarray, limit: float, scale: float) -> go.Figure:
    figure = go.Figure(go.Heatmap(z=canvas, hovertemplate="weight %{z:.4g}<extra></extra>", **_look(limit)))
    high, wide = canvas.shape
    figure.update_layout(height=52 + 20 + max(60, math.ceil(scale * high)), margin={"l": 12, "r": 12, "t": 52, "b": 20})
    figure.update_xaxes(range=[-0.6, wide - 0.4], constrain="domain")
    figure.update_yaxes(range=[high - 0.4, -0.6], scaleanchor="x", constrain="domain")
    return figure


def _frame(left: float, top: float, wide: int, high: int) -> dict[str, Any]:
    box = {"x0": left - 0.5, "x1": left + wide - 0.5, "y0": top - 0.5, "y1": top + high - 0.5}
    return {"type": "rect", "line": {"color": theme.AXIS, "width": 1}} | box


def _numbered(places: list[float], most: int = 16) -> dict[str, list[Any]]:
    """Ticks with the numbers from 0: all, or every k-th where there is no room for more than ``most``."""
    every = -(-len(places) // most)
    return {"tickvals": places[::every], "ticktext": [str(i) for i in range(0, len(places), every)]}
