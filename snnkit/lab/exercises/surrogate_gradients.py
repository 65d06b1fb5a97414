"""Exercises of "Learning through a step: surrogate gradients"."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Check, Exercise, Violation
from snnkit.lab.exercises.first_spiking_neuron import population, step
from snnkit.surrogate import ATan, Triangle


class MySpike(torch.autograd.Function):
    """A step forward, the derivative of (1/pi) arctan(pi alpha u / 2) + 1/2 backward."""

    @staticmethod
    def forward(ctx, u, alpha):
        ctx.save_for_backward(u)
        ctx.alpha = alpha
        return (u >= 0).to(u.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        (u,) = ctx.saved_tensors
        slope = (ctx.alpha / 2) / (1 + (math.pi / 2 * ctx.alpha * u) ** 2)
        return grad_output * slope, None


def dead_neurons(u, surrogate, floor):
    """Which neurons never fire and get almost no gradient: u [T, B, N] -> bool [N]."""
    silent = (u < 0).all(dim=(0, 1))
    deaf = (surrogate.derivative(u) < floor).all(dim=(0, 1))
    return silent & deaf


def spike(u, width):
    """A step forward; backward a triangle of area 1, which ends at u = ± width."""
    slope = (1 - u.abs() / width).clamp(min=0) / width
    a = slope.detach() * u
    return (u >= 0).to(u.dtype) + (a - a.detach())


RETURN_BOTH = "The last line: `return grad_output * slope, None`. An argument without a gradient gets None."


def gradient(candidate: Any, u: Tensor, alpha: float, upstream: Tensor | None = None) -> Tensor:
    """What arrives at ``u`` when ``upstream`` (ones) arrives at the spikes."""
    u = u.clone().requires_grad_()
    spikes = expect.written(candidate.apply(u, alpha))
    if not (isinstance(spikes, Tensor) and spikes.requires_grad):
        raise Violation("The spikes are connected to u.", yours="no graph", expected="a graph back to u", hint=0)
    upstream = torch.ones_like(spikes) if upstream is None else upstream
    given, message = upstream.clone(), "backward returns two values: the gradient for u, and None for alpha."
    with expect.explained(RuntimeError, "incorrect number of gradients|different than None", message, hint=RETURN_BOTH):
        spikes.backward(given)
    expect.true(torch.equal(given, upstream), "backward must not change grad_output in place.", hint=3)
    if u.grad is None:
        raise Violation("backward returns a gradient for u.", yours=None, expected="a tensor like u", hint=1)
    return u.grad


def _forward_is_a_step(candidate: Any, reference: Any) -> None:
    for dtype in (torch.float64, torch.float32):
        u = torch.tensor([-2.0, -1e-4, 0.0, 1e-4, 3.0], dtype=dtype)
        spikes = expect.written(candidate.apply(u, 2.0))
        message = "Forward stays a step: 1 where u >= 0, else 0, in the dtype of u."
        expect.tensor(spikes, u, message, hint=0)
        expect.close(spikes, (u >= 0).to(dtype), message, inputs={"u": u}, hint=0)


def _the_peak(candidate: Any, reference: Any) -> None:
    u = torch.zeros(1, dtype=torch.float64)
    for alpha in (2.0, 5.0):
        result = gradient(candidate, u, alpha)
        message = f"At the threshold the slope of sigma is alpha / 2 = {alpha / 2:g}."
        expect.close(result, u + alpha / 2, message, inputs={"u": u, "alpha": alpha}, hint=1)


def _the_slope_everywhere(candidate: Any, reference: Any) -> None:
    u = torch.linspace(-2, 2, 9, dtype=torch.float64)
    for alpha in (2.0, 0.7):
        sigma = ATan(alpha).primitive
        measured = (sigma(u + 1e-5) - sigma(u - 1e-5)) / 2e-5
        message = "The gradient is the slope of sigma, here measured as (sigma(u + h) - sigma(u - h)) / 2h."
        expect.close(gradient(candidate, u, alpha), measured, message, inputs={"u": u, "alpha": alpha}, hint=2)


def _the_chain_rule(candidate: Any, reference: Any) -> None:
    u, upstream = torch.tensor([-0.5, 0.0, 0.5]), torch.tensor([2.0, -3.0, 0.0])
    message = "The gradient from above is multiplied by the slope and passed on (the chain rule)."
    inputs = {"u": u, "grad_output": upstream}
    want = gradient(reference, u, 2.0, upstream)
    expect.close(gradient(candidate, u, 2.0, upstream), want, message, inputs=inputs, hint=3)


def _finite_far_out(candidate: Any, reference: Any) -> None:
    u = torch.tensor([-3e38, -1e20, 1e20, 3e38])
    result = gradient(candidate, u, 2.0)
    message = "Far from the threshold the gradient fades to 0; it never becomes NaN or infinite."
    expect.tensor(result, u)
    expect.close(result, torch.zeros(4), message, inputs={"u": u}, hint=4)


def _plot_slope(candidate: Any, reference: Any) -> Any:
    from snnkit.lab.viz import figures

    u = torch.linspace(-2, 2, 201, dtype=torch.float64)
    curves = {"reference": gradient(reference, u, 2.0), "yours": gradient(candidate, u, 2.0)}
    title = "Your gradient and the reference, alpha = 2"
    return figures.lines(curves, x=u, x_title="u = potential − threshold", y_title="gradient", title=title)


def _one_answer_per_neuron(candidate: Any, reference: Any) -> None:
    u = torch.full((3, 2, 4), -0.5)
    result = expect.written(candidate(u, ATan(), 0.01))
    expect.tensor(result, torch.zeros(4, dtype=torch.bool), "One True or False per neuron: bool [N].", hint=0)


# Five neurons, 3 steps, 2 samples: lost, fires once (far above threshold), comes near once, always near, fires once.
_U = torch.full((3, 2, 5), -5.0)
_U[1, 0, 1] = 3.0
_U[1, 1, 2] = -0.9  # neither in the first step nor in the last
_U[:, :, 3] = -0.9
_U[2, 1, 4] = 0.5


def _silent_and_deaf(candidate: Any, reference: Any) -> None:
    stories = (
        (0, True, "A neuron always far below the threshold, where Triangle(1) is 0, is dead.", 1),
        (1, False, "A neuron that fires is not dead, not even if its gradient is 0.", 1),
        (2, False, "A neuron that is near the threshold once, in one sample, can learn: it is not dead.", 2),
        (3, False, "A silent neuron with a gradient can still learn: it is not dead.", 1),
    )
    for u in (_U, _U.flip(1)):  # the samples in either order
        result = candidate(u, Triangle(1.0), 0.06)  # the mean slopes of the third are less, over any axis
        for index, dead, message, hint in stories:
            inputs = f"surrogate Triangle(1), floor 0.06, u of this neuron {u[:, :, index].tolist()}"
            yours = bool(result[index])
            expect.true(yours == dead, message, inputs=inputs, yours=yours, expected=dead, hint=hint)


def _ask_the_surrogate(candidate: Any, reference: Any) -> None:
    for surrogate, floor in ((ATan(2.0), 1e-3), (ATan(2.0), 1e-2), (Triangle(0.1), 1e-3), (Triangle(10.0), 1e-3)):
        message = "Whether a gradient gets through depends on the surrogate and on the floor."
        inputs = f"surrogate {surrogate}, floor {floor}, u of each neuron {_U.flatten(0, 1).T.tolist()}"
        want = reference(_U, surrogate, floor)
        expect.close(candidate(_U, surrogate, floor), want, message, inputs=inputs, hint=3)


def _any_recording(candidate: Any, reference: Any) -> None:
    for u in (torch.cat([_U, _U - 1]), _U[:, :1], _U[1:, 1:]):
        message = "Any number of steps and samples."
        with expect.explained(RuntimeError, "", message, inputs={"u": list(u.shape)}, hint=0):
            yours, want = (one(u, Triangle(1.0), 1e-3) for one in (candidate, reference))
        expect.close(yours, want, message, inputs={"u": list(u.shape)}, hint=0)
    message = "A neuron that is exactly at the threshold fires, so it is not dead, whatever its gradient."
    yours = candidate(torch.zeros(3, 2, 1), ATan(2.0), 1.5)
    expect.close(yours, torch.tensor([False]), message, inputs={"u": "0 everywhere", "floor": 1.5}, hint=1)


def _slope(candidate: Any, u: Tensor, width: float, upstream: Tensor | None = None) -> Tensor:
    """What arrives at u when ``upstream`` (ones) arrives at the spikes."""
    u = u.clone().requires_grad_()
    spikes = expect.written(candidate(u, width))
    expect.tensor(spikes, u, hint=0)
    expect.true(spikes.requires_grad, "The spikes are connected to u.", yours="no graph back to u", hint=1)
    upstream = torch.ones_like(u) if upstream is None else upstream
    given, message = upstream.clone(), "`backward` returns two values: the gradient for u, and None for width."
    with expect.explained(RuntimeError, "incorrect number of gradients|different than None", message, hint=4):
        (gradient,) = torch.autograd.grad(spikes, u, given, allow_unused=True)
    expect.true(torch.equal(given, upstream), "The gradient that arrives must not be changed in place.", hint=4)
    expect.true(gradient is not None, "A gradient arrives at u.", yours=None, hint=1)
    return gradient


def _exactly_0_and_1(candidate: Any, reference: Any) -> None:
    for u in (torch.tensor([-2.0, -1e-6, 0.0, 1e-6, 0.3]), torch.linspace(-2, 2, 401), torch.zeros(2, 3).double()):
        for width in (1.0, 0.3):
            yours, want = expect.written(candidate(u, width)), reference(u, width)
            message = "1 where u >= 0, else 0, in the shape and dtype of u."
            expect.tensor(yours, u, message, hint=0)
            if bool((yours[u == 0] == 0).all()) and torch.equal(yours[u != 0], want[u != 0]):
                expect.close(yours, want, message, inputs={"u": u}, hint=0)
            off = yours[yours != want]
            shown = {"inputs": {"width": width}, "yours": [f"{one:.9g}" for one in off[:3].flatten().tolist()]}
            expect.true(len(off) == 0, "The spikes are 0 or 1 exactly, not nearly.", hint=2, **shown)


def _the_slope_at_the_threshold(candidate: Any, reference: Any) -> None:
    u = torch.zeros(1)
    for width in (1.0, 0.5, 0.1):
        message = "At the threshold the slope is 1 / width."
        expect.close(_slope(candidate, u, width), 1 / (width + u), message, inputs={"u": u, "width": width}, hint=3)


def _the_triangle(candidate: Any, reference: Any) -> None:
    u = torch.linspace(-1.95, 1.95, 14)
    for width in (1.0, 2.0, 0.4):
        message = "The slope is a triangle: it falls evenly to 0 at u = ± width, and is 0 beyond."
        want = _slope(reference, u, width)
        expect.close(_slope(candidate, u, width), want, message, inputs={"u": u, "width": width}, hint=3)


def _chained(candidate: Any, reference: Any) -> None:
    u, upstream = torch.tensor([-0.5, 0.0, 0.5]), torch.tensor([2.0, -3.0, 0.0])
    message = "The gradient at the spikes is multiplied by the slope and passed on."
    want = _slope(reference, u, 1.0, upstream)
    expect.close(_slope(candidate, u, 1.0, upstream), want, message, inputs={"u": u, "grad": upstream}, hint=4)


def _far_away(candidate: Any, reference: Any) -> None:
    u = torch.tensor([-3e38, -1e20, 1e20, 3e38])
    message = "Far from the threshold the spikes are still 0 and 1, and the gradient is 0, never NaN."
    expect.close(candidate(u, 0.5), step(u), message, inputs={"u": u}, hint=2)
    expect.close(_slope(candidate, u, 0.5), torch.zeros(4), message, inputs={"u": u}, hint=3)


def _inside_your_population(candidate: Any, reference: Any) -> None:
    def through(fire: Any) -> Tensor:
        x = (0.3 * torch.rand(20, 1, 3, generator=torch.Generator().manual_seed(4))).requires_grad_()
        spikes, _ = population(x, 0.9, lambda u: fire(u, 1.0))
        return torch.autograd.grad(spikes.sum(), x)[0]

    message = "As `fire` of a population it gives the gradient of all inputs over 20 steps."
    expect.close(through(candidate), through(reference), message, atol=1e-5, hint=4)


EXERCISES = [
    Exercise(
        "surrogate_gradients.1",
        "Your own backward pass",
        MySpike,
        [_forward_is_a_step, _the_peak, _the_slope_everywhere, _the_chain_rule, _finite_far_out],
        minutes=8,
        difficulty=2,
        hints=(
            "Leave `forward` as it was: the spikes are 0 or 1. Change only `backward`.",
            "d/dz arctan(z) = 1 / (1 + z²). Here z = pi/2 * alpha * u, so the inner derivative is pi/2 * alpha.",
            "The 1/pi in front and the pi/2 * alpha from inside give alpha/2: (alpha/2) / (1 + (pi/2 * alpha * u)**2).",
            "`grad_output` is dLoss/dspike; you return dLoss/du = dLoss/dspike * dspike/du: multiply.",
            "Keep the form 1 / (1 + z²): a difference or quotient of two huge numbers turns into NaN.",
        ),
        plot=_plot_slope,
    ),
    Exercise(
        "surrogate_gradients.2",
        "Find the dead neurons",
        dead_neurons,
        [_one_answer_per_neuron, _silent_and_deaf, _ask_the_surrogate, _any_recording],
        minutes=8,
        difficulty=2,
        hints=(
            "Reduce over time and batch, `.all(dim=(0, 1))`; comparisons give the bools.",
            "There are two conditions. It never fires: `u < 0`. Its slope stays small: `surrogate.derivative(u)`.",
            "Dead means at *every* step of *every* sample: `all`, not `any`, and not the mean.",
            "Call `surrogate.derivative(u)` and compare with `floor`. Use no other numbers.",
        ),
    ),
    Exercise(
        "surrogate_gradients.3",
        "A surrogate gradient",
        spike,
        [
            _exactly_0_and_1,
            _the_slope_at_the_threshold,
            _the_triangle,
            Check("the chain rule", _chained),
            _far_away,
            _inside_your_population,
        ],
        minutes=12,
        difficulty=2,
        list_all=True,
        hints=(
            "`(u >= 0).to(u.dtype)` is the step. At u = 0 it fires.",
            "A comparison cuts the graph. Write a `torch.autograd.Function`, or add something to the step that is 0 "
            "and has a gradient.",
            "Forward has no ramp: return the step, or `s + (a - a.detach())`. The brackets make it exactly 0: without "
            "them, rounding remains.",
            "The triangle, `(1 - u.abs() / width).clamp(min=0) / width`, is the *slope*. If you add an `a`, not its "
            "value but its gradient must be this triangle.",
            "In `backward`: return the gradient times the slope, and `None` for width. In the other way "
            "PyTorch multiplies: `slope.detach() * u` has the gradient slope.",
        ),
    ),
]
