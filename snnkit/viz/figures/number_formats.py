"""Floating-point formats: the distance between their numbers, and the loss by rounding."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
import torch
from torch import Tensor

from ... import checks
from .. import theme
from ..drawing import NOTE, add_line, finish, legend_below

_FORMATS = ("float32", "bfloat16", "float16")


@checks.arguments
def spacing(values: Any, dtype: str | torch.dtype) -> np.ndarray:
    """Distance from each of ``values`` [P], which are positive, to the next larger number of a format.

    Below the smallest number above 0, it is that number; beyond the largest, infinity.
    """
    info = torch.finfo(_dtype(dtype))
    array = np.asarray(values, dtype=np.float64)
    if not (np.isfinite(array) & (array > 0)).all():
        raise ValueError(f"values must be positive and finite, but they are {checks.shown(values)}")
    exponent = np.frexp(array)[1] - 1  # array = f * 2 ** exponent with 1 <= f < 2
    lowest = math.frexp(info.smallest_normal)[1] - 1
    gap = np.ldexp(info.eps, np.maximum(exponent, lowest))
    return np.where(array > info.max, math.inf, gap)


def _dtype(dtype: Any) -> torch.dtype:
    known = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(known, torch.dtype) or not known.is_floating_point:
        some = ", ".join(map(repr, _FORMATS))
        raise TypeError(f"dtype must be a floating-point format such as {some}, but it is {checks.shown(dtype)}")
    return known


@checks.arguments
def magnitudes(
    values: Mapping[Any, Tensor],
    dtype: torch.dtype = torch.float16,
    *,
    scale: float = 1.0,
    span: Sequence[int] | None = None,
    title: str = "Magnitudes",
) -> go.Figure:
    """Histograms of log₂ |scale · value|, and how many of the values ``dtype`` rounds to zero or to infinity.

    Zeros are left out, because no format loses them. In the shaded range ``dtype`` has all its digits; in the paler one
    it has fewer (subnormal numbers).

    Args:
        values: name to a floating-point tensor of any shape.
        dtype: float16, bfloat16 or float32.
        scale: factor of all values before they are rounded.
        span: exponents of two at the left and the right end; without it as far as values and format reach.
    """
    info = torch.finfo(_dtype(dtype))
    scale = checks.number("scale", scale, above=0)
    sizes = {name: size for name, value in values.items() if len(size := _nonzero(name, value) * scale)}
    if not sizes:
        raise ValueError("values must hold at least one number different from zero, but it has none")
    least, most = math.log2(info.smallest_normal), math.log2(info.max)
    tiny = least + math.log2(info.eps)  # the smallest subnormal: rounding to nearest takes half of it to zero
    exponents = {name: torch.log2(size).cpu().numpy() for name, size in sizes.items()}
    everything = np.concatenate(list(exponents.values()))
    low, high = span or (math.floor(min(everything.min(), tiny) - 2), math.ceil(max(everything.max(), most) + 2))
    checks.integer("the second end of span", high, at_least=checks.integer("the first end of span", low) + 1)
    edges = np.arange(low, high + 1)
    figure = go.Figure()
    for start, end, alpha in ((tiny - 1, least, 0.07), (least, most, 0.14)):
        band = {"x0": max(start, low), "x1": min(end, high), "y0": 0, "y1": 1, "yref": "paper", "layer": "below"}
        figure.add_shape(type="rect", line={"width": 0}, fillcolor=theme.faint(theme.GREEN, alpha), **band)
    for i, (key, powers) in enumerate(exponents.items()):
        counts, _ = np.histogram(np.clip(powers, low, high), bins=edges)
        rounded = sizes[key].to(dtype)
        lost, infinite = (rounded == 0).double().mean(), rounded.isinf().double().mean()
        name = f"{key}: {lost:.1%} become 0, {infinite:.1%} infinite"
        look: dict[str, Any] = {"colour": theme.colour(i), "dash": theme.dash(i), "shape": "hv", "showlegend": True}
        look |= {"hovertemplate": f"{key}<br>2^%{{x:.0f}} and up<br>%{{y:.1f}} %<extra></extra>"}
        add_line(figure, edges[:-1], 100 * counts / counts.sum(), name, **look)
    ends = [low, tiny - 1, least, most, high]
    names = ("→ 0", "fewer digits", str(dtype).removeprefix("torch."), "→ ∞")
    for start, end, text in zip(ends[:-1], ends[1:], names, strict=True):
        start, end = max(start, low), min(end, high)
        if end - start > 0.08 * (high - low) or (text == "→ ∞" and end > start):  # else there is no room for the name
            figure.add_annotation(x=(start + end) / 2, text=text, y=1, yref="paper", yanchor="bottom", **NOTE)
    legend_below(figure, 260, ["x" * 60] * len(exponents), above=18)  # an entry in each row
    across = {"title_text": "size: the power of two", "range": [low, high]}
    return finish(figure, title, across, {"title_text": "% of those not 0", "rangemode": "tozero"})


def _nonzero(name: str, value: Any) -> Tensor:
    if not checks.instance(f"values[{name!r}]", value, Tensor, "a floating-point tensor").is_floating_point():
        raise TypeError(f"values[{name!r}] must be a floating-point tensor, but it is {value.dtype}")
    sizes = value.detach().abs().flatten().double()
    return sizes[(sizes > 0) & sizes.isfinite()]
