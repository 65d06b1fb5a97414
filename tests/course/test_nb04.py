"""The checks of notebook 04: references pass, stubs are to do, and each classic mistake fails with its hint."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from snnkit import loss
from snnkit.course import exercises, grade
from snnkit.course.nb04 import count_cross_entropy

HINTS = {exercise.key: exercise.hints for exercise in exercises("04")}


def test_the_reference_is_the_loss_of_the_library():
    spikes = (torch.rand(7, 5, 10, generator=torch.Generator().manual_seed(0)) < 0.3).float()
    labels = torch.arange(5)
    torch.testing.assert_close(count_cross_entropy(spikes, labels), loss.count_cross_entropy(spikes, labels))


@pytest.mark.parametrize(("key", "arguments"), [("04.1", 2), ("04.2", 5), ("04.3", 2)])
def test_a_stub_is_to_do(key, arguments):
    stubs = {1: lambda a: ..., 2: lambda a, b: ..., 5: lambda a, b, c, d, e: ...}
    assert grade(key, stubs[arguments]).status == "to do"


# 04.1: other ways that are right


def by_hand(spikes, labels):
    p = spikes.sum(0).softmax(1)
    return -p[torch.arange(len(labels)), labels].log().mean()


def by_logsumexp(spikes, labels):
    counts = spikes.sum(dim=0)
    return (counts.logsumexp(1) - counts.gather(1, labels[:, None]).squeeze(1)).mean()


@pytest.mark.parametrize("answer", [by_hand, by_logsumexp, loss.count_cross_entropy])
def test_other_ways_to_the_loss_pass(answer):
    assert grade("04.1", answer).status == "passed"


WRONG_LOSSES = {
    "one loss per image": (lambda s, y: F.cross_entropy(s.sum(0), y, reduction="none"), 3),
    "sum over the batch": (lambda s, y: F.cross_entropy(s.sum(0), y, reduction="sum"), 2),
    "sign forgotten": (lambda s, y: s.sum(0).log_softmax(1).gather(1, y[:, None]).mean(), 2),
    "probability for surprise": (lambda s, y: 1 - s.sum(0).softmax(1).gather(1, y[:, None]).mean(), 2),
    "logarithm to base 2": (lambda s, y: F.cross_entropy(s.sum(0), y) / math.log(2), 2),
    "last step only": (lambda s, y: F.cross_entropy(s[-1], y), 0),
    "did it fire at all": (lambda s, y: F.cross_entropy(s.amax(0), y), 1),
    "mean over time": (lambda s, y: F.cross_entropy(s.mean(0), y), 1),
    "two softmaxes": (lambda s, y: F.cross_entropy(s.sum(0).softmax(1), y), 1),
    "rewards the wrong ones": (lambda s, y: F.cross_entropy(-s.sum(0), y), 2),
    "rate loss": (loss.rate_cross_entropy, None),
    "cut from the graph": (lambda s, y: F.cross_entropy(s.detach().sum(0), y), 4),
}


@pytest.mark.parametrize("name", WRONG_LOSSES)
def test_a_wrong_loss_fails_with_its_hint(name):
    answer, hint = WRONG_LOSSES[name]
    outcome = grade("04.1", answer)
    assert outcome.status == "failed", name
    assert outcome.hint in HINTS["04.1"]
    assert hint is None or outcome.hint == HINTS["04.1"][hint], outcome


# 04.2


def recipe(*order, result=lambda value: value.item(), sign=1):
    """A training step that calls these things in this order."""

    def step(net, optimizer, loss_fn, x, y):
        out, _ = net(x)
        value = sign * loss_fn(out, y)
        calls = {"zero": optimizer.zero_grad, "net.zero": net.zero_grad, "back": value.backward, "step": optimizer.step}
        for name in order:
            calls[name]()
        return result(value)

    return step


def zero_first(net, optimizer, loss_fn, x, y):
    net.zero_grad()
    value = loss_fn(net(x)[0], y)
    value.backward()
    optimizer.step()
    return value.detach()


@pytest.mark.parametrize(
    "answer",
    [zero_first, recipe("zero", "back", "step"), recipe("net.zero", "back", "step"), recipe("back", "step", "zero")],
)
def test_other_orders_that_are_right_pass(answer):
    assert grade("04.2", answer).status == "passed"


def loss_after_the_update(net, optimizer, loss_fn, x, y):
    recipe("zero", "back", "step")(net, optimizer, loss_fn, x, y)
    return loss_fn(net(x)[0], y).item()


def twice(net, optimizer, loss_fn, x, y):
    recipe("zero", "back", "step")(net, optimizer, loss_fn, x, y)
    return recipe("zero", "back", "step")(net, optimizer, loss_fn, x, y)


def first_step_only(net, optimizer, loss_fn, x, y):
    out, _ = net(x[:1])
    value = loss_fn(out, y)
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    return value.item()


WRONG_STEPS = {
    "no backward": (recipe("zero", "step"), 1),
    "no step": (recipe("zero", "back"), 2),
    "forward only": (recipe(), 1),
    "zero_grad between": (recipe("back", "zero", "step"), 3),
    "step before backward": (recipe("zero", "step", "back"), 3),
    "no zero_grad": (recipe("back", "step"), 3),
    "uphill": (recipe("zero", "back", "step", sign=-1), 4),
    "half the gradient": (recipe("zero", "back", "step", sign=0.5), 4),
    "two updates": (twice, 4),
    "the graph is kept": (recipe("zero", "back", "step", result=lambda value: value), 5),
    "the loss after the update": (loss_after_the_update, 5),
    "a wrong number": (recipe("zero", "back", "step", result=lambda value: 0.0), 5),
}


@pytest.mark.parametrize("name", WRONG_STEPS)
def test_a_wrong_step_fails_with_its_hint(name):
    answer, hint = WRONG_STEPS[name]
    outcome = grade("04.2", answer)
    assert outcome.status == "failed", name
    assert outcome.hint == HINTS["04.2"][hint], outcome


def test_a_step_on_part_of_the_time_fails():
    assert grade("04.2", first_step_only).status == "failed"


def test_what_the_step_did_is_shown_in_order():
    outcome = grade("04.2", recipe("back", "zero", "step"))
    assert outcome.yours == "forward → backward → zero_grad → step"


def test_a_step_that_forgets_the_state_says_what_loss_fn_got():
    def tuple_to_the_loss(net, optimizer, loss_fn, x, y):
        return loss_fn(net(x), y)

    outcome = grade("04.2", tuple_to_the_loss)
    assert outcome.status == "failed" and "got tuple" in outcome.message


def test_a_step_without_return_is_to_do():
    outcome = grade("04.2", recipe("zero", "back", "step", result=lambda value: None))
    assert outcome.status == "to do" and "return" in outcome.message


# 04.3


WRONG_COUNTS = {
    "no fan_out": (lambda s, fan_out: s.sum() / s.shape[1], 0),
    "the rate": (lambda s, fan_out: s.mean() * fan_out, 0),
    "divided by the steps": (lambda s, fan_out: s.sum() * fan_out / s.shape[0], 0),
    "every synapse": (lambda s, fan_out: s.shape[2] * fan_out, 0),
    "neurons that fired": (lambda s, fan_out: (s.sum(0) > 0).sum() * fan_out / s.shape[1], 1),
    "the whole batch": (lambda s, fan_out: s.sum() * fan_out, 2),
}


@pytest.mark.parametrize("name", WRONG_COUNTS)
def test_a_wrong_count_fails_with_its_hint(name):
    answer, hint = WRONG_COUNTS[name]
    outcome = grade("04.3", answer)
    assert outcome.status == "failed", name
    assert outcome.hint == HINTS["04.3"][hint], outcome


def test_a_plain_number_is_an_answer():
    assert grade("04.3", lambda s, fan_out: float(s.sum() * fan_out) / s.shape[1]).status == "passed"


def test_the_plot_of_the_vote_shows_both():
    (exercise,) = (e for e in exercises("04") if e.plot is not None)
    figure = exercise.plot(exercise.reference, exercise.reference)
    assert [trace.name for trace in figure.data] == ["expected", "yours"]
    assert (np.diff(figure.data[0].y) < 0).all()
