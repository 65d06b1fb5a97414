"""Exercises of "Sweeps": a Pareto front, a fair comparison, an honest winner."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Exercise, Violation


def front(accuracy: list[float], spikes: list[float]) -> list[int]:
    """Indices of the networks that no other beats, by ascending spikes."""

    def beaten(i: int) -> bool:
        return any(
            accuracy[k] >= accuracy[i]
            and spikes[k] <= spikes[i]
            and (accuracy[k] > accuracy[i] or spikes[k] < spikes[i])
            for k in range(len(spikes))
        )

    return sorted((i for i in range(len(spikes)) if not beaten(i)), key=lambda i: spikes[i])


def paired(a: Tensor, b: Tensor) -> tuple[float, float]:
    """Mean of the differences a - b of scores with the same seeds [n], and its standard error."""
    difference = a - b
    return difference.mean().item(), difference.std().item() / len(difference) ** 0.5


def honest_winner(valid: Tensor, test: Tensor) -> tuple[int, float]:
    """Which network to choose, and the accuracy to report, by accuracies on two sets of samples [n]."""
    chosen = int(valid.argmax())
    return chosen, test[chosen].item()


# Exercise 1


def _who_is_beaten(candidate: Any, reference: Any) -> None:
    accuracy, spikes = [0.90, 0.95, 0.80, 0.99], [5.0, 3.0, 8.0, 20.0]
    message = "Network 1 beats 0 and 2: it is more accurate with fewer spikes. None beats 1 or 3."
    _same(candidate, reference, accuracy, spikes, message, hint=0, ordered=False)


def _both_ends(candidate: Any, reference: Any) -> None:
    accuracy, spikes = [0.99, 0.50, 0.97, 0.90], [60.0, 0.0, 9.0, 10.0]
    message = (
        "The front has both ends: the most accurate network, and the one with the fewest spikes, even if it is bad."
    )
    _same(candidate, reference, accuracy, spikes, message, hint=1, ordered=False)


def _the_order(candidate: Any, reference: Any) -> None:
    accuracy, spikes = [0.99, 0.50, 0.97, 0.60], [60.0, 0.0, 9.0, 1.0]
    _same(candidate, reference, accuracy, spikes, "Their order is by ascending spikes.", hint=2)


def _draws(candidate: Any, reference: Any) -> None:
    accuracy, spikes = [0.8, 0.9, 0.9, 0.9, 0.8], [5.0, 5.0, 5.0, 6.0, 5.0]
    message = "Networks equal in both don't beat each other. One that is equal in one and worse in the other is beaten."
    _same(candidate, reference, accuracy, spikes, message, hint=3, ordered=False)


# Exercise 2

A = torch.tensor([0.91, 0.72, 0.85, 0.64, 0.80, 0.77])
B = torch.tensor([0.89, 0.74, 0.82, 0.60, 0.79, 0.73])
SEEDS = torch.tensor([0.5, 0.8, 0.2, 0.9])
DIFFERENCE = "The first is the mean of a - b, with its sign."
SHIFT = "If a is better by the same amount with every seed, that amount is certain: the error is 0."


def _its_error(candidate: Any, reference: Any) -> None:
    for a, b in ((A, B), (A[:5], B[:5])):
        _, result = expect.parts(candidate(a, b), 2, "The answer is two values: a mean and its error.")
        errors = [one.std().item() / math.sqrt(len(a)) for one in (a, b)]
        message = "The error is that of the differences: the effect of a seed on both networks cancels."
        inputs = {"a": a, "b": b}
        if any(math.isclose(float(result), apart, rel_tol=1e-3) for apart in (sum(errors), math.hypot(*errors))):
            raise Violation(message, inputs=inputs, yours=result, expected=reference(a, b)[1], hint=1)
        message = (
            "The error is that of the mean: the standard deviation of the differences by the root of their number."
        )
        expect.close(result, reference(a, b)[1], message, inputs=inputs, hint=2)


# Exercise 3

TWO = {"valid": torch.tensor([0.95, 0.98, 0.97, 0.96]), "test": torch.tensor([0.96, 0.97, 0.95, 0.995])}
BY_VALID = "You choose before you look at the test samples: by `valid` alone."
FRESH = "You report the accuracy of the chosen network, on samples that played no part in choosing it."
ANYONE = "Return the number of the chosen network, counted from 0, and its own accuracy."


def _indices(answer: Any) -> list[int]:
    expect.written(answer)
    message = "The answer is a list of indices, whole numbers from 0 on."
    if isinstance(answer, Tensor) and (answer.is_meta or answer.dim() != 1):
        raise Violation(message, yours=f"a tensor of shape {list(answer.shape)}")
    values = answer.tolist() if isinstance(answer, (Tensor, np.ndarray)) else answer
    expect.true(isinstance(values, (list, tuple)), message, yours=type(values).__name__)
    try:
        return [int(value) for value in values]
    except (TypeError, ValueError, NotImplementedError, RuntimeError):
        raise Violation(message, yours=type(values[0]).__name__) from None


def _same(
    candidate: Any, reference: Any, accuracy: list, spikes: list, message: str, *, hint: int, ordered: bool = True
) -> None:
    result, wanted = _indices(candidate(list(accuracy), list(spikes))), reference(accuracy, spikes)
    same = result == wanted if ordered else sorted(result) == sorted(wanted)
    expect.true(
        same, message, inputs={"accuracy": accuracy, "spikes": spikes}, yours=result, expected=wanted, hint=hint
    )


EXERCISES = [
    Exercise(
        "sweeps.1",
        "The front",
        front,
        [_who_is_beaten, _both_ends, _the_order, _draws],
        minutes=7,
        difficulty=2,
        hints=(
            "k beats i if `accuracy[k] >= accuracy[i] and spikes[k] <= spikes[i]`, and one of the two is strict.",
            "A silent network has 0 spikes, and none has fewer. A network on the front need not have a good score.",
            "`sorted(front, key=lambda i: spikes[i])`.",
            "The winner must be better in one of them: `accuracy[k] > accuracy[i] or spikes[k] < spikes[i]`.",
        ),
    ),
    Exercise(
        "sweeps.2",
        "A fair comparison",
        paired,
        [
            expect.same("the difference", 0, DIFFERENCE, {"a": A, "b": B}, {"a": B, "b": A}, part=0),
            _its_error,
            expect.same("a mere shift", 1, SHIFT, {"a": SEEDS + 0.125, "b": SEEDS}, atol=1e-5),
        ],
        difficulty=2,
        hints=(
            "`difference = a - b`, one for each seed; then its mean.",
            "A hard seed is hard for both. Subtract first, then compute the spread of the differences.",
            "`difference.std() / len(difference) ** 0.5`: of the mean, not of a single difference.",
        ),
    ),
    Exercise(
        "sweeps.3",
        "An honest winner",
        honest_winner,
        [
            expect.same("who wins", 0, BY_VALID, TWO, part=0),
            expect.same("what to report", 1, FRESH, TWO, part=1),
            expect.same("anyone may win", 2, ANYONE, *({k: v.roll(n) for k, v in TWO.items()} for n in (1, 2, 3))),
        ],
        minutes=4,
        hints=(
            "`valid.argmax()`.",
            "The best of `valid` was also lucky. Luck does not repeat: `test[chosen]`.",
            "An index into both: `chosen = int(valid.argmax())`, then `test[chosen]`.",
        ),
    ),
]
