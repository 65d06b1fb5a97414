"""The checks of notebook 07: references pass, stubs are to do, and each classic mistake fails with its hint."""

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from snnkit.course import grade
from snnkit.course.nb07 import all_steps, conv_flops, scaled_update
from snnkit.encode import repeat
from snnkit.nn import is_static, time_batched
from tests.course.answers import fails, unused_hints

clip_grad_norm_ = torch.nn.utils.clip_grad_norm_


def test_every_hint_is_shown_for_some_mistake():
    assert not any(unused_hints({"07.1": PRICES, "07.2": FOLDS, "07.3": UPDATES}).values())


# 07.1


@pytest.mark.parametrize("static", [False, True])
def test_the_price_is_that_of_pytorch(static):
    layer = torch.nn.Conv2d(3, 5, 3, padding=1, device="meta")
    x = repeat(torch.zeros(1, 3, 6, 7, device="meta"), 4)
    with FlopCounterMode(display=False) as counter:
        time_batched(layer, x if static else x.contiguous())
    assert conv_flops(3, 5, 3, 6, 7, steps=4, static=static) == counter.get_total_flops()


PRICES = [
    (lambda i, o, k, h, w, s=1, static=False: i * o * k * k * h * w * (1 if static else s), "one value", 0),
    (lambda i, o, k, h, w, s=1, static=False: 2 * o * k * k * h * w * (1 if static else s), "a sum of products", 1),
    (lambda i, o, k, h, w, s=1, static=False: 2 * i * o * h * w * (1 if static else s), "a sum of products", 1),
    (lambda i, o, k, h, w, s=1, static=False: 2 * i * o * k * h * w * (1 if static else s), "a sum of products", 2),
    (lambda i, o, k, h, w, s=1, static=False: 2 * i * k * k * h * w * (1 if static else s), "every value", 3),
    (lambda i, o, k, h, w, s=1, static=False: 2 * i * o * k * k * (1 if static else s), "every value", 3),
    (lambda i, o, k, h, w, s=1, static=False: 2 * i * o * k * k * h * w, "every step", 4),
    (lambda i, o, k, h, w, s=1, static=False: 2 * i * o * k * k * h * w * s, "every step", 5),
    (lambda i, o, k, h, w, s=1, static=False: 2 * i * o * k * k * h * w * (s if static else 1), "every step", 4),
]


@pytest.mark.parametrize(("answer", "check", "hint"), PRICES)
def test_classic_mistakes_in_07_1(answer, check, hint):
    def named(inputs, outputs, kernel, height, width, steps=1, static=False):
        return answer(inputs, outputs, kernel, height, width, steps, static)

    fails("07.1", named, check, hint)


# 07.2


def with_reshape(layer, x):
    if is_static(x):
        once = layer(x[0])
        return once.unsqueeze(0).expand(len(x), *once.shape)
    out = layer(x.reshape(-1, *x.shape[2:]))
    return out.reshape(*x.shape[:2], *out.shape[1:])


def by_the_kit(layer, x):
    return time_batched(layer, x)


@pytest.mark.parametrize("answer", [with_reshape, by_the_kit])
def test_other_right_answers_to_07_2_pass(answer):
    outcome = grade("07.2", answer)
    assert outcome.status == "passed", outcome


def in_a_loop(layer, x):
    return torch.stack([layer(x_t) for x_t in x])


def first_step_only(layer, x):
    return layer(x[0]).unsqueeze(0).expand(len(x), *layer(x[0]).shape)


def not_unfolded(layer, x):
    return layer(x.flatten(0, 1))


def unfolded_to_the_old_shape(layer, x):
    return layer(x.flatten(0, 1)).view(x.shape)


def batch_before_time(layer, x):
    return layer(x.flatten(0, 1)).unflatten(0, (x.shape[1], x.shape[0]))


def mixed_up(layer, x):
    return layer(x.transpose(0, 1).flatten(0, 1)).unflatten(0, x.shape[:2])


def flattened_too_far(layer, x):
    return layer(x.flatten(1, 2)).unflatten(1, (x.shape[1], -1))


def always_all(layer, x):
    return layer(x.flatten(0, 1)).unflatten(0, x.shape[:2])


def copied(layer, x):
    return all_steps(layer, x).contiguous()


def one_step_left(layer, x):
    return layer(x[0]) if is_static(x) else always_all(layer, x)


def expanded_to_the_old_shape(layer, x):
    return layer(x[0]).expand(x.shape) if is_static(x) else always_all(layer, x)


def twice(layer, x):
    layer(x[0])
    return all_steps(layer, x)


FOLDS = [
    (in_a_loop, "one call", 0),
    (twice, "one call", 0),
    (first_step_only, "each step", 2),
    (not_unfolded, "each step", 1),
    (unfolded_to_the_old_shape, "each step", 1),
    (batch_before_time, "each step", 1),
    (mixed_up, "each step", 2),
    (always_all, "static once", 3),
    (one_step_left, "static once", 4),
    (expanded_to_the_old_shape, "static once", 4),
    (copied, "static once", 5),
]


@pytest.mark.parametrize(("answer", "check", "hint"), FOLDS)
def test_classic_mistakes_in_07_2(answer, check, hint):
    fails("07.2", answer, check, hint)


def test_another_folding_fails():
    assert grade("07.2", flattened_too_far).status == "failed"


# 07.3


def unscaled(loss, weights, optimizer, scaler, clip):
    optimizer.zero_grad()
    loss.backward()
    norm = clip_grad_norm_(weights, clip)
    optimizer.step()
    return norm


def half_scaled(loss, weights, optimizer, scaler, clip):
    optimizer.zero_grad()
    loss.backward()
    norm = clip_grad_norm_(weights, clip)
    scaler.step(optimizer)
    scaler.update()
    return norm


def own_step(loss, weights, optimizer, scaler, clip):
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    norm = clip_grad_norm_(weights, math.inf) / scaler.get_scale()
    optimizer.step()
    return norm


def step_after_unscaling(loss, weights, optimizer, scaler, clip):
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = clip_grad_norm_(weights, clip)
    optimizer.step()
    scaler.update()
    return norm


def clipped_first(loss, weights, optimizer, scaler, clip):
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    norm = clip_grad_norm_(weights, clip) / scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    return norm


def scaled_norm(loss, weights, optimizer, scaler, clip):
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    norm = clip_grad_norm_(weights, math.inf)
    scaler.unscale_(optimizer)
    clip_grad_norm_(weights, clip)
    scaler.step(optimizer)
    scaler.update()
    return norm


def norm_after_clipping(loss, weights, optimizer, scaler, clip):
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    clip_grad_norm_(weights, clip)
    norm = clip_grad_norm_(weights, math.inf)
    scaler.step(optimizer)
    scaler.update()
    return norm


def never_updated(loss, weights, optimizer, scaler, clip):
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = clip_grad_norm_(weights, clip)
    scaler.step(optimizer)
    return norm


def never_stepped(loss, weights, optimizer, scaler, clip):
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = clip_grad_norm_(weights, clip)
    scaler.update()
    return norm


def never_zeroed(loss, weights, optimizer, scaler, clip):
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = clip_grad_norm_(weights, clip)
    scaler.step(optimizer)
    scaler.update()
    return norm


def unscaled_twice(loss, weights, optimizer, scaler, clip):
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)
    norm = clip_grad_norm_(weights, clip)
    scaler.step(optimizer)
    scaler.update()
    return norm


def zeroed_too_late(loss, weights, optimizer, scaler, clip):
    scaler.scale(loss).backward()
    optimizer.zero_grad()
    norm = clip_grad_norm_(weights, clip)
    scaler.step(optimizer)
    scaler.update()
    return norm


UPDATES = [
    (unscaled, "scaled on the way", 0),
    (half_scaled, "scaled on the way", 0),
    (zeroed_too_late, "scaled on the way", 0),
    (own_step, "the true step", 1),
    (scaled_norm, "the true step", 2),
    (never_stepped, "the true step", 6),
    (clipped_first, "clipped", 3),
    (norm_after_clipping, "clipped", 2),
    (step_after_unscaling, "overflow", 4),
    (never_updated, "overflow", 5),
    (unscaled_twice, "scaled on the way", 5),
    (never_zeroed, "a clean start", 7),
]


@pytest.mark.parametrize(("answer", "check", "hint"), UPDATES)
def test_classic_mistakes_in_07_3(answer, check, hint):
    fails("07.3", answer, check, hint)


def test_zeroing_after_the_step_is_as_good():
    def answer(loss, weights, optimizer, scaler, clip):
        norm = never_zeroed(loss, weights, optimizer, scaler, clip)
        optimizer.zero_grad()
        return norm

    assert grade("07.3", answer).status == "passed"


def test_a_scaler_that_is_off_changes_nothing():
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    norm = scaled_update((weight * torch.tensor([3.0, 4.0])).sum(), [weight], optimizer, scaler, 1.0)
    assert norm.item() == pytest.approx(5) and weight.tolist() == pytest.approx([0.7, -2.4], abs=1e-5)


def without_return(loss, weights, optimizer, scaler, clip):
    scaled_update(loss, weights, optimizer, scaler, clip)


@pytest.mark.parametrize(
    ("key", "stub"),
    [
        ("07.1", lambda inputs, outputs, kernel, height, width, steps=1, static=False: ...),
        ("07.2", lambda layer, x: ...),
        ("07.3", lambda loss, weights, optimizer, scaler, clip: ...),
        ("07.3", without_return),
    ],
)
def test_stubs_are_to_do(key, stub):
    assert grade(key, stub).status == "to do"
