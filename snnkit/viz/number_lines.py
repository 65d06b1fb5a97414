"""Number lines: which numbers a floating-point format has near a value, and how far apart they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
import torch

from . import theme
from .arguments import number
from .arrays import compact
from .strokes import TICK, add_line, add_marks

FORMATS = ("float32", "bfloat16", "float16")
_MOST = 200  # numbers on a line; more are drawn as a bar
_ROW = 78  # pixels


def spacing(values: Any, dtype: str | torch.dtype) -> np.ndarray:
    """How far the next larger number of a format is from each of ``values`` [P], which are positive.

    Below the smallest number above 0, it is that number; beyond the largest, infinity.

    Raises:
        TypeError: ``dtype`` is no floating-point format.
        ValueError: a value is not positive and finite.
    """
    known = _info(dtype)
    array = np.asarray(values, dtype=np.float64)
    if not (np.isfinite(array) & (array > 0)).all():
        raise ValueError(f"values must be positive and finite, but they are {values!r}")
    exponent = np.frexp(array)[1] - 1  # array = f * 2 ** exponent with 1 <= f < 2
    lowest = math.frexp(known.smallest_normal)[1] - 1
    gap = np.ldexp(known.eps, np.maximum(exponent, lowest))
    return np.where(array > known.max, math.inf, gap)


def number_lines(value: float, *, width: float = 0.02, formats: Sequence[str] = FORMATS, title: str = "") -> go.Figure:
    """The numbers near ``value`` in each format, a tick for each, and which one stands for ``value``.

    Args:
        value: the number to write down, positive.
        width: how far the lines reach on both sides, relative to ``value``.
        formats: names of floating-point dtypes of PyTorch.

    Raises:
        TypeError: a format is no floating-point dtype.
        ValueError: value is not positive and finite, width not within 0 and 1, or there are no formats.
    """
    if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
        raise ValueError(f"value must be a positive number, but it is {value!r}")
    if not 0 < number(width, "width") <= 1:
        raise ValueError(f"width must be above 0 and at most 1, but it is {width!r}")
    formats = list(formats)
    if not formats:
        raise ValueError("formats must hold at least one name, for example 'bfloat16'")
    low, high = value * (1 - width), value * (1 + width)
    figure = go.Figure()
    for row, name in enumerate(reversed(formats)):
        dtype = _info(name).dtype
        count, numbers = _between(low, high, dtype)
        colour = theme.colour(len(formats) - 1 - row)
        hover = f"{name}<br>%{{x:.9g}}<extra></extra>"
        add_line(figure, [low, high], [row, row], name, colour=theme.PALE, width=1, showlegend=False, hoverinfo="skip")
        if numbers is None:
            add_line(figure, [low, high], [row, row], name, colour=colour, width=12, showlegend=False, hoverinfo="skip")
        elif len(numbers):
            add_marks(figure, numbers, row, symbol=TICK, size=14, colour=colour, name=name, hovertemplate=hover)
        nearest = float(torch.tensor(value, dtype=torch.float64).to(dtype))
        if low <= nearest <= high:
            add_marks(figure, [nearest], row, symbol="diamond", size=11, colour=colour, name=name, hovertemplate=hover)
        notes = {"left": (0, _words(value, nearest, _info(name))), "right": (1, _how_many(count))}
        for side, (at, text) in notes.items():
            place = {"x": at, "xref": "paper", "xanchor": side, "y": row, "yshift": 14, "yanchor": "bottom"}
            figure.add_annotation(text=text, showarrow=False, font={"size": 12, "color": theme.TEXT}, **place)
    figure.add_vline(x=value, line={"color": theme.TEXT, "dash": "dash", "width": 1.2})
    height = theme.MARGIN["t"] + theme.MARGIN["b"] + _ROW * len(formats)
    figure.update_layout(title={"text": title or f"Near {value:.4g}"}, height=height)
    figure.update_xaxes(range=[low, high], title={"text": "value"}, tickformat=".4~g", nticks=6)
    ticks = {"tickvals": list(range(len(formats))), "ticktext": list(reversed(formats))}
    figure.update_yaxes(range=[-0.4, len(formats) - 0.2], showgrid=False, **ticks)
    return figure


def _info(dtype: Any) -> Any:
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise TypeError(f"dtype must be a floating-point format such as {', '.join(map(repr, FORMATS))}, not {dtype!r}")
    return _Info(found)


class _Info:
    """What ``torch.finfo`` knows, and the dtype itself."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        info = torch.finfo(dtype)
        self.eps, self.max, self.smallest_normal = info.eps, info.max, info.smallest_normal
        self.smallest = info.smallest_normal * info.eps  # the smallest number above 0


def _between(low: float, high: float, dtype: torch.dtype) -> tuple[int, np.ndarray | None]:
    """How many numbers of a format lie in [low, high], and which; None for those if they are many."""
    ends = torch.tensor([low, high], dtype=torch.float64).to(dtype).clamp(max=torch.finfo(dtype).max)
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    first, last = ends.view(bits).tolist()  # positive floats are ordered as the integers of the same bits
    if last - first > _MOST:
        return last - first, None
    numbers = torch.arange(first, last + 1).to(bits).view(dtype).double().numpy()
    numbers = numbers[(numbers >= low) & (numbers <= high) & (numbers > 0)]
    return len(numbers), compact(numbers) if dtype.itemsize < 8 else numbers


def _words(value: float, nearest: float, info: _Info) -> str:
    if nearest == 0:
        return f"becomes 0: the smallest number is {info.smallest:.2g}"
    if math.isinf(nearest):
        return f"becomes infinity: the largest number is {info.max:.6g}"
    off = abs(nearest - value) / value
    return f"becomes {nearest:.8g}" + (f", off by {100 * off:.2g} %" if off else ", exactly")


def _how_many(count: int) -> str:
    return "no number here" if count == 0 else "one number here" if count == 1 else f"{count:,} numbers here"
