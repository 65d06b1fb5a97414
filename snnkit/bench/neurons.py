"""SpikingJelly's experiment and more: one layer of neurons over time, engine beside engine and beside the peers.

    snnkit bench neurons --neurons 262144 --steps 32
    python -m snnkit.bench.neurons --neurons 262144 --steps 32      # the same

Inference and training are timed apart. Everybody gets the same input, and is compared with our eager engine before the
clock starts. Each peer has an equation of its own, and our engines run on that one, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ..measure.machine import provenance
from . import record, table
from .command import neurons as main
from .contestants import contestants
from .measure import Case, measure


@dataclass(frozen=True)
class Arguments:
    """What to run. ``snnkit bench neurons`` has an option for each, and the defaults."""

    device: str
    neurons: Sequence[int]
    steps: Sequence[int]
    dtypes: Sequence[str]
    modes: Sequence[str]
    engines: Sequence[str] | None
    peers: bool
    repeats: int

    def cases(self) -> Iterator[Case]:
        """Every combination, from small to large."""
        for neurons in sorted(self.neurons):
            for steps in sorted(self.steps):
                for dtype in self.dtypes:
                    for mode in self.modes:
                        yield Case(neurons, steps, getattr(torch, dtype), mode, torch.device(self.device))


def benchmark(
    arguments: Arguments, say: Callable[[str], object] = print, out: str | Path | None = None
) -> dict[str, Any]:
    """Measure every case and give back the record.

    Args:
        arguments: what to run.
        say: takes the tables as text, one when each case is done.
        out: file for the record. It is written after each case, so that what was measured before an interruption is
            kept (with ``complete`` false).
    """
    device = torch.device(arguments.device)
    taking_part, left_out = contestants(device, arguments.engines, arguments.peers)
    result: dict[str, Any] = {
        "schema": record.SCHEMA,
        "kind": "neurons",
        "complete": False,
        "provenance": provenance(device),
        "arguments": asdict(arguments),
        "copies": [],
        "rows": [],
        "skipped": [{"contestant": name, "reason": reason} for name, reason in left_out.items()],
    }
    say(table.heading(result | {"complete": True}))
    for skip in result["skipped"]:
        say(f"not timed: {table.skip_line(skip)}")
    fell_back: dict[Any, str] = {}
    for case in arguments.cases():
        outcome = measure(case, taking_part, arguments.repeats, fell_back)
        result["rows"] += outcome.rows
        result["skipped"] += outcome.skipped
        if outcome.rows:
            result["copies"].append(outcome.copy)
            say("\n" + table.case_table(outcome.rows, outcome.copy))
        for skip in outcome.skipped:
            say(f"not timed: {table.skip_line(skip)}")
        if out is not None:
            record.write(out, result)
    result["complete"] = True
    if out is not None:
        record.write(out, result)
    return result


if __name__ == "__main__":
    main()
