"""What a ready-made explorer is, and how long it takes to follow its controls."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import plotly.graph_objects as go

from snnkit import checks, tables

from ..controls import parse
from ..drawing import NOTE, Times, panels
from ..explorer import explore, tooltips
from ..views import view_of

LIMIT = 0.1  # seconds; an update that takes longer is noticed by the hand at a slider
_ROUNDS = 3


@dataclass(frozen=True)
class Lab:
    """One ready-made explorer. Calling it shows it: ``neuron_lab()``, or ``neuron_lab(kind="ALIF")`` with other first
    values.

    Attributes:
        name: under which ``viz.labs`` has it, such as "neuron_lab".
        title: for people.
        figure: ``figure(**settings) -> go.Figure``: pure, every setting with a default, no globals of a notebook.
        controls: name of a setting to its control, as ``viz.explore`` takes them: (min, max[, step]), a list, a bool.
        doc: one sentence: the question it answers.
    """

    name: str
    title: str
    figure: Callable[..., go.Figure]
    controls: Mapping[str, Any]
    doc: str

    def __post_init__(self) -> None:
        hints = tooltips(self.figure)
        settings = [f"    {name} = {value!r}: {hints.get(name, '')}" for name, value in self.defaults().items()]
        object.__setattr__(self, "__doc__", "\n".join([f"{self.title}. {self.doc}", "", "First values:", *settings]))

    def __call__(self, /, **start: Any) -> None:
        """Show it, with other first values where given.

        Raises:
            TypeError: a setting has no control, or a value is of another kind than its control gives.
            ValueError: a value is not one that its control can take.
        """
        explore(self.starting(**start), **self.controls)

    def starting(self, /, **start: Any) -> Callable[..., go.Figure]:
        """The figure's function with these first values as its defaults, checked as in ``__call__``."""
        for name, value in start.items():
            if name not in self.controls:
                raise TypeError(f"{self.name} has no setting {name!r}; it has {', '.join(self.controls)}")
            what, spec = f"{name} of {self.name}", self.controls[name]
            if isinstance(spec, bool):
                checks.flag(what, value)
            elif isinstance(spec, list):
                checks.choice(what, value, spec)
            elif all(isinstance(number, int) for number in spec):
                checks.integer(what, value, at_least=spec[0], at_most=spec[1])
            else:
                checks.number(what, value, at_least=spec[0], at_most=spec[1])
        return functools.partial(self.figure, **start) if start else self.figure

    def defaults(self) -> dict[str, Any]:
        """The first value of every control."""
        parameters = inspect.signature(self.figure).parameters
        return {name: parameters[name].default for name in self.controls}


def stacked(heights: Sequence[float], axis: Times, *, ends: Sequence[float], spacing: float) -> go.Figure:
    """Three panels over one time axis, with shares ``heights`` of the plot, and to their right one as high as all."""
    page = panels(
        3, 2, specs=[[{}, {"rowspan": 3}], [{}, None], [{}, None]], row_heights=list(heights),
        column_widths=[0.6, 0.4], vertical_spacing=spacing, horizontal_spacing=0.14,
    )  # fmt: skip
    for row in (1, 2, 3):
        page.update_xaxes(range=list(ends), matches="x", showticklabels=row == 3, row=row, col=1)
    page.update_xaxes(title_text=axis.title, row=3, col=1)
    return page


def add_note(page: go.Figure, text: str, shift: float = 4) -> None:
    """Small print between title and plot."""
    place = {"x": 0, "xref": "paper", "xanchor": "left", "y": 1, "yref": "paper", "yanchor": "bottom", "yshift": shift}
    page.add_annotation(text=text, align="left", **place, **NOTE)


class UpdateTimes(NamedTuple):
    """Seconds that one explorer takes for an update, all settings tried.

    Attributes:
        lab: its name.
        first: seconds of the very first picture, with all that it loads or compiles.
        median: over the settings.
        worst: the longest, each setting counting with the median of three.
        slowest: the setting of the worst.
        over: how many settings take longer than ``LIMIT``.
        tried: how many there are.
    """

    lab: str
    first: float
    median: float
    worst: float
    slowest: str
    over: int
    tried: int


def time_updates(lab: Lab) -> UpdateTimes:
    """Time ``lab`` at the minimum, middle and maximum of each control, the others at their first values.

    The view is the one of a notebook with this installation (a FigureWidget, say), without a browser behind it.
    """
    first = lab.defaults()
    began = time.perf_counter()
    start = lab.figure(**first)
    # Outside a kernel, Output widgets would print what they show.
    with contextlib.redirect_stdout(io.StringIO()):
        view = view_of(start)
        opened = time.perf_counter() - began
        times: dict[str, float] = {}
        for name, spec in lab.controls.items():
            for value in parse(name, spec, first[name]).trials:
                settings = first | {name: value}
                lab.figure(**settings)  # loading and compiling are no part of an update
                taken = []
                for _ in range(_ROUNDS):
                    view.update(start)  # or there would be nothing to update
                    began = time.perf_counter()
                    view.update(lab.figure(**settings))
                    taken.append(time.perf_counter() - began)
                times[f"{name} = {value}"] = statistics.median(taken)
    slowest = max(times, key=lambda setting: times[setting])
    over = sum(seconds > LIMIT for seconds in times.values())
    return UpdateTimes(lab.name, opened, statistics.median(times.values()), times[slowest], slowest, over, len(times))


def update_table(measured: Iterable[UpdateTimes]) -> str:
    """As text, one line each; those over the limit are marked."""
    head = ("explorer", "slowest setting", "first ms", "median ms", "worst ms", "")
    rows = [
        (
            one.lab,
            one.slowest,
            *(f"{1e3 * seconds:.1f}" for seconds in (one.first, one.median, one.worst)),
            f"over {1e3 * LIMIT:g} ms: {one.over} of {one.tried} settings" if one.over else "",
        )
        for one in measured
    ]
    return "\n".join(tables.text_table(head, rows, left=2))
