"""Axes that several figures share: time in steps or milliseconds, and ticks where a reader expects them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arguments import number
from .arrays import compact


@dataclass(frozen=True)
class Times:
    """A time axis: where its steps lie and what it is called."""

    at: np.ndarray
    title: str

    @property
    def ends(self) -> list[float]:
        """Half a step before the first and half a step after the last."""
        half = 0.5 * float(self.at[1] - self.at[0]) if len(self.at) > 1 else 0.5
        return [float(self.at[0]) - half, float(self.at[-1]) + half]

    def look(self, most: int = 12) -> dict[str, Any]:
        """For ``update_xaxes``: title, range and (for a few whole steps) ticks."""
        return {"title": {"text": self.title}, "range": self.ends, "tickvals": whole_ticks(self.at, most)}


def times(steps: int, dt: float | None) -> Times:
    """The time axis of ``steps`` steps: step numbers, or milliseconds when ``dt`` (seconds) is given.

    Raises:
        TypeError: dt is no number.
        ValueError: dt is not positive.
    """
    if dt is None:
        return Times(compact(np.arange(steps)), "time step")
    seconds = number(dt, "dt", "a positive number of seconds", above=0)
    return Times(compact(np.arange(steps) * seconds * 1e3), "time (ms)")


def whole_ticks(values: Any, most: int = 12) -> list[int] | None:
    """Places for at most ``most`` ticks on an axis of whole numbers (steps, epochs, counts), so that none says 2.5.

    None where the values are not whole, or reach so far that plotly's own ticks are whole anyway: those are better,
    because they follow a zoom.
    """
    array = np.asarray(values, dtype=float)
    low, high = float(array.min()), float(array.max())
    if (array % 1).any() or high - low > 12:
        return None
    ticks = (list(range(math.ceil(low / step) * step, int(high) + 1, step)) for step in (1, 2, 5, 10, 20))
    return next(places for places in ticks if len(places) <= most)


def log_ticks(values: Any) -> list[float] | None:
    """Ticks at 1, 2, 5, 10, 20, … for a logarithmic axis over at most three decades; None beyond (powers of ten)."""
    array = np.asarray(values, dtype=float)
    array = array[np.isfinite(array) & (array > 0)]
    if array.size == 0:
        return None
    low, high = math.log10(array.min()), math.log10(array.max())
    if high - low > 3:
        return None
    decades = range(math.floor(low) - 1, math.ceil(high) + 1)
    found = [float(f"{digit}e{decade}") for decade in decades for digit in (1, 2, 5)]
    return [tick for tick in found if low - 0.2 <= math.log10(tick) <= high + 0.2]
