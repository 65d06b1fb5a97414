"""Tables of text: columns as wide as they must be, those without an entry left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# What each row of a training throughput begins with.
THROUGHPUT = ("contestant", "samples/s", "ms", "10-90 %", "first s")


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, always: int = 0) -> list[str]:
    """A line for the head and one for each row.

    Args:
        left: so many columns are aligned to the left, the others to the right.
        always: so many are shown even if they are empty.
    """
    used = [i for i in range(len(head)) if i < always or any(row[i] for row in rows)]
    widths = {i: max(len(line[i]) for line in (head, *rows)) for i in used}
    return [
        "  ".join(line[i].ljust(widths[i]) if i < left else line[i].rjust(widths[i]) for i in used).rstrip()
        for line in (head, *rows)
    ]


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
