"""Figures of data and learning: curves over epochs, confusion, images, output spikes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from . import theme
from .arrays import as_array, compact, times

# Panels of the training figure: title, and the series of a history that belong there with their names.
_PANELS = (
    ("Loss", {"train_loss": "train", "test_loss": "test"}),
    ("Accuracy (%)", {"train_accuracy": "train", "test_accuracy": "test"}),
    ("Spikes per step", {"output_rate": "output", "rates": ""}),
)


def training_curves(history: Any, epochs: int | None = None, title: str = "Training") -> go.Figure:
    """Loss, accuracy and firing rate of each layer over the epochs.

    Args:
        history: the ``History`` that ``train.fit`` returns, or a dict of series with its names ("train_loss",
            "test_loss", "train_accuracy", "test_accuracy", "output_rate"): one number per epoch, accuracies in
            [0, 1]. A dict may also hold "rates": layer name to one firing rate per epoch. Missing and empty series
            are left out.
        epochs: how many epochs there will be; the axis then runs to the end from the start.
    """
    panels = [(name, lines) for name, keys in _PANELS if (lines := _lines(history, keys))]
    if not panels:
        known = ", ".join(key for _, keys in _PANELS for key in keys)
        raise ValueError(f"history must hold at least one series of {known}, with at least one epoch")
    titles = [name for name, _ in panels]
    figure = make_subplots(rows=1, cols=len(panels), subplot_titles=titles, horizontal_spacing=0.08)
    named: set[str] = set()
    length = 0
    for col, (_, lines) in enumerate(panels, start=1):
        for name, values in lines.items():
            y = np.array([np.nan if value is None else float(value) for value in values])
            y = y * 100 if "%" in titles[col - 1] else y
            length = max(length, len(y))
            new = name not in named
            named.add(name)
            index = ("train", "test").index(name) if name in ("train", "test") else 2 + list(lines).index(name)
            figure.add_scatter(
                x=compact(np.arange(1, len(y) + 1)),
                y=compact(y),
                name=name,
                legendgroup=name,
                showlegend=new,
                mode="lines+markers",
                line={"color": theme.colour(index), "dash": theme.dash(index), "width": 2},
                marker={"size": 5, "color": theme.colour(index)},
                hovertemplate=f"{name}<br>epoch %{{x}}<br>%{{y:.4g}}<extra></extra>",
                row=1,
                col=col,
            )
    end = max(epochs or 0, length, 2)
    figure.update_layout(title={"text": title}, height=360, legend=theme.LEGEND_BELOW, margin={"b": 96})
    figure.update_annotations(font={"size": theme.FONT_SIZE})
    figure.update_xaxes(title={"text": "epoch"}, range=[0.8, end + 0.2])
    figure.update_yaxes(rangemode="tozero")
    return figure


def confusion(matrix: Any, labels: Sequence[str] | None = None, title: str = "Confusion matrix") -> go.Figure:
    """Which class is taken for which.

    Args:
        matrix: [C, C] counts; row: the true class, column: the predicted one.
        labels: names of the classes; without them their numbers.
    """
    counts = as_array(matrix, "matrix", "[C, C]")
    size = counts.shape[0]
    if counts.shape[1] != size:
        raise ValueError(f"matrix must be square [C, C], not of shape {counts.shape}")
    names = [str(i) for i in range(size)] if labels is None else [str(label) for label in labels]
    if len(names) != size:
        raise ValueError(f"labels must hold {size} names, not {len(names)}")
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    figure = go.Figure(
        go.Heatmap(
            z=compact(share * 100),
            x=names,
            y=names,
            zmin=0,
            zmax=100,
            colorscale=theme.INK,
            colorbar={"title": {"text": "% of row"}, "thickness": 12, "outlinewidth": 0},
            customdata=compact(counts),
            hovertemplate="true %{y}, taken for %{x}<br>%{customdata} times (%{z:.1f} %)<extra></extra>",
            xgap=1,
            ygap=1,
        )
    )
    for row in range(size):
        for column in range(size):
            if counts[row, column]:
                # White ink on dark cells only: faint cells let the page through.
                ink = "#ffffff" if share[row, column] > 0.5 else theme.TEXT
                font = {"color": ink, "size": 11}
                text = f"{counts[row, column]:g}"
                figure.add_annotation(x=names[column], y=names[row], text=text, showarrow=False, font=font)
    right = 100 * np.trace(counts) / max(counts.sum(), 1)
    figure.update_layout(title={"text": f"{title}: {right:.1f} % right"}, height=440)
    figure.update_xaxes(title={"text": "predicted"}, type="category", showgrid=False)
    figure.update_yaxes(title={"text": "true"}, type="category", showgrid=False, autorange="reversed")
    return figure


def image_grid(images: Any, labels: Sequence[Any] | Any = None, columns: int = 8, title: str = "Images") -> go.Figure:
    """Small grey images side by side, each with its label.

    Args:
        images: [N, H, W] or [N, 1, H, W], of any numeric type.
        labels: one per image, shown above it.
        columns: images per row.
    """
    if hasattr(images, "ndim") and images.ndim == 4 and images.shape[1] == 1:
        images = images[:, 0]
    array = as_array(images, "images", "[N, H, W]")
    count, height, width = array.shape
    if columns < 1:
        raise ValueError(f"columns must be at least 1, not {columns!r}")
    if labels is not None and len(labels) != count:
        raise ValueError(f"labels must hold {count} labels, one per image, not {len(labels)}")
    columns = min(columns, count)
    rows = -(-count // columns)
    head, gap = -(-2 * height // 5) if labels is not None else 1, max(1, width // 14)
    canvas = np.zeros((rows * (height + head), columns * (width + gap)), dtype=compact(array).dtype)
    figure = go.Figure()
    for i in range(count):
        top, left = (i // columns) * (height + head) + head, (i % columns) * (width + gap)
        canvas[top : top + height, left : left + width] = array[i]
        box = {"x0": left - 0.5, "x1": left + width - 0.5, "y0": top - 0.5, "y1": top + height - 0.5}
        figure.add_shape(type="rect", line={"color": theme.AXIS, "width": 1}, **box)
        if labels is not None:
            text = str(labels[i].item() if hasattr(labels[i], "item") else labels[i])
            at = {"x": left + (width - 1) / 2, "y": top - 0.5, "yanchor": "bottom", "showarrow": False}
            figure.add_annotation(text=text, font={"size": 12, "color": theme.TEXT}, **at)
    figure.add_heatmap(z=canvas, colorscale=theme.INK, showscale=False, hoverinfo="skip")
    shape = rows * (height + head) / (columns * (width + gap))
    edges = {"l": 12, "r": 12, "b": 12}
    figure.update_layout(title={"text": title}, height=60 + round(min(shape * 676, 900)), margin=edges)
    figure.update_xaxes(visible=False, constrain="domain", range=[-1, canvas.shape[1] - gap])
    figure.update_yaxes(visible=False, range=[canvas.shape[0], -0.5], scaleanchor="x", constrain="domain")
    return figure


def spike_counts(
    spikes: Any, labels: Sequence[str] | None = None, dt: float | None = None, title: str = "Output spikes so far"
) -> go.Figure:
    """How the evidence adds up: spikes of each output neuron, counted up to each step.

    Args:
        spikes: [T, C] of one sample.
        labels: names of the classes; without them their numbers.
        dt: seconds per step; without it the axis counts steps.
    """
    array = as_array(spikes, "spikes", "[T, C]")
    steps, classes = array.shape
    names = [str(i) for i in range(classes)] if labels is None else [str(label) for label in labels]
    if len(names) != classes:
        raise ValueError(f"labels must hold {classes} names, not {len(names)}")
    axis, label = times(steps, dt)
    counts = (array != 0).cumsum(axis=0).T
    figure = go.Figure(
        go.Heatmap(
            z=compact(counts),
            x=axis,
            y=names,
            zmin=0,
            zmax=max(int(counts.max()), 1),
            colorscale=theme.INK,
            colorbar={"title": {"text": "spikes"}, "thickness": 12, "outlinewidth": 0},
            hovertemplate=f"class %{{y}}<br>{label} %{{x}}<br>%{{z}} spikes<extra></extra>",
        )
    )
    final = counts[:, -1]
    told = f"most: {names[int(final.argmax())]} with {final.max()}" if final.max() else "no output neuron has spiked"
    figure.update_layout(title={"text": f"{title} ({told})"}, height=360)
    figure.update_xaxes(title={"text": label}, showgrid=False)
    figure.update_yaxes(title={"text": "output neuron"}, type="category", showgrid=False)
    return figure


def _lines(history: Any, keys: Mapping[str, str]) -> dict[str, Sequence[Any]]:
    """The series of one panel that the history has, by the name they are shown under."""
    lines: dict[str, Sequence[Any]] = {}
    for key, name in keys.items():
        values = history.get(key) if isinstance(history, Mapping) else getattr(history, key, None)
        if key == "rates":
            lines |= {str(layer): rates for layer, rates in (values or {}).items() if len(rates)}
        elif values is not None and len(values):
            lines[name] = values
    return lines
