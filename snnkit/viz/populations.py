"""What populations of neurons say to each class, as pictures of their statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from . import theme
from .arrays import as_array, class_names, compact
from .panels import panels


def population_statistics(
    statistics: Any, labels: Any, names: Sequence[str] | None = None, title: str = "Populations"
) -> go.Figure:
    """A panel for each statistic: its mean over the samples of a class (rows), for each population (columns).

    Args:
        statistics: a named tuple of [B, populations] each, such as ``models.Statistics``.
        labels: [B], the class of each sample.
        names: of the classes; without them their numbers.

    Raises:
        TypeError: statistics is no named tuple.
        ValueError: a statistic is not [B, populations], or names are fewer than the classes.
    """
    fields = getattr(statistics, "_fields", None)
    if not fields:
        raise TypeError(f"statistics must be a named tuple of [B, populations] each, not {type(statistics).__name__}")
    classes = as_array(labels, "labels", "[B]").astype(int)
    count = int(classes.max()) + 1 if names is None else len(names)
    called = class_names(names, count, "names")
    if classes.min() < 0 or classes.max() >= count:
        raise ValueError(f"labels must lie in 0 … {count - 1}, but they go from {classes.min()} to {classes.max()}")
    present = [k for k in range(count) if (classes == k).any()]
    means = {}
    for field, values in zip(fields, statistics, strict=True):
        array = as_array(values, field, "[B, populations]").astype(float)
        if len(array) != len(classes):
            raise ValueError(f"{field} must have {len(classes)} rows, as labels has, not {len(array)}")
        means[field] = np.stack([array[classes == k].mean(axis=0) for k in present])
    titles = [f"{field}: {mean.min():.2g} to {mean.max():.2g}" for field, mean in means.items()]
    rows = -(-len(fields) // 2)
    figure = panels(rows, 2, titles, horizontal_spacing=0.12, vertical_spacing=0.34 / rows)
    for i, (field, mean) in enumerate(means.items()):
        low, high = float(mean.min()), float(mean.max())
        figure.add_heatmap(
            name=field, z=compact(mean), y=[called[k] for k in present], zmin=low, zmax=high if high > low else low + 1,
            colorscale=theme.INK, showscale=False, row=i // 2 + 1, col=i % 2 + 1,
            hovertemplate=f"population %{{x}}<br>class %{{y}}<br>{field} %{{z:.3g}}<extra></extra>",
        )  # fmt: skip
    figure.update_layout(title={"text": title}, height=230 * rows + 60, margin={"t": 80})
    figure.update_xaxes(showgrid=False)
    figure.update_xaxes(title={"text": "population"}, row=rows)
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False)
    figure.update_yaxes(title={"text": "class"}, col=1)
    return figure
