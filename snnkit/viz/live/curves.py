"""How far a run is, its curves so far, and how often they may be drawn."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import plotly.graph_objects as go

from .. import theme
from ..drawing import add_line, compact
from ..figures import training_curves
from ..figures.line_plots import epoch_curves

# Panels of ``training_curves`` from left to right: the figure of a single update, and the series of epochs.
COLUMNS = {
    "loss": ("train_loss", "test_loss"),
    "accuracy": ("train_accuracy", "test_accuracy"),
    "output rate": ("output_rate", "rates"),
}
_HOVER = {"loss": "%{y:.4g}", "accuracy": "%{y:.1f} %", "output rate": "%{y:.4g} spikes per step"}
# Series of a history, the heading of their column, and the format of a number.
_FORMATS = {
    "train_loss": ("loss", "{:.3f}"),
    "test_loss": ("test loss", "{:.3f}"),
    "train_accuracy": ("accuracy", "{:.1%}"),
    "test_accuracy": ("test accuracy", "{:.1%}"),
    "samples_per_second": ("samples/s", "{:,.0f}"),
    "output_rate": ("output rate", "{:.3f}"),
}


class Throttle:
    """Limits how often something is done beside the training: every ``seconds`` at most, and for a share of the time.

    if throttle.due():
        with throttle.timed():
            draw()
    """

    def __init__(self, seconds: float, share: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds, self.share, self.clock = seconds, share, clock
        self._last_cost = math.inf
        self._next = clock()

    def due(self) -> bool:
        return self.clock() >= self._next

    @contextmanager
    def timed(self) -> Iterator[None]:
        began = self.clock()
        try:
            yield
        finally:
            cost = self.clock() - began
            # The smaller of the last two, so that one slow time (the first, or a busy machine) means no long gap.
            self._next = began + cost + max(self.seconds, min(cost, self._last_cost) / self.share)
            self._last_cost = cost


class Progress:
    """Follows the updates of a run of ``epochs`` epochs: how far it is, how fast, and how long it will take.

    Speed counts from the first update of the epoch, and time left from the first update of the run, so that neither
    includes a compilation, which happens in it.
    """

    def __init__(self, epochs: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self.epochs, self.clock = epochs, clock
        self.done = 0  # updates of all epochs, as if the run had begun with the first
        self.updates = 1  # per epoch
        self._samples = 0
        self._epoch = clock()  # when its first update was made
        self._run = (self._epoch, 0)  # the same of the run, and at which update it was

    def note(self, update: Any, *, begins: bool = False) -> bool:
        """Count an update (a ``BatchInfo``); ``begins``: it is the first of a run.

        Returns:
            Whether it comes before those counted so far: training has started again from the beginning.
        """
        place = update.epoch * update.batches + update.batch + 1
        restarted = place <= self.done
        if restarted or begins or update.batch == 0:
            self._epoch, self._samples = self.clock(), 0
            if restarted or begins:
                self._run = (self._epoch, place)
        else:
            self._samples += update.samples
        self.done, self.updates = place, update.batches
        return restarted

    @property
    def place(self) -> tuple[int, int]:
        """The epoch and the update of the last update, which count from 1 here."""
        epoch, update = divmod(max(self.done - 1, 0), self.updates)
        return epoch + 1, update + 1

    @property
    def share(self) -> float:
        """Of all updates of the run, those that were made, in [0, 1]."""
        return min(1.0, self.done / (self.epochs * self.updates))

    def words(self, loss: float | None = None, accuracy: float | None = None) -> str:
        """For readers, most important first; ``loss`` and ``accuracy`` (a fraction) of the last update."""
        epoch, update = self.place
        words = [f"epoch {epoch} of {self.epochs}", f"update {update} of {self.updates}"]
        if loss is not None:
            words.append(f"loss {loss:.3f}")
        if accuracy is not None:
            words.append(f"accuracy {accuracy:.1%}".replace("%", " %"))
        now = self.clock()
        if self._samples and now > self._epoch:
            words.append(f"{self._samples / (now - self._epoch):,.0f} samples/s")
        began, first = self._run
        if self.done > first:
            left = max(self.epochs * self.updates - self.done, 0)
            words.append(f"{duration((now - began) / (self.done - first) * left)} left")
        return " · ".join(words)


def duration(seconds: float) -> str:
    """Such as "8 s", "2 min 05 s", "1 h 20 min"."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def epoch_words(series: Mapping[str, Any]) -> str:
    """The last epoch of a history's series; rates of layers under the layers' names."""
    words = [(head, form, series[name][-1]) for name, (head, form) in _FORMATS.items() if series.get(name)]
    words += [(f"{layer} rate", "{:.3f}", values[-1]) for layer, values in series.get("rates", {}).items() if values]
    return " · ".join(
        f"{head} {'–' if value is None else form.format(value).replace('%', ' %')}" for head, form, value in words
    )


# Of one update: where it is, in epochs, and its loss, accuracy (a fraction) and output rate; None where not known.
Point = tuple[float, float | None, float | None, float | None]
MOST = 400  # points that are drawn; a screen has about two pixels for each


@dataclass(frozen=True)
class Curves:
    """The figure at one moment: the curves of all epochs, and behind them, pale, single updates.

    Attributes:
        series: as ``training_curves`` takes them.
        updates: single updates.
        end: the last epoch on the axis.
        title: of the figure.
    """

    series: Mapping[str, Any]
    updates: Sequence[Point]
    end: int
    title: str

    @cached_property
    def lines(self) -> dict[str, tuple[Any, Any]]:
        """x and y of each trace, by its ``meta``; accuracies in percent."""
        lines = {
            f"{panel}: {name}": (compact(np.arange(1, len(y) + 1)), compact(y))
            for panel, named in epoch_curves(self.series).items()
            for name, y in named.items()
        }
        for name in self._columns if self.updates else ():
            values = [point[1 + list(COLUMNS).index(name)] for point in self.updates]
            scale = 100 if name == "accuracy" else 1
            if any(value is not None for value in values):
                y = np.array([math.nan if value is None else value * scale for value in values])
                lines[name] = compact(np.array([point[0] for point in self.updates])), compact(y)
        return lines

    def extends(self, other: Curves | None) -> bool:
        """Whether these are the lines of ``other`` on the same axes, only longer."""
        return other is not None and self.end == other.end and self.lines.keys() == other.lines.keys()

    def figure(self) -> go.Figure:
        figure = training_curves(self.series, epochs=self.end, title=self.title)
        drawn = [(col, name) for col, name in enumerate(self._columns, start=1) if name in self.lines]
        for col, name in drawn:
            hover = f"{name} of one update<br>epoch %{{x:.2f}}<br>{_HOVER[name]}<extra></extra>"
            look = {"colour": theme.PALE, "width": 1.5, "legendgroup": "updates", "showlegend": name == drawn[0][1]}
            more = {"hovertemplate": hover, "meta": name, "row": 1, "col": col}
            add_line(figure, *self.lines[name], "single updates", **look, **more)
        if drawn:
            figure.update_xaxes(range=[0, self.end + 0.2])
        return figure

    @property
    def _columns(self) -> list[str]:
        """The panels that are drawn, from left to right."""
        return [name for name, keys in COLUMNS.items() if any(key in self.series for key in keys)]


def curves_of(series: Mapping[str, Any], updates: list[Point], epochs: int, *, over: bool = False) -> Curves | None:
    """Curves of a run that may have just begun; None where there is nothing to draw.

    The axis runs to the last epoch, unless that is far away: then to 10, 20, 40, … epochs, so that the first are not
    squeezed. It ends with the curves when the run is ``over``.
    """
    known = {key: values for key, values in series.items() if values and (key != "rates" or any(values.values()))}
    if not known and not updates:
        return None
    done = max((len(known[name]) for name in ("train_loss", "test_loss") if name in known), default=0)
    reached = max(done, math.ceil(updates[-1][0]) if updates else 0)
    end = 10
    while end < reached:
        end *= 2
    # Before the first epoch ends, the panels are those of the updates.
    empty = {
        keys[0]: [None] for i, keys in enumerate(COLUMNS.values(), 1) if any(point[i] is not None for point in updates)
    }
    # In a run of a second or two there are so few updates that lines between them would be made up.
    drawn = [] if over and len(updates) <= done else updates[:: 1 + len(updates) // MOST]
    return Curves(known or empty, drawn, reached if over else min(end, epochs), f"Training: epoch {done} of {epochs}")
