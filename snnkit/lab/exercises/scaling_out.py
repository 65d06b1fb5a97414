"""Exercises of "Scaling out with Lightning"."""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch

from snnkit import neuron, nn
from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Check, Exercise, NotWritten, Violation
from snnkit.train import slurm
from snnkit.train.slurm import parse, seconds


def share(batch, rank, ranks):
    """This rank's part of a batch (a list), and the factor for the mean loss of that part."""
    mine = batch[rank::ranks]
    weight = len(mine) * ranks / len(batch)
    return mine, weight


def snapshot(run):
    """All that a run needs to continue as without a break: name of an attribute to a plain value."""
    return {
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "scheduler": run.scheduler.state_dict(),
        "noise": run.noise.get_state(),
        "epoch": run.epoch,
        "batch": run.batch,
    }


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
        inputs = {"samples": "losses 10, 13, 16, …", "ranks": ranks}
        mean = sum(weight * sum(mine) / len(mine) for mine, weight in result if mine) / ranks
        message = "The mean over ranks of (weight × mean loss of the part) is the mean loss of the whole batch."
        weights = [weight for _, weight in result]
        even = all(weight == 1 for weight in weights)
        hint = 6 if even else 7 if math.isclose(sum(weights), 1.0, rel_tol=1e-6) else 5
        expect.close(mean, 10 + 3 * (count - 1) / 2, message, inputs=inputs, hint=hint)


def _restored(candidate: Any, updates: int) -> tuple[TinyRun, TinyRun]:
    """A run after so many updates, and another run that is restored from its snapshot."""
    run = TinyRun()
    for _ in range(updates):
        run.update()
    saved = expect.written(candidate(run))
    if not isinstance(saved, dict):
        raise Violation("A snapshot is a dict.", yours=type(saved).__name__)
    for name, value in saved.items():
        expect.written(value)
        known = ", ".join(PARTS)
        expect.true(name in PARTS, f"Each entry has the name of a part of the run: {known}.", yours=name, hint=0)
    file, restored = io.BytesIO(), TinyRun()
    message = "A checkpoint holds plain values and tensors, so that reading it runs no code."
    yours = {name: type(value).__name__ for name, value in saved.items()}
    with expect.explained(Exception, "", message, yours=yours, hint=1):
        torch.save(saved, file)
        file.seek(0)
        saved = torch.load(file, weights_only=True)
    with expect.explained(Exception, "", "A new run takes over what was saved.", hint=1):
        restored.restore(saved)
    return run, restored


def _a_plain_dict(candidate: Any, reference: Any) -> None:
    _restored(candidate, 5)


def _part(name: str, message: str, hint: int) -> Check:
    def check(candidate: Any, reference: Any) -> None:
        for updates in (5, 3, 1):  # in the second epoch, at its beginning, in the first one
            run, restored = _restored(candidate, updates)
            have, want = restored.message(name), run.message(name)
            inputs = {"stopped after": f"{updates} updates", "batches in an epoch": TinyRun.BATCHES}
            expect.true(have == want, message, inputs=inputs, yours=have, expected=want, hint=hint)

    return Check(name, check)


def _identical(candidate: Any, reference: Any) -> None:
    for updates in (1, 3, 5, 8):  # within each of the three epochs, and between two
        run, restored = _restored(candidate, updates)
        for one in (run, restored):
            one.losses = []
            while one.epoch < 3:
                one.update()
        inputs = {"stopped after": f"{updates} updates"}
        message = "From there on, the losses are those of the unbroken run, to the last bit."
        expect.true(
            restored.losses == run.losses, message, inputs=inputs, yours=restored.losses, expected=run.losses, hint=7
        )


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


# --- a training run that is small enough to read in one go ------------------------------------------------------------


PARTS = ("model", "optimizer", "scheduler", "noise", "epoch", "batch")


class TinyRun:
    """Six neurons learn two classes: Adam, a cosine, spikes drawn at random, three shuffled batches in an epoch.

    Attributes:
        model, optimizer, scheduler: of PyTorch; each has ``state_dict()``.
        noise: the generator that spikes are drawn from; it has ``get_state()``.
        epoch, batch: what comes next, from 0 on.
        losses: of the updates so far; a log, which changes nothing.
    """

    BATCHES = 3

    def __init__(self) -> None:
        start = torch.Generator().manual_seed(0)
        self.pixels = torch.rand(12, 4, generator=start)
        self.labels = (self.pixels[:, 0] > self.pixels[:, 1]).long()
        first, second = torch.nn.Linear(4, 6), torch.nn.Linear(6, 2)
        for linear in (first, second):
            torch.nn.init.normal_(linear.weight, generator=start)
            torch.nn.init.constant_(linear.bias, 0.1)
        self.model = nn.Sequential(
            first, neuron.Leaky(torch.full((6,), 0.9), engine="eager"), second, neuron.LI(engine="eager")
        )
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.05)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 9)
        self.noise = torch.Generator().manual_seed(1)
        self.epoch, self.batch = 0, 0
        self.losses: list[float] = []

    def update(self) -> None:
        """Learn from the next batch."""
        shuffled = torch.randperm(12, generator=torch.Generator().manual_seed(self.epoch))
        rows = shuffled.chunk(self.BATCHES)[self.batch]
        spikes = (torch.rand(8, 4, 4, generator=self.noise) < self.pixels[rows]).float()  # [T, B, pixels]
        out, _ = self.model(spikes)
        loss = torch.nn.functional.cross_entropy(out.mean(0), self.labels[rows])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        self.losses.append(loss.item())
        self.batch += 1
        if self.batch == self.BATCHES:
            self.epoch, self.batch = self.epoch + 1, 0

    def restore(self, saved: dict[str, Any]) -> None:
        """Restore each part that was saved; the others stay as in a new run."""
        for name, value in saved.items():
            value = copy.deepcopy(value)  # an optimizer would change the very tensors that it gets
            part = getattr(self, name)
            if isinstance(part, torch.Generator):
                part.set_state(value)
            elif hasattr(part, "load_state_dict"):
                part.load_state_dict(value)
            else:
                setattr(self, name, value)

    def message(self, name: str) -> Any:
        """A text to compare and to show: its number depends on the whole state of the part."""
        part = getattr(self, name)
        if name == "model":
            return f"weights that add up to {sum(p.sum().item() for p in part.parameters()):.6f}"
        if name == "optimizer":
            state = part.state_dict()["state"]
            sums = sum(v.sum().item() for entry in state.values() for v in entry.values())
            return f"running means and counts that add up to {sums:.6f}"
        if name == "scheduler":
            return f"after {part.last_epoch} updates, lr {part.get_last_lr()[0]:.6f}"
        if name == "noise":
            ahead = torch.Generator()
            ahead.set_state(part.get_state())
            return f"next number {torch.rand((), generator=ahead).item():.6f}"
        return part


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
        "What has to be saved",
        snapshot,
        [
            _a_plain_dict,
            _part("model", "The restored run has the weights.", 2),
            _part("optimizer", "The restored run has the optimizer's memory.", 3),
            _part("scheduler", "The restored run is at the same place in the schedule.", 4),
            _part("noise", "The restored run draws the same noise.", 5),
            _part("epoch", "The restored run is in the same epoch.", 6),
            _part("batch", "The restored run is at the same batch.", 6),
            _identical,
        ],
        minutes=8,
        difficulty=2,
        seconds=30.0,  # some fifty small trainings
        hints=(
            "Read `TinyRun.update` line by line. For each value: will a new run have it?",
            "Never save an object. Save what its `state_dict()` returns, or `get_state()` for a generator.",
            "`run.model.state_dict()` holds weights and buffers.",
            "Adam keeps two running means for each weight, and counts its updates. Without them it starts from zero.",
            "The learning rate follows a cosine. Which object knows how far it has come?",
            "Spikes are drawn from `run.noise`. A new generator would start at its first number again.",
            "Saved in the middle of an epoch, the run must know which one (`epoch`) and where (`batch`).",
            "A state belongs to one moment. Does your code change or invent a part of it?",
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
