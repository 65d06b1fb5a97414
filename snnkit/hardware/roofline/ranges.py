"""A number that is not known exactly: its likely value between a lowest and a highest one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any


@dataclass(frozen=True)
class Range:
    """Low, likely and high, all at least 0. Sums and products take low with low: what is uncertain is taken to move
    together, which makes the range as wide as it can be.

    Raises:
        TypeError: not numbers.
        ValueError: not finite, below 0 or out of order.
    """

    low: float
    value: float
    high: float

    def __post_init__(self) -> None:
        for name in ("low", "value", "high"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                raise TypeError(f"{name} of a Range must be a number, but it is {number!r}")
            if not math.isfinite(number):
                raise ValueError(f"{name} of a Range must be finite, but it is {number!r}")
        if not 0 <= self.low <= self.value <= self.high:
            raise ValueError(
                f"a Range must have 0 <= low <= value <= high, but they are {self.low}, {self.value}, {self.high}"
            )

    @classmethod
    def of(cls, value: Any) -> Range:
        """A number, (low, value, high) or a Range."""
        if isinstance(value, Range):
            return value
        if isinstance(value, (tuple, list)):
            if len(value) != 3:
                raise ValueError(f"a Range must be (low, value, high), but it is {tuple(value)!r}")
            return cls(*value)
        return cls(value, value, value)

    @classmethod
    def total(cls, parts: Iterable[Range]) -> Range:
        """The sum; of nothing, 0."""
        return reduce(lambda a, b: a + b, parts, cls(0.0, 0.0, 0.0))

    def __add__(self, other: Range | float) -> Range:
        other = Range.of(other)
        return Range(self.low + other.low, self.value + other.value, self.high + other.high)

    def __mul__(self, other: Range | float) -> Range:
        other = Range.of(other)
        return Range(self.low * other.low, self.value * other.value, self.high * other.high)

    def __truediv__(self, other: Range | float) -> Range:
        return self * Range.of(other).inverse()

    __radd__ = __add__
    __rmul__ = __mul__

    def inverse(self) -> Range:
        """1 over it: what was low becomes high. ZeroDivisionError where it may be 0."""
        return Range(1 / self.high, 1 / self.value, 1 / self.low)

    def at_least(self, other: Range | float) -> Range:
        """The larger of both at either end."""
        other = Range.of(other)
        return Range(max(self.low, other.low), max(self.value, other.value), max(self.high, other.high))

    def __contains__(self, number: float) -> bool:
        return self.low <= number <= self.high

    def __str__(self) -> str:
        return f"{self.value:.3g}" if self.low == self.high else f"{self.value:.3g} ({self.low:.3g} … {self.high:.3g})"
