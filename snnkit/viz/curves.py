"""Lines over a common axis: losses over batches, accuracy over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from . import theme
from .arrays import as_array, compact


def lines(
    series: Mapping[str, Any],
    *,
    x: Any = None,
    x_title: str = "",
    y_title: str = "",
    title: str = "",
    levels: Mapping[str, float] | None = None,
    marks: Mapping[str, float] | None = None,
) -> go.Figure:
    """One line for each entry of ``series``.

    Args:
        series: name to [N].
        x: [N], common to all; without it 1, 2, 3, …
        levels: name to height of a dashed horizontal line, for example a value to expect.
        marks: name to position of a dashed vertical line.

    Raises:
        ValueError: ``series`` is empty, or one of them and ``x`` differ in length.
    """
    if not series:
        raise ValueError("series must hold at least one name and its values [N]")
    figure, places = go.Figure(), []
    for i, (name, values) in enumerate(series.items()):
        y = as_array(values, f"series[{name!r}]", "[N]")
        at = np.arange(1, len(y) + 1) if x is None else as_array(x, "x", "[N]")
        if len(at) != len(y):
            raise ValueError(f"series[{name!r}] has {len(y)} values, but x has {len(at)}")
        places.append(at)
        figure.add_scatter(
            x=compact(at),
            y=compact(y),
            name=str(name),
            mode="lines" if len(y) > 40 else "lines+markers",
            line={"color": theme.colour(i), "dash": theme.dash(i), "width": 2},
            marker={"size": 5, "color": theme.colour(i)},
            hovertemplate=f"{name}<br>{x_title} %{{x}}<br>{y_title} %{{y:.4g}}<extra></extra>",
        )
    ruler = {"color": theme.TEXT, "dash": "dash", "width": 1.2}
    note = {"showarrow": False, "font": {"color": theme.TEXT, "size": 12}}
    for name, height in (levels or {}).items():
        figure.add_hline(y=height, line=ruler)
        figure.add_annotation(x=1, xref="paper", xanchor="right", y=height, yanchor="bottom", text=name, **note)
    for name, place in (marks or {}).items():
        figure.add_vline(x=place, line=ruler)
        beside = {"xanchor": "left", "xshift": 4, "y": 0.04, "yref": "paper", "yanchor": "bottom"}
        figure.add_annotation(x=place, text=name, **beside, **note)
    figure.update_layout(title={"text": title}, showlegend=len(series) > 1)
    figure.update_xaxes(title={"text": x_title}, tickvals=whole_ticks(np.concatenate(places)))
    figure.update_yaxes(title={"text": y_title}, rangemode="tozero")
    return figure


def whole_ticks(values: Any, most: int = 12) -> list[int] | None:
    """Places for at most ``most`` ticks on an axis of whole numbers (steps, counts); None where they are not whole."""
    array = np.asarray(values, dtype=float)
    low, high = float(array.min()), float(array.max())
    if (array % 1).any() or high - low > 1000:
        return None
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if (high - low) / s <= most - 1)
    return list(range(int(-(-low // step)) * step, int(high) + 1, step))
