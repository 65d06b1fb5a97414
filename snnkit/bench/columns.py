"""Tables of text: columns as wide as they must be, those without an entry left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What each row of a training throughput begins with.
THROUGHPUT = ("contestant", "samples/s", "ms", "10-90 %", "first s")


def throughput(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The cells of ``THROUGHPUT``."""
    return (
        row["contestant"],
        f"{row['samples_per_s']:,.0f}",
        f"{row['median_s'] * 1e3:.4g}",
        f"{row['p10_s'] * 1e3:.4g} - {row['p90_s'] * 1e3:.4g}",
        f"{row['first_s']:.3g}",
    )


def megabytes(count: float | None) -> str:
    """Of memory, in MiB; empty where it was not measured."""
    return "" if count is None else f"{count / 2**20:.0f}"


def times(value: float, base: float | None) -> str:
    """``value`` as a multiple of ``base``; empty without one."""
    return "" if base is None else f"{value / base:.2f}"
