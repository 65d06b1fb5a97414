"""Weak scaling: the share of their speed that processes on this machine retain when they train one network together.

    snnkit bench scaling --out scaling.json --plot scaling.png

Each rank trains 784-1000-10 on its own 256 samples of an update, through Lightning, as users do. Before they train
together, ``hardware.scaling`` predicts the result from one rank alone, all-reduces alone, and ranks side by side that
do not communicate.

Columns: "predicted" was printed before ranks were measured together. "off" is its error in the seconds of an update.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from snnkit import checks
from snnkit.lab.bench import suite
from snnkit.lab.bench.scaling_worker import ANSWER
from snnkit.lab.bench.suite import Record, Row, option
from snnkit.lab.hardware import scaling as model
from snnkit.measure.machine import cores
from snnkit.train import launch

TOGETHER, APART = "together", "apart"
_FLOAT = 4  # bytes of a gradient
_LIMIT = 600.0  # seconds for one launch; after them, it counts as hanging


@checks.arguments
@dataclass(frozen=True)
class Arguments(suite.Options):
    """What to run; the options of ``snnkit bench scaling``."""

    device: str = option("Where to measure.", "cpu", choices=("cpu", "cuda"))
    ranks: Sequence[int] = option(
        "Processes that train together; 1 is always among them.",
        (1, 2, 4),
        cuda=tuple(n for n in (1, 2, 4) if n <= torch.cuda.device_count()),
    )
    hidden: int = option("Hidden neurons.", 1000, quick=16)
    steps: int = option("Time steps.", 25, quick=4)
    batch: int = option("Samples of a rank in an update.", 256, quick=8)
    updates: int = option("Timed in each round, after the warm-up.", 60, quick=5, least=3)
    repeats: int = suite.repeats_option(5, least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if max(self.ranks) == 1:
            raise ValueError("--ranks must have a number above 1: one rank alone does not scale")
        devices = torch.cuda.device_count()
        if self.device == "cuda" and max(self.ranks) > devices:
            raise ValueError(f"--ranks must be at most {devices}, the CUDA devices here, but it is {max(self.ranks)}")


def benchmark(arguments: Arguments, say: suite.Say = print, out: str | Path | None = None) -> Row:
    """Predict, measure, and return the record; ``out`` is a file for it, written after each round.

    ``say`` gets the results as text: the prediction comes before the first measurement of ranks together. LaunchError
    if a process failed, with its number and last lines.
    """
    suite.check_out(out)
    several = sorted({1, *arguments.ranks})[1:]
    options = asdict(arguments) | {"ranks": [1, *several]}
    record = suite.begin("scaling", torch.device(arguments.device), options)
    say(suite.heading(record | {"complete": True}))
    answers: dict[tuple[str, int], list[Row]] = {}

    def measure(mode: str, n: int) -> None:
        sizes = [word for name in ("hidden", "steps", "batch", "updates") for word in (f"--{name}", options[name])]
        words = ["updates", *sizes, *(["--apart"] if mode == APART else [])]
        answers.setdefault((mode, n), []).append(_worker(arguments.device, n, *words))
        record["rows"] = [_row(arguments, mode, ranks, given) for (mode, ranks), given in answers.items()]

    record["links"] = [
        {"ranks": n, "bytes": size, "median_s": seconds}
        for n in several
        for size, seconds in _worker(arguments.device, n, "links")["links"]
    ]
    measure(TOGETHER, 1)
    measure(APART, several[0])
    record["machine"] = _machine(arguments.device, record["rows"], record["links"])
    say("\n" + prediction(record))
    for _ in range(arguments.repeats):
        for mode, n in ((TOGETHER, 1), (APART, several[0]), *((TOGETHER, n) for n in several)):
            measure(mode, n)
        suite.save(record, out)
    record["complete"] = True
    say("\n" + results(record))
    suite.save(record, out)
    return record


def _worker(device: str, ranks: int, *words: Any) -> Row:
    """What rank 0 printed."""
    command = [sys.executable, "-m", "snnkit.lab.bench.scaling_worker", *map(str, words), "--device", device]
    lines = launch(command, ranks, timeout=_LIMIT).outputs[0]
    return json.loads([line for line in lines if line.startswith(ANSWER)][-1].removeprefix(ANSWER))


def _row(arguments: Arguments, mode: str, ranks: int, answers: Sequence[Row]) -> Row:
    rounds = [statistics.median(answer["seconds"]) for answer in answers]
    cuts = statistics.quantiles([s for answer in answers for s in answer["seconds"]], n=10, method="inclusive")
    median = statistics.median(rounds)
    return {
        "mode": mode,
        "ranks": ranks,
        "batch": arguments.batch,
        "steps": arguments.steps,
        "parameters": answers[0]["parameters"],
        "median_s": median,
        "p10_s": cuts[0],
        "p90_s": cuts[-1],
        "samples_per_s": arguments.batch * ranks / median,
        "rounds_s": rounds,
    }


def _machine(device: str, rows: Sequence[Row], links: Sequence[Row]) -> Row:
    """The facts of this machine for the prediction, none of them from ranks that train together."""
    alone, beside = rows
    ranks, slower = beside["ranks"], beside["median_s"] / alone["median_s"]
    turns = 1.0 if device == "cuda" else max(1.0, ranks / cores())
    measured = [(row["ranks"], row["bytes"], row["median_s"]) for row in links]
    link = model.fit_link("this machine", measured, "all-reduces measured here")
    return {
        "cores": cores(),
        "step_s": alone["median_s"],
        "gradient_bytes": _FLOAT * alone["parameters"],
        # By how much each busy neighbour slows a rank down: hardware's ``slowdown``, the other way round.
        "sharing": max(slower / turns - 1, 0.0) / max(ranks / turns - 1, 1.0),
        "bytes_per_s": link.bandwidth,
        "latency_s": link.latency,
    }


def model_of(record: Record) -> tuple[model.Workload, model.Cluster]:
    """The workload and the machine as known before any ranks trained together."""
    machine, options = record["machine"], record["arguments"]
    source = "measured by `snnkit bench scaling`: all-reduces of 1 kB to 17 MB"
    link = model.Link("this machine", machine["bytes_per_s"], machine["latency_s"], source)
    here = model.this_machine(machine["cores"], link=link, sharing=machine["sharing"])
    if options["device"] == "cuda":
        here = here.with_settings(cores=None, overlap=1.0)
    name = f"784-{options['hidden']}-10"
    return model.Workload(name, options["batch"], machine["step_s"], machine["gradient_bytes"]), here


def predicted(record: Record) -> list[model.Prediction]:
    """The predictions of ``model_of`` for the requested numbers of ranks."""
    return model.curve(*model_of(record), sorted(record["arguments"]["ranks"]))


def curves(record: Record) -> tuple[Sequence[model.Measured], dict[str, Any], int | None]:
    """For ``viz.figures.scaling_efficiency``: measurements, the predicted line, and the cores."""
    workload, machine = model_of(record)
    together = (row for row in record["rows"] if row["mode"] == TOGETHER)
    measured = [model.Measured(row["ranks"], seconds) for row in together for seconds in row["rounds_s"]]
    ranks = range(1, 2 * max(record["arguments"]["ranks"]) + 1)
    return measured, {"predicted": model.curve(workload, machine, ranks)}, machine.cores


@checks.arguments
def tables(record: Record) -> str:
    """The whole record as text."""
    return "\n\n".join([suite.heading(record), prediction(record), results(record)])


def prediction(record: Record) -> str:
    """The model's facts about the machine, and its predictions."""
    workload, machine = model_of(record)
    link = machine.inside
    shared = f"{machine.cores} cores; " if machine.cores else ""
    lines = [
        f"{workload.name}, T = {record['arguments']['steps']}, batch {workload.samples} per rank, "
        f"{workload.gradient_bytes / 1e6:.3g} MB of gradients",
        f"alone {workload.step_s * 1e3:.4g} ms an update; {shared}a busy neighbour costs {machine.sharing:.1%}; "
        f"all-reduce: {link.latency * 1e6:.3g} µs a step, {link.bandwidth / 1e9:.3g} GB/s",
    ]
    lines += [
        f"predicted for {p.ranks} ranks: {p.efficiency:.1%} (computing {p.compute_s * 1e3:.4g} ms, waiting for "
        f"gradients {p.exposed_s * 1e3:.3g} ms)"
        for p in predicted(record)
        if p.ranks > 1
    ]
    return "\n".join(lines)


def results(record: Record) -> str:
    """The ranks that trained together, beside their predictions."""
    rows = sorted((row for row in record["rows"] if row["mode"] == TOGETHER), key=lambda row: row["ranks"])
    before = {p.ranks: p for p in predicted(record)}
    base = rows[0]["median_s"]
    columns = {
        "ranks": lambda row: str(row["ranks"]),
        **suite.columns("samples/s", "ms", "10-90 %"),
        "efficiency": lambda row: f"{base / row['median_s']:.1%}",
        "predicted": lambda row: f"{before[row['ranks']].efficiency:.1%}",
        "off": lambda row: f"{before[row['ranks']].step_s / row['median_s'] - 1:+.1%}",
    }
    title = "Weak scaling; efficiency: seconds of an update alone over those of ranks together"
    apart = [
        f"{row['ranks']} ranks side by side, not together: {row['median_s'] * 1e3:.4g} ms, {base / row['median_s']:.1%}"
        for row in record["rows"]
        if row["mode"] != TOGETHER
    ]
    return "\n".join([suite.table(title, columns, rows, left=0), *apart])
