"""Exercises of notebook 00: the references pass, stubs are to do, and each classic mistake meets its hint."""

import pytest
import torch

from snnkit.course import grade, nb00
from snnkit.course.nb00 import COUNT_HINTS, SHAPE_HINTS


def mean(spikes):
    return spikes.mean()


def numel(spikes):
    return torch.tensor(spikes.numel())


def per_neuron(spikes):
    return spikes.sum(0)


def length(spikes):
    return len(spikes)


def any_spike(spikes):
    return spikes.any().float()


def zeros_counted(spikes):
    return (spikes == 0).sum()


COUNT_WRONG = [(mean, 1), (numel, 1), (per_neuron, 0), (length, 1), (any_spike, 1), (zeros_counted, 1)]


@pytest.mark.parametrize(("wrong", "hint"), COUNT_WRONG, ids=lambda v: getattr(v, "__name__", str(v)))
def test_each_wrong_count_meets_its_hint(wrong, hint):
    outcome = grade("00.1", wrong)
    assert outcome.status == "failed"
    assert outcome.hint == COUNT_HINTS[hint]


@pytest.mark.parametrize(
    "right",
    [lambda spikes: spikes.sum(), lambda spikes: int(spikes.sum()), lambda spikes: spikes.count_nonzero()],
    ids=["sum", "int", "count_nonzero"],
)
def test_a_count_may_be_a_tensor_or_a_number(right):
    assert grade("00.1", right).status == "passed"


SHAPE_WRONG = [
    ((32, 20, 64), 1),
    ((32, 64, 20), 1),
    ((20, 64, 32), 2),
    ((20, 32, 8, 8), 2),
    ((20, 32, 8), 2),
    ((20, 64), 0),
    (20 * 32 * 64, 3),
    ("20, 32, 64", 0),
]


@pytest.mark.parametrize(("wrong", "hint"), SHAPE_WRONG, ids=str)
def test_each_wrong_shape_meets_its_hint(wrong, hint):
    outcome = grade("00.2", wrong)
    assert outcome.status == "failed"
    assert outcome.hint == SHAPE_HINTS[hint]


@pytest.mark.parametrize(
    "right", [(20, 32, 64), [20, 32, 64], torch.zeros(20, 32, 64).shape], ids=["tuple", "list", "size"]
)
def test_a_shape_may_be_written_in_any_way(right):
    assert grade("00.2", right).status == "passed"


@pytest.mark.parametrize("exercise", nb00.EXERCISES, ids=lambda e: e.key)
def test_references_pass(exercise):
    assert grade(exercise, exercise.reference).status == "passed"


def test_stubs_are_to_do():
    def count_spikes(spikes):
        return ...

    assert grade("00.1", count_spikes).status == "to do"
    assert grade("00.2", ...).status == "to do"
    assert grade("00.2", (..., 32, 64)).status == "to do"
