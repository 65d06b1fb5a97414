"""A record of kind "training" as text: a table for each network and dtype, and who is how much faster than whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..tables import text_table
from .columns import THROUGHPUT, megabytes, throughput, times
from .table import heading

__all__ = ["case_table", "cases", "heading", "ratios", "skip_line", "tables"]

_CASE = ("net", "equation", "dtype", "width", "steps", "batch")
_HEAD = (*THROUGHPUT, "ready s", "x floor", "peak MB", "x ours")
OURS = "snnkit"


def tables(record: Mapping[str, Any]) -> str:
    """The whole record."""
    blocks = [case_table(rows, _matmul_of(record, case)) for case, rows in cases(record["rows"])]
    lines = [f"not timed: {skip_line(skip)}" for skip in record.get("skipped", [])]
    parts = [heading(record), *blocks, *(["\n".join(lines)] if lines else []), ratios(record["rows"])]
    return "\n\n".join(part for part in parts if part)


def cases(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[tuple[Any, ...], list[Mapping[str, Any]]]]:
    """((net, equation, dtype, width, steps, batch), its rows) in the order of the record."""
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in _CASE), []).append(row)
    yield from found.items()


def case_table(rows: Sequence[Mapping[str, Any]], matmul: Mapping[str, Any] | None = None) -> str:
    """The rows of one case.

    "first s" is the first update, "ready s" the time until steps are as fast as they get: making the network, and its
    first six updates, in which compilers run and graphs are recorded. "x floor" is the time over that of the floating-
    point operations of all layers at the rate of a large matrix product on the same device. "x ours" is the time over
    that of our fastest setting.
    """
    net, equation, dtype, width, steps, batch = (rows[0][key] for key in _CASE)
    title = f"{net} ({equation} neurons), {dtype}, width {width}, T = {steps}, batch {batch}"
    title += f"; {rows[0]['floor_flops'] / 1e9:.3g} GFLOP per update"
    if matmul:
        title += f"; matrix product: {matmul['flops_per_s'] / 1e12:.3g} TFLOP/s"
    best = min((row["median_s"] for row in rows if row["library"] == OURS), default=None)
    return "\n".join([title, *text_table(_HEAD, [_cells(row, best) for row in rows])])


def skip_line(skip: Mapping[str, Any]) -> str:
    """Who was not timed, where, and why."""
    where = f" ({skip['net']}, {skip['equation']}, {skip['dtype']})" if "net" in skip else ""
    return f"{skip['contestant']}{where}: {skip['reason']}"


def ratios(rows: Sequence[Mapping[str, Any]]) -> str:
    """For each network and peer: how many times its samples per second ours are, dtype by dtype and best by best."""
    lines = []
    for net, equation in dict.fromkeys((row["net"], row["equation"]) for row in rows):
        here = [row for row in rows if (row["net"], row["equation"]) == (net, equation)]
        mine = [row for row in here if row["library"] == OURS]
        for peer in dict.fromkeys(row["library"] for row in here if row["library"] != OURS):
            theirs = [row for row in here if row["library"] == peer]
            parts = [
                f"{_ratio(_of(mine, dtype), _of(theirs, dtype)):.2f} ({dtype})"
                for dtype in dict.fromkeys(row["dtype"] for row in here)
                if _of(mine, dtype) and _of(theirs, dtype)
            ]
            if not mine or not parts:
                continue
            parts.append(f"{_ratio(mine, theirs):.2f} (any dtype)")
            if unasked := [row for row in theirs if row["default"]]:
                slow = next((row for row in unasked if row["dtype"] == "float32"), unasked[0])
                same = _of(mine, slow["dtype"]) or mine
                parts.append(f"{_ratio(same, [slow]):.2f} (over its default, {slow['dtype']})")
            lines.append(f"{net} ({equation}): samples/s over {peer}'s, best setting by best: {', '.join(parts)}")
    return "\n".join(lines)


def _of(rows: Sequence[Mapping[str, Any]], dtype: str) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["dtype"] == dtype]


def _ratio(mine: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> float:
    return max(row["samples_per_s"] for row in mine) / max(row["samples_per_s"] for row in theirs)


def _cells(row: Mapping[str, Any], best: float | None) -> tuple[str, ...]:
    own = (f"{row['ready_s']:.3g}", f"{row['over_floor']:.2f}", megabytes(row.get("peak_bytes")))
    return (*throughput(row), *own, times(row["median_s"], best))


def _matmul_of(record: Mapping[str, Any], case: tuple[Any, ...]) -> Mapping[str, Any] | None:
    return next((m for m in record.get("matmuls", []) if tuple(m[key] for key in _CASE) == case), None)
