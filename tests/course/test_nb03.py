"""Exercises of notebook 03: the references pass, stubs are to do, and each classic mistake meets its hint."""

import pytest
import torch

from snnkit.course import grade, nb03
from snnkit.course.nb03 import LATENCY_HINTS, POISSON_HINTS, latency_encode, poisson_encode


def _steps(x, steps):
    return torch.arange(steps, device=x.device).view(-1, *[1] * x.ndim)


def _when(x, steps):
    return ((1 - x) * (steps - 1)).round()


# --- 03.1: wrong answers ----------------------------------------------------------------------------------------------


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


def dark_first(x, steps, threshold=0.01):
    return ((_steps(x, steps) == (x * (steps - 1)).round()) & (x >= threshold)).to(x.dtype)


def one_step_too_long(x, steps, threshold=0.01):
    return ((_steps(x, steps) == ((1 - x) * steps).round()) & (x >= threshold)).to(x.dtype)


def cut_off(x, steps, threshold=0.01):
    return ((_steps(x, steps) == ((1 - x) * (steps - 1)).long()) & (x >= threshold)).to(x.dtype)


def logarithm(x, steps, threshold=0.01):
    return __import__("snnkit").encode.latency(x, steps, threshold=threshold)


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


LATENCY_WRONG = [
    (batch_first, 0),
    (bools, 0),
    (grey_spikes, 0),
    (goes_on_firing, 1),
    (never_silent, 2),
    (only_black_silent, 2),
    (fixed_threshold, 2),
    (dark_first, 3),
    (one_step_too_long, 4),
    (cut_off, 5),
    (per_batch, 6),
    (per_image, 6),
    (two_axes_only, 7),
    (float32_only, 0),
    (on_the_cpu, 8),
    (zeros_anywhere, 8),
]


@pytest.mark.parametrize(("wrong", "hint"), LATENCY_WRONG, ids=lambda v: getattr(v, "__name__", str(v)))
def test_each_wrong_latency_code_meets_its_hint(wrong, hint):
    outcome = grade("03.1", wrong)
    assert outcome.status == "failed"
    assert outcome.hint == LATENCY_HINTS[hint], outcome


def test_the_librarys_logarithm_is_not_the_line():
    assert grade("03.1", logarithm).status == "failed"


def test_a_latency_code_written_in_other_ways_passes():
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

    for answer in (scattered, looped, moved_afterwards):
        assert grade("03.1", answer).status == "passed", answer.__name__


# --- 03.2: wrong answers ----------------------------------------------------------------------------------------------


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


def global_seed(x, steps, generator=None):
    torch.manual_seed(generator.initial_seed())
    return (torch.rand(steps, *x.shape, dtype=x.dtype, device=x.device) < x).to(x.dtype)


def drawn_on_the_cpu(x, steps, generator=None):
    return (torch.rand(steps, *x.shape, generator=generator, dtype=x.dtype) < x).to(x.dtype)


POISSON_WRONG = [
    (noise_behind, 0),
    (true_and_false, 0),
    (inverted, 1),
    (bell_curve, 1),
    (per_presentation, 1),
    (one_mask_for_all_steps, 2),
    (one_mask_for_all_images, 2),
    (one_mask_for_all_pixels, 2),
    (regular, 2),
    (rounded, 2),
    (squared, 3),
    (no_generator, 4),
    (seed_inside, 4),
    (global_seed, 4),
    (drawn_on_the_cpu, 5),
]


@pytest.mark.parametrize(("wrong", "hint"), POISSON_WRONG, ids=lambda v: getattr(v, "__name__", str(v)))
def test_each_wrong_poisson_code_meets_its_hint(wrong, hint):
    with torch.random.fork_rng():
        outcome = grade("03.2", wrong)
    assert outcome.status == "failed"
    assert outcome.hint == POISSON_HINTS[hint], outcome


def test_bernoulli_is_as_good():
    def bernoulli(x, steps, generator=None):
        return torch.bernoulli(x.expand(steps, *x.shape), generator=generator)

    assert grade("03.2", bernoulli).status == "passed"


# --- both -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exercise", nb03.EXERCISES, ids=lambda e: e.key)
def test_references_pass_and_can_be_drawn(exercise):
    assert grade(exercise, exercise.reference).status == "passed"
    assert len(exercise.plot(exercise.reference, exercise.reference).data) >= 2


def test_stubs_are_to_do():
    def latency_encode(x, steps, threshold=0.01):
        return ...

    def poisson_encode(x, steps, generator=None):
        return ...

    assert grade("03.1", latency_encode).status == "to do"
    assert grade("03.2", poisson_encode).status == "to do"


def test_half_written_answers_are_to_do():
    def latency_encode(x, steps, threshold=0.01):
        when = ...
        return (when + x).to(x.dtype)

    assert grade("03.1", latency_encode).status == "to do"


def test_the_references_agree_with_the_library():
    from snnkit import encode

    x = torch.linspace(0, 1, 65).view(5, 13)
    torch.testing.assert_close(latency_encode(x, 17), encode.latency(x, 17, linear=True))
    seeded = [torch.Generator().manual_seed(3) for _ in range(2)]
    torch.testing.assert_close(poisson_encode(x, 17, seeded[0]), encode.poisson(x, 17, generator=seeded[1]))
