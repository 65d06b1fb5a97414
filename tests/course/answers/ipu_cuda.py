"""Answers to the exercises of ipu_cuda."""

import math

import torch
from torch import nn

from snnkit.lab.exercises.ipu_cuda import crossover, leaky

from .ipu_cuda_losses import LOSSES, by_keywords, by_reshape, model

# Exercise 1


def neuron(membrane):
    """An answer to exercise 1 from its membrane after the charge: a function of the arguments."""

    def answer(mem, x, fire, beta=0.9, threshold=1.0):
        mem = membrane(mem, x, fire, beta, threshold)
        return fire(mem - threshold), mem

    return answer


def by_item(mem, x, fire, beta=0.9, threshold=1.0):
    reset = (mem > threshold).to(mem.dtype)
    if reset.sum().item() > 0:
        x = x - reset * threshold
    mem = beta * mem + x
    return fire(mem - threshold), mem


def by_one_item(mem, x, fire, beta=0.9, threshold=1.0):
    reset = 1.0 if mem.item() > threshold else 0.0
    mem = beta * mem + x - reset * threshold
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


def at_once(mem, x, fire, beta=0.9, threshold=1.0):
    mem = beta * mem + x
    fired = fire(mem - threshold)
    return fired, mem - fired.detach() * threshold


def of_the_old_membrane(mem, x, fire, beta=0.9, threshold=1.0):
    fired = fire(mem - threshold)
    return fired, beta * mem + x - fired.detach() * threshold


def numbers_of_its_own(mem, x, fire, beta=0.9, threshold=1.0):
    reset = (mem > 1.0).to(mem.dtype)
    mem = 0.9 * mem + x - reset
    return fire(mem - 1.0), mem


NEURONS = [
    (
        neuron(lambda mem, x, fire, b, th: (b * mem + x - (mem > th).to(mem.dtype) * th).clamp(-5, 5)),
        "the numbers",
        "Clamp nothing",
        "clamped",
    ),
    (
        lambda mem, x, fire, beta=0.9, threshold=1.0: (
            fire(leaky(mem, x, fire, beta, threshold)[1] - 1.0),
            leaky(mem, x, fire, beta, threshold)[1],
        ),
        "the numbers",
        0,
        "fires at 1",
    ),
    (lambda *given: tuple(part.float() for part in leaky(*given)), "the numbers", 5, "float32 only"),
    (numbers_of_its_own, "the numbers", 0),
    (neuron(lambda mem, x, fire, b, th: b * mem + x - (mem >= th).to(mem.dtype) * th), "the numbers", 0, ">="),
    (neuron(lambda mem, x, fire, b, th: b * mem + x), "the numbers", 0, "no reset"),
    (of_the_old_membrane, "the numbers", 0),
    (neuron(lambda mem, x, fire, b, th: b * mem + x - (th if mem > th else 0)), "the numbers", 1, "with an if"),
    (neuron(lambda mem, x, fire, b, th: (b * mem + x) * (mem <= th).to(mem.dtype)), "the numbers", 3, "to zero"),
    (at_once, "the numbers", 3),
    (neuron(lambda mem, x, fire, b, th: b * (mem - (mem > th).to(mem.dtype) * th) + x), "the numbers", 3, "decayed"),
    (lambda *given, **options: leaky(*given, **options)[::-1], "the numbers", 5, "swapped"),
    (lambda *given, **options: leaky(*given, **options)[1], "the numbers", 5, "the membrane alone"),
    (by_item, "a static graph", 1),
    (by_one_item, "the numbers", 1),
    (by_mask, "a static graph", 2),
    (by_heaviside, "a static graph", 2),
    (neuron(lambda mem, x, fire, b, th: b * mem + x - fire(mem - th) * th), "the gradient", 4, "through the reset"),
]


# Exercise 2


class Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, u, s):
        return (u > 0).to(u.dtype)

    @staticmethod
    def backward(ctx, grad):
        return None, grad


def glide(u, smooth):
    """0, with the derivative of ``smooth``."""
    return smooth(u) - smooth(u).detach()


SPIKES = [
    (lambda u, smooth: (u > 0).to(u.dtype) + glide(u, torch.sigmoid), "the gradient", 0, "always a sigmoid"),
    (lambda u, smooth: (u >= 0).to(u.dtype) + glide(u, smooth), "0 or 1", 0),
    (lambda u, smooth: smooth(u), "0 or 1", 0),
    (lambda u, smooth: (u > 0).to(u.dtype) + smooth(u), "0 or 1", 0),
    (lambda u, smooth: u > 0, "0 or 1", 0),
    (lambda u, smooth: (u > 0).to(u.dtype) + smooth(u) - smooth(u).detach(), "0 or 1", 2),
    (lambda u, smooth: (u > 0).to(u.dtype), "the gradient", 1),
    (lambda u, smooth: (u > 0).to(u.dtype) + 0 * smooth(u), "the gradient", 1),
    (lambda u, smooth: (u > 0).to(u.dtype) + 2 * glide(u, smooth), "the gradient", 0),
    (lambda u, smooth: Step.apply(u, smooth(u)), "plain operations", 3),
    (lambda u, smooth: torch.heaviside(u.detach(), u.new_zeros(())) + glide(u, smooth), "plain operations", 4),
]

# Exercise 4


def line(small, large):
    (b0, t0), (b1, t1) = small, large
    slope = (t1 - t0) / (b1 - b0)
    return t0 - slope * b0, slope


def careful(small, large, found):
    a, b = line(small, large)
    return math.inf if b <= 0 else max(found(small, large, a, b), 0.0)


CROSSINGS = [
    (
        lambda small, large: crossover(small, large) if small[1] == large[1] else round(crossover(small, large)),
        "the crossover",
        0,
        "rounded",
    ),
    (
        lambda small, large: (
            math.inf if small[1] == large[1] else max(line(small, large)[0] / line(small, large)[1], 0.0)
        ),
        "a flat line",
        4,
        "falling",
    ),
    (lambda small, large: 0.5 * crossover(small, large), "the crossover", 0),
    (lambda small, large: careful(small, large, lambda s, t, a, b: b / a), "the crossover", 1),
    (lambda small, large: careful(small, large, lambda s, t, a, b: s[1] / b), "the crossover", 2),
    (lambda small, large: small[1] / (large[1] / large[0]), "the crossover", 3),
    (lambda small, large: line(small, large)[0] / line(small, large)[1], "a flat line", 4),
    (lambda small, large: 0.0 if small[1] == large[1] else crossover(small, large), "a flat line", 4),
    (
        lambda small, large: math.inf if small[1] >= large[1] else line(small, large)[0] / line(small, large)[1],
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


class TrainingOfTheNotebook(nn.Module):
    def __init__(self, net, loss):
        super().__init__()
        self.net, self.loss = net, loss

    def forward(self, x, y=None):
        out = self.net(...)
        if y is None:
            return out
        return out, ...


WRONG = {1: NEURONS, 2: SPIKES, 3: LOSSES, 4: CROSSINGS}

RIGHT = {
    1: [
        neuron(lambda mem, x, fire, b, th: b * mem + x - torch.where(mem > th, th, 0.0)),
        neuron(lambda mem, x, fire, b, th: b * mem + x - fire(mem - th).detach() * th),
    ],
    2: [
        lambda u, smooth: torch.where(u > 0, 1.0, 0.0) + glide(u, smooth),
        lambda u, smooth: glide(u, smooth) + (u > 0).float(),
        # where rounding is to nearest
        lambda u, smooth: ((u > 0).to(u.dtype) - smooth(u)).detach() + smooth(u),
    ],
    3: [model(by_reshape), model(by_keywords)],
    4: [by_fitting, by_similar_triangles],
}

STUBS = {
    1: [lambda mem, x, fire, beta=0.9, threshold=1.0: (fire(... - threshold), ...)],
    2: [lambda u, smooth: (u > 0).to(u.dtype) + ...],
    3: [TrainingOfTheNotebook],
    4: [lambda small, large: ... / ...],
}
