"""A record as text: where its numbers come from, then one table for each mode, dtype and size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..tables import text_table
from . import local, recipes

_CASE = ("mode", "dtype", "neurons", "steps")
_HEAD = ("contestant", "equation", "ms", "10-90 %", "host ms", "first s", "x floor", "held B", "peak MB", "x ours")


def heading(record: Mapping[str, Any]) -> str:
    """What was measured where, in a few lines."""
    origin = record["provenance"]
    if record["kind"] == "published":
        labels = ("source", "url", "hardware", "what", "statistic")
        return "\n".join([*(f"{label}: {origin[label]}" for label in labels), "Published figures, not measured here."])
    device, versions = origin["device"], origin["versions"]
    facts = [device["name"]]
    if device.get("compute_capability"):
        facts.append(f"sm_{device['compute_capability'].replace('.', '')}, driver {device.get('driver')}")
    if device["type"] == "cpu":
        facts.append(f"{origin['threads']} thread(s)")
    lines = [f"device: {', '.join(facts)}"]
    lines.append(f"versions: {', '.join(f'{name} {version}' for name, version in versions.items())}")
    commit = origin.get("commit")
    if commit:
        lines.append(f"commit: {commit['id'][:12]}{' with changes that are not committed' if commit['dirty'] else ''}")
    lines.append(f"date: {origin['date']}{'' if record.get('complete', True) else ' (interrupted: not complete)'}")
    return "\n".join(lines)


def tables(record: Mapping[str, Any]) -> str:
    """The whole record."""
    if record["kind"] == "recipe":
        return f"{heading(record)}\n\n{recipes.table(record)}"
    if record["kind"] == "local":
        return f"{heading(record)}\n\n{local.table(record)}"
    blocks = [case_table(rows, _copy_of(record, case)) for case, rows in cases(record["rows"])]
    lines = [f"not timed: {skip_line(skip)}" for skip in record.get("skipped", [])]
    return "\n\n".join([heading(record), *blocks, *(["\n".join(lines)] if lines else [])])


def cases(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[tuple[Any, ...], list[Mapping[str, Any]]]]:
    """((mode, dtype, neurons, steps), its rows) in the order of the record."""
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in _CASE), []).append(row)
    yield from found.items()


def case_table(rows: Sequence[Mapping[str, Any]], copy: Mapping[str, Any] | None = None) -> str:
    """The rows of one case.

    "host ms" is how long the call kept the host (on CUDA, where the device works on meanwhile). "first s" is the first
    call here, which may find kernels that other sizes or earlier runs left in memory and on disk. "x floor" is the time
    over that of the bytes in ``floor``, "held B" the bytes per neuron-step kept for backward (``memory``). "x ours" is
    the time over that of the fastest of our compiled engines on the same equation with the same output.
    """
    mode, dtype, neurons, steps = (rows[0][key] for key in _CASE)
    title = f"{mode}, {dtype}, N = {neurons:,}, T = {steps}"
    if copy:
        title += f"; copy of x: {copy['median_s'] * 1e3:.3g} ms, {copy['bytes_per_s'] / 1e9:.3g} GB/s"
    return "\n".join([title, *text_table(_HEAD, [_cells(row, rows) for row in rows], left=2, always=3)])


def skip_line(skip: Mapping[str, Any]) -> str:
    """Who was not timed, where, and why."""
    where = (
        f" ({skip['mode']}, {skip['dtype']}, N = {skip['neurons']:,}, T = {skip['steps']})" if "mode" in skip else ""
    )
    equation = f" {skip['equation']}" if skip.get("equation") else ""
    return f"{skip['contestant']}{equation}{where}: {skip['reason']}"


def _cells(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    if "median_s" not in row:
        return (row["contestant"], row["equation"], f"{row['seconds'] * 1e3:.4g}", *[""] * (len(_HEAD) - 3))
    elements = row["neurons"] * row["steps"]
    peak = row.get("peak_bytes")
    best = _best_of_ours(row, rows)
    return (
        row["contestant"],
        row["equation"],
        f"{row['median_s'] * 1e3:.4g}",
        f"{row['p10_s'] * 1e3:.4g} - {row['p90_s'] * 1e3:.4g}",
        "" if row["host_s"] == row["median_s"] else f"{row['host_s'] * 1e3:.3g}",
        f"{row['first_s']:.3g}",
        f"{row['over_floor']:.2f}",
        f"{row['held_bytes'] / elements:.1f}" if row["mode"] == "training" else "",
        "" if peak is None else f"{peak / 2**20:.0f}",
        "" if best is None else f"{row['median_s'] / best:.2f}",
    )


def _best_of_ours(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Median of our fastest engine for the equation of ``row``, the reference aside."""
    ours = [r for r in rows if r["library"] == "snnkit" and r["equation"] == row["equation"]]
    plain = [r["median_s"] for r in ours if r["engine"] != "eager" and r["floor_bytes"] == row["floor_bytes"]]
    return min(plain, default=None)


def _copy_of(record: Mapping[str, Any], case: tuple[Any, ...]) -> Mapping[str, Any] | None:
    return next((copy for copy in record.get("copies", []) if tuple(copy[key] for key in _CASE) == case), None)
