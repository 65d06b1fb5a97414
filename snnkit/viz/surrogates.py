"""The figure of surrogate gradients: what a spike does forward, and what stands in for its slope backward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from . import theme
from .arguments import number, told, whole
from .arrays import as_array
from .panels import panels
from .strokes import add_line


def surrogate_curves(surrogates: Sequence[Any] | Mapping[str, Any], limit: float = 2.0, points: int = 201) -> go.Figure:
    """The step a spike makes forward, the smooth functions that replace it, and their derivatives.

    Args:
        surrogates: surrogates of ``snnkit.surrogate`` (anything with ``primitive(u)`` and ``derivative(u)``), or a
            dict of label to surrogate.
        limit: the curves run from -limit to limit.
        points: values per curve.

    Raises:
        ValueError: there are no surrogates, or limit is not positive.
    """
    import torch

    limit, points = number(limit, "limit", "a positive number", above=0), whole(points, "points", 2)
    if not isinstance(surrogates, Mapping):
        surrogates = {repr(s): s for s in surrogates}
    if not surrogates:
        raise ValueError("surrogates must hold at least one surrogate")
    for label, one in surrogates.items():
        if not callable(getattr(one, "derivative", None)):
            raise TypeError(f"surrogates must have a derivative(u), which {label} has not: it is {told(one)}")
    u = torch.linspace(-limit, limit, points, dtype=torch.float64)
    titles = ("Forward: step and primitive", "Backward: derivative")
    figure = panels(1, 2, titles, horizontal_spacing=0.1)
    step = {"colour": theme.TEXT, "width": 1.5, "hoverinfo": "skip"}
    add_line(figure, [-limit, 0, 0, limit], [0, 0, 1, 1], "step", row=1, col=1, **step)
    for i, (label, surrogate) in enumerate(surrogates.items()):
        look: dict[str, Any] = {"colour": theme.colour(i), "dash": theme.dash(i), "legendgroup": label}
        for col, curve in enumerate(_curves(surrogate, u), start=1):
            if curve is None:
                continue
            hover = f"{label}<br>u %{{x:.3g}}<br>%{{y:.4g}}<extra></extra>"
            y = as_array(curve, label, "[points]")
            add_line(figure, u.numpy(), y, label, showlegend=col == 2, hovertemplate=hover, row=1, col=col, **look)
    below = {"legend": theme.LEGEND_BELOW, "margin": {"b": 96}}
    figure.update_layout(title={"text": "Surrogate gradients"}, height=400, **below)
    figure.update_xaxes(title={"text": "u = potential − threshold"})
    figure.update_yaxes(title={"text": "spike"}, row=1, col=1)
    figure.update_yaxes(title={"text": "slope"}, row=1, col=2)
    return figure


def _curves(surrogate: Any, u: Any) -> tuple[Any, Any]:
    """Primitive and derivative; None for a primitive that the surrogate does not define."""
    try:
        return surrogate.primitive(u), surrogate.derivative(u)
    except (TypeError, NotImplementedError, AttributeError):
        return None, surrogate.derivative(u)
