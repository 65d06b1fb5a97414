"""Seconds as a function of size, from a few sizes that were measured."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .ranges import Range


@dataclass(frozen=True)
class Curve:
    """Between two measured sizes seconds follow a power of the size. Below the smallest they are its own, beyond the
    largest they grow in proportion.

    Attributes:
        points: (size, seconds), sizes rising.
    """

    points: tuple[tuple[float, Range], ...]

    def __post_init__(self) -> None:
        sizes = [size for size, _ in self.points]
        if not sizes or sizes[0] <= 0 or sizes != sorted(set(sizes)):
            raise ValueError(f"points must have rising sizes above 0, but they are {sizes}")

    @classmethod
    def through(cls, points: Iterable[tuple[float, Range]]) -> Curve:
        """Points in any order."""
        return cls(tuple(sorted(points, key=lambda point: point[0])))

    def at(self, size: float) -> Range:
        """Seconds at ``size``; 0 is as the smallest."""
        sizes = [s for s, _ in self.points]
        after = bisect_left(sizes, size)
        if after == 0:
            return self.points[0][1]
        left, low = self.points[after - 1]
        if after == len(sizes):
            return low * (size / left)
        right, high = self.points[after]
        share = math.log(size / left) / math.log(right / left)
        values = (_between(getattr(low, name), getattr(high, name), share) for name in ("low", "value", "high"))
        return Range(*sorted(values))

    def to_json(self) -> list[list[float]]:
        return [[size, r.low, r.value, r.high] for size, r in self.points]

    @classmethod
    def from_json(cls, points: Any) -> Curve:
        return cls(tuple((size, Range(*seconds)) for size, *seconds in points))


def _between(low: float, high: float, share: float) -> float:
    if low <= 0 or high <= 0:
        return low + (high - low) * share
    return low * (high / low) ** share
