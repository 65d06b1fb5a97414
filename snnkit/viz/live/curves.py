"""The panel's figure: the curves of all epochs, and behind them, pale, single updates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from .. import theme
from ..arrays import compact
from ..learning import epoch_curves, training_curves
from ..strokes import add_line
from .trail import Trail

# Panels of ``training_curves`` from left to right: what is drawn there of a single update, and the series of epochs.
COLUMNS = {
    "loss": ("train_loss", "test_loss"),
    "accuracy": ("train_accuracy", "test_accuracy"),
    "output rate": ("output_rate", "rates"),
}
_UNITS = {"loss": "%{y:.4g}", "accuracy": "%{y:.1f} %", "output rate": "%{y:.4g} spikes per step"}


def panel_curves(series: Mapping[str, Any], trail: Trail, epochs: int, *, over: bool = False) -> Curves | None:
    """Curves of a run that may have just begun; None where there is nothing to draw.

    The axis runs to the last epoch, unless that is far away: then to 10, 20, 40, … epochs, so that the first can be
    told apart.

    Args:
        series: of ``History.to_dict``, or with "rates" (see ``training_curves``).
        trail: with the names of ``COLUMNS``; accuracies as fractions.
        epochs: how many there will be.
        over: nothing more will come; the axis ends with the curves.
    """
    known = {name: values for name, values in series.items() if _any(values)}
    done = max((len(known[name]) for name in ("train_loss", "test_loss") if name in known), default=0)
    if not known and not len(trail):
        return None
    begun = known or {
        keys[0]: [None] for name, keys in COLUMNS.items() if any(v is not None for v in trail.values[name])
    }
    reached = max(done, math.ceil(trail.at[-1]) if len(trail) else 0)
    # A run of a second or two is looked at so rarely that lines between its updates would be made up.
    updates = None if not len(trail) or (over and len(trail) <= done) else trail
    return Curves(begun, updates, reached if over else _end(reached, epochs), f"Training: epoch {done} of {epochs}")


class Curves:
    """What the figure shows at one moment.

    Args:
        series: as ``training_curves`` takes them.
        trail: of single updates, if they are drawn.
        end: the last epoch on the axis.

    Attributes:
        lines: x and y of each trace, by its ``meta``; accuracies in percent.
    """

    def __init__(self, series: Mapping[str, Any], trail: Trail | None, end: int, title: str) -> None:
        self.series, self.end, self.title = series, end, title
        self.lines: dict[str, tuple[Any, Any]] = {}
        for panel, named in epoch_curves(series).items():
            for name, y in named.items():
                self.lines[f"{panel}: {name}"] = compact(np.arange(1, len(y) + 1)), compact(y)
        if trail is None:
            return
        for name in self._columns:
            values, scale = trail.values[name], 100 if name == "accuracy" else 1
            if any(value is not None for value in values):
                y = np.array([math.nan if value is None else value * scale for value in values])
                self.lines[name] = compact(np.asarray(trail.at)), compact(y)

    def extends(self, other: Curves | None) -> bool:
        """Whether these are the lines of ``other`` on the same axes, only longer."""
        return other is not None and self.end == other.end and self.lines.keys() == other.lines.keys()

    def figure(self) -> go.Figure:
        figure = training_curves(self.series, epochs=self.end, title=self.title)
        within = [(col, name) for col, name in enumerate(self._columns, start=1) if name in self.lines]
        for col, name in within:
            hover = f"{name} of one update<br>epoch %{{x:.2f}}<br>{_UNITS[name]}<extra></extra>"
            look = {"colour": theme.PALE, "width": 1.5, "legendgroup": "updates", "showlegend": name == within[0][1]}
            more = {"hovertemplate": hover, "meta": name, "row": 1, "col": col}
            add_line(figure, *self.lines[name], "single updates", **look, **more)
        if within:
            figure.update_xaxes(range=[0, self.end + 0.2])
        return figure

    @property
    def _columns(self) -> list[str]:
        """The panels that are drawn, from left to right, as ``COLUMNS`` calls them."""
        return [name for name, keys in COLUMNS.items() if any(key in self.series for key in keys)]


def _end(reached: int, epochs: int) -> int:
    end = 10
    while end < reached:
        end *= 2
    return min(end, epochs)


def _any(values: Any) -> bool:
    if isinstance(values, Mapping):
        return any(_any(one) for one in values.values())
    return isinstance(values, Sequence) and len(values) > 0
