"""The scaling model for a record of kind "scaling": what was predicted before, and the fit to what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..hardware import scaling

TOGETHER, APART = "together", "apart"


def model_of(record: Mapping[str, Any]) -> tuple[scaling.Workload, scaling.Cluster]:
    """The workload and the machine as they were known before any ranks trained together."""
    machine, arguments = record["machine"], record["arguments"]
    source = "measured by `snnkit bench scaling`: all-reduces of 1 kB to 17 MB"
    link = scaling.Link("this machine", machine["bytes_per_s"], machine["latency_s"], source)
    here = scaling.this_machine(machine["cores"], link=link, sharing=machine["sharing"])
    if arguments["device"] == "cuda":
        here = here.with_settings(cores=None, overlap=1.0)
    name = f"784-{arguments['hidden']}-10"
    return scaling.Workload(name, arguments["batch"], machine["step_s"], machine["gradient_bytes"]), here


def measured(record: Mapping[str, Any]) -> list[scaling.Measured]:
    """Seconds of an update of ranks together, one for each round."""
    together = (row for row in record["rows"] if row["mode"] == TOGETHER)
    return [scaling.Measured(row["ranks"], s) for row in together for s in row["rounds_s"]]


def predicted(record: Mapping[str, Any]) -> list[scaling.Prediction]:
    """What ``model_of`` says about the numbers of ranks that were asked for."""
    return scaling.curve(*model_of(record), sorted(record["arguments"]["ranks"]))


def fitted(record: Mapping[str, Any]) -> scaling.Fit:
    """The model fitted to all rounds. ValueError where no ranks were measured together."""
    return scaling.fit(measured(record), *model_of(record))
