"""One picture on its way through a network: what went in, what the hidden layer did, how the votes added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from . import theme
from .arrays import as_array, compact
from .curves import whole_ticks


def inference(
    image: Any, hidden: Any, output: Any, label: int | None = None, names: Sequence[str] | None = None
) -> go.Figure:
    """Three panels: the image, the raster of a hidden layer, and the spikes of each output neuron counted so far.

    The neurons in the raster are sorted, the busiest at the bottom. The right class is green, the answer, where it
    is another one, red; the others are grey.

    Args:
        image: [H, W].
        hidden: [T, N], non-zero where a hidden neuron spiked.
        output: [T, C], the same of the output neurons.
        label: the right class, if known.
        names: of the classes; without them their numbers.
    """
    picture, spikes = as_array(image, "image", "[H, W]"), as_array(hidden, "hidden", "[T, N]")
    votes = (as_array(output, "output", "[T, C]") != 0).cumsum(axis=0)
    steps, classes = votes.shape
    if len(spikes) != steps:
        raise ValueError(f"hidden and output must have the same number of steps, not {len(spikes)} and {steps}")
    if label is not None and not 0 <= label < classes:
        raise ValueError(f"label must lie in 0 … {classes - 1}, not {label!r}")
    called = [str(i) for i in range(classes)] if names is None else [str(name) for name in names]
    if len(called) != classes:
        raise ValueError(f"names must hold {classes} names, not {len(called)}")
    panels = ("image", f"hidden layer: {np.count_nonzero(spikes)} spikes", "output: spikes so far")
    figure = make_subplots(rows=1, cols=3, column_widths=[0.8, 1.5, 1.5], subplot_titles=panels, horizontal_spacing=0.1)
    figure.add_heatmap(z=compact(picture), colorscale=theme.INK, showscale=False, hoverinfo="skip", row=1, col=1)
    rank = np.argsort(np.argsort(-(spikes != 0).sum(axis=0), kind="stable"), kind="stable")
    when, who = np.nonzero(spikes)
    figure.add_scatter(
        x=compact(when + 1),
        y=compact(rank[who]),
        mode="markers",
        marker={"size": 3, "color": theme.BLUE},
        hovertemplate="step %{x}<extra></extra>",
        showlegend=False,
        row=1,
        col=2,
    )
    answer = int(votes[-1].argmax()) if votes[-1].any() else None
    axis = compact(np.arange(1, steps + 1))
    inks = [theme.GREEN if k == label else theme.VERMILION if k == answer else theme.AXIS for k in range(classes)]
    for k in range(classes):
        chosen, dash = k in (label, answer), "dash" if k == answer and k != label else "solid"
        figure.add_scatter(
            x=axis,
            y=compact(votes[:, k]),
            mode="lines",
            line={"color": inks[k], "width": 3 if chosen else 1.2, "dash": dash},
            hovertemplate=f"{called[k]}<br>step %{{x}}<br>%{{y}} spikes<extra></extra>",
            showlegend=False,
            row=1,
            col=3,
        )
    for count in np.unique(votes[-1][votes[-1] > 0]):  # classes that end level share a label
        level = [k for k in range(classes) if votes[-1, k] == count]
        chief = label if label in level else answer if answer in level else level[0]
        figure.add_annotation(
            text=", ".join(called[k] for k in level),
            font={"color": inks[chief], "size": 12},
            x=steps,
            y=int(count),
            xref="x3",
            yref="y3",
            xanchor="left",
            xshift=4,
            showarrow=False,
        )
    told = "no answer: the output is silent" if answer is None else f"the answer is {called[answer]}"
    if label is not None and answer is not None:
        told += " (right)" if answer == label else f" (wrong: it is {called[label]})"
    height, width = picture.shape
    figure.update_layout(title={"text": told[0].upper() + told[1:]}, height=360)
    figure.update_xaxes(range=[-0.5, width - 0.5], visible=False, row=1, col=1)
    figure.update_yaxes(range=[height - 0.5, -0.5], visible=False, scaleanchor="x", constrain="domain", row=1, col=1)
    for col, room in ((2, 0.5), (3, 0.5 + 0.08 * steps)):
        look = {"range": [0.5, steps + room], "tickvals": whole_ticks([0, steps], 6), "title": {"text": "time step"}}
        figure.update_xaxes(row=1, col=col, **look)
    figure.update_yaxes(range=[-1, spikes.shape[1]], title={"text": "neuron (sorted)"}, row=1, col=2)
    figure.update_yaxes(
        range=[0, steps + 0.5], tickvals=whole_ticks([0, steps]), title={"text": "spikes"}, row=1, col=3
    )
    return figure
