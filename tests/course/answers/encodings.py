"""Answers to the exercises of encodings."""

import torch

from snnkit import encode
from snnkit.lab.exercises.encodings import latency_encode, poisson_encode


def nearest(x, steps):
    return ((1 - x) * (steps - 1)).round()


def latency(
    when=nearest,
    fires=lambda step, when: step == when,
    bright=lambda x, threshold: x >= threshold,
    cast=lambda spikes, x: spikes.to(x.dtype),
    count=lambda x, steps: torch.arange(steps, device=x.device).view(-1, *[1] * x.ndim),
):
    """An answer to exercise 1 with some of its parts exchanged."""

    def answer(x, steps, threshold=0.01):
        return cast(fires(count(x, steps), when(x, steps)) & bright(x, threshold), x)

    return answer


def coded(change):
    """The right answer to exercise 1, changed afterwards by a function of the spikes and of x."""
    return lambda x, steps, threshold=0.01: change(latency_encode(x, steps, threshold), x)


# Exercise 1: wrong


def per_batch(x, steps, threshold=0.01):
    return latency_encode(x / x.max(), steps, threshold) if x.numel() else latency_encode(x, steps)


def within_each_image(x, steps):
    return nearest(x / x.flatten(1).amax(1).view(-1, *[1] * (x.ndim - 1)).clamp(min=1e-6), steps)


def zeros_anywhere(x, steps, threshold=0.01):
    spikes = torch.zeros(steps, *x.shape, dtype=x.dtype)
    return spikes.scatter_(0, nearest(x, steps).long()[None], (x >= threshold).to(x.dtype)[None])


# Exercise 1: right


def scattered(x, steps, threshold=0.01):
    when = ((1 - x) * (steps - 1)).round().long()
    spikes = x.new_zeros(steps, *x.shape)
    return spikes.scatter(0, when.unsqueeze(0), (x >= threshold).to(x.dtype).unsqueeze(0))


# Exercise 2: wrong


def poisson(
    rate=lambda x, steps: x,
    shape=lambda x, steps: (steps, *x.shape),
    draw=torch.rand,
    cast=lambda spikes, x: spikes.to(x.dtype),
):
    """An answer to exercise 2 with some of its parts exchanged."""

    def answer(x, steps, generator=None):
        u = draw(shape(x, steps), generator=generator, dtype=x.dtype, device=x.device)
        return cast(u < rate(x, steps), x).expand(steps, *x.shape)

    return answer


def regular(x, steps, generator=None):
    count = torch.arange(1, steps + 1, device=x.device, dtype=x.dtype).view(-1, *[1] * x.ndim) * x
    return count.floor() - (count - x).floor()


def seed_inside(x, steps, generator=None):
    return poisson_encode(x, steps, torch.Generator(x.device).manual_seed(0))


def seed_if_alone(x, steps, generator=None):
    return poisson_encode(x, steps, generator or torch.Generator(x.device).manual_seed(0))


def global_seed(x, steps, generator=None):
    torch.manual_seed(generator.initial_seed())
    return (torch.rand(steps, *x.shape, dtype=x.dtype, device=x.device) < x).to(x.dtype)


def the_seed_of_all(x, steps, generator=None):
    torch.manual_seed(0)
    return poisson_encode(x, steps)


def at_the_generators_place(shape, generator, dtype, device):
    return torch.rand(shape, generator=generator, dtype=dtype, device=generator.device)


# Exercise 2: right


def step_by_step(x, steps, generator=None):
    drawn = [torch.rand(x.shape, generator=generator, dtype=x.dtype, device=x.device) for _ in range(steps)]
    return torch.stack([(u < x).to(x.dtype) for u in drawn])


def from_above(x, steps, generator=None):
    u = torch.empty(steps, *x.shape, dtype=x.dtype, device=x.device).uniform_(generator=generator)
    return torch.where(u >= 1 - x, torch.ones_like(u), torch.zeros_like(u))


# Stubs


def half_a_latency(x, steps, threshold=0.01):
    when = ...
    return (when + x).to(x.dtype)


WRONG = {
    1: [
        (coded(lambda spikes, x: spikes.movedim(0, 1)), "shape, dtype and values", 0, "batch first"),
        (latency(cast=lambda spikes, x: spikes), "shape, dtype and values", 0, "bools"),
        (coded(lambda spikes, x: spikes * x), "shape, dtype and values", 0, "grey spikes"),
        (latency(fires=lambda step, when: step >= when), "at most one spike", 1, "goes on firing"),
        (latency(bright=lambda x, threshold: x >= 0), "dark is silent", 2, "never silent"),
        (latency(bright=lambda x, threshold: x > 0), "dark is silent", 2, "only black is silent"),
        (latency(bright=lambda x, threshold: x >= 0.01), "dark is silent", 2, "a fixed threshold"),
        (latency(bright=lambda x, threshold: x > threshold), "dark is silent", 2, "only above the threshold"),
        (lambda x, steps, threshold=0.05: latency_encode(x, steps, threshold), "dark is silent", 2, "another default"),
        (latency(when=lambda x, steps: (x * (steps - 1)).round()), "bright before dark", 3, "dark first"),
        (latency(when=lambda x, steps: ((1 - x) * steps).round()), "all steps are used", 4, "one step too long"),
        (latency(when=lambda x, steps: ((1 - x) * (steps - 1)).long()), "nearest step", 5, "cut off"),
        (lambda x, steps, threshold=0.01: encode.latency(x, steps, threshold=threshold), "bright before dark", 3),
        (per_batch, "each image for itself", 6),
        (latency(when=within_each_image), "each image for itself", 6, "per image"),
        (latency(count=lambda x, steps: torch.arange(steps).to(x.device)[:, None, None]), "any shape and dtype", 7),
        (coded(lambda spikes, x: spikes.float()), "any shape and dtype", 0, "float32 only"),
        (latency(count=lambda x, steps: torch.arange(steps).view(-1, *[1] * x.ndim)), "any device", 8, "on the CPU"),
        (zeros_anywhere, "any device", 8),
    ],
    2: [
        (lambda x, steps, generator=None: poisson_encode(x, steps).movedim(0, -1), "shape, dtype and values", 0),
        (poisson(cast=lambda spikes, x: spikes), "shape, dtype and values", 0, "true and false"),
        (poisson(cast=lambda spikes, x: (~spikes).to(x.dtype)), "pixels of 0 and of 1", 1, "inverted"),
        (poisson(draw=torch.randn), "pixels of 0 and of 1", 1, "a bell curve"),
        (poisson(rate=lambda x, steps: x / steps), "pixels of 0 and of 1", 1, "per presentation"),
        (poisson(shape=lambda x, steps: (1, *x.shape)), "independent draws", 2, "one mask for all steps"),
        (poisson(shape=lambda x, steps: (steps, 1, *x.shape[1:])), "independent draws", 2, "one mask for all images"),
        (poisson(shape=lambda x, steps: (steps, len(x), *[1] * (x.ndim - 1))), "independent draws", 2, "one mask"),
        (regular, "independent draws", 2),
        (lambda x, steps, generator=None: x.round().expand(steps, *x.shape).clone(), "independent draws", 2, "rounded"),
        (poisson(rate=lambda x, steps: x**2), "rate", 3, "squared"),
        (poisson(draw=lambda shape, generator, **like: torch.rand(shape, **like)), "repeatable", 4, "no generator"),
        (seed_inside, "repeatable", 4),
        (the_seed_of_all, "shape, dtype and values", "changes nothing else"),
        (seed_if_alone, "repeatable", 4),
        (poisson(draw=at_the_generators_place), "repeatable", "is None", "never alone"),
        (global_seed, "shape, dtype and values", "torch.Generator"),
        (poisson(draw=lambda shape, device, **like: torch.rand(shape, **like)), "any device", 5, "drawn on the CPU"),
    ],
}


RIGHT = {
    1: [
        scattered,
        latency(count=lambda x, steps: torch.arange(steps).to(x.device).view(-1, *[1] * x.ndim)),
    ],
    2: [
        lambda x, steps, generator=None: torch.bernoulli(x.expand(steps, *x.shape), generator=generator),
        step_by_step,
        from_above,
    ],
}

STUBS = {
    1: [lambda x, steps, threshold=0.01: ..., half_a_latency],
    2: [lambda x, steps, generator=None: ...],
}
