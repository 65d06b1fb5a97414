"""Figures of spikes alone: when each neuron fires, and how the counts add up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from . import theme
from .arrays import as_array, class_names, compact
from .axes import times, whole_ticks
from .strokes import TICK, add_marks, tick_size


def raster(spikes: Any, dt: float | None = None, title: str = "Spikes") -> go.Figure:
    """One mark per spike: time to the right, neurons upwards.

    Args:
        spikes: [T, N], non-zero where a neuron spiked.
        dt: seconds per step; without it the axis counts steps.

    Raises:
        ValueError: spikes is not [T, N], or dt is not positive.
    """
    array = as_array(spikes, "spikes", "[T, N]")
    steps, neurons = array.shape
    when, who = np.nonzero(array)
    time = times(steps, dt)
    figure = go.Figure()
    hover = f"neuron %{{y}}<br>{time.title} %{{x}}<extra></extra>"
    look = {
        "symbol": TICK,
        "size": tick_size(neurons, 160),
        "colour": theme.BLUE,
        "hovertemplate": hover,
        "name": "spikes",
    }
    add_marks(figure, time.at[when], who, **look)
    figure.update_layout(title={"text": f"{title} ({when.size:,} of {array.size:,} neuron-steps)"}, height=340)
    figure.update_xaxes(**time.look())
    figure.update_yaxes(title={"text": "neuron"}, range=[-0.7, neurons - 0.3], tickvals=whole_ticks([0, neurons - 1]))
    return figure


def spike_counts(
    spikes: Any, labels: Sequence[str] | None = None, dt: float | None = None, title: str = "Output spikes so far"
) -> go.Figure:
    """How the evidence adds up: spikes of each output neuron, counted up to each step.

    Args:
        spikes: [T, C] of one sample.
        labels: names of the classes; without them their numbers.
        dt: seconds per step; without it the axis counts steps.

    Raises:
        ValueError: spikes is not [T, C], labels are not C, or dt is not positive.
    """
    array = as_array(spikes, "spikes", "[T, C]")
    steps, classes = array.shape
    names = class_names(labels, classes, "labels")
    time = times(steps, dt)
    counts = (array != 0).cumsum(axis=0).T
    figure = go.Figure(
        go.Heatmap(
            name="spikes so far",
            z=compact(counts),
            x=time.at,
            y=names,
            zmin=0,
            zmax=max(int(counts.max()), 1),
            colorscale=theme.INK,
            colorbar={"title": {"text": "spikes"}, "thickness": 12, "outlinewidth": 0},
            hovertemplate=f"class %{{y}}<br>{time.title} %{{x}}<br>%{{z}} spikes<extra></extra>",
        )
    )
    final = counts[:, -1]
    told = f"most: {names[int(final.argmax())]} with {final.max()}" if final.max() else "no output neuron has spiked"
    figure.update_layout(title={"text": f"{title} ({told})"}, height=360)
    figure.update_xaxes(showgrid=False, **time.look())
    figure.update_yaxes(title={"text": "output neuron"}, type="category", showgrid=False)
    return figure
