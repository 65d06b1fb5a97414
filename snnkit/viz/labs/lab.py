"""What a ready-made explorer is, and how long it takes to follow its controls."""

from __future__ import annotations

import inspect
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from snnkit import tables

from ..display import view_of
from ..drawing import NOTE, Times, panels
from ..explorer import explore, parse

LIMIT = 0.1  # seconds; an update that takes longer is noticed by the hand at a slider
_ROUNDS = 3


class Lab(NamedTuple):
    """One ready-made explorer. Calling it shows it: ``neuron_lab()``.

    Attributes:
        name: under which ``viz.labs`` has it, such as "neuron_lab".
        figure: ``figure(**settings) -> go.Figure``: pure, every setting with a default, no globals of a notebook.
        controls: name of a setting to its control, as ``viz.explore`` takes them: (min, max[, step]), a list, a bool.
        question: that it answers.
    """

    name: str
    figure: Callable[..., go.Figure]
    controls: Mapping[str, Any]
    question: str

    def __call__(self) -> None:
        """Show it."""
        explore(self.figure, **self.controls)

    def first(self) -> dict[str, Any]:
        """The first value of every control."""
        parameters = inspect.signature(self.figure).parameters
        return {name: parameters[name].default for name in self.controls}

    def trials(self) -> list[tuple[str, Any]]:
        """The minimum, middle and maximum of each control, with its name."""
        return [(name, value) for name, spec in self.controls.items() for value in parse(name, spec).trials]


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


def add_note(page: go.Figure, text: str) -> None:
    """Small print between title and plot."""
    place = {"x": 0, "xref": "paper", "xanchor": "left", "y": 1, "yref": "paper", "yanchor": "bottom", "yshift": 5}
    page.add_annotation(text=text, align="left", **place, **NOTE)


def update_times(labs: Iterable[Lab]) -> str:
    """A table of how long updates take, in the kernel; what takes longer than 100 ms is marked.

    Each lab at the minimum, middle and maximum of each control, the others at their first values. The view is the one
    of a notebook with this installation (a FigureWidget, say), without a browser behind it.
    """
    rows = []
    for lab in labs:
        began = time.perf_counter()
        start = lab.figure(**lab.first())
        view = view_of(start)
        opened = time.perf_counter() - began
        taken = {f"{name} = {value}": _update(lab, view, start, {name: value}) for name, value in lab.trials()}
        slowest = max(taken, key=lambda setting: taken[setting])
        seconds = opened, statistics.median(taken.values()), taken[slowest]
        over = sum(one > LIMIT for one in taken.values())
        late = f"over {1e3 * LIMIT:g} ms: {over} of {len(taken)} settings" if over else ""
        rows.append((lab.name, slowest, *(f"{1e3 * one:.1f}" for one in seconds), late))
    head = ("explorer", "slowest setting", "first ms", "median ms", "worst ms", "")
    return "\n".join(tables.text_table(head, rows, left=2))


def _update(lab: Lab, view: Any, start: go.Figure, changed: dict[str, Any]) -> float:
    """Seconds, the median of three."""
    settings = lab.first() | changed
    lab.figure(**settings)  # loading and compiling are no part of an update
    taken = []
    for _ in range(_ROUNDS):
        view.update(start)  # or there would be nothing to update
        began = time.perf_counter()
        view.update(lab.figure(**settings))
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)
