"""Whole networks in training: samples per second, ours beside SpikingJelly, snnTorch and Norse.

    snnkit bench training --net conv --width 32
    python -m snnkit.bench.training --net mlp            # the same for the dense one

Everybody gets the same weights, batch, loss and optimizer; an update is compared with that of our eager engine before
the clock starts, and all take turns in the same run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..device.precision import Precision
from . import record, training_table
from .training_command import training as main
from .training_contestants import OURS, Contestant, ours
from .training_measure import measure
from .training_nets import Workload, conv, dense
from .training_peers import EQUATIONS, peers


@dataclass(frozen=True)
class Arguments:
    """What to run. ``snnkit bench training`` has an option for each, and the defaults.

    Attributes:
        nets: some of "conv", "mlp".
        width: channels of the conv net; the dense one has ``hidden`` neurons.
        dtypes: "float32", and "amp" for what mixed precision takes on the device.
        compiled: whether contestants under torch.compile take part.
    """

    device: str
    nets: Sequence[str]
    width: int
    hidden: int
    batch: int
    dtypes: Sequence[str]
    peers: bool
    compiled: bool
    repeats: int

    def workloads(self) -> Iterator[Workload]:
        if "conv" in self.nets:
            yield conv(self.width, self.batch)
        if "mlp" in self.nets:
            for equation in EQUATIONS.values():
                yield dense(equation, self.hidden, self.batch)


def benchmark(
    arguments: Arguments, say: Callable[[str], object] = print, out: str | Path | None = None
) -> dict[str, Any]:
    """Measure every network in every dtype and give back the record.

    Args:
        arguments: what to run.
        say: takes the tables as text, one when each case is done, and the ratios at the end.
        out: file for the record, written after each case (with ``complete`` false until the end).
    """
    device = torch.device(arguments.device)
    result = record.begin("training", device, arguments, matmuls=[])
    say(training_table.heading(result | {"complete": True}))
    for workload in arguments.workloads():
        taking_part = list(_contestants(workload, device, arguments))
        if workload.equation not in ("IF", "Leaky") and all(c.library == OURS for c in taking_part):
            continue  # an equation that is there for a peer alone
        for dtype in arguments.dtypes:
            precision = Precision.choose(device, dtype == "amp")
            outcome = measure(workload, precision, taking_part, arguments.repeats)
            result["rows"] += outcome.rows
            result["skipped"] += outcome.skipped
            if outcome.rows:
                result["matmuls"].append(outcome.matmul)
                say("\n" + training_table.case_table(outcome.rows, outcome.matmul))
            for skip in outcome.skipped:
                say(f"not timed: {training_table.skip_line(skip)}")
            if out is not None:
                record.write(out, result)
    result["complete"] = True
    if ratios := training_table.ratios(result["rows"]):
        say("\n" + ratios)
    if out is not None:
        record.write(out, result)
    return result


def _contestants(workload: Workload, device: torch.device, arguments: Arguments) -> Iterator[Contestant]:
    for contestant in ours(workload, device):
        if arguments.compiled or not contestant.compiles:
            yield contestant
    if arguments.peers:
        for contestant in peers(workload, device):
            if arguments.compiled or not contestant.compiles:
                yield contestant


if __name__ == "__main__":
    main()
