"""Answers to the exercises of surrogate_gradients."""

import math

import torch

from snnkit.lab.exercises.surrogate_gradients import MySpike, dead_neurons
from snnkit.surrogate import ATan, Triangle

# Exercise 1


def spike(slope, forward=None, passes_on=True, saves_spike=False):
    """An answer to exercise 1 from a rule for the slope, and optionally for the forward pass."""

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


class ByAutograd(torch.autograd.Function):
    """Asks PyTorch for the derivative of sigma."""

    @staticmethod
    def forward(ctx, u, alpha):
        ctx.save_for_backward(u)
        ctx.alpha = alpha
        return (u >= 0).to(u.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        (u,) = ctx.saved_tensors
        with torch.enable_grad():
            u = u.detach().requires_grad_()
            (slope,) = torch.autograd.grad(ATan(ctx.alpha).primitive(u).sum(), u)
        return grad_output * slope, None


class NoGradient(MySpike):
    @staticmethod
    def backward(ctx, grad_output):
        return None, None


class CutOff(MySpike):
    @staticmethod
    def forward(ctx, u, alpha):
        spikes = MySpike.forward(ctx, u, alpha)
        ctx.mark_non_differentiable(spikes)
        return spikes


def returning(result):
    """An answer to exercise 1 whose backward returns ``result(grad_output, slope)``."""

    def backward(ctx, grad_output):
        (u,) = ctx.saved_tensors
        return result(grad_output, right(u, ctx.alpha))

    return type("Answer", (MySpike,), {"backward": staticmethod(backward)})


SLOPES = [
    (returning(lambda grad, slope: grad * slope), "the peak", "gets None", "forgotten None"),
    (returning(lambda grad, slope: (None, grad * slope)), "the peak", "gets None", "None first"),
    (returning(lambda grad, slope: (grad.mul_(slope), None)), "the peak", 3, "in place"),
    (spike(lambda u, a: right(u, a).clamp(min=1e-3)), "finite far out", 4),
    (NoGradient, "the peak", 1),
    (CutOff, "the peak", 0),
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
]

# Exercise 2


def _slope(u, surrogate, floor):
    return surrogate.derivative(u) < floor


def _one_by_one(u, surrogate, floor):
    slope = surrogate.derivative(u)
    dead = []
    for n in range(u.shape[-1]):
        fires = bool((u[..., n] >= 0).any())
        learns = bool((slope[..., n] >= floor).any())
        dead.append(not fires and not learns)
    return torch.tensor(dead)


DEAD = [
    (
        lambda u, s, f: (u.view(6, -1) < 0).all(0) & (s.derivative(u).view(6, -1) < f).all(0),
        "any recording",
        0,
        "of six rows",
    ),
    (lambda u, s, f: (u <= 0).all(0).all(0) & _slope(u, s, f).all(0).all(0), "any recording", 1, "at the threshold"),
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
    (lambda u, s, f: (u < 1).all(dim=(0, 1)) & _slope(u, s, f).all(dim=(0, 1)), "ask the surrogate", 3),
    (lambda u, s, f: dead_neurons(u, s, 1e-3), "ask the surrogate", 3),
    (lambda u, s, f: dead_neurons(u, Triangle(1.0), f), "ask the surrogate", 3),
]

# Stubs


class _Stub(MySpike):
    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ..., None


WRONG = {1: SLOPES, 2: DEAD}

RIGHT = {
    1: [spike(lambda u, a: 0.5 * a / (1 + (0.5 * math.pi * a * u).square())), ByAutograd],
    2: [
        lambda u, s, f: (u.amax((0, 1)) < 0) & (s.derivative(u).amax((0, 1)) < f),
        _one_by_one,
        lambda u, surrogate, floor: ~((u >= 0) | (surrogate.derivative(u) >= floor)).flatten(0, 1).any(0),
    ],
}

STUBS = {1: [_Stub], 2: [lambda u, surrogate, floor: ...]}
