"""The progress of a run, its curves so far, and how often they may be drawn."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from snnkit.lab.viz import theme
from snnkit.lab.viz.drawing import add_line, finish, panels, whole_ticks
from snnkit.tables import duration_of

_OUTPUT, _MEMBRANE = "Mean output per step", "Mean membrane of the output"
# Panels from left to right: title, unit of a single update's number, and the series of a history that belong there
# with their names.
PANELS: tuple[tuple[str, dict[str, str]], ...] = (
    ("Loss", {"train_loss": "train", "test_loss": "test"}),
    ("Accuracy (%)", {"train_accuracy": "train", "test_accuracy": "test"}),
    (_OUTPUT, {"output_rate": "output", "rates": ""}),
)
# Of one update: where it is, in epochs, and its loss, metric (accuracy: a fraction) and output rate; NaN: not known.
Point = tuple[float, float, float, float]
_MOST = 400  # points that are drawn; a screen has about two pixels for each


class Throttle:
    """Limits work beside the training: at most once in ``seconds``, and for at most a share of the time:
    ``if throttle.due(): with throttle: draw()``."""

    def __init__(self, seconds: float, share: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds, self.share, self.clock = seconds, share, clock
        self._next = clock()

    def due(self) -> bool:
        return self.clock() >= self._next

    def __enter__(self) -> None:
        self._began = self.clock()

    def __exit__(self, *_: object) -> None:
        now = self.clock()
        self._next = now + max(self.seconds, (now - self._began) / self.share)


class Progress:
    """Follows the updates of a run of ``epochs`` epochs: its progress, its speed, and the time left.

    Speed counts from the first update of the run on, so it does not include compilation, which happens in that update.
    ``epoch`` and ``update`` are those of the last one, from 1 on; ``updates`` are those of an epoch.
    """

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        self.epoch, self.update, self.updates = 1, 1, 1
        self._first: tuple[float, int] | None = None  # when it was made, and its number
        self._samples = 0

    @property
    def done(self) -> int:
        return (self.epoch - 1) * self.updates + self.update

    @property
    def share(self) -> float:
        """Share of the run's updates that were made, in [0, 1]."""
        return min(1.0, self.done / (self.epochs * self.updates))

    def note(self, update: Any) -> None:
        """Count an update (a ``BatchInfo``)."""
        self.epoch, self.update = update.epoch + 1, update.batch + 1
        # A loader without a length says how many updates it makes after the first epoch.
        self.updates = update.batches or max(self.updates, self.update)
        self.epochs = max(self.epochs, self.epoch)
        if self._first is None:
            self._first = time.perf_counter(), self.done
        else:
            self._samples += update.samples

    def words(self, loss: float, metric: float, name: str | None = "accuracy") -> str:
        """For readers, most important first; ``loss`` and ``metric`` (its name: accuracy, a fraction) of the last
        update, NaN: none."""
        words = [f"epoch {self.epoch} of {self.epochs}", f"update {self.update} of {self.updates}"]
        words += [] if math.isnan(loss) else [f"loss {loss:.3f}"]
        if not math.isnan(metric):
            words.append(f"accuracy {100 * metric:.1f} %" if name == "accuracy" else f"{name} {metric:.4g}")
        began, first = self._first or (0.0, self.done)
        seconds = time.perf_counter() - began
        if self.done > first and seconds > 0:
            left = self.epochs * self.updates - self.done
            words.append(f"{self._samples / seconds:,.0f} samples/s")
            words.append(f"{duration_of(seconds / (self.done - first) * left)} left")
        return " · ".join(words)


def epoch_words(series: Mapping[str, Any]) -> str:
    """The last epoch of a history's series; rates of layers under the layers' names."""
    rates = {f"{layer} rate": values for layer, values in series.get("rates", {}).items()}
    named = {name.replace("train_", "").replace("_", " "): v for name, v in series.items() if name != "rates"} | rates
    last = {name: values[-1] for name, values in named.items() if isinstance(values, list) and values}
    return " · ".join(f"{name} {value:.4g}" for name, value in last.items() if isinstance(value, (int, float)))


def training_curves(
    series: Mapping[str, Any], epochs: int, title: str = "Training", updates: Sequence[Point] = ()
) -> go.Figure | None:
    """Loss, accuracy and firing rate of each layer over the epochs; None if there is nothing to draw.

    Args:
        series: of a history, by the names of ``train.History``: one number per epoch, accuracies in [0, 1]; "metric" is
            the name of what was measured instead. It may also hold "rates": layer name to one firing rate per epoch.
            Missing and empty series are left out.
        epochs: the axis runs so far.
        updates: single updates, drawn behind the curves.
    """
    points = np.array(updates[:: 1 + len(updates) // _MOST], dtype=float).reshape(-1, 4)
    drawn = []
    if name := series.get("metric"):
        shown = (PANELS[0], (name, {"train_metric": "train", "test_metric": "test"}), PANELS[2])
    else:
        shown = PANELS
    for column, (panel, keys) in enumerate(shown, start=1):
        scale = 100 if "%" in panel else 1
        curves = {name: series[key] for key, name in keys.items() if key != "rates" and series.get(key)}
        curves |= {name: rates for name, rates in series.get("rates", {}).items() if "rates" in keys and rates}
        single = scale * points[:, column]
        if curves or np.isfinite(single).any():
            numbers = {name: scale * np.array(values, dtype=float) for name, values in curves.items()}
            drawn.append((panel, numbers, single))
    if not drawn:
        return None
    titles = [_MEMBRANE if panel == _OUTPUT and _negative(curves, single) else panel for panel, curves, single in drawn]
    figure = panels(1, len(drawn), titles, horizontal_spacing=0.08)
    names: list[str] = []
    for col, (_, curves, single) in enumerate(drawn, start=1):
        if len(single):
            hover = "one update<br>epoch %{x:.2f}<br>%{y:.4g}<extra></extra>"
            look = {"colour": theme.PALE, "width": 1.5, "legendgroup": "updates", "showlegend": col == 1}
            add_line(figure, points[:, 0], single, "single updates", hovertemplate=hover, row=1, col=col, **look)
        for name, y in curves.items():
            new = name not in names
            names += [name] if new else []
            index = names.index(name)
            look = {"colour": theme.colour(index), "dash": theme.dash(index), "symbol": "circle", "showlegend": new}
            hover = f"{name}<br>epoch %{{x}}<br>%{{y:.4g}}<extra></extra>"
            more: dict[str, Any] = {"legendgroup": name, "hovertemplate": hover, "row": 1, "col": col}
            add_line(figure, np.arange(1, len(y) + 1), y, name, **look, **more)
    end = max(epochs, 2)
    across = {"title_text": "epoch", "range": [0, end + 0.2], "tickvals": whole_ticks([1, end], 6)}
    below = {"legend": theme.LEGEND_BELOW, "margin": {"b": 96}}
    return finish(figure, title, across, {"rangemode": "tozero"}, height=360, **below)


def _negative(curves: Mapping[str, np.ndarray], single: np.ndarray) -> bool:
    """Whether something is below zero, which no rate of spikes is."""
    return any((values < 0).any() for values in (*curves.values(), single))
