"""One piece of work on this CPU, on this GPU and in the records, as bars; a device that is missing leaves a gap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .. import checks, records
from ..measure import clock_for, first_call, race

_NAMES = {"cpu": "CPU", "cuda": "GPU"}


@checks.arguments
def places(
    work: Callable[[torch.device], Callable[[], object]], kind: str, *, repeats: int = 5, **wanted: Any
) -> dict[str, dict[str, float]]:
    """Milliseconds of ``work`` here and as recorded, for ``viz.figures.shares``; empty where there is no such device.

    Args:
        work: given a device, it returns a function without arguments that does the work there.
        kind: of the records that count, such as "training".
        repeats: how often the work is timed, at least 3; the median counts.
        wanted: of their rows, those with these values, such as ``net="mlp"``; of each record the fastest.
    """
    bars: dict[str, dict[str, float]] = {}
    for kind_of, name in _NAMES.items():
        if kind_of == "cuda" and not torch.cuda.is_available():
            bars[f"this {name}: there is none"] = {}
            continue
        device = torch.device(kind_of)
        run = work(device)
        first_call(run, device)
        bars[f"this {name}"] = {"time": 1e3 * race({"": run}, repeats, clock=clock_for(device))[""].median}
    for kind_of, name in _NAMES.items():
        loaded = [record for record in map(records.load, records.names(kind)) if _where(record)["type"] == kind_of]
        for record in loaded:
            rows = [row for row in record["rows"] if all(row.get(key) == value for key, value in wanted.items())]
            if rows:
                label = f"recorded: {_where(record)['name']}"
                bars[label] = {"time": 1e3 * min(row["median_s"] for row in rows)}
        if not loaded:
            bars[f"recorded {name}: none comes with the kit"] = {}
    return bars


def _where(record: Any) -> dict[str, Any]:
    return record["provenance"]["device"]
