"""One picture on its way through a network: what went in, what the hidden layer did, how the votes added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from . import theme
from .arguments import whole
from .arrays import as_array, class_names, compact
from .axes import whole_ticks
from .images import add_image
from .panels import panels
from .strokes import add_line, add_marks


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

    Raises:
        ValueError: hidden and output differ in length, label is none of the classes, or names are not C.
    """
    picture, spikes = as_array(image, "image", "[H, W]"), as_array(hidden, "hidden", "[T, N]")
    votes = (as_array(output, "output", "[T, C]") != 0).cumsum(axis=0)
    steps, classes = votes.shape
    if len(spikes) != steps:
        raise ValueError(f"hidden and output must have the same number of steps, not {len(spikes)} and {steps}")
    label = None if label is None else whole(label, "label", 0)
    if label is not None and label >= classes:
        raise ValueError(f"label must lie in 0 … {classes - 1}, not {label!r}")
    called = class_names(names, classes, "names")
    titles = ("image", f"hidden layer: {np.count_nonzero(spikes)} spikes", "output: spikes so far")
    figure = panels(1, 3, titles, column_widths=[0.9, 1.5, 1.5], horizontal_spacing=0.1)
    add_image(figure, picture, 1, 1, hovertemplate="%{z:.3g}<extra></extra>")
    rank = np.argsort(np.argsort(-(spikes != 0).sum(axis=0), kind="stable"), kind="stable")
    when, who = np.nonzero(spikes)
    dots = {"symbol": "circle", "size": 3, "colour": theme.BLUE, "hovertemplate": "step %{x}<extra></extra>"}
    dots["name"] = "hidden spikes"
    add_marks(figure, compact(when + 1), rank[who], row=1, col=2, **dots)
    answer = int(votes[-1].argmax()) if votes[-1].any() else None
    inks = [theme.GREEN if k == label else theme.VERMILION if k == answer else theme.AXIS for k in range(classes)]
    for k in range(classes):
        dash = "dash" if k == answer and k != label else "solid"
        look = {"colour": inks[k], "width": 3 if k in (label, answer) else 1.2, "dash": dash, "showlegend": False}
        hover = f"{called[k]}<br>step %{{x}}<br>%{{y}} spikes<extra></extra>"
        add_line(figure, np.arange(1, steps + 1), votes[:, k], called[k], hovertemplate=hover, row=1, col=3, **look)
    room = 0.08
    for count in np.unique(votes[-1][votes[-1] > 0]):  # classes that end level share a label
        level = [k for k in range(classes) if votes[-1, k] == count]
        chief = label if label in level else answer if answer in level else level[0]
        place = {"x": steps, "y": int(count), "xref": "x3", "yref": "y3", "xanchor": "left", "xshift": 4}
        text = ", ".join(called[k] for k in level)
        room = max(room, 0.04 * len(text))
        text = f"<b>{text}</b>" if chief in (label, answer) else text
        figure.add_annotation(text=text, font={"color": theme.TEXT, "size": 12}, showarrow=False, **place)
    figure.update_layout(title={"text": _told(answer, label, called)}, height=360, margin={"t": 64})
    for col, end in ((2, steps + 0.5), (3, steps + 0.5 + room * steps)):
        look = {"range": [0.5, end], "tickvals": whole_ticks([1, steps], 6), "title": {"text": "time step"}}
        figure.update_xaxes(row=1, col=col, **look)
    figure.update_yaxes(range=[-1, spikes.shape[1]], title={"text": "neuron (sorted)"}, row=1, col=2)
    counts = {"range": [0, steps + 0.5], "tickvals": whole_ticks([0, steps])}
    figure.update_yaxes(title={"text": "spikes"}, row=1, col=3, **counts)
    return figure


def _told(answer: int | None, label: int | None, called: Sequence[str]) -> str:
    """The title: what the network says, and whether it is right."""
    if answer is None:
        return "No answer: the output is silent"
    if label is None:
        return f"The answer is {called[answer]}"
    return f"The answer is {called[answer]} ({'right' if answer == label else f'wrong: it is {called[label]}'})"
