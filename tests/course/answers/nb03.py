"""Answers to the exercises of notebook 03."""

import torch

from snnkit import encode
from snnkit.course.nb03 import latency_encode, poisson_encode


def _steps(x, steps):
    return torch.arange(steps, device=x.device).view(-1, *[1] * x.ndim)


def _when(x, steps):
    return ((1 - x) * (steps - 1)).round()


# 03.1: wrong


def batch_first(x, steps, threshold=0.01):
    return latency_encode(x, steps, threshold).movedim(0, 1)


def bools(x, steps, threshold=0.01):
    return (_steps(x, steps) == _when(x, steps)) & (x >= threshold)


def grey_spikes(x, steps, threshold=0.01):
    return latency_encode(x, steps, threshold) * x


def goes_on_firing(x, steps, threshold=0.01):
    return ((_steps(x, steps) >= _when(x, steps)) & (x >= threshold)).to(x.dtype)


def never_silent(x, steps, threshold=0.01):
    return (_steps(x, steps) == _when(x, steps)).to(x.dtype)


def only_black_silent(x, steps, threshold=0.01):
    return ((_steps(x, steps) == _when(x, steps)) & (x > 0)).to(x.dtype)


def fixed_threshold(x, steps, threshold=0.01):
    return latency_encode(x, steps, 0.01)


def only_above_the_threshold(x, steps, threshold=0.01):
    return ((_steps(x, steps) == _when(x, steps)) & (x > threshold)).to(x.dtype)


def another_default(x, steps, threshold=0.05):
    return latency_encode(x, steps, threshold)


def dark_first(x, steps, threshold=0.01):
    return ((_steps(x, steps) == (x * (steps - 1)).round()) & (x >= threshold)).to(x.dtype)


def one_step_too_long(x, steps, threshold=0.01):
    return ((_steps(x, steps) == ((1 - x) * steps).round()) & (x >= threshold)).to(x.dtype)


def cut_off(x, steps, threshold=0.01):
    return ((_steps(x, steps) == ((1 - x) * (steps - 1)).long()) & (x >= threshold)).to(x.dtype)


def logarithm(x, steps, threshold=0.01):
    return encode.latency(x, steps, threshold=threshold)


def per_batch(x, steps, threshold=0.01):
    return latency_encode(x / x.max(), steps, threshold) if x.numel() else latency_encode(x, steps)


def per_image(x, steps, threshold=0.01):
    peak = x.flatten(1).amax(1).view(-1, *[1] * (x.ndim - 1)).clamp(min=1e-6)
    return ((_steps(x, steps) == _when(x / peak, steps)) & (x >= threshold)).to(x.dtype)


def two_axes_only(x, steps, threshold=0.01):
    step = torch.arange(steps, device=x.device).view(-1, 1, 1)
    return ((step == _when(x, steps)) & (x >= threshold)).to(x.dtype)


def float32_only(x, steps, threshold=0.01):
    return latency_encode(x, steps, threshold).float()


def on_the_cpu(x, steps, threshold=0.01):
    step = torch.arange(steps).view(-1, *[1] * x.ndim)
    return ((step == _when(x, steps)) & (x >= threshold)).to(x.dtype)


def zeros_anywhere(x, steps, threshold=0.01):
    spikes = torch.zeros(steps, *x.shape, dtype=x.dtype)
    return spikes.scatter_(0, _when(x, steps).long()[None], (x >= threshold).to(x.dtype)[None])


# 03.1: right


def scattered(x, steps, threshold=0.01):
    when = ((1 - x) * (steps - 1)).round().long()
    spikes = x.new_zeros(steps, *x.shape)
    return spikes.scatter(0, when.unsqueeze(0), (x >= threshold).to(x.dtype).unsqueeze(0))


def looped(x, steps, threshold=0.01):
    when = ((1 - x) * (steps - 1)).round()
    return torch.stack([((when == t) & (x >= threshold)).to(x.dtype) for t in range(steps)])


def moved_afterwards(x, steps, threshold=0.01):
    step = torch.arange(steps).to(x.device).view(-1, *[1] * x.ndim)
    return ((step == ((1 - x) * (steps - 1)).round()) & (x >= threshold)).to(x.dtype)


# 03.2: wrong


def _u(x, steps, generator, shape=None):
    return torch.rand(shape or (steps, *x.shape), generator=generator, dtype=x.dtype, device=x.device)


def noise_behind(x, steps, generator=None):
    return poisson_encode(x, steps, generator).movedim(0, -1)


def true_and_false(x, steps, generator=None):
    return _u(x, steps, generator) < x


def inverted(x, steps, generator=None):
    return (_u(x, steps, generator) > x).to(x.dtype)


def bell_curve(x, steps, generator=None):
    u = torch.randn(steps, *x.shape, generator=generator, dtype=x.dtype, device=x.device)
    return (u < x).to(x.dtype)


def per_presentation(x, steps, generator=None):
    return (_u(x, steps, generator) < x / steps).to(x.dtype)


def one_mask_for_all_steps(x, steps, generator=None):
    return (_u(x, steps, generator, (1, *x.shape)) < x).to(x.dtype).expand(steps, *x.shape)


def one_mask_for_all_images(x, steps, generator=None):
    return (_u(x, steps, generator, (steps, 1, *x.shape[1:])) < x).to(x.dtype)


def one_mask_for_all_pixels(x, steps, generator=None):
    return (_u(x, steps, generator, (steps, len(x), *[1] * (x.ndim - 1))) < x).to(x.dtype)


def regular(x, steps, generator=None):
    count = torch.arange(1, steps + 1, device=x.device, dtype=x.dtype).view(-1, *[1] * x.ndim) * x
    return count.floor() - (count - x).floor()


def rounded(x, steps, generator=None):
    return x.round().expand(steps, *x.shape).clone()


def squared(x, steps, generator=None):
    return (_u(x, steps, generator) < x**2).to(x.dtype)


def no_generator(x, steps, generator=None):
    return (torch.rand(steps, *x.shape, dtype=x.dtype, device=x.device) < x).to(x.dtype)


def seed_inside(x, steps, generator=None):
    return poisson_encode(x, steps, torch.Generator(x.device).manual_seed(0))


def seed_if_alone(x, steps, generator=None):
    return poisson_encode(x, steps, generator or torch.Generator(x.device).manual_seed(0))


def never_alone(x, steps, generator=None):
    u = torch.rand(steps, *x.shape, generator=generator, dtype=x.dtype, device=generator.device)
    return (u < x).to(x.dtype)


def global_seed(x, steps, generator=None):
    torch.manual_seed(generator.initial_seed())
    return (torch.rand(steps, *x.shape, dtype=x.dtype, device=x.device) < x).to(x.dtype)


def drawn_on_the_cpu(x, steps, generator=None):
    return (torch.rand(steps, *x.shape, generator=generator, dtype=x.dtype) < x).to(x.dtype)


# 03.2: right


def step_by_step(x, steps, generator=None):
    drawn = [torch.rand(x.shape, generator=generator, dtype=x.dtype, device=x.device) for _ in range(steps)]
    return torch.stack([(u < x).to(x.dtype) for u in drawn])


def from_above(x, steps, generator=None):
    u = torch.empty(steps, *x.shape, dtype=x.dtype, device=x.device).uniform_(generator=generator)
    return torch.where(u >= 1 - x, torch.ones_like(u), torch.zeros_like(u))


# Stubs


def stub_of_the_latency(x, steps, threshold=0.01):
    return ...


def half_a_latency(x, steps, threshold=0.01):
    when = ...
    return (when + x).to(x.dtype)


def stub_of_poisson(x, steps, generator=None):
    return ...


WRONG = {
    "03.1": [
        (batch_first, "shape, dtype and values", 0),
        (bools, "shape, dtype and values", 0),
        (grey_spikes, "shape, dtype and values", 0),
        (goes_on_firing, "at most one spike", 1),
        (never_silent, "dark is silent", 2),
        (only_black_silent, "dark is silent", 2),
        (fixed_threshold, "dark is silent", 2),
        (only_above_the_threshold, "dark is silent", 2),
        (another_default, "dark is silent", 2),
        (dark_first, "bright before dark", 3),
        (one_step_too_long, "all steps are used", 4),
        (cut_off, "nearest step", 5),
        (logarithm, "bright before dark", 3),
        (per_batch, "each image for itself", 6),
        (per_image, "each image for itself", 6),
        (two_axes_only, "any shape and dtype", 7),
        (float32_only, "any shape and dtype", 0),
        (on_the_cpu, "any device", 8),
        (zeros_anywhere, "any device", 8),
    ],
    "03.2": [
        (noise_behind, "shape, dtype and values", 0),
        (true_and_false, "shape, dtype and values", 0),
        (inverted, "pixels of 0 and of 1", 1),
        (bell_curve, "pixels of 0 and of 1", 1),
        (per_presentation, "pixels of 0 and of 1", 1),
        (one_mask_for_all_steps, "independent draws", 2),
        (one_mask_for_all_images, "independent draws", 2),
        (one_mask_for_all_pixels, "independent draws", 2),
        (regular, "independent draws", 2),
        (rounded, "independent draws", 2),
        (squared, "rate", 3),
        (no_generator, "repeatable", 4),
        (seed_inside, "repeatable", 4),
        (seed_if_alone, "repeatable", 4),
        (never_alone, "repeatable", None),
        (global_seed, "shape, dtype and values", "torch.Generator"),
        (drawn_on_the_cpu, "any device", 5),
    ],
}

RIGHT = {
    "03.1": [scattered, looped, moved_afterwards],
    "03.2": [
        lambda x, steps, generator=None: torch.bernoulli(x.expand(steps, *x.shape), generator=generator),
        step_by_step,
        from_above,
    ],
}

STUBS = {"03.1": [stub_of_the_latency, half_a_latency], "03.2": [stub_of_poisson]}
