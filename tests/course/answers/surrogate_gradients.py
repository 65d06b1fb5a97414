"""Answers to the exercises of surrogate_gradients."""

import math

import torch

from snnkit.lab.exercises.surrogate_gradients import MySpike, dead_neurons, spike as triangular
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
    (lambda u, s, f: (u.amax((0, 1)) < 0) & (s.derivative(u).mean((0, 1)) < f), "silent and deaf", 2),
    (
        lambda u, s, f: (u.amax((0, 1)) < 0) & (s.derivative(u).mean(0) < f).all(0),
        "silent and deaf",
        2,
        "the mean over time",
    ),
    (
        lambda u, s, f: (u.amax((0, 1)) < 0) & (s.derivative(u).mean(1) < f).all(0),
        "silent and deaf",
        2,
        "the mean over samples",
    ),
    (lambda u, s, f: (u.amax((0, 1)) < 0) & (s.derivative(u[-1]).amax(0) < f), "silent and deaf", 2),
    (lambda u, s, f: (u.amax((0, 1)) < 0) & (s.derivative(u[0]).amax(0) < f), "silent and deaf", 2, "the first step"),
    (lambda u, s, f: (u.amax((0, 1)) < 0) & (s.derivative(u[:, 0]).amax(0) < f), "silent and deaf", 2, "sample 0"),
    (lambda u, s, f: (u.amax((0, 1)) < 0) & (s.derivative(u[:, 1]).amax(0) < f), "silent and deaf", 2, "sample 1"),
    (lambda u, s, f: (u < -1).all(dim=(0, 1)), "ask the surrogate", 3),
    (lambda u, s, f: (u < 1).all(dim=(0, 1)) & _slope(u, s, f).all(dim=(0, 1)), "ask the surrogate", 3),
    (lambda u, s, f: dead_neurons(u, s, 1e-3), "ask the surrogate", 3),
    (lambda u, s, f: dead_neurons(u, Triangle(1.0), f), "ask the surrogate", 3),
]

# Exercise 3


class AsAClass(torch.autograd.Function):
    """Exercise 3 by a class."""

    @staticmethod
    def forward(ctx, u, width):
        ctx.save_for_backward(u)
        ctx.width = width
        return (u >= 0).to(u.dtype)

    @staticmethod
    def backward(ctx, *grads):
        (u,) = ctx.saved_tensors
        return grads[0] * (1 - u.abs() / ctx.width).clamp(min=0) / ctx.width, None


def by_function(slope, forward=lambda u: (u >= 0).to(u.dtype), chained=True):
    """An answer to exercise 3 with `autograd.Function`."""

    class Answer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, u, width):
            ctx.save_for_backward(u)
            ctx.width = width
            return forward(u)

        @staticmethod
        def backward(ctx, grad):
            (u,) = ctx.saved_tensors
            value = slope(u, ctx.width)
            return (grad * value if chained else value), None

    return lambda u, width: Answer.apply(u, width)


def handing_back(result):
    """An answer to exercise 3 whose backward returns ``result(grad, slope)``."""

    def backward(ctx, grad):
        (u,) = ctx.saved_tensors
        return result(grad, triangle(u, ctx.width))

    return type("Answer", (AsAClass,), {"backward": staticmethod(backward)}).apply


def triangle(u, width):
    return (1 - u.abs() / width).clamp(min=0) / width


def ramp(u, width):
    """The primitive of the triangle, from 0 to 1."""
    z = (u / width).clamp(-1, 1)
    return 0.5 + z - z * z.abs() / 2


def by_detach(u, width):
    soft = ramp(u, width)
    return soft + ((u >= 0).to(u.dtype) - soft).detach()


def by_a_zero(u, width):
    soft = ramp(u, width)
    return (u >= 0).to(u.dtype) + (soft - soft.detach())


def by_a_long_line(u, width):
    """Swallows the 1 far away: 1e20 + (1 - 1e20) is 0."""
    line = u / width
    return line + ((u >= 0).to(u.dtype) - line).detach()


SPIKES = [
    (lambda u, width: u >= 0, "exactly 0 and 1", 0),
    (by_function(triangle, forward=lambda u: (u > 0).to(u.dtype)), "exactly 0 and 1", 0, "above the threshold"),
    (handing_back(lambda grad, slope: grad * slope), "the slope at the threshold", 4, "forgotten None"),
    (handing_back(lambda grad, slope: (grad.mul_(slope), None)), "the slope at the threshold", 4, "in place"),
    (by_function(lambda u, width: triangle(u, width).clamp(max=3)), "the slope at the threshold", 3, "clamped"),
    (by_function(triangle, forward=lambda u: (u >= 0).float()), "exactly 0 and 1", 0),
    (lambda u, width: ramp(u, width), "exactly 0 and 1", 2),
    (by_a_long_line, "the triangle", 3),
    (lambda u, width: (u >= 0).to(u.dtype), "the slope at the threshold", 1),
    (by_function(lambda u, width: triangle(u, width) * width), "the slope at the threshold", 3),
    (by_function(lambda u, width: triangle(u, 1.0)), "the slope at the threshold", 3),
    (by_function(lambda u, width: 0 * u), "the slope at the threshold", 3),
    (by_function(lambda u, width: (u.abs() <= width) / width), "the triangle", 3),
    (by_function(lambda u, width: (1 - u.abs() / width) / width), "the triangle", 3),
    (by_function(lambda u, width: (1 - u / width).clamp(min=0) / width), "the triangle", 3),
    (by_function(triangle, chained=False), "the chain rule", 4),
    (by_function(lambda u, width: triangle(u, width) + 0 * (u * u)), "far away", 3),
]


def only_once(u, width):
    """Right for one step, but cut off from what came before: the gradient ends at a copy of u."""
    return (
        triangular(u, width)
        if u.is_leaf or u.grad_fn.name() == "CloneBackward0"
        else triangular(u, width).detach() + 0 * u
    )


SPIKES.append((only_once, "inside your population", 4))


# Stubs


class _Stub(MySpike):
    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ..., None


WRONG = {1: SLOPES, 2: DEAD, 3: SPIKES}

RIGHT = {
    1: [spike(lambda u, a: 0.5 * a / (1 + (0.5 * math.pi * a * u).square())), ByAutograd],
    2: [
        lambda u, s, f: (u.amax((0, 1)) < 0) & (s.derivative(u).amax((0, 1)) < f),
        _one_by_one,
        lambda u, surrogate, floor: ~((u >= 0) | (surrogate.derivative(u) >= floor)).flatten(0, 1).any(0),
    ],
    3: [AsAClass.apply, by_detach, by_a_zero, by_function(triangle)],
}

STUBS = {1: [_Stub], 2: [lambda u, surrogate, floor: ...], 3: [..., lambda *args, **kwargs: ...]}
