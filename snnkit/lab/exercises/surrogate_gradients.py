"""Exercises of "Learning through a step: surrogate gradients"."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Exercise, Violation
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
_U[0, 1, 2] = -0.2
_U[:, :, 3] = -0.9
_U[2, 1, 4] = 0.5


def _silent_and_deaf(candidate: Any, reference: Any) -> None:
    stories = (
        (0, True, "A neuron always far below the threshold, where Triangle(1) is 0, is dead.", 1),
        (1, False, "A neuron that fires is not dead, not even if its gradient is 0.", 1),
        (2, False, "A neuron that is near the threshold once, in one sample, can learn: it is not dead.", 2),
        (3, False, "A silent neuron with a gradient can still learn: it is not dead.", 1),
    )
    result = candidate(_U, Triangle(1.0), 1e-3)
    for index, dead, message, hint in stories:
        inputs = f"surrogate Triangle(1), floor 0.001, u of this neuron {_U[:, :, index].tolist()}"
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
]
