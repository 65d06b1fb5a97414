"""Figures of learning: curves over epochs, and what is taken for what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from . import theme
from .arguments import whole
from .arrays import as_array, class_names, compact
from .axes import whole_ticks
from .panels import panels
from .strokes import add_line

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

    Raises:
        ValueError: history holds none of these series, or no epoch.
    """
    drawn = epoch_curves(history)
    if not drawn:
        known = ", ".join(key for _, keys in _PANELS for key in keys)
        raise ValueError(f"history must hold at least one series of {known}, with at least one epoch")
    epochs = None if epochs is None else whole(epochs, "epochs")
    figure = panels(1, len(drawn), list(drawn), horizontal_spacing=0.08)
    named: set[str] = set()
    length = 0
    for col, (panel, series) in enumerate(drawn.items(), start=1):
        for name, y in series.items():
            length = max(length, len(y))
            index = ("train", "test").index(name) if name in ("train", "test") else 2 + list(series).index(name)
            look = {"colour": theme.colour(index), "dash": theme.dash(index), "symbol": "circle", "legendgroup": name}
            hover = f"{name}<br>epoch %{{x}}<br>%{{y:.4g}}<extra></extra>"
            more = {"showlegend": name not in named, "hovertemplate": hover, "row": 1, "col": col}
            more["meta"] = f"{panel}: {name}"
            add_line(figure, np.arange(1, len(y) + 1), y, name, **look, **more)
            named.add(name)
    end = max(epochs or 0, length, 2)
    figure.update_layout(title={"text": title}, height=360, legend=theme.LEGEND_BELOW, margin={"b": 96})
    figure.update_xaxes(title={"text": "epoch"}, range=[0.8, end + 0.2], tickvals=whole_ticks([1, end], 6))
    figure.update_yaxes(rangemode="tozero")
    return figure


def epoch_curves(history: Any) -> dict[str, dict[str, np.ndarray]]:
    """What ``training_curves`` draws: panel to the name of a line to a number per epoch, NaN where it is not known.

    A line's trace has "panel: name" as ``meta``.
    """
    found: dict[str, dict[str, np.ndarray]] = {}
    for panel, keys in _PANELS:
        scale = 100 if "%" in panel else 1
        for name, values in _series(history, keys).items():
            numbers = (np.nan if value is None else float(value) for value in values)
            found.setdefault(panel, {})[name] = scale * np.fromiter(numbers, float, count=len(values))
    return found


def confusion(matrix: Any, labels: Sequence[str] | None = None, title: str = "Confusion matrix") -> go.Figure:
    """Which class is taken for which.

    Args:
        matrix: [C, C] counts; row: the true class, column: the predicted one.
        labels: names of the classes; without them their numbers.

    Raises:
        ValueError: matrix is not square or holds what can be no counts, or labels are not C.
    """
    counts = as_array(matrix, "matrix", "[C, C]")
    size = counts.shape[0]
    if counts.shape[1] != size:
        raise ValueError(f"matrix must be square [C, C], not of shape {counts.shape}")
    if not (counts >= 0).all() or not np.isfinite(counts.astype(float)).all():
        raise ValueError("matrix must hold counts, finite and not below 0")
    names = class_names(labels, size, "labels")
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    figure = go.Figure(
        go.Heatmap(
            name="share in %",
            z=compact(share * 100),
            x=names,
            y=names,
            zmin=0,
            zmax=100,
            colorscale=theme.INK_ON_PAPER,
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
                ink = theme.ink_on(theme.colour_at(theme.INK_ON_PAPER, float(share[row, column])))
                font = {"color": ink, "size": 11}
                text = f"{counts[row, column]:g}"
                figure.add_annotation(x=names[column], y=names[row], text=text, showarrow=False, font=font)
    right = 100 * np.trace(counts) / max(counts.sum(), 1)
    figure.update_layout(title={"text": f"{title}: {right:.1f} % right"}, height=440)
    figure.update_xaxes(title={"text": "predicted"}, type="category", showgrid=False)
    figure.update_yaxes(title={"text": "true"}, type="category", showgrid=False, autorange="reversed")
    return figure


def _series(history: Any, keys: Mapping[str, str]) -> dict[str, Sequence[Any]]:
    """The series of one panel that the history has, by the name they are shown under."""
    found: dict[str, Sequence[Any]] = {}
    for key, name in keys.items():
        values = history.get(key) if isinstance(history, Mapping) else getattr(history, key, None)
        if key == "rates":
            found |= {str(layer): rates for layer, rates in (values or {}).items() if len(rates)}
        elif values is not None and len(values):
            found[name] = values
    return found
