"""Weak scaling: how much of their speed processes on this machine keep when they train one network together.

    snnkit bench scaling --out scaling.json --plot scaling.png

Each rank trains 784-1000-10 on its own 256 samples of an update, through Lightning, as users do. Before they do it
together, ``hardware.scaling`` says what they will reach, from one rank alone, all-reduces alone and ranks side by side
that have nothing to do with each other; afterwards it is fitted to what they did, and says how far off it is.
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
from ..measure.machine import provenance
from ..train.launch import Launched, launch
from . import record, scaling_table
from .scaling_command import scaling as main
from .scaling_model import APART, TOGETHER
from .scaling_worker import ANSWER

_FLOAT = 4  # bytes of a gradient
_LIMIT = 600.0  # seconds for one launch, after which something hangs


@dataclass(frozen=True)
class Arguments:
    """What to run. ``snnkit bench scaling`` has an option for each, and the defaults.

    Attributes:
        device: "cpu" or "cuda".
        ranks: numbers of processes, one of them 1.
        hidden: neurons of the hidden layer.
        steps: T.
        batch: samples of a rank in an update.
        updates: timed in each round, after the warm-up.
        repeats: rounds; each number of ranks has its turn in every one.
    """

    device: str
    ranks: Sequence[int]
    hidden: int
    steps: int
    batch: int
    updates: int
    repeats: int


def benchmark(
    arguments: Arguments, say: Callable[[str], object] = print, out: str | Path | None = None
) -> dict[str, Any]:
    """Predict, measure, fit, and give back the record.

    Args:
        arguments: what to run.
        say: takes what was found as text: the prediction before the first measurement of ranks together.
        out: file for the record, written after each round (with ``complete`` false until the end).

    Raises:
        LaunchError: a process failed; says which, and its last lines.
    """
    result: dict[str, Any] = {
        "schema": record.SCHEMA,
        "kind": "scaling",
        "complete": False,
        "provenance": provenance(torch.device(arguments.device)),
        "arguments": asdict(arguments) | {"ranks": list(arguments.ranks)},
        "links": [],
        "rows": [],
    }
    say(scaling_table.heading(result | {"complete": True}))
    several = [n for n in arguments.ranks if n > 1]
    runs = _Runs(arguments)
    result["links"] = [row for n in several for row in runs.links(n)]
    runs.measure(TOGETHER, 1)
    runs.measure(APART, min(several))
    result["machine"] = _machine(arguments, runs, result["links"])
    result["rows"] = runs.rows()
    say("\n" + scaling_table.prediction(result))
    for _ in range(arguments.repeats):
        for mode, n in ((TOGETHER, 1), (APART, min(several)), *((TOGETHER, n) for n in several)):
            runs.measure(mode, n)
        result["rows"] = runs.rows()
        if out is not None:
            record.write(out, result)
    result["complete"] = True
    say("\n" + scaling_table.results(result))
    if out is not None:
        record.write(out, result)
    return result


class _Runs:
    """Launches workers and keeps what they measured."""

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments
        self.answers: dict[tuple[str, int], list[dict[str, Any]]] = {}

    def measure(self, mode: str, ranks: int) -> None:
        a = self.arguments
        words = ["updates", "--hidden", a.hidden, "--steps", a.steps, "--batch", a.batch, "--updates", a.updates]
        self.answers.setdefault((mode, ranks), []).append(self._run(ranks, *words, *(["--apart"] * (mode == APART))))

    def links(self, ranks: int) -> list[dict[str, Any]]:
        return [{"ranks": ranks, "bytes": size, "median_s": s} for size, s in self._run(ranks, "links")["links"]]

    def rows(self) -> list[dict[str, Any]]:
        return [self._row(mode, ranks, answers) for (mode, ranks), answers in self.answers.items()]

    def _run(self, ranks: int, *words: Any) -> dict[str, Any]:
        command = [sys.executable, "-m", "snnkit.bench.scaling_worker", *map(str, words)]
        done = launch([*command, "--device", self.arguments.device], ranks, timeout=_LIMIT)
        return _answer(done)

    def _row(self, mode: str, ranks: int, answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
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
    """What rank 0 said, with the seconds that starting and ending processes took."""
    lines = [[line for line in output if line.startswith(ANSWER)] for output in done.outputs]
    answers = [json.loads(found[-1].removeprefix(ANSWER)) for found in lines]
    first = answers[0]
    born, died = min(a["born"] for a in answers), max(a["died"] for a in answers)
    first["launch_s"] = max(done.seconds - (died - born), 0.0)
    if "ready" in first:
        first["ready_s"] = max(first["ready"] - born, 0.0)
    return first


def _machine(arguments: Arguments, runs: _Runs, links: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the prediction needs to know of this machine, none of it from ranks that train together."""
    rows = {(row["mode"], row["ranks"]): row for row in runs.rows()}
    alone, beside = rows[TOGETHER, 1], next(row for (mode, _), row in rows.items() if mode == APART)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    ranks, slower = beside["ranks"], beside["median_s"] / alone["median_s"]
    turns = 1.0 if arguments.device == "cuda" else max(1.0, ranks / cores)
    # By how much each neighbour at work at the same time slows a rank down: hardware's ``slowdown``, the other way.
    sharing = max(slower / turns - 1, 0.0) / max(ranks / turns - 1, 1.0)
    link = model.fit_link(
        "this machine", [(row["ranks"], row["bytes"], row["median_s"]) for row in links], "all-reduces measured here"
    )
    return {
        "cores": cores,
        "step_s": alone["median_s"],
        "gradient_bytes": _FLOAT * alone["parameters"],
        "sharing": sharing,
        "bytes_per_s": link.bandwidth,
        "latency_s": link.latency,
    }


__all__ = ["Arguments", "benchmark", "main"]

if __name__ == "__main__":
    main()
