"""Weak scaling: how much of their speed processes on this machine retain when they train one network together.

    snnkit bench scaling --out scaling.json --plot scaling.png

Each rank trains 784-1000-10 on its own 256 samples of an update, through Lightning, as users do. Before they do it
together, ``hardware.scaling`` predicts what they will reach, from one rank alone, all-reduces alone and ranks side by
side that do not communicate; afterwards it is fitted to the measurements, and its error is stated.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ..hardware import scaling as model
from ..tables import text_table
from ..train import Launched, LaunchError, launch
from .scaling_worker import ANSWER
from .suite import Row, begin, heading, milliseconds, option, repeats_option, save

ERRORS = (LaunchError, ValueError)  # that a user can put right
TOGETHER, APART = "together", "apart"
_FLOAT = 4  # bytes of a gradient
_LIMIT = 600.0  # seconds for one launch, after which something hangs


@dataclass(frozen=True)
class Arguments:
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
    repeats: int = repeats_option(5, least=1)

    def __post_init__(self) -> None:
        if max(self.ranks) == 1:
            raise ValueError("--ranks must have a number above 1: one rank alone scales to nothing")
        devices = torch.cuda.device_count()
        if self.device == "cuda" and max(self.ranks) > devices:
            raise ValueError(f"--ranks must be at most {devices}, the CUDA devices here, but it is {max(self.ranks)}")


def benchmark(arguments: Arguments, say: Callable[[str], object] = print, out: str | Path | None = None) -> Row:
    """Predict, measure, fit, and return the record.

    Args:
        arguments: what to run.
        say: takes the results as text: the prediction before the first measurement of ranks together.
        out: file for the record, written after each round (with ``complete`` false until the end).

    Raises:
        LaunchError: a process failed; says which, and its last lines.
    """
    ranks = sorted({1, *arguments.ranks})
    options = asdict(arguments) | {"ranks": ranks}
    record = begin("scaling", torch.device(arguments.device), options, links=[])
    say(heading(record | {"complete": True}))
    several = ranks[1:]
    runs = _Runs(arguments)
    record["links"] = [row for n in several for row in runs.links(n)]
    runs.measure(TOGETHER, 1)
    runs.measure(APART, min(several))
    record["machine"] = _machine(arguments, runs, record["links"])
    record["rows"] = runs.rows()
    say("\n" + prediction(record))
    for _ in range(arguments.repeats):
        for mode, n in ((TOGETHER, 1), (APART, min(several)), *((TOGETHER, n) for n in several)):
            runs.measure(mode, n)
        record["rows"] = runs.rows()
        save(record, out)
    record["complete"] = True
    say("\n" + results(record))
    save(record, out)
    return record


class _Runs:
    """Launches workers and collects what they measured."""

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments
        self.answers: dict[tuple[str, int], list[dict[str, Any]]] = {}

    def measure(self, mode: str, ranks: int) -> None:
        a = self.arguments
        words = ["updates", "--hidden", a.hidden, "--steps", a.steps, "--batch", a.batch, "--updates", a.updates]
        self.answers.setdefault((mode, ranks), []).append(self._run(ranks, *words, *(["--apart"] * (mode == APART))))

    def links(self, ranks: int) -> list[Row]:
        return [{"ranks": ranks, "bytes": size, "median_s": s} for size, s in self._run(ranks, "links")["links"]]

    def rows(self) -> list[Row]:
        return [self._row(mode, ranks, answers) for (mode, ranks), answers in self.answers.items()]

    def _run(self, ranks: int, *words: Any) -> dict[str, Any]:
        command = [sys.executable, "-m", "snnkit.bench.scaling_worker", *map(str, words)]
        return _answer(launch([*command, "--device", self.arguments.device], ranks, timeout=_LIMIT))

    def _row(self, mode: str, ranks: int, answers: Sequence[Mapping[str, Any]]) -> Row:
        a = self.arguments
        every = [s for answer in answers for s in answer["seconds"]]
        rounds = [statistics.median(answer["seconds"]) for answer in answers]
        median = statistics.median(rounds)
        cuts = statistics.quantiles(every, n=10, method="inclusive")
        return {
            "mode": mode,
            "ranks": ranks,
            "batch": a.batch,
            "steps": a.steps,
            "parameters": answers[0]["parameters"],
            "median_s": median,
            "p10_s": cuts[0],
            "p90_s": cuts[-1],
            "samples_per_s": a.batch * ranks / median,
            "launch_s": statistics.median(answer["launch_s"] for answer in answers),
            "ready_s": statistics.median(answer["ready_s"] for answer in answers),
            "rounds_s": rounds,
        }


def _answer(done: Launched) -> dict[str, Any]:
    """What rank 0 printed, with the seconds that starting and ending processes took."""
    lines = [[line for line in output if line.startswith(ANSWER)] for output in done.outputs]
    answers = [json.loads(line[-1].removeprefix(ANSWER)) for line in lines]
    first = answers[0]
    born, died = min(a["born"] for a in answers), max(a["died"] for a in answers)
    first["launch_s"] = max(done.seconds - (died - born), 0.0)
    if "ready" in first:
        first["ready_s"] = max(first["ready"] - born, 0.0)
    return first


def _machine(arguments: Arguments, runs: _Runs, links: Sequence[Mapping[str, Any]]) -> Row:
    """What the prediction needs to know of this machine, none of it from ranks that train together."""
    rows = {(row["mode"], row["ranks"]): row for row in runs.rows()}
    alone, beside = rows[TOGETHER, 1], next(row for (mode, _), row in rows.items() if mode == APART)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    ranks, slower = beside["ranks"], beside["median_s"] / alone["median_s"]
    turns = 1.0 if arguments.device == "cuda" else max(1.0, ranks / cores)
    # By how much each neighbour at work at the same time slows a rank down: hardware's ``slowdown``, the other way.
    sharing = max(slower / turns - 1, 0.0) / max(ranks / turns - 1, 1.0)
    measured = [(row["ranks"], row["bytes"], row["median_s"]) for row in links]
    link = model.fit_link("this machine", measured, "all-reduces measured here")
    return {
        "cores": cores,
        "step_s": alone["median_s"],
        "gradient_bytes": _FLOAT * alone["parameters"],
        "sharing": sharing,
        "bytes_per_s": link.bandwidth,
        "latency_s": link.latency,
    }


def model_of(record: Mapping[str, Any]) -> tuple[model.Workload, model.Cluster]:
    """The workload and the machine as they were known before any ranks trained together."""
    machine, options = record["machine"], record["arguments"]
    source = "measured by `snnkit bench scaling`: all-reduces of 1 kB to 17 MB"
    link = model.Link("this machine", machine["bytes_per_s"], machine["latency_s"], source)
    here = model.this_machine(machine["cores"], link=link, sharing=machine["sharing"])
    if options["device"] == "cuda":
        here = here.with_settings(cores=None, overlap=1.0)
    name = f"784-{options['hidden']}-10"
    return model.Workload(name, options["batch"], machine["step_s"], machine["gradient_bytes"]), here


def predicted(record: Mapping[str, Any]) -> list[model.Prediction]:
    """What ``model_of`` predicts for the requested numbers of ranks."""
    return model.curve(*model_of(record), sorted(record["arguments"]["ranks"]))


def fitted(record: Mapping[str, Any]) -> model.Fit:
    """The model fitted to the seconds of an update in all rounds. ValueError where no ranks were measured together."""
    together = (row for row in record["rows"] if row["mode"] == TOGETHER)
    return model.fit([model.Measured(row["ranks"], s) for row in together for s in row["rounds_s"]], *model_of(record))


def curves(record: Mapping[str, Any]) -> tuple[Sequence[model.Measured], dict[str, Any], int | None]:
    """For ``viz.figures.scaling_efficiency``: measurements, the lines predicted and fitted, and the cores."""
    workload, machine = model_of(record)
    fit, ranks = fitted(record), range(1, 2 * max(record["arguments"]["ranks"]) + 1)
    lines = {"predicted": model.curve(workload, machine, ranks), "fitted": [fit.predict(n) for n in ranks]}
    return fit.measured, lines, machine.cores


def tables(record: Mapping[str, Any]) -> str:
    """The whole record as text."""
    return "\n\n".join([heading(record), prediction(record), results(record)])


def prediction(record: Mapping[str, Any]) -> str:
    """What the model knew of the machine, and what it predicted."""
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


_HEAD = ("ranks", "samples/s", "ms", "10-90 %", "efficiency", "predicted", "fitted", "off", "unseen")
_HEAD += ("launch s", "ready s")


def results(record: Mapping[str, Any]) -> str:
    """The ranks that trained together, beside what was predicted and fitted.

    "predicted" was printed before they were measured. "off" is the fitted model's error in the seconds of an update,
    and "unseen" that of a fit to the other numbers of ranks alone. "launch s" is the time to start the processes and
    to see them end, "ready s" the time from there to the end of the first update: imports, and connecting.
    """
    rows = sorted((row for row in record["rows"] if row["mode"] == TOGETHER), key=lambda row: row["ranks"])
    before = {p.ranks: p.efficiency for p in predicted(record)}
    base = next(row["median_s"] for row in rows if row["ranks"] == 1)
    fit = fitted(record) if any(row["ranks"] > 1 for row in rows) else None
    cells = []
    for row in rows:
        n = row["ranks"]
        cells.append(
            (
                str(n),
                f"{row['samples_per_s']:,.0f}",
                *milliseconds(row),
                f"{base / row['median_s']:.1%}",
                f"{before[n]:.1%}",
                f"{fit.predict(n).efficiency:.1%}" if fit else "",
                f"{fit.residuals[n]:+.1%}" if fit and n in fit.residuals else "",
                f"{fit.left_out[n]:+.1%}" if fit and n in fit.left_out else "",
                f"{row['launch_s']:.3g}",
                f"{row['ready_s']:.3g}",
            )
        )
    title = "Weak scaling; efficiency: seconds of an update alone over those of ranks together"
    apart = [
        f"{row['ranks']} ranks side by side, not together: {row['median_s'] * 1e3:.4g} ms, {base / row['median_s']:.1%}"
        for row in record["rows"]
        if row["mode"] != TOGETHER
    ]
    return "\n".join([title, *text_table(_HEAD, cells, left=0), *apart])
