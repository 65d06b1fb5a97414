"""Exercises of "Pre-flight"."""

from __future__ import annotations

from numbers import Real
from typing import Any

import torch

from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Check, Exercise

# --- Exercise 1 -------------------------------------------------------------------------------------------------------


def count_spikes(spikes):
    """How many spikes there are in all. spikes [T, B, N] of 0 and 1 -> a tensor with one number."""
    return spikes.sum()


def _spikes(seed: int, *shape: int) -> torch.Tensor:
    return (torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.3).float()


def _one_number(candidate: Any, _: Any) -> None:
    count = expect.written(candidate(_spikes(0, 6, 2, 3)))
    message = "The answer is one number."
    number = isinstance(count, (Real, torch.Tensor))
    expect.true(number, message, yours=type(count).__name__, expected="one number", hint=0)
    shape = tuple(torch.as_tensor(count).shape)
    expect.true(shape == (), message, yours=f"shape {shape}", expected="one number", hint=0)


# --- Exercise 2 -------------------------------------------------------------------------------------------------------


def _three_numbers(candidate: Any, _: Any) -> None:
    expect.written(candidate)
    message = "The shape has three numbers: T, B and N."
    expect.true(not isinstance(candidate, (int, float)), message, yours=candidate, hint=3)
    listed = isinstance(candidate, (tuple, list))
    hint = 2 if listed and len(candidate) > 3 else 0
    expect.true(listed and len(candidate) == 3, message, yours=candidate, hint=hint)
    numbers = all(isinstance(number, Real) for number in candidate)
    expect.true(numbers, message, yours=tuple(type(number).__name__ for number in candidate), hint=0)


def _time_first(candidate: Any, reference: Any) -> None:
    message = "Time comes first."
    expect.true(candidate[0] == reference[0], message, yours=tuple(candidate), hint=1)


def _batch_then_neurons(candidate: Any, reference: Any) -> None:
    message = "After time come the batch and then the neurons, one per pixel."
    expect.true(tuple(candidate) == reference, message, yours=tuple(candidate), hint=2)


EXERCISES = [
    Exercise(
        "preflight.1",
        "Count the spikes",
        count_spikes,
        [
            _one_number,
            expect.same("silence", 1, "If no neuron spikes, the count is 0.", {"spikes": torch.zeros(6, 2, 3)}),
            expect.same(
                "count",
                1,
                "Each spike counts as one.",
                {"spikes": _spikes(1, 6, 2, 3)},
                {"spikes": _spikes(2, 7, 4, 5)},
            ),
        ],
        minutes=2,
        hints=(
            "One number for the whole tensor, over time, batch and neurons together.",
            "A spike is a 1 and no spike is a 0. What do you get when you add them all up?",
            "`spikes.sum()`",
        ),
    ),
    Exercise(
        "preflight.2",
        "Time first",
        (20, 32, 64),
        [_three_numbers, _time_first, Check("batch, then neurons", _batch_then_neurons)],
        minutes=1,
        hints=(
            "Three numbers in round brackets, for example `(1, 2, 3)`.",
            "snnkit is time-first: `[T, B, N]`. The number of steps comes first.",
            "Then the batch, then the neurons. One neuron per pixel: how many pixels does an image of 8 × 8 have?",
            "Each axis keeps its own length: nothing is multiplied across time, batch and neurons.",
        ),
    ),
]
