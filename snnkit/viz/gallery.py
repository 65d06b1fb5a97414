"""Figures that set spikes beside what made them: a membrane over a raster, and many neurons in one picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from . import theme
from .arrays import as_array, compact, times


def membrane_and_raster(
    v: Any, spikes: Any, threshold: float | None = None, dt: float | None = None, title: str = "Membrane and spikes"
) -> go.Figure:
    """The membrane of the first neuron above the spikes of all.

    Args:
        v: [T], membrane potential of neuron 0.
        spikes: [T, N], non-zero where a neuron spiked; neuron 0 is the lowest row.
        threshold: drawn as a line.
        dt: seconds per step; without it the axis counts steps.
    """
    membrane, fired = as_array(v, "v", "[T]"), as_array(spikes, "spikes", "[T, N]")
    steps, neurons = fired.shape
    if len(membrane) != steps:
        raise ValueError(f"v has {len(membrane)} steps, but spikes has {steps}")
    axis, label = times(steps, dt)
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.6, 0.4], vertical_spacing=0.06)
    line = {"color": theme.BLUE, "width": 2}
    figure.add_scatter(x=axis, y=compact(membrane), mode="lines", name="membrane", line=line, row=1, col=1)
    peak = max(float(membrane.max()), threshold if threshold is not None else float(membrane.max()))
    own = np.nonzero(fired[:, 0])[0]
    mark = {"symbol": "triangle-down", "size": 8, "color": theme.BLUE}
    above = np.full(len(own), peak + 0.12 * max(abs(peak), 1e-6), dtype=np.float32)
    figure.add_scatter(x=axis[own], y=above, mode="markers", name="its spikes", marker=mark, row=1, col=1)
    level = [threshold, threshold] if threshold is not None else []
    line = {"color": theme.VERMILION, "dash": "dash", "width": 1.5}
    ends = axis[[0, -1]] if level else []
    figure.add_scatter(x=ends, y=level, mode="lines", name="threshold", line=line, showlegend=bool(level), row=1, col=1)
    when, who = np.nonzero(fired)
    mark = {"symbol": "line-ns-open", "size": max(3, min(12, 150 // neurons)), "color": theme.GREEN}
    figure.add_scatter(
        x=axis[when], y=compact(who), mode="markers", name="spikes", marker=mark, showlegend=False, row=2, col=1
    )
    figure.update_layout(title={"text": title}, height=430)
    figure.update_yaxes(title={"text": "potential"}, row=1, col=1)
    figure.update_yaxes(title={"text": "neuron"}, range=[-0.7, neurons - 0.3], row=2, col=1)
    edge = 0.5 * float(axis[1] - axis[0]) if steps > 1 else 0.5
    figure.update_xaxes(range=[float(axis[0]) - edge, float(axis[-1]) + edge])
    figure.update_xaxes(title={"text": label}, row=2, col=1)
    return figure


def gallery(
    runs: Mapping[str, tuple[Any, Any]], columns: int = 2, dt: float | None = None, title: str = "Neurons side by side"
) -> go.Figure:
    """One small panel per neuron: its membrane, a mark for each of its spikes, and its own scale.

    Args:
        runs: name to (v [T], spikes [T]).
        columns: panels per row.
        dt: seconds per step; without it the axes count steps.
    """
    if not runs:
        raise ValueError("runs must hold at least one neuron: name -> (v, spikes)")
    if columns < 1:
        raise ValueError(f"columns must be at least 1, not {columns!r}")
    columns = min(columns, len(runs))
    rows = -(-len(runs) // columns)
    figure = make_subplots(
        rows=rows,
        cols=columns,
        shared_xaxes=True,
        subplot_titles=list(runs),
        vertical_spacing=0.3 / rows,
        horizontal_spacing=0.1,
    )
    for i, (name, (v, spikes)) in enumerate(runs.items()):
        membrane, fired = as_array(v, f"v of {name}", "[T]"), as_array(spikes, f"spikes of {name}", "[T]")
        if len(membrane) != len(fired):
            raise ValueError(f"v of {name} has {len(membrane)} steps, but its spikes have {len(fired)}")
        axis, label = times(len(membrane), dt)
        row, col = i // columns + 1, i % columns + 1
        line = {"color": theme.colour(i), "width": 1.6}
        hover = f"{name}<br>%{{y:.3g}}<extra></extra>"
        figure.add_scatter(
            x=axis,
            y=compact(membrane),
            mode="lines",
            line=line,
            showlegend=False,
            hovertemplate=hover,
            row=row,
            col=col,
        )
        low, high = float(np.nanmin(membrane)), float(np.nanmax(membrane))
        when = np.nonzero(fired)[0]
        level = np.full(len(when), high + 0.18 * max(high - low, 1e-6), dtype=np.float32)
        mark = {"symbol": "line-ns-open", "size": 9, "color": theme.colour(i)}
        figure.add_scatter(
            x=axis[when], y=level, mode="markers", marker=mark, showlegend=False, hoverinfo="x", row=row, col=col
        )
        if row == rows or i + columns >= len(runs):
            figure.update_xaxes(title={"text": label}, showticklabels=True, row=row, col=col)
    figure.update_layout(title={"text": title}, height=90 + 165 * rows)
    figure.update_annotations(font={"size": 12})
    return figure
