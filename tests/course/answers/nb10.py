"""Answers to the exercises of notebook 10."""

import math

import torch
from torch import nn

from snnkit.course.nb10 import crossover, leaky

from .nb10_losses import LOSSES, by_keywords, by_reshape, model

# 10.1


def with_an_if(mem, x, fire, beta=0.9, threshold=1.0):
    mem = beta * mem + x - (threshold if mem > threshold else 0)
    return fire(mem - threshold), mem


def by_item(mem, x, fire, beta=0.9, threshold=1.0):
    reset = (mem > threshold).to(mem.dtype)
    if reset.sum().item() > 0:
        x = x - reset * threshold
    mem = beta * mem + x
    return fire(mem - threshold), mem


def by_mask(mem, x, fire, beta=0.9, threshold=1.0):
    was = mem > threshold
    mem = beta * mem + x
    mem[was] = mem[was] - threshold
    return fire(mem - threshold), mem


def by_heaviside(mem, x, fire, beta=0.9, threshold=1.0):
    reset = torch.heaviside(mem.detach() - threshold, mem.new_zeros(()))
    mem = beta * mem + x - reset * threshold
    return fire(mem - threshold), mem


def to_zero(mem, x, fire, beta=0.9, threshold=1.0):
    mem = (beta * mem + x) * (mem <= threshold).to(mem.dtype)
    return fire(mem - threshold), mem


def at_once(mem, x, fire, beta=0.9, threshold=1.0):
    mem = beta * mem + x
    fired = fire(mem - threshold)
    return fired, mem - fired.detach() * threshold


def decayed(mem, x, fire, beta=0.9, threshold=1.0):
    mem = beta * (mem - (mem > threshold).to(mem.dtype) * threshold) + x
    return fire(mem - threshold), mem


def never(mem, x, fire, beta=0.9, threshold=1.0):
    mem = beta * mem + x
    return fire(mem - threshold), mem


def of_the_old_membrane(mem, x, fire, beta=0.9, threshold=1.0):
    fired = fire(mem - threshold)
    return fired, beta * mem + x - fired.detach() * threshold


def through_the_reset(mem, x, fire, beta=0.9, threshold=1.0):
    mem = beta * mem + x - fire(mem - threshold) * threshold
    return fire(mem - threshold), mem


def swapped(mem, x, fire, beta=0.9, threshold=1.0):
    return leaky(mem, x, fire)[::-1]


def membrane_alone(mem, x, fire, beta=0.9, threshold=1.0):
    return leaky(mem, x, fire)[1]


def numbers_of_its_own(mem, x, fire, beta=0.9, threshold=1.0):
    reset = (mem > 1.0).to(mem.dtype)
    mem = 0.9 * mem + x - reset
    return fire(mem - 1.0), mem


def at_the_threshold(mem, x, fire, beta=0.9, threshold=1.0):
    reset = (mem >= threshold).to(mem.dtype)
    mem = beta * mem + x - reset * threshold
    return fire(mem - threshold), mem


NEURONS = [
    (numbers_of_its_own, "the numbers", 0),
    (at_the_threshold, "the numbers", 0),
    (never, "the numbers", 0),
    (of_the_old_membrane, "the numbers", 0),
    (with_an_if, "the numbers", 1),
    (to_zero, "the numbers", 3),
    (at_once, "the numbers", 3),
    (decayed, "the numbers", 3),
    (swapped, "the numbers", 5),
    (membrane_alone, "the numbers", 5),
    (by_item, "a static graph", 1),
    (by_mask, "a static graph", 2),
    (by_heaviside, "a static graph", 2),
    (through_the_reset, "the gradient", 4),
]


def by_where(mem, x, fire, beta=0.9, threshold=1.0):
    mem = beta * mem + x - torch.where(mem > threshold, threshold, 0.0)
    return fire(mem - threshold), mem


def by_fire(mem, x, fire, beta=0.9, threshold=1.0):
    mem = beta * mem + x - fire(mem - threshold).detach() * threshold
    return fire(mem - threshold), mem


# 10.2


class Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, u, s):
        return (u > 0).to(u.dtype)

    @staticmethod
    def backward(ctx, grad):
        return None, grad


SPIKES = [
    (lambda u, smooth: (u >= 0).to(u.dtype) + (smooth(u) - smooth(u).detach()), "0 or 1", 0),
    (lambda u, smooth: smooth(u), "0 or 1", 0),
    (lambda u, smooth: (u > 0).to(u.dtype) + smooth(u), "0 or 1", 0),
    (lambda u, smooth: u > 0, "0 or 1", 0),
    (lambda u, smooth: (u > 0).to(u.dtype) + smooth(u) - smooth(u).detach(), "0 or 1", 2),
    (lambda u, smooth: (u > 0).to(u.dtype), "the gradient", 1),
    (lambda u, smooth: (u > 0).to(u.dtype) + 0 * smooth(u), "the gradient", 1),
    (lambda u, smooth: (u > 0).to(u.dtype) + 2 * (smooth(u) - smooth(u).detach()), "the gradient", 0),
    (lambda u, smooth: Step.apply(u, smooth(u)), "plain operations", 3),
    (
        lambda u, smooth: torch.heaviside(u.detach(), u.new_zeros(())) + (smooth(u) - smooth(u).detach()),
        "plain operations",
        4,
    ),
]

# 10.4


def line(small, large):
    (b0, t0), (b1, t1) = small, large
    slope = (t1 - t0) / (b1 - b0)
    return t0 - slope * b0, slope


def careful(small, large, found):
    a, b = line(small, large)
    return math.inf if b <= 0 else max(found(small, large, a, b), 0.0)


CROSSINGS = [
    (lambda small, large: 0.5 * crossover(small, large), "the crossover", 0),
    (lambda small, large: careful(small, large, lambda s, t, a, b: b / a), "the crossover", 1),
    (lambda small, large: careful(small, large, lambda s, t, a, b: s[1] / b), "the crossover", 2),
    (lambda small, large: small[1] / (large[1] / large[0]), "the crossover", 3),
    (lambda small, large: line(small, large)[0] / line(small, large)[1], "a flat line", 4),
    (lambda small, large: 0.0 if small[1] == large[1] else crossover(small, large), "a flat line", 4),
    (
        lambda small, large: math.inf if small[1] == large[1] else line(small, large)[0] / line(small, large)[1],
        "a steep line",
        5,
    ),
]


def by_fitting(small, large):
    xs, ys = (torch.tensor(numbers, dtype=torch.float64) for numbers in zip(small, large, strict=True))
    fixed, slope = torch.linalg.solve(torch.stack([torch.ones_like(xs), xs], 1), ys).tolist()
    if slope < 1e-15:
        return float("inf")
    return fixed / slope if fixed > 0 else 0.0


def by_similar_triangles(small, large):
    (b0, t0), (b1, t1) = small, large
    if t1 <= t0:
        return math.inf
    crossing = (t0 * b1 - t1 * b0) / (t1 - t0)
    return 0.0 if crossing < 0 else crossing


# The stubs of the notebook


def neuron_of_the_notebook(mem, x, fire, beta=0.9, threshold=1.0):
    mem = ...
    return fire(mem - threshold), mem


def spike_of_the_notebook(u, smooth):
    step = (u > 0).to(u.dtype)
    return step + ...


class TrainingOfTheNotebook(nn.Module):
    def __init__(self, net, loss):
        super().__init__()
        self.net, self.loss = net, loss

    def forward(self, x, y=None):
        out = self.net(...)
        if y is None:
            return out
        return out, ...


def crossover_of_the_notebook(small, large):
    per_sample = ...
    fixed = ...
    return fixed / per_sample


WRONG = {"10.1": NEURONS, "10.2": SPIKES, "10.3": LOSSES, "10.4": CROSSINGS}

RIGHT = {
    "10.1": [by_where, by_fire],
    "10.2": [
        lambda u, smooth: torch.where(u > 0, 1.0, 0.0) + (smooth(u) - smooth(u).detach()),
        lambda u, smooth: (smooth(u) - smooth(u).detach()) + (u > 0).float(),
        # where rounding is to nearest
        lambda u, smooth: ((u > 0).to(u.dtype) - smooth(u)).detach() + smooth(u),
    ],
    "10.3": [model(by_reshape), model(by_keywords)],
    "10.4": [by_fitting, by_similar_triangles],
}

STUBS = {
    "10.1": [neuron_of_the_notebook],
    "10.2": [spike_of_the_notebook],
    "10.3": [TrainingOfTheNotebook],
    "10.4": [crossover_of_the_notebook],
}
