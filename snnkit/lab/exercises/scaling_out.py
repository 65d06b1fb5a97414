"""Exercises of "Scaling out with Lightning"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch

from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Exercise, NotWritten, Violation
from snnkit.train import slurm
from snnkit.train.slurm import parse, seconds


def share(batch, rank, ranks):
    """This rank's part of a batch (a list), and the factor for the mean loss of that part."""
    mine = batch[rank::ranks]
    weight = len(mine) * ranks / len(batch)
    return mine, weight


def next_samples(update, order, batch, rank, ranks):
    """The samples of this rank for an update, from the numbers alone."""
    updates = -(-len(order(0)) // batch)  # in an epoch, rounded up
    epoch, position = divmod(update, updates)
    return order(epoch)[position * batch : (position + 1) * batch][rank::ranks]


def ring_seconds(ranks, size, latency, bandwidth):
    """Seconds in which a ring of `ranks` adds up `size` bytes of each of them, so that all have the sum."""
    return 2 * (ranks - 1) * (latency + size / ranks / bandwidth)


def _samples(count: int) -> list[int]:
    """They are not their own numbers."""
    return [10 + 3 * number for number in range(count)]


def _shares(candidate: Any, count: int, ranks: int) -> list[tuple[list[int], float]]:
    result = []
    for rank in range(ranks):
        answer = candidate(_samples(count), rank, ranks)
        mine, weight = expect.parts(answer, 2, "The answer is a pair: the part, its weight.")
        mine = mine.tolist() if isinstance(mine, (np.ndarray, torch.Tensor)) and mine.ndim == 1 else mine
        if not isinstance(mine, Sequence) or isinstance(mine, str):
            raise Violation("The part is a list of samples.", yours=mine, hint=0)
        if not isinstance(weight, (Real, torch.Tensor)):
            raise Violation("The weight is a number.", yours=weight, hint=5)
        result.append((list(mine), weight))
    return result


_CASES = (8, 1), (8, 2), (7, 2), (10, 4), (7, 4), (5, 4), (3, 4)


def _each_sample_once(candidate: Any, reference: Any) -> None:
    for count, ranks in _CASES:
        parts = [mine for mine, _ in _shares(candidate, count, ranks)]
        every, inputs = (
            sorted(sample for mine in parts for sample in mine),
            {"samples": _samples(count), "ranks": ranks},
        )
        strange, twice = sorted(set(every) - set(_samples(count))), len(every) - len(set(every))
        message = "A part holds samples of the batch, not their numbers."
        expect.true(not strange, message, inputs=inputs, yours=parts, expected=_samples(count), hint=0)
        lost = sorted(set(_samples(count)) - set(every))
        message = "All ranks together have every sample once."
        hint = 1 if ranks > 1 and all(mine == _samples(count) for mine in parts) else 3 if twice else 2
        expect.true(not twice and not lost, message, inputs=inputs, yours=parts, hint=hint)


def _fair(candidate: Any, reference: Any) -> None:
    for count, ranks in _CASES:
        most, least = max(len(mine) for mine, _ in _shares(candidate, count, ranks)), -(-count // ranks)
        message = "No part is larger than needed: all ranks wait for the rank with the most samples."
        inputs = {"samples": count, "ranks": ranks}
        expect.true(most <= least, message, inputs=inputs, yours=f"up to {most}", expected=f"up to {least}", hint=4)


def _the_mean_of_all(candidate: Any, reference: Any) -> None:
    for count, ranks in _CASES:
        result = _shares(candidate, count, ranks)
        inputs = {"losses of the samples": _samples(count), "ranks": ranks}
        mean = sum(weight * sum(mine) / len(mine) for mine, weight in result if mine) / ranks
        message = "The mean over ranks of (weight × mean loss of the part) is the mean loss of the whole batch."
        weights = [weight for _, weight in result]
        even = all(weight == 1 for weight in weights)
        hint = 6 if even else 7 if math.isclose(sum(weights), 1.0, rel_tol=1e-6) else 5
        expect.close(mean, 10 + 3 * (count - 1) / 2, message, inputs=inputs, hint=hint)


_EPOCHS = [[3, 0, 6, 1, 5, 2, 4], [5, 4, 0, 2, 6, 3, 1], [1, 6, 4, 0, 3, 5, 2]]


def _order(epoch: int) -> list[int]:
    """Seven samples in the order of an epoch."""
    return _EPOCHS[epoch].copy()


def _next(candidate: Any, update: int, batch: int, rank: int, ranks: int) -> list[int]:
    with expect.explained(IndexError, "", "There are three epochs here.", inputs={"update": update}, hint=0):
        mine = expect.written(candidate(update, _order, batch, rank, ranks))
    has_numbers = isinstance(mine, np.ndarray) or (isinstance(mine, torch.Tensor) and not mine.is_meta)
    mine = mine.tolist() if has_numbers and mine.ndim == 1 else mine
    if not isinstance(mine, Sequence) or isinstance(mine, str):
        raise Violation("The answer is a list of samples.", yours=mine, hint=1)
    return list(mine)


def _alone(epoch: int, hint: int, candidate: Any) -> None:
    for batch in (3, 2):
        updates = -(-7 // batch)
        for position in range(updates):
            update = epoch * updates + position
            want = _order(epoch)[position * batch : (position + 1) * batch]
            inputs = {"update": update, "batch": batch, "order(0)": _order(0), "order(1)": _order(1)}
            message = f"Alone, update {update} has the batch number {position} of order({epoch})."
            have = _next(candidate, update, batch, 0, 1)
            expect.true(have == want, message, inputs=inputs, yours=have, expected=want, hint=hint)


def _the_first_epoch(candidate: Any, reference: Any) -> None:
    _alone(0, 1, candidate)


def _the_next_epoch(candidate: Any, reference: Any) -> None:
    for epoch in (1, 2):
        _alone(epoch, 0, candidate)


def _a_part_for_each_rank(candidate: Any, reference: Any) -> None:
    for update, batch, ranks in ((1, 4, 2), (0, 7, 4), (3, 3, 2)):
        parts = [_next(candidate, update, batch, rank, ranks) for rank in range(ranks)]
        whole = sorted(reference(update, _order, batch, 0, 1))
        message = "All ranks together have the batch, each sample once, and no rank more than needed."
        fair = max(map(len, parts)) <= -(-len(whole) // ranks)
        inputs = {"update": update, "batch": batch, "ranks": ranks}
        together = sorted(sample for mine in parts for sample in mine)
        expect.true(fair and together == whole, message, inputs=inputs, yours=parts, expected=whole, hint=2)


_LINK = {"latency": 1e-5, "bandwidth": 1e9}
_SLOW = {"latency": 1e-3, "bandwidth": 1e9}


def _latency(candidate: Any, reference: Any) -> None:
    for ranks, latency in ((2, 1e-5), (8, 1e-5), (8, 3e-4)):
        message = "An empty message still takes the steps, each with its latency."
        result, want = candidate(ranks, 0.0, latency, 1e9), 2 * (ranks - 1) * latency
        hint = 1 if math.isclose(result, want / 2) else 0
        inputs = {"ranks": ranks, "size": 0, "latency": latency}
        expect.close(result, want, message, inputs=inputs, hint=hint, atol=1e-12)


def _bandwidth(candidate: Any, reference: Any) -> None:
    for ranks, size, bandwidth in ((2, 4e6, 1e9), (4, 4e6, 1e9), (1000, 4e6, 3e8), (4, 10.0, 1e9)):
        want = 2 * (ranks - 1) / ranks * size / bandwidth
        result = candidate(ranks, size, 1e-300, bandwidth)
        whole = 2 * (ranks - 1) * (size // ranks) / bandwidth
        mistakes = ((1, want / 2), (2, want * ranks), (2, whole), (3, want * bandwidth**2))
        close = [hint for hint, wrong in mistakes if math.isclose(result, wrong)]
        message = "Almost without latency: in each step, a piece of size / ranks goes over the link."
        inputs = {"ranks": ranks, "size": size, "bandwidth": bandwidth}
        expect.close(result, want, message, inputs=inputs, hint=[*close, 0][0], rtol=1e-6, atol=1e-12)


# --- the batch script with three planted mistakes, as it should be ----------------------------------------------------


REPAIRED = r"""#!/bin/bash
#SBATCH --job-name=snnkit
#SBATCH --account=snn
#SBATCH --partition=booster
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=4
#SBATCH --time=02:00:00
#SBATCH --signal=SIGUSR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.out

set -e
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK

srun --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" \
  snnkit train workshop --checkpoint run.pt --every 200 --resume
"""
_PLANTED = {"devices": 0, "signal": 1, "time": 1, "value": 1, "port": 2}  # rule to its hint


def _repairing(text: Any) -> str:
    expect.written(text)
    if not isinstance(text, str):
        raise Violation("The script is a text.", yours=type(text).__name__)
    if {problem.rule for problem in slurm.check(text)} >= {"devices", "signal", "port"}:
        raise NotWritten("All three mistakes are still there.")
    return text


def _the_same_job(text: Any, reference: Any) -> None:
    """The repaired script requests the same as the broken one."""
    script = parse(_repairing(text))
    for name, want in (("nodes", 2), ("gpus-per-node", 4)):
        message = f"It must still be the same job: --{name}={want}."
        expect.true(script.number(name) == want, message, yours=script.number(name), expected=want, hint=3)
    message = "It must still train: srun starts `snnkit train workshop`."
    expect.true("snnkit train workshop" in text, message, hint=3)


def _no_mistakes_left(text: Any, reference: Any) -> None:
    """``slurm.check`` finds nothing; else its first problem is the violation, with the line."""
    lines = _repairing(text).splitlines()
    for problem in slurm.check(text):
        where = "a line that is missing" if problem.line is None else f"line {problem.line}"
        yours = None if problem.line is None else lines[problem.line - 1]
        hint = _PLANTED.get(problem.rule, 4)
        raise Violation(problem.what, inputs=f"{where} (rule: {problem.rule})", yours=yours, hint=hint)


def _two_hours(text: Any, reference: Any) -> None:
    """The time limit is the requested one."""
    limit = parse(_repairing(text)).option("time")
    yours, message = limit and limit.value, "The job asks for two hours."
    expect.true(yours and seconds(yours) == 7200, message, yours=yours, expected="two hours", hint=1)


EXERCISES = [
    Exercise(
        "scaling_out.1",
        "Share a batch",
        share,
        [_each_sample_once, _fair, _the_mean_of_all],
        minutes=6,
        hints=(
            "`batch[rank::ranks]` takes every `ranks`-th sample, from number `rank` on.",
            "Every rank has the whole batch: four ranks, four times the work, and the same gradient as one.",
            "Samples are left out. What happens to the rest if `ranks` does not divide the number of samples?",
            "Samples come twice. Padding, as in PyTorch's DistributedSampler, counts some of them double.",
            "One rank has all samples that are left over. Deal the samples out like cards.",
            "How much does this part count? `len(mine) / len(batch)`. Then undo the division by the mean over ranks.",
            "A part of one sample would count as much as a part of two. Its weight should grow with `len(mine)`.",
            "Close: the weights add up to 1. But DDP divides the sum of gradients by `ranks` itself.",
        ),
    ),
    Exercise(
        "scaling_out.2",
        "Which samples come next",
        next_samples,
        [_the_first_epoch, _the_next_epoch, _a_part_for_each_rank],
        minutes=5,
        difficulty=2,
        hints=(
            "`divmod(update, updates)` is the number of the epoch, and the position in it.",
            "The batch of all ranks is `order(epoch)[position * batch : (position + 1) * batch]`.",
            "This rank's part of the batch: `[rank::ranks]`, as in exercise 15.1.",
        ),
    ),
    Exercise(
        "scaling_out.3",
        "Three mistakes",
        REPAIRED,
        [_the_same_job, _no_mistakes_left, _two_hours],
        minutes=6,
        difficulty=2,
        hints=(
            "One process for each GPU of a node: `--ntasks-per-node` must equal `--gpus-per-node`.",
            "How does SLURM read `02:00`? With one colon it is minutes and seconds; hours need two.",
            "All jobs on a node would use the same port. Compute it from the job's number, and keep it below 65536.",
            "Repair the lines, and keep the rest: 2 nodes, 4 GPUs each, and the training command.",
            "This was not one of the three: `slurm.check(text)` says what is wrong with it, and what to write.",
        ),
    ),
    Exercise(
        "scaling_out.4",
        "The price of adding up",
        ring_seconds,
        [
            expect.same("alone", 0, "One rank alone has nothing to add up.", {"ranks": 1, "size": 4e6} | _LINK),
            _latency,
            _bandwidth,
            expect.same(
                "both", 0, "A step takes its latency, and then the piece its time.", {"ranks": 5, "size": 4e6} | _SLOW
            ),
        ],
        hints=(
            "How many steps are there, and how long is one? Multiply.",
            "Twice around: `ranks - 1` steps until the sums are ready, and as many until all ranks have them.",
            "In each step a rank sends a piece, not everything: `size / ranks` bytes.",
            "Bytes over bytes per second are seconds: divide by the bandwidth.",
        ),
    ),
]
