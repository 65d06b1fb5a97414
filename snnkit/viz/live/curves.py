"""The panel's figure: the curves of all epochs, and behind them, pale, single updates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from .. import theme
from ..learning import training_curves
from ..strokes import add_line
from .trail import Trail

# Panels of ``training_curves`` from left to right: what is drawn there of a single update, and the series of epochs.
COLUMNS = {
    "loss": ("train_loss", "test_loss"),
    "accuracy": ("train_accuracy", "test_accuracy"),
    "output rate": ("output_rate", "rates"),
}
_UNITS = {"loss": "%{y:.4g}", "accuracy": "%{y:.1f} %", "output rate": "%{y:.4g} spikes per step"}


def panel_figure(series: Mapping[str, Any], trail: Trail, epochs: int, *, over: bool = False) -> go.Figure | None:
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
    end = reached if over else _end(reached, epochs)
    figure = training_curves(begun, epochs=end, title=f"Training: epoch {done} of {epochs}")
    # A run of a second or two is looked at so rarely that lines between its updates would be made up.
    if len(trail) and not (over and len(trail) <= done):
        _add_trail(figure, begun, trail, end)
    return figure


def trail_values(trail: Trail, name: str) -> list[float]:
    """What is drawn of one of ``COLUMNS`` at ``trail.at``; its trace has the name as ``meta``."""
    scale = 100 if name == "accuracy" else 1
    return [math.nan if value is None else value * scale for value in trail.values[name]]


def _add_trail(figure: go.Figure, series: Mapping[str, Any], trail: Trail, end: int) -> None:
    drawn = [name for name, keys in COLUMNS.items() if any(key in series for key in keys)]
    told = False
    for col, name in enumerate(drawn, start=1):
        if all(value is None for value in trail.values[name]):
            continue
        hover = f"{name} of one update<br>epoch %{{x:.2f}}<br>{_UNITS[name]}<extra></extra>"
        look = {"colour": theme.PALE, "width": 1.5, "legendgroup": "updates", "showlegend": not told}
        more = {"hovertemplate": hover, "meta": name, "row": 1, "col": col}
        add_line(figure, trail.at, trail_values(trail, name), "single updates", **look, **more)
        told = True
    figure.update_xaxes(range=[0, end + 0.2])


def _end(reached: int, epochs: int) -> int:
    end = 10
    while end < reached:
        end *= 2
    return min(end, epochs)


def _any(values: Any) -> bool:
    if isinstance(values, Mapping):
        return any(_any(one) for one in values.values())
    return isinstance(values, Sequence) and len(values) > 0
