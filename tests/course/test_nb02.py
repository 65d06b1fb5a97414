"""The checks of notebook 02: references pass, stubs are to do, and each classic mistake fails with its hint."""

import math

import pytest
import torch

from snnkit.course import exercises, grade
from snnkit.course.nb02 import MySpike, dead_neurons, gradient
from snnkit.surrogate import ATan, Triangle

HINTS = {exercise.key: exercise.hints for exercise in exercises("02")}


@pytest.mark.parametrize("alpha", [0.5, 2.0, 50.0])
def test_the_reference_is_the_surrogate_of_the_library(alpha):
    u = torch.linspace(-3, 3, 61, dtype=torch.float64)
    torch.testing.assert_close(gradient(MySpike, u, alpha), ATan(alpha).derivative(u))


def test_the_reference_takes_one_slope_per_neuron():
    u = torch.tensor([0.1, 0.1], requires_grad=True)
    MySpike.apply(u, torch.tensor([2.0, 8.0])).sum().backward()
    wanted = [ATan(a).derivative(torch.tensor(0.1)).item() for a in (2.0, 8.0)]
    torch.testing.assert_close(u.grad, torch.tensor(wanted))


def spike(slope, forward=None, passes_on=True, saves_spike=False):
    """An answer to 02.1 from a rule for the slope, and optionally for the forward pass."""

    class Answer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, u, alpha):
            spikes = (u >= 0).to(u.dtype) if forward is None else forward(u, alpha)
            ctx.save_for_backward(spikes if saves_spike else u)
            ctx.alpha = alpha
            return spikes

        @staticmethod
        def backward(ctx, grad_output):
            (u,) = ctx.saved_tensors
            value = slope(u, ctx.alpha)
            return (grad_output * value if passes_on else value), None

    return Answer


def right(u, a):
    return (a / 2) / (1 + (math.pi / 2 * a * u) ** 2)


def sigma(u, a):
    return torch.atan(math.pi / 2 * a * u) / math.pi + 0.5


def test_another_right_answer_to_02_1_passes():
    assert grade("02.1", spike(lambda u, a: 0.5 * a / (1 + (0.5 * math.pi * a * u).square()))).status == "passed"


@pytest.mark.parametrize(
    ("answer", "check", "hint"),
    [
        (spike(right, forward=sigma), "forward is a step", 0),
        (spike(right, forward=lambda u, a: (u > 0).to(u.dtype)), "forward is a step", 0),
        (spike(right, forward=lambda u, a: (u >= 0).float()), "forward is a step", 0),
        (spike(sigma), "the peak", 1),
        (spike(lambda u, a: a / (1 + (math.pi / 2 * a * u) ** 2)), "the peak", 1),
        (spike(lambda u, a: 1 / (1 + (math.pi / 2 * a * u) ** 2)), "the peak", 1),
        (spike(lambda u, a: 1 / (math.pi * (1 + (math.pi / 2 * a * u) ** 2))), "the peak", 1),
        (spike(lambda u, a: right(u, 2.0)), "the peak", 1),
        (spike(right, saves_spike=True), "the peak", 1),
        (spike(lambda u, a: torch.zeros_like(u)), "the peak", 1),
        (spike(lambda u, a: (a / 2) / (1 + (math.pi * a * u) ** 2)), "the slope everywhere", 2),
        (spike(lambda u, a: (a / 2) / (1 + (a * u) ** 2)), "the slope everywhere", 2),
        (spike(lambda u, a: (a / 2) / (1 + math.pi / 2 * a * u.abs())), "the slope everywhere", 2),
        (spike(lambda u, a: torch.full_like(u, a / 2)), "the slope everywhere", 2),
        (spike(right, passes_on=False), "the chain rule", 3),
        (
            spike(lambda u, a: a / 2 * (1 - (math.pi / 2 * a * u) ** 2 / (1 + (math.pi / 2 * a * u) ** 2))),
            "finite far out",
            4,
        ),
    ],
)
def test_classic_mistakes_in_02_1(answer, check, hint):
    outcome = grade("02.1", answer)
    assert (outcome.status, outcome.check) == ("failed", check), outcome.message
    assert outcome.hint == HINTS["02.1"][hint]


def test_a_backward_that_gives_no_gradient_is_named():
    class Answer(MySpike):
        @staticmethod
        def backward(ctx, grad_output):
            return None, None

    outcome = grade("02.1", Answer)
    assert outcome.status == "failed" and outcome.check == "the peak"


class _Stub(MySpike):
    @staticmethod
    def backward(ctx, grad_output):
        slope = ...
        return grad_output * slope, None


class _BareStub(MySpike):
    @staticmethod
    def backward(ctx, grad_output):
        return ..., None


@pytest.mark.parametrize(
    ("key", "stub"),
    [("02.1", _Stub), ("02.1", _BareStub), ("02.2", lambda u, surrogate, floor: ...)],
)
def test_stubs_are_to_do(key, stub):
    assert grade(key, stub).status == "to do"


def test_the_same_membrane_is_dead_to_one_surrogate_and_not_to_another():
    u = torch.full((4, 2, 1), -3.0)
    assert dead_neurons(u, Triangle(1.0), 1e-3).tolist() == [True]
    assert dead_neurons(u, ATan(2.0), 1e-3).tolist() == [False]


def _by_maximum(u, surrogate, floor):
    return (u.amax((0, 1)) < 0) & (surrogate.derivative(u).amax((0, 1)) < floor)


def test_another_right_answer_to_02_2_passes():
    assert grade("02.2", _by_maximum).status == "passed"


def _slope(u, surrogate, floor):
    return surrogate.derivative(u) < floor


@pytest.mark.parametrize(
    ("answer", "check", "hint"),
    [
        (lambda u, s, f: (u < 0) & _slope(u, s, f), "one answer per neuron", 0),
        (lambda u, s, f: ((u < 0) & _slope(u, s, f)).all(0), "one answer per neuron", 0),
        (lambda u, s, f: dead_neurons(u, s, f).float(), "one answer per neuron", 0),
        (lambda u, s, f: int(dead_neurons(u, s, f).sum()), "one answer per neuron", 0),
        (lambda u, s, f: ~dead_neurons(u, s, f), "silent and deaf", 1),
        (lambda u, s, f: _slope(u, s, f).all(dim=(0, 1)), "silent and deaf", 1),
        (lambda u, s, f: ((u < 0) & _slope(u, s, f)).flatten(0, 1).any(0), "silent and deaf", 1),
        (lambda u, s, f: (u < 0).all(dim=(0, 1)), "silent and deaf", 2),
        (lambda u, s, f: (u.amax((0, 1)) < 0) & (s.derivative(u).mean((0, 1)) < 0.2), "silent and deaf", 2),
        (lambda u, s, f: (u.amax((0, 1)) < 0) & (s.derivative(u[-1]).amax(0) < f), "silent and deaf", 2),
        (lambda u, s, f: (u < -1).all(dim=(0, 1)), "ask the surrogate", 3),
        (lambda u, s, f: dead_neurons(u, s, 1e-3), "ask the surrogate", 3),
        (lambda u, s, f: dead_neurons(u, Triangle(1.0), f), "ask the surrogate", 3),
    ],
)
def test_classic_mistakes_in_02_2(answer, check, hint):
    outcome = grade("02.2", answer)
    assert (outcome.status, outcome.check) == ("failed", check), outcome.message
    assert outcome.hint == HINTS["02.2"][hint]
