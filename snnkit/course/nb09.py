"""Exercises and quiz of notebook 09, "Scaling out with Lightning"."""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Sequence
from numbers import Real
from typing import Any

import torch

from . import batch_script, expect
from .exercise import Check, Exercise, Question, Violation
from .tiny_run import PARTS, TinyRun


def share(batch, rank, ranks):
    """This rank's part of a batch (a list), and the factor for the mean loss of that part."""
    mine = batch[rank::ranks]
    weight = len(mine) * ranks / len(batch)
    return mine, weight


def snapshot(run):
    """All that a run needs to go on as if nothing had happened: name of an attribute to a plain value."""
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


def _shares(candidate: Any, count: int, ranks: int) -> list[tuple[list[int], float]]:
    found = []
    for rank in range(ranks):
        answer = expect.written(candidate(list(range(count)), rank, ranks))
        if not isinstance(answer, (tuple, list)) or len(answer) != 2:
            raise Violation("The answer is a pair: the part, its weight.", yours=answer)
        mine, weight = answer
        if not isinstance(mine, Sequence) or isinstance(mine, str):
            raise Violation("The part is a list of samples.", yours=mine, hint=0)
        if not isinstance(weight, (Real, torch.Tensor)):
            raise Violation("The weight is a number.", yours=weight, hint=5)
        found.append((list(mine), weight))
    return found


_CASES = (8, 1), (8, 2), (7, 2), (10, 4), (7, 4), (5, 4), (3, 4)


def _each_once(candidate: Any, reference: Any) -> None:
    for count, ranks in _CASES:
        parts = [mine for mine, _ in _shares(candidate, count, ranks)]
        every, inputs = sorted(sample for mine in parts for sample in mine), {"samples": count, "ranks": ranks}
        twice, lost = len(every) - len(set(every)), sorted(set(range(count)) - set(every))
        told = "All ranks together have every sample once."
        hint = 1 if ranks > 1 and all(mine == list(range(count)) for mine in parts) else 3 if twice else 2
        expect.true(not twice and not lost, told, inputs=inputs, yours=parts, hint=hint)


def _fair(candidate: Any, reference: Any) -> None:
    for count, ranks in _CASES:
        most, least = max(len(mine) for mine, _ in _shares(candidate, count, ranks)), -(-count // ranks)
        told = "No part is larger than it must be: the others wait for the rank that has most."
        inputs = {"samples": count, "ranks": ranks}
        expect.true(most <= least, told, inputs=inputs, yours=f"up to {most}", expected=f"up to {least}", hint=4)


def _mean_of_all(candidate: Any, reference: Any) -> None:
    for count, ranks in _CASES:
        found = _shares(candidate, count, ranks)
        inputs = {"samples": f"losses 0, 1, … {count - 1}", "ranks": ranks}
        mean = sum(weight * sum(mine) / len(mine) for mine, weight in found if mine) / ranks
        told = "The mean over ranks of (weight × mean loss of the part) is the mean loss of the whole batch."
        weights = [weight for _, weight in found]
        even = all(weight == 1 for weight in weights)
        hint = 6 if even else 7 if math.isclose(sum(weights), 1.0, rel_tol=1e-6) else 5
        expect.close(mean, (count - 1) / 2, told, inputs=inputs, hint=hint)


def _restored(candidate: Any, updates: int) -> tuple[TinyRun, TinyRun]:
    """A run after so many updates, and another one that was restored from its snapshot."""
    run = TinyRun()
    for _ in range(updates):
        run.update()
    saved = expect.written(candidate(run))
    if not isinstance(saved, dict):
        raise Violation("A snapshot is a dict.", yours=type(saved).__name__)
    for name, value in saved.items():
        expect.written(value)
        known = ", ".join(PARTS)
        expect.true(name in PARTS, f"Each entry is named like a part of the run: {known}.", yours=name, hint=0)
    file = io.BytesIO()
    told = "A checkpoint holds plain values and tensors, so that reading it runs nobody's code."
    try:
        torch.save(saved, file)
        file.seek(0)
        saved = torch.load(file, weights_only=True)
    except (pickle.PickleError, TypeError, AttributeError, RuntimeError) as error:
        yours = {name: type(value).__name__ for name, value in saved.items()}
        raise Violation(told, yours=yours, hint=1) from error
    again = TinyRun()
    try:
        again.restore(saved)
    except (TypeError, RuntimeError, ValueError, AttributeError, KeyError) as error:
        said = f"{type(error).__name__}: {error}"
        raise Violation("A new run takes over what was saved.", yours=said, hint=1) from None
    return run, again


def _plain(candidate: Any, reference: Any) -> None:
    _restored(candidate, 5)


def _part(name: str, message: str, hint: int) -> Check:
    def check(candidate: Any, reference: Any) -> None:
        for updates in (5, 3, 1):  # in the second epoch, at its beginning, in the first one
            run, again = _restored(candidate, updates)
            have, want = again.told(name), run.told(name)
            inputs = {"stopped after": f"{updates} updates", "batches in an epoch": TinyRun.BATCHES}
            expect.true(have == want, message, inputs=inputs, yours=have, expected=want, hint=hint)

    return Check(name, check)


def _identical(candidate: Any, reference: Any) -> None:
    for updates in (1, 3, 5, 8):  # within each of the three epochs, and between two
        run, again = _restored(candidate, updates)
        for one in (run, again):
            one.losses = []
            while one.epoch < 3:
                one.update()
        inputs = {"stopped after": f"{updates} updates"}
        told = "From there on, the losses are those of the unbroken run, to the last bit."
        expect.true(again.losses == run.losses, told, inputs=inputs, yours=again.losses, expected=run.losses, hint=7)


_LINK = {"latency": 1e-5, "bandwidth": 1e9}


def _alone(candidate: Any, reference: Any) -> None:
    found = candidate(1, 4e6, **_LINK)
    expect.close(found, 0.0, "A rank alone has nothing to add up.", inputs={"ranks": 1}, hint=0)


def _all_latency(candidate: Any, reference: Any) -> None:
    for ranks in (2, 8):
        told = "Of an empty message only the steps are left, each with its latency."
        found, want = candidate(ranks, 0.0, **_LINK), 2 * (ranks - 1) * 1e-5
        hint = 1 if math.isclose(found, want / 2) else 0
        expect.close(found, want, told, inputs={"ranks": ranks, "size": 0}, hint=hint, atol=1e-12)


def _pieces(candidate: Any, reference: Any) -> None:
    for ranks, size in ((2, 4e6), (4, 4e6), (1000, 4e6), (4, 10.0)):
        want = 2 * (ranks - 1) / ranks * size / 1e9
        found = candidate(ranks, size, latency=1e-300, bandwidth=1e9)
        whole = 2 * (ranks - 1) * (size // ranks) / 1e9
        mistakes = ((1, want / 2), (2, want * ranks), (2, whole), (3, want * 1e18))
        close = [hint for hint, wrong in mistakes if math.isclose(found, wrong)]
        told = "With no latency to speak of: in each step, a piece of size / ranks goes over the link."
        inputs = {"ranks": ranks, "size": size, "bandwidth": 1e9}
        expect.close(found, want, told, inputs=inputs, hint=[*close, 0][0], rtol=1e-6, atol=1e-12)


EXERCISES = [
    Exercise(
        "09.1",
        "Share a batch",
        share,
        [Check("each sample once", _each_once), Check("fair", _fair), Check("the mean of all", _mean_of_all)],
        minutes=6,
        difficulty=1,
        hints=(
            "`batch[rank::ranks]` takes every `ranks`-th sample, from number `rank` on.",
            "Every rank has the whole batch: four ranks, four times the work, and the same gradient as one.",
            "Samples are left out. What becomes of the rest where the ranks don't divide the number of samples?",
            "Samples are there twice. Padding, as PyTorch's DistributedSampler does it, counts some of them double.",
            "One rank has all that is left over. Deal the samples out like cards.",
            "How much does this part count? `len(mine) / len(batch)`, times what the mean over ranks takes away.",
            "A part of one sample would weigh as much as a part of two. It should weigh `len(mine)`, in some unit.",
            "Close: the weights add up to 1. But DDP divides the sum of gradients by `ranks` itself.",
        ),
    ),
    Exercise(
        "09.2",
        "What has to be saved",
        snapshot,
        [
            Check("a plain dict", _plain),
            _part("model", "The restored run has the weights.", 2),
            _part("optimizer", "The restored run has what the optimizer remembers.", 3),
            _part("scheduler", "The restored run is at the same place of the schedule.", 4),
            _part("noise", "The restored run draws the same noise.", 5),
            _part("epoch", "The restored run is in the same epoch.", 6),
            _part("batch", "The restored run is at the same batch.", 6),
            Check("identical", _identical),
        ],
        minutes=8,
        difficulty=2,
        seconds=30.0,  # some fifty small trainings
        hints=(
            "Read `TinyRun.update` line by line, and ask of each value: will a new run have it?",
            "Of an object, save what `state_dict()` gives; of a generator, what `get_state()` gives; never the object.",
            "`run.model.state_dict()` holds weights and buffers.",
            "Adam keeps two running means for each weight, and counts its updates. Without them it begins anew.",
            "The learning rate follows a cosine. Which object knows how far it has come?",
            "Spikes are drawn from `run.noise`. A new generator would start at its first number again.",
            "Saved in the middle of an epoch, the run must know which one (`epoch`) and where (`batch`).",
            "A state is of one moment. Is something changed, or made up, on the way?",
        ),
    ),
    Exercise(
        "09.3",
        "Three mistakes",
        batch_script.REPAIRED,
        [
            Check("the same job", batch_script.same_job),
            Check("no mistakes left", batch_script.no_mistakes),
            Check("two hours", batch_script.two_hours),
        ],
        minutes=6,
        difficulty=2,
        hints=(
            "One process for each GPU of a node: `--ntasks-per-node` must equal `--gpus-per-node`.",
            "How does SLURM read `02:00`? With one colon it is minutes and seconds; hours need two.",
            "All jobs on a node would meet at the same port. Make it from the job's number, and keep it below 65536.",
            "Mend the lines, and keep what was asked for: 2 nodes, 4 GPUs each, and the training command.",
            "This was not one of the three: `slurm.check(text)` says what is wrong with it, and what to write.",
        ),
    ),
    Exercise(
        "09.4",
        "The price of adding up",
        ring_seconds,
        [Check("alone", _alone), Check("latency", _all_latency), Check("bandwidth", _pieces)],
        minutes=5,
        difficulty=1,
        hints=(
            "How many steps are there, and what does one of them cost? Multiply.",
            "Twice around: `ranks - 1` steps until the sums are there, as many until everybody has them.",
            "In each step a rank sends a piece, not everything: `size / ranks` bytes.",
            "Bytes over bytes per second are seconds: divide by the bandwidth.",
        ),
    ),
]

QUIZ = [
    Question(
        "One GPU trained with batch 64. Now 8 GPUs train with DDP and 64 samples each. What has changed for learning?",
        (
            "nothing: the same run, faster",
            "each update is the mean over 512 samples",
            "eight networks learn and are averaged",
        ),
        answer=1,
        why="The gradient is the mean over all ranks' samples, an epoch has an eighth of the updates.",
    ),
    Question(
        "A run is killed within an epoch. Its checkpoint holds the weights only. What happens after a resume?",
        ("it goes on as if nothing had happened", "it can't start", "it learns on, as another run"),
        answer=2,
        why="Adam has no memory, the schedule is at its top, samples come again. No error says so.",
    ),
    Question(
        "The batch of all ranks together stays the same, and the ranks double. Why does efficiency fall?",
        (
            "gradients have more bytes with more ranks",
            "ranks get other samples, and learn less from them",
            "less computing, as much to add up",
        ),
        answer=2,
        why="Strong scaling halves what a rank computes; the gradient is as large as the network, whatever the batch.",
    ),
]
