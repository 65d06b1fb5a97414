"""A record of kind "scaling" as text: what was predicted, what was measured, and how far the model is off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .scaling_model import TOGETHER, fitted, measured, model_of, predicted
from .table import heading

__all__ = ["heading", "prediction", "results", "tables"]

_HEAD = (
    "ranks",
    "samples/s",
    "ms",
    "10-90 %",
    "efficiency",
    "predicted",
    "fitted",
    "off",
    "unseen",
    "launch s",
    "ready s",
)


def tables(record: Mapping[str, Any]) -> str:
    """The whole record."""
    return "\n\n".join([heading(record), prediction(record), results(record)])


def prediction(record: Mapping[str, Any]) -> str:
    """What the model knew of the machine, and what it said."""
    workload, machine = model_of(record)
    link = machine.inside
    shared = f"{machine.cores} cores; " if machine.cores else ""
    lines = [
        f"{workload.name}, T = {record['arguments']['steps']}, batch {workload.samples} per rank, "
        f"{workload.gradient_bytes / 1e6:.3g} MB of gradients",
        f"alone {workload.step_s * 1e3:.4g} ms an update; {shared}a busy neighbour costs {machine.sharing:.1%}; "
        f"all-reduce: {link.latency * 1e6:.3g} µs a step, {link.bandwidth / 1e9:.3g} GB/s",
    ]
    for p in predicted(record):
        if p.ranks > 1:
            lines.append(
                f"predicted for {p.ranks} ranks: {p.efficiency:.1%} (computing {p.compute_s * 1e3:.4g} ms, waiting for "
                f"gradients {p.exposed_s * 1e3:.3g} ms)"
            )
    return "\n".join(lines)


def results(record: Mapping[str, Any]) -> str:
    """The ranks that trained together, beside what was predicted and fitted.

    "predicted" was said before they were measured. "off" is the fitted model's error in the seconds of an update, and
    "unseen" that of a fit to the other numbers of ranks alone. "launch s" is what starting the processes and seeing
    them end took, "ready s" the time from there to the first update's end: imports, and meeting each other.
    """
    rows = sorted((row for row in record["rows"] if row["mode"] == TOGETHER), key=lambda row: row["ranks"])
    before = {p.ranks: p.efficiency for p in predicted(record)}
    base = next(row["median_s"] for row in rows if row["ranks"] == 1)
    fit = fitted(record) if any(m.ranks > 1 for m in measured(record)) else None
    cells: list[Sequence[str]] = [_HEAD]
    for row in rows:
        n = row["ranks"]
        cells.append(
            (
                str(n),
                f"{row['samples_per_s']:,.0f}",
                f"{row['median_s'] * 1e3:.4g}",
                f"{row['p10_s'] * 1e3:.4g} - {row['p90_s'] * 1e3:.4g}",
                f"{base / row['median_s']:.1%}",
                f"{before[n]:.1%}",
                f"{fit.predict(n).efficiency:.1%}" if fit else "",
                f"{fit.residuals[n]:+.1%}" if fit and n in fit.residuals else "",
                f"{fit.left_out[n]:+.1%}" if fit and n in fit.left_out else "",
                f"{row['launch_s']:.3g}",
                f"{row['ready_s']:.3g}",
            )
        )
    lines = ["Weak scaling; efficiency: seconds of an update alone over those of ranks together", *_aligned(cells)]
    for row in record["rows"]:
        if row["mode"] != TOGETHER:
            lines.append(
                f"{row['ranks']} ranks side by side, not together: {row['median_s'] * 1e3:.4g} ms, "
                f"{base / row['median_s']:.1%}"
            )
    return "\n".join(lines)


def _aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    used = [i for i in range(len(cells[0])) if any(line[i] for line in cells[1:])]
    widths = {i: max(len(line[i]) for line in cells) for i in used}
    return ["  ".join(line[i].rjust(widths[i]) for i in used) for line in cells]
