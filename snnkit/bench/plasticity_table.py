"""A record of kind "plasticity" as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..tables import text_table
from .columns import times
from .table import heading

__all__ = ["case_table", "heading", "tables"]

_HEAD = ("contestant", "µs a step", "10-90 %", "x floor", "times Norse")


def tables(record: Mapping[str, Any]) -> str:
    """The whole record."""
    cases: dict[str, list[Mapping[str, Any]]] = {}
    for row in record["rows"]:
        cases.setdefault(row["case"], []).append(row)
    return "\n\n".join([heading(record), *map(case_table, cases.values())])


def case_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows of one case. "x floor": the time of a step over that of reading and writing all weights once, as a copy
    does; a sequence keeps them in the cache and may stay below. "times Norse": how many of our steps one of its takes.
    """
    first = rows[0]
    title = (
        f"{first['case']}: {first['weights']:,} weights, {first['dtype']}, {first['rate']:.3g} of the neurons fire, "
        f"{first['steps']} steps; copy of the weights: {first['floor_s'] * 1e6:.3g} µs"
    )
    norse = next((row["median_s"] for row in rows if row["library"] == "Norse"), None)
    return "\n".join([title, *text_table(_HEAD, [_cells(row, norse) for row in rows], always=4)])


def _cells(row: Mapping[str, Any], norse: float | None) -> tuple[str, ...]:
    return (
        row["contestant"],
        f"{row['median_s'] * 1e6:.4g}",
        f"{row['p10_s'] * 1e6:.4g} - {row['p90_s'] * 1e6:.4g}",
        f"{row['over_floor']:.2f}",
        "" if row["library"] == "Norse" or norse is None else times(norse, row["median_s"]),
    )
