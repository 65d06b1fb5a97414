"""Exercises of "Microspike: all of it on one page"."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Check, Exercise
from snnkit.neuron import Leaky
from snnkit.surrogate import ATan


class Spike(torch.autograd.Function):
    """The spike of the notebook."""

    @staticmethod
    def forward(ctx, u):
        ctx.save_for_backward(u)
        return (u > 0).to(u.dtype)

    @staticmethod
    def backward(ctx, *grads):
        return grads[0] * ATan(2.0).derivative(*ctx.saved_tensors)


def backward(u, g, beta):
    """From the last step to the first: the gradient from the step's own spike, and through the leak."""
    d, gradients = torch.zeros_like(u[0]), []
    for u_t, g_t in zip(u.flip(0), g.flip(0), strict=True):
        d = g_t / (1 + (torch.pi * u_t) ** 2) + beta * d
        gradients.append(d)
    return torch.stack(gradients).flip(0)


def recurrent(current, r, beta):
    """As `leaky`, but the last spikes of all neurons, times the weights r, also charge each neuron."""
    v = s = torch.zeros_like(current[0])
    spikes = []
    for x_t in current:
        fired = (v > 1).to(v.dtype)
        v = beta * v + x_t + s @ r.T - fired
        s = Spike.apply(v - 1)
        spikes.append(s)
    return torch.stack(spikes)


_U = torch.tensor([[-0.3, 0.5], [0.1, -1.0], [-0.2, 0.0]])
_ONE = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]])


def _by_autograd(candidate: Any, reference: Any) -> None:
    generator = torch.Generator().manual_seed(5)
    x = torch.rand(12, 3, generator=generator).mul(0.4).requires_grad_()
    g = torch.randn(12, 3, generator=generator)
    out, _ = Leaky(0.8)(x)
    out.backward(g)
    v, u = torch.zeros(3), []
    for x_t in x.detach():
        v = 0.8 * v + x_t - (v > 1).to(v.dtype)
        u.append(v - 1)
    message = "For random inputs and gradients it is the same as PyTorch's."
    inputs = "12 steps of 3 neurons, beta = 0.8"
    expect.close(candidate(torch.stack(u), g, 0.8), x.grad, message, inputs=inputs, atol=1e-5, hint=3)


def _like_u(candidate: Any, reference: Any) -> None:
    for u in (_U, _U.double()):
        expect.tensor(candidate(u, torch.ones_like(u), 0.9), u, "The result has the shape and dtype of u.", hint=0)


def _current(*steps: tuple[float, ...]) -> Tensor:
    """[T, 1, 3]"""
    return torch.tensor(steps).unsqueeze(1)


_FIRST = _current((1.5, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
_LINK = torch.zeros(3, 3).index_put((torch.tensor([1]), torch.tensor([0])), torch.tensor(1.2))  # r[1, 0]: 0 to 1


def _reset_by_spikes(current: Tensor, r: Tensor, beta: float) -> Tensor:
    """A mistake: as `recurrent`, but the gradient flows through the reset as well."""
    v = s = torch.zeros_like(current[0])
    spikes = []
    for x_t in current:
        v = beta * v + x_t + s @ r.T - s
        s = Spike.apply(v - 1)
        spikes.append(s)
    return torch.stack(spikes)


def _a_gradient_for_r(candidate: Any, reference: Any) -> None:
    def slope(layer: Any) -> Tensor | None:
        r = _LINK.clone().requires_grad_()
        spikes = expect.written(layer(_FIRST, r, 0.9))
        expect.tensor(spikes, _FIRST)
        expect.true(spikes.requires_grad, "The spikes are connected to r.", yours="no graph", hint=3)
        return torch.autograd.grad(spikes[1:, 0, 1:].sum(), r, allow_unused=True)[0]

    yours, want = slope(candidate), slope(reference)
    message = "Gradients reach r through the spikes that are fed back."
    expect.true(yours is not None, message, yours=None, expected=want, hint=3)
    hint: int | str = 3
    mistaken = slope(_reset_by_spikes)
    if yours is not None and mistaken is not None and torch.allclose(yours, mistaken):
        hint = "Your reset has a gradient, too. Subtract `fired`, the comparison, as `leaky` does."
    expect.close(yours, want, message, inputs={"r": _LINK}, hint=hint)


def _alone(candidate: Any, reference: Any) -> None:
    generator = torch.Generator().manual_seed(3)
    current = torch.rand(20, 2, 3, generator=generator) * 0.5
    r = torch.randn(3, 3, generator=generator)
    whole = candidate(current, r, 0.7)
    expect.tensor(whole, current)
    message = "The second sample's spikes do not depend on the first sample."
    changed = torch.cat([current[:, :1] + 1, current[:, 1:]], 1)
    expect.close(candidate(changed, r, 0.7)[:, 1], whole[:, 1], message, hint=4)
    message = "For random currents and weights the spikes are the reference's."
    expect.close(whole, reference(current, r, 0.7), message, inputs="20 steps, 2 samples, 3 neurons, beta 0.7", hint=1)


def _no_bounds(candidate: Any, reference: Any) -> None:
    message = "The membrane has no bounds, neither below nor above."
    for steps in ((-9.0, 0.0, 7.0, 2.0, 2.0), (30.0, *[0.0] * 19)):
        current = torch.tensor(steps).view(-1, 1, 1).expand(-1, 1, 3)
        yours, want = (one(current, torch.zeros(3, 3), 0.9) for one in (candidate, reference))
        hint = "Clamp nothing: only the leak, the input and the reset change v."
        expect.close(yours, want, message, inputs={"current": list(steps), "beta": 0.9}, hint=hint)


EXERCISES = [
    Exercise(
        "microspike.1",
        "Backward by hand",
        backward,
        [
            _like_u,
            expect.same(
                "one step",
                1,
                "With a single step there is only g times the slope of the spike.",
                {"u": _U[:1], "g": torch.tensor([[1.0, -2.0]]), "beta": 0.9},
            ),
            expect.same(
                "back in time",
                2,
                "A gradient at the last spike reaches the steps before it, and shrinks by beta in each.",
                {"u": _U, "g": _ONE, "beta": 0.5},
                "A gradient at the first spike reaches the first input only.",
                {"u": _U, "g": _ONE.flip(0), "beta": 0.5},
            ),
            Check("as PyTorch does it", _by_autograd),
        ],
        minutes=10,
        difficulty=2,
        hints=(
            "Collect one row for each step and `torch.stack` them: the result is [T, N], as u is.",
            "The slope of equation (1) is `1 / (1 + (torch.pi * u) ** 2)`. Multiply it by g of the same step.",
            "Begin with d = 0 after the last step and go back: `for t in reversed(range(len(u)))`. "
            "`d = … + beta * d` takes from the step after it.",
            "All of d goes back, not only `g` times the slope of the next step: `beta * d`, with the latest d.",
        ),
    ),
    Exercise(
        "microspike.2",
        "A recurrent layer",
        recurrent,
        [
            expect.same(
                "without feedback",
                0,
                "With r = 0 it is `leaky`.",
                {"current": torch.full((12, 1, 3), 0.4), "r": torch.zeros(3, 3), "beta": 0.9},
                "At v = 1 exactly there is neither a spike nor a reset.",
                {"current": torch.tensor([1.0, 0.6, 0.2])[:, None, None].expand(-1, 1, 3)}
                | {"r": torch.zeros(3, 3), "beta": 0.5},
            ),
            expect.same(
                "one step later",
                1,
                "Neuron 0 fires in the first step. By r[1, 0] it makes neuron 1 fire, one step later, and no other.",
                {"current": _FIRST, "r": _LINK, "beta": 0.9},
            ),
            _no_bounds,
            _alone,
            _a_gradient_for_r,
        ],
        minutes=8,
        difficulty=2,
        hints=(
            "Copy `leaky`, with beta as an argument, and add one term to the line of v.",
            "Keep the spikes of the step before, zeros at first: `s @ r.T` is [B, N], and `r[i, j]` leads from j to i.",
            "The answer is `v = beta * v + x_t + s @ r.T - fired`, then `s = Spike.apply(v - 1)`.",
            "`fired` comes from a comparison and carries no gradient; feed back the `s` of `Spike.apply`.",
            "Each sample has its own row of s: nothing is summed or averaged over the batch.",
        ),
    ),
]
