"""IPU against what is here: the network of snnTorch's IPU tutorial, measured, predicted and as published.

    snnkit bench compare --out FILE.json --plot FILE.png

Everybody trains from the same weights on the same batch with the same loss and optimizer, and takes turns in the same
run; one update is compared with that of our eager engine before the clock starts. IPUs are predicted by
``hardware.roofline``; none was run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ..device.precision import Precision
from ..hardware import chips
from . import compare_contestants, compare_table, record
from .compare_claims import CLAIMS
from .compare_command import compare as main
from .compare_predictions import predictions
from .training_contestants import Contestant
from .training_measure import labels_of, measure
from .training_nets import Workload


@dataclass(frozen=True)
class Arguments:
    """What to run. ``snnkit bench compare`` has an option for each, and the defaults.

    Attributes:
        batches: with ``width`` hidden neurons.
        hidden: with a batch of ``batch``.
        batch, width: of the tutorial.
        dtypes: "float32", and "amp" for what mixed precision takes on the device.
        chips: IPUs to predict.
    """

    device: str
    batches: Sequence[int]
    hidden: Sequence[int]
    batch: int
    width: int
    steps: int
    dtypes: Sequence[str]
    chips: Sequence[str]
    peers: bool
    repeats: int

    def workloads(self) -> Iterator[Workload]:
        sizes = [*((batch, self.width) for batch in self.batches), *((self.batch, hidden) for hidden in self.hidden)]
        for batch, hidden in dict.fromkeys(sizes):
            yield compare_contestants.tutorial(hidden, batch, self.steps)


def check_chips(names: Sequence[str]) -> tuple[str, ...]:
    """Each once, as the catalogue calls it; ValueError unless all are IPUs."""
    found = [chips.get(name) for name in names]
    for chip in found:
        if chip.kind != "ipu":
            raise ValueError(f"chip must be an IPU, but {chip.name} is a {chip.kind.upper()}")
    return tuple(dict.fromkeys(chip.name for chip in found))


def benchmark(
    arguments: Arguments, say: Callable[[str], object] = print, out: str | Path | None = None
) -> dict[str, Any]:
    """Measure and predict every size in every dtype and give back the record.

    Args:
        arguments: what to run.
        say: takes the tables as text, one when each case is done, and the ratios at the end.
        out: file for the record, written after each case (with ``complete`` false until the end).

    Raises:
        ValueError: an unknown chip, or one that is no IPU.
    """
    arguments = replace(arguments, chips=check_chips(arguments.chips))
    device = torch.device(arguments.device)
    claims = [asdict(claim) for claim in CLAIMS]
    result = record.begin("compare", device, arguments, matmuls=[], predictions=[], claims=claims)
    missing = compare_contestants.left_out(device)
    result["skipped"] += [{"contestant": engine, "reason": reason} for engine, reason in missing.items()]
    say(compare_table.heading(result | {"complete": True}))
    for skip in result["skipped"]:
        say(f"not timed: {compare_table.skip_line(skip)}")
    for workload in arguments.workloads():
        taking_part = list(compare_contestants.contestants(device, workload, arguments.peers))
        for dtype in arguments.dtypes:
            _case(result, workload, Precision.choose(device, dtype == "amp"), taking_part, arguments, say)
            if out is not None:
                record.write(out, result)
    result["complete"] = True
    say("\n" + compare_table.summary(result))
    if out is not None:
        record.write(out, result)
    return result


def _case(
    result: dict[str, Any],
    workload: Workload,
    precision: Precision,
    taking_part: Sequence[Contestant],
    arguments: Arguments,
    say: Callable[[str], object],
) -> None:
    labels = labels_of(workload, precision)
    outcome = measure(workload, precision, taking_part, arguments.repeats)
    bands, missing = predictions(workload, labels["dtype"], arguments.chips)
    bands = [labels | band for band in bands]
    skipped = [*outcome.skipped, *(labels | {"contestant": c, "reason": reason} for c, reason in missing.items())]
    result["rows"] += outcome.rows
    result["predictions"] += bands
    result["skipped"] += skipped
    if outcome.rows:
        result["matmuls"].append(outcome.matmul)
        say("\n" + compare_table.case_table(outcome.rows, bands))
    for skip in skipped:
        say(f"not timed: {compare_table.skip_line(skip)}")


__all__ = ["Arguments", "benchmark", "check_chips", "main"]

if __name__ == "__main__":
    main()
