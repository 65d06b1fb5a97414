"""Exercises of "The open challenge": a score with its error, a penalty that waits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Exercise


def score_of(correct: Tensor, spikes: Tensor, price: float) -> tuple[float, float]:
    """Score and its standard error, from samples that were answered rightly [N] (bool) and their spikes [N]."""
    each = correct.float() - price * spikes
    return each.mean().item(), each.std().item() / len(each) ** 0.5


def penalty_at(update: int, updates: int, penalty: float, warm_up: float) -> float:
    """The price of a spike at this of all updates: it rises from 0, and is whole after the share `warm_up` of them."""
    return penalty * min(1.0, update / (warm_up * updates)) if warm_up else penalty


# Exercise 1

CORRECT = torch.tensor([True, True, False, True, True, True, False, True])
SPIKES = torch.tensor([4.0, 2.0, 7.0, 3.0, 0.0, 5.0, 1.0, 2.0])
ERROR = "The standard error is the standard deviation of the samples' scores, divided by the root of their number."
TOGETHER = "Accuracy and spikes vary together: compute the error of their difference, sample by sample."
WON = torch.tensor([True, False] * 50)  # every right answer takes 10 spikes, every wrong one none


def _error_of(count: int) -> dict[str, Any]:
    return {"correct": CORRECT[:count], "spikes": SPIKES[:count], "price": 0.0}


def _the_score(candidate: Any, reference: Any) -> None:
    message = "The score is the mean of (1 if right, else 0) - price · spikes."
    two = "The answer is two values: a score and its error."
    for price, hint in ((0.0, 0), (0.01, 1), (0.1, 1), (1.0, 1)):
        inputs = {"correct": CORRECT, "spikes": SPIKES, "price": price}
        result, _ = expect.parts(candidate(*inputs.values()), 2, two)
        expect.close(result, reference(*inputs.values())[0], message, inputs=inputs, hint=hint)


# Exercise 2

ZERO = "At update 0 a spike costs nothing: first learn, then save."
WHOLE = "After the warm-up every spike costs the whole penalty, and never more."
EVENLY = "During the warm-up the penalty rises evenly: half of it at half of the warm-up."
AT_ONCE = "Without a warm-up the penalty is whole from the first update on."


def _at(*updates: int, **changes: Any) -> list[dict[str, Any]]:
    given = {"updates": 200, "penalty": 0.01, "warm_up": 0.5} | changes
    return [{"update": update} | given for update in updates]


EXERCISES = [
    Exercise(
        "open_challenge.1",
        "A score with its error",
        score_of,
        [
            _the_score,
            expect.same("the error", 2, ERROR, *(_error_of(count) for count in (8, 5)), part=1),
            expect.same("sample by sample", 3, TOGETHER, {"correct": WON, "spikes": 10.0 * WON, "price": 0.1}, part=1),
        ],
        hints=(
            "PyTorch subtracts nothing from True: `correct.float()`. Its mean is the accuracy.",
            "One score for each sample: `each = correct.float() - price * spikes`. The score is `each.mean()`.",
            "With the scores of the samples in `each`: `each.std() / len(each) ** 0.5`. This `std()` divides by N - 1.",
            "Don't add an error of the accuracy and one of the spikes: use the spread of the scores of the samples.",
        ),
    ),
    Exercise(
        "open_challenge.2",
        "A penalty that waits",
        penalty_at,
        [
            expect.same("the start", 0, ZERO, *_at(0), *_at(0, updates=50, warm_up=1.0)),
            expect.same("on the way", 2, EVENLY, *_at(25, 50, 75), *_at(20, 60, updates=400, penalty=0.2, warm_up=0.2)),
            expect.same("after the warm-up", 1, WHOLE, *_at(100, 150, 199), *_at(60, 99, updates=100, warm_up=0.25)),
            expect.same("no warm-up", 3, AT_ONCE, *_at(0, 1, 120, warm_up=0.0)),
        ],
        hints=(
            "`update / updates` is the share of the training that is over. It is 0 at the start.",
            "Cut the rising line off at 1: `min(1.0, ...)`, and multiply by `penalty`.",
            "The warm-up ends at update `warm_up * updates`: divide by this number, and multiply by `penalty`.",
            "Nothing can be divided by 0: `if warm_up == 0`, return `penalty` itself.",
        ),
    ),
]
