"""Numbers that are not known exactly: ranges, and the named assumptions of the models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from types import MappingProxyType
from typing import Any

from ... import checks
from ..chips import MARKS


@dataclass(frozen=True)
class Range:
    """Low, likely and high, all at least 0. Sums and products combine low with low: uncertain numbers are taken to
    vary together, which makes the range as wide as it can be."""

    low: float
    value: float
    high: float

    def __post_init__(self) -> None:
        for name in ("low", "value", "high"):
            checks.number(f"{name} of a Range", getattr(self, name))
        if not 0 <= self.low <= self.value <= self.high:
            values = f"{self.low}, {self.value}, {self.high}"
            raise ValueError(f"a Range must have 0 <= low <= value <= high, but they are {values}")

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


@dataclass(frozen=True)
class Assumed:
    """A free number of the models; ``str(assumed)`` shows all of it.

    Attributes:
        range: low, likely, high.
        unit: SI, or "" for a share or a factor.
        meaning: what it is.
        source: why this value and this range.
        mark: one of ``chips.MARKS``.
        most: above it no value makes sense.
    """

    range: Range
    unit: str
    meaning: str
    source: str
    mark: str = "assumed"
    most: float = math.inf

    def __post_init__(self) -> None:
        checks.choice("mark", self.mark, MARKS)

    def __str__(self) -> str:
        return f"{self.meaning}: {self.range} {self.unit}".rstrip() + f" ({self.mark}: {self.source})"


_NOT_FOUND = "no source is known"
_SHARES = "no source: from a tenth to what a good library reaches"

DEFAULTS: Mapping[str, Assumed] = MappingProxyType(
    {
        "ipu_matmul_efficiency": Assumed(
            Range(0.1, 0.3, 0.6), "", "share of the peak that matrix products reach on an IPU", _SHARES, most=1.0
        ),
        "ipu_sync_cycles": Assumed(
            Range(50, 150, 500), "cycles", "that the tiles wait for each other before each exchange",
            "the function that knows it is in the closed part of Poplar",
        ),
        "ipu_host_seconds": Assumed(
            Range(5e-6, 30e-6, 200e-6), "s", "a round trip between host and IPU", _NOT_FOUND
        ),
        "ipu_host_bandwidth": Assumed(
            Range(10e9, 20e9, 32e9), "B/s", "of the host's data to the IPU",
            "PCIe 4.0 × 16 carries 32e9 one way; the share that streams reach is not known",
        ),
        "ipu_vertices": Assumed(
            Range(0.25, 1.0, 1.5), "", "elementwise operations that run separately, by those that are counted",
            "below 1 where PopART fuses some, how many is not known; up to 1.5 as PopTorch needs surrogates in plain "
            "operations, of which a LIF's step then has half as many more", most=2.0,
        ),
        "ipu_always_live": Assumed(
            Range(0.1, 0.25, 0.4), "", "share of a tile's memory for code and exchange buffers", _NOT_FOUND, most=1.0
        ),
        "launch": Assumed(
            Range(4e-6, 8e-6, 15e-6), "s", "that eager PyTorch takes to start one kernel on a GPU",
            "4e-6 to 6e-6 for the submission alone (susun-blog.com, RTX 5070 Ti), more with PyTorch; fit() measures it",
        ),
        "graph_node": Assumed(
            Range(0.5e-6, 1.5e-6, 3e-6), "s", "that one kernel of a CUDA graph takes at the least", _NOT_FOUND
        ),
        "gpu_matmul_efficiency": Assumed(
            Range(0.25, 0.6, 0.9), "", "share of the peak that matrix products reach on a GPU", _SHARES, most=1.0
        ),
        "gpu_bandwidth_efficiency": Assumed(
            Range(0.6, 0.8, 0.92), "", "share of the memory bandwidth that elementwise kernels reach",
            "copies of large tensors reach some nine tenths of what is sold, small ones less", most=1.0,
        ),
        "gpu_cache_gain": Assumed(
            Range(1.0, 1.0, 4.0), "", "by how much faster the cache is, for operations that fit in half of it",
            "1 leaves the cache out; no figure for all these chips is known",
        ),
        "gpu_step_seconds": Assumed(
            Range(0.02e-6, 0.1e-6, 0.6e-6), "s", "that one time step inside a fused kernel takes at the least",
            "from a few dependent instructions to a read from memory that nothing hides",
        ),
    }
)  # fmt: skip


class Assumptions(Mapping[str, Assumed]):
    """Every free number of the models, by name; the defaults but for the given ones::

        Assumptions()["launch"]                         # an Assumed
        Assumptions(launch=5e-6)                        # known exactly
        Assumptions(launch=(4e-6, 8e-6, 15e-6))         # low, likely, high

    Args:
        values: each a number, (low, likely, high), a ``Range``, or an ``Assumed`` with its own source.
    """

    def __init__(self, **values: Any) -> None:
        self._values = dict(DEFAULTS)
        for name, value in values.items():
            default = DEFAULTS[checks.choice("assumption", name, DEFAULTS)]
            if not isinstance(value, Assumed):
                try:
                    value = replace(default, range=Range.of(value), mark="assumed", source="given")
                except (TypeError, ValueError) as error:
                    raise type(error)(f"{name} must be a number or (low, likely, high), but {error}") from None
            checks.number(name, value.range.low, above=0)
            checks.number(name, value.range.high, at_most=default.most)
            self._values[name] = value

    def with_(self, **values: Any) -> Assumptions:
        """The same but for these."""
        return Assumptions(**{**self._values, **values})

    @staticmethod
    def names() -> tuple[str, ...]:
        """Of all assumptions."""
        return tuple(DEFAULTS)

    def table(self) -> list[tuple[str, float, float, float, str, str, str, str]]:
        """Rows of (name, low, likely, high, unit, mark, meaning, source)."""
        return [
            (name, a.range.low, a.range.value, a.range.high, a.unit, a.mark, a.meaning, a.source)
            for name, a in self.items()
        ]

    def __getitem__(self, name: str) -> Assumed:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __str__(self) -> str:
        return "\n".join(f"{name}: {assumed}" for name, assumed in self.items())
