"""How long the ready-made explorers take to follow a control: the function and the update of the figure."""

from __future__ import annotations

import contextlib
import io
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..controls import parse
from ..views import view_of
from .lab import Lab

LIMIT = 0.1  # seconds; what a hand at a slider takes for "at once"
_ROUNDS = 3


@dataclass(frozen=True)
class Pace:
    """Seconds that one explorer takes for an update, all settings tried.

    Attributes:
        lab: its name.
        first: seconds of the very first picture, with all that it loads or compiles.
        median: over the settings.
        worst: the longest, each setting being quoted with the median of three.
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


def pace(lab: Lab) -> Pace:
    """Time ``lab`` at the minimum, middle and maximum of each control, the others at their first values.

    The view is the one that a notebook with this installation gets (a FigureWidget, say), without a browser behind it.
    """
    first = lab.defaults()
    began = time.perf_counter()
    start = lab.figure(**first)
    # Outside a kernel, what Output widgets show would be printed.
    with contextlib.redirect_stdout(io.StringIO()):
        view = view_of(start)
        opened = time.perf_counter() - began
        found: dict[str, float] = {}
        for name, spec in lab.controls.items():
            for value in parse(name, spec, first[name]).trials:
                found[f"{name} = {value}"] = _seconds(lab, view, start, first | {name: value})
    slowest = max(found, key=lambda setting: found[setting])
    over = sum(seconds > LIMIT for seconds in found.values())
    middle = statistics.median(found.values())
    return Pace(lab.name, opened, middle, found[slowest], slowest, over, len(found))


def _seconds(lab: Lab, view: Any, start: Any, values: dict[str, Any]) -> float:
    lab.figure(**values)  # what is loaded or compiled once is no part of an update
    taken = []
    for _ in range(_ROUNDS):
        view.update(start)  # or there would be nothing to update
        began = time.perf_counter()
        view.update(lab.figure(**values))
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def table(paces: Iterable[Pace]) -> str:
    """As text, one line each; those over the limit are marked."""
    every = list(paces)
    width = max([len("explorer"), *(len(one.lab) for one in every)])
    lines = [f"{'explorer':<{width}}  {'first ms':>9}  {'median ms':>9}  {'worst ms':>9}  slowest setting"]
    for one in every:
        times = "  ".join(f"{1e3 * seconds:9.1f}" for seconds in (one.first, one.median, one.worst))
        mark = f"  over {1e3 * LIMIT:g} ms: {one.over} of {one.tried} settings" if one.over else ""
        lines.append(f"{one.lab:<{width}}  {times}  {one.slowest}{mark}")
    return "\n".join(lines)
