"""How large numbers are, against what a floating-point format can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go
import torch
from torch import Tensor

from . import theme
from .arguments import named, number, told
from .strokes import add_line

_NARROW = 0.08  # a band of a smaller share of the axis has no room for its name


def magnitudes(
    values: Mapping[str, Tensor],
    dtype: torch.dtype = torch.float16,
    *,
    scale: float = 1.0,
    span: tuple[int, int] | None = None,
    title: str = "Magnitudes",
) -> go.Figure:
    """Histograms of log₂ |scale · value|, and how many of the values ``dtype`` rounds to zero or to infinity.

    Zeros are left out, as no format loses them. Shaded is where ``dtype`` holds all its digits, paler where it holds
    fewer (subnormal numbers).

    Args:
        values: name to a tensor of any shape, float32 or float64.
        dtype: float16, bfloat16 or float32.
        scale: what all values are multiplied by before they are rounded.
        span: exponents of two at the left and the right end; without it as far as values and format reach.

    Raises:
        TypeError: ``dtype`` is no floating-point one, or a value no float tensor.
        ValueError: no values, none of which is different from zero, or a scale that is not positive and finite.
    """
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise TypeError(f"dtype must be a floating-point dtype, such as torch.float16, not {dtype!r}")
    scale = number(scale, "scale", "a positive finite number", above=0)
    named(values, "values", "name to tensor")
    low, high = _ends(span)
    found = {name: _nonzero(name, value) * scale for name, value in values.items()}
    if not any(len(one) for one in found.values()):
        raise ValueError("values must hold at least one number different from zero")
    info = torch.finfo(dtype)
    least = math.log2(info.smallest_normal)
    # The smallest subnormal: rounding to nearest takes half of it to zero.
    tiny, most = least + math.log2(info.eps), math.log2(info.max)
    exponents = {name: torch.log2(one).cpu().numpy() for name, one in found.items() if len(one)}
    everything = np.concatenate(list(exponents.values()))
    low = math.floor(min(everything.min(), tiny) - 2) if low is None else low
    high = math.ceil(max(everything.max(), most) + 2) if high is None else high
    edges = np.arange(low, high + 1)
    figure = go.Figure()
    for start, end, alpha in ((tiny - 1, least, 0.10), (least, most, 0.22)):
        band = {"x0": max(start, low), "x1": min(end, high), "y0": 0, "y1": 1, "yref": "paper", "layer": "below"}
        figure.add_shape(type="rect", line={"width": 0}, fillcolor=f"rgba(0,158,115,{alpha})", **band)
    for i, (key, powers) in enumerate(exponents.items()):
        counts, _ = np.histogram(np.clip(powers, low, high), bins=edges)
        told = f"{key}: {_rounded(found[key], dtype)}"
        hover = f"{key}<br>2^%{{x:.0f}} and up<br>%{{y:.1f}} %<extra></extra>"
        look: dict[str, Any] = {"colour": theme.colour(i), "dash": theme.dash(i), "shape": "hv"}
        add_line(figure, edges[:-1], 100 * counts / counts.sum(), told, showlegend=True, hovertemplate=hover, **look)
    name = str(dtype).removeprefix("torch.")
    ends = [low, tiny - 1, least, most, high]
    note: dict[str, Any] = {"showarrow": False, "y": 1, "yref": "paper", "yanchor": "bottom"}
    note["font"] = {"size": 12, "color": theme.TEXT}
    for start, end, text in zip(ends, ends[1:], ("→ 0", "fewer digits", name, "→ ∞"), strict=False):
        start, end = max(start, low), min(end, high)
        if end - start > _NARROW * (high - low) or (text == "→ ∞" and end > start):
            figure.add_annotation(x=(start + end) / 2, text=text, **note)
    rows = len(exponents)
    below = 62 + 20 * rows
    layout = {"height": 260 + 70 + below, "margin": {"t": 70, "b": below}}
    figure.update_layout(title={"text": title}, legend=theme.LEGEND_BELOW | {"y": -58 / 260}, **layout)
    figure.update_xaxes(title={"text": "size: the power of two"}, range=[low, high])
    figure.update_yaxes(title={"text": "% of those not 0"}, rangemode="tozero")
    return figure


def _ends(span: Any) -> tuple[int | None, int | None]:
    if span is None:
        return None, None
    if not isinstance(span, (tuple, list)) or len(span) != 2:
        raise TypeError(f"span must be two exponents (low, high), not {told(span)}")
    low, high = (math.floor(number(end, "an end of span")) for end in span)
    if not low < high:
        raise ValueError(f"span must have low < high, not {span!r}")
    return low, high


def _nonzero(name: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor) or not value.is_floating_point():
        got = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"values[{name!r}] must be a floating-point tensor, not {got}")
    sizes = value.detach().abs().flatten().double()
    return sizes[(sizes > 0) & sizes.isfinite()]


def _rounded(sizes: Tensor, dtype: torch.dtype) -> str:
    rounded = sizes.to(dtype)
    lost, infinite = (rounded == 0).double().mean(), rounded.isinf().double().mean()
    return f"{lost:.1%} become 0, {infinite:.1%} infinite"
