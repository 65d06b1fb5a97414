"""Answers of the wrong kind: the card says that they are wrong, in a sentence, and the notebook goes on."""

import inspect

import numpy as np
import pytest
import torch

from snnkit.course import exercises, grade, notebooks

FUNCTIONS = [e for n in notebooks() for e in exercises(n) if inspect.isfunction(e.reference)]
CLASSES = [e for n in notebooks() for e in exercises(n) if inspect.isclass(e.reference)]
VALUES = [e for n in notebooks() for e in exercises(n) if not callable(e.reference)]

ODD = {
    "a text": "spikes",
    "not a number": float("nan"),
    "a complex number": 2j,
    "a tensor of nothing": torch.zeros(0),
    "a tensor elsewhere": torch.zeros(3, device="meta"),
    "a number elsewhere": torch.zeros((), device="meta"),
    "two texts": ("one", "two"),
    "a list and a text": ([0, 1], "half"),
    "an array of objects": np.array([None, {}], dtype=object),
    "a function": print,
    "a generator": (number for number in range(3)),
    "an instance": object(),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("exercise", FUNCTIONS, ids=lambda exercise: exercise.key)
def test_a_function_that_gives_something_odd(exercise, odd):
    outcome = grade(exercise, lambda *args, **kwargs: ODD[odd])
    assert outcome.status == "failed" and outcome.message
    assert "could not be checked" not in outcome.message, outcome


def test_functions_that_take_other_arguments():
    for exercise in FUNCTIONS:
        outcome = grade(exercise, lambda one, two, three, four, five, six, seven, eight: one)
        assert outcome.status == "failed" and "argument" in outcome.message, outcome


class Empty:
    pass


class WithoutForward(torch.nn.Module):
    def __init__(self, *_, **__):
        super().__init__()


@pytest.mark.parametrize("odd", [Empty, WithoutForward, dict, object()], ids=lambda o: getattr(o, "__name__", "object"))
@pytest.mark.parametrize("exercise", CLASSES, ids=lambda exercise: exercise.key)
def test_a_class_that_is_another(exercise, odd):
    outcome = grade(exercise, odd)
    assert outcome.status == "failed" and outcome.message


@pytest.mark.parametrize(
    "odd",
    [{}, 0, "", "20", [], [[]], object(), torch.zeros(3), float("nan")],
    ids=lambda odd: f"{type(odd).__name__}-{odd}" if type(odd) is not object else "object",
)
@pytest.mark.parametrize("exercise", VALUES, ids=lambda exercise: exercise.key)
def test_a_value_of_another_kind(exercise, odd):
    outcome = grade(exercise, odd)
    assert outcome.status == "failed" and outcome.message
