"""A record of kind "compare" as text: what was measured, predicted and published, never in one column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..tables import text_table
from .columns import THROUGHPUT, megabytes, throughput, times
from .table import heading

__all__ = ["baseline", "case_table", "cases", "claims", "heading", "skip_line", "summary", "tables"]

OURS, PEER = "snnkit", "snnTorch"
_CASE = ("dtype", "width", "steps", "batch")
_HEAD = (*THROUGHPUT, "x floor", "peak MB", "times snnTorch")


def tables(record: Mapping[str, Any]) -> str:
    """The whole record."""
    blocks = [case_table(rows, bands_of(record, case)) for case, rows in cases(record["rows"])]
    lines = [f"not timed: {skip_line(skip)}" for skip in record.get("skipped", [])]
    return "\n\n".join([heading(record), *blocks, *(["\n".join(lines)] if lines else []), summary(record)])


def cases(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[tuple[Any, ...], list[Mapping[str, Any]]]]:
    """((dtype, width, steps, batch), its rows) in the order of the record."""
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(_case_of(row), []).append(row)
    yield from found.items()


def bands_of(record: Mapping[str, Any], case: tuple[Any, ...]) -> list[Mapping[str, Any]]:
    """The predictions for a case."""
    return [band for band in record["predictions"] if _case_of(band) == case]


def baseline(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Samples per second of eager snnTorch as its tutorial has it; None where it was not timed."""
    return next((row["samples_per_s"] for row in rows if row["contestant"] == PEER), None)


def case_table(rows: Sequence[Mapping[str, Any]], bands: Sequence[Mapping[str, Any]] = ()) -> str:
    """The rows of one case, and under them what is predicted.

    "first s" is the first update, "x floor" the time over that of the floating-point operations, with the first layer
    computed once, at the rate of a large matrix product on the same device. "times snnTorch": of its eager samples per
    second.
    """
    dtype, width, steps, batch = _case_of(rows[0])
    title = f"measured: 784-{width}-10, {dtype}, T = {steps}, batch {batch}"
    slow = baseline(rows)
    lines = text_table(_HEAD, [_cells(row, slow) for row in rows])
    lines += [
        f"predicted, never run: {band['chip']} ({band['precision']}) {band['low']:,.0f} to {band['high']:,.0f} "
        f"samples/s, likely {band['likely']:,.0f}"
        for band in bands
    ]
    return "\n".join([title, *lines])


def summary(record: Mapping[str, Any]) -> str:
    """For the tutorial's size: who is how much faster than eager snnTorch; and what was published."""
    size = record["arguments"]["width"], record["arguments"]["steps"], record["arguments"]["batch"]
    lines = []
    for (dtype, *rest), rows in cases(record["rows"]):
        if tuple(rest) == size and (said := _ratios(rows)):
            lines.append(f"784-{size[0]}-10, batch {size[2]}, {dtype}, on one and the same device: {said}")
    return "\n".join([*lines, *claims(record)])


def claims(record: Mapping[str, Any]) -> list[str]:
    """The published ratios, a line each."""
    lines = []
    for claim in record["claims"]:
        mark = "derived from published times" if claim["derived"] else "published"
        lines.append(
            f"{mark}, not measured here: {claim['said']} times: {claim['what']} ({claim['source']}, {claim['url']})"
        )
    return lines


def skip_line(skip: Mapping[str, Any]) -> str:
    """Who was not timed or predicted, where, and why."""
    where = f" ({skip['dtype']}, 784-{skip['width']}-10, batch {skip['batch']})" if "net" in skip else ""
    return f"{skip['contestant']}{where}: {skip['reason']}"


def _ratios(rows: Sequence[Mapping[str, Any]]) -> str:
    """The fastest of ours against eager snnTorch: as everybody runs it, and with the first layer run equally often."""
    mine = [row for row in rows if row["library"] == OURS]
    slow = baseline(rows)
    if slow is None or not mine:
        return ""
    best = max(mine, key=lambda row: row["samples_per_s"])
    parts = [f"{best['samples_per_s'] / slow:.2f} times the samples/s of eager snnTorch ({best['contestant']})"]
    often = [row["samples_per_s"] for row in mine if "every step" in row["contestant"]]
    if often:
        parts.append(f"{max(often) / slow:.2f} times with layer 1 in every step for both")
    once = next((row["samples_per_s"] for row in rows if row["contestant"] == f"{PEER}, layer 1 once"), None)
    if once is not None:
        parts.append(f"{best['samples_per_s'] / once:.2f} times with it once for both")
    return ", ".join(parts)


def _case_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[key] for key in _CASE)


def _cells(row: Mapping[str, Any], slow: float | None) -> tuple[str, ...]:
    own = (f"{row['over_floor']:.2f}", megabytes(row.get("peak_bytes")))
    return (*throughput(row), *own, times(row["samples_per_s"], slow))
