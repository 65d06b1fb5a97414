"""A record of kind "demo" as text: a table for each model, a column for each device and dtype."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .table import heading

__all__ = ["heading", "model_table", "skip_line", "tables"]


def tables(record: Mapping[str, Any]) -> str:
    """The whole record."""
    rows = record["rows"]
    blocks = [model_table([r for r in rows if r["model"] == name]) for name in dict.fromkeys(r["model"] for r in rows)]
    lines = [f"not timed: {skip_line(skip)}" for skip in record.get("skipped", [])]
    return "\n\n".join([heading(record), *blocks, *(["\n".join(lines)] if lines else [])])


def model_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Samples per second of one model. "GPU/CPU": of the fastest column of each."""
    columns = list(dict.fromkeys((row["device"], row["dtype"]) for row in rows))
    on_gpu = [c for c in columns if c[0] != "cpu"]
    compared = bool(on_gpu) and len(on_gpu) < len(columns)
    head = ["mode", "batch", *(f"{device} {dtype}" for device, dtype in columns), *(["GPU/CPU"] if compared else [])]
    cells = [head]
    for mode, batch in dict.fromkeys((row["mode"], row["batch"]) for row in rows):
        rates = {
            (r["device"], r["dtype"]): r["samples_per_s"] for r in rows if (r["mode"], r["batch"]) == (mode, batch)
        }
        line = [mode, str(batch), *(f"{rates[c]:,.0f}" if c in rates else "" for c in columns)]
        if compared:
            cpu = max((rate for c, rate in rates.items() if c[0] == "cpu"), default=None)
            gpu = max((rate for c, rate in rates.items() if c[0] != "cpu"), default=None)
            line.append(f"{gpu / cpu:.2f}" if cpu and gpu else "")
        cells.append(line)
    widths = [max(len(line[i]) for line in cells) for i in range(len(head))]
    title = f"{rows[0]['model']}, {rows[0]['parameters']:,} parameters, T = {rows[0]['steps']}; samples/s"
    lines = ["  ".join(c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True)))
             for line in cells]  # fmt: skip
    return "\n".join([title, *(line.rstrip() for line in lines)])


def skip_line(skip: Mapping[str, Any]) -> str:
    """What was not timed, and why."""
    return (
        f"{skip['model']} ({skip['mode']}, {skip['device']} {skip['dtype']}, batch {skip['batch']}): {skip['reason']}"
    )
