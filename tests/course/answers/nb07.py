"""Answers to the exercises of notebook 07."""

import math

import torch
from torch.utils.flop_counter import FlopCounterMode

from snnkit.course.nb07 import all_steps, scaled_update
from snnkit.nn import is_static, time_batched

clip_grad_norm_ = torch.nn.utils.clip_grad_norm_

# 07.1


def price(formula):
    """An answer to 07.1 from a formula of (i, o, k, h, w, s, static)."""

    def answer(inputs, outputs, kernel, height, width, steps=1, static=False):
        return formula(inputs, outputs, kernel, height, width, steps, static)

    return answer


PRICES = [
    (price(lambda i, o, k, h, w, s, static: i * o * k * k * h * w * (1 if static else s)), "one value", 0),
    (price(lambda i, o, k, h, w, s, static: 2 * o * k * k * h * w * (1 if static else s)), "a sum of products", 1),
    (price(lambda i, o, k, h, w, s, static: 2 * i * o * h * w * (1 if static else s)), "a sum of products", 1),
    (price(lambda i, o, k, h, w, s, static: 2 * i * o * k * h * w * (1 if static else s)), "a sum of products", 2),
    (price(lambda i, o, k, h, w, s, static: 2 * i * k * k * h * w * (1 if static else s)), "every value", 3),
    (price(lambda i, o, k, h, w, s, static: 2 * i * o * k * k * (1 if static else s)), "every value", 3),
    (price(lambda i, o, k, h, w, s, static: 2 * i * o * k * k * h * w), "every step", 4),
    (price(lambda i, o, k, h, w, s, static: 2 * i * o * k * k * h * w * s), "static", 5),
    (price(lambda i, o, k, h, w, s, static: 2 * i * o * k * k * h * w * (s if static else 1)), "every step", 4),
]


def counted_by_pytorch(inputs, outputs, kernel, height, width, steps=1, static=False):
    pixels = torch.zeros(steps, inputs, height + kernel - 1, width + kernel - 1, device="meta")
    layer = torch.nn.Conv2d(inputs, outputs, kernel, device="meta")
    with FlopCounterMode(display=False) as counter:
        layer(pixels[:1] if static else pixels)
    return counter.get_total_flops()


def value_by_value(inputs, outputs, kernel, height, width, steps=1, static=False):
    if static:
        steps = 1
    products = sum(1 for _ in range(inputs) for _ in range(kernel) for _ in range(kernel))
    return sum(products + products for _ in range(steps * outputs) for _ in range(height * width))


# 07.2


def with_reshape(layer, x):
    if is_static(x):
        once = layer(x[0])
        return once.unsqueeze(0).expand(len(x), *once.shape)
    out = layer(x.reshape(-1, *x.shape[2:]))
    return out.reshape(*x.shape[:2], *out.shape[1:])


def by_the_kit(layer, x):
    return time_batched(layer, x)


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


def unfolded_to_all_but_the_last(layer, x):
    if is_static(x):
        return all_steps(layer, x)
    return layer(x.flatten(0, 1)).view(*x.shape[:-1], -1)


def copied(layer, x):
    return all_steps(layer, x).contiguous()


def one_step_left(layer, x):
    return layer(x[0]) if is_static(x) else always_all(layer, x)


def expanded_to_the_old_shape(layer, x):
    return layer(x[0]).expand(x.shape) if is_static(x) else always_all(layer, x)


def twice(layer, x):
    layer(x[0])
    return all_steps(layer, x)


def part_by_part(layer, x):
    if x.stride(0) == 0:
        once = layer(x[0])
        return torch.broadcast_to(once, (len(x), *once.shape))
    return torch.stack(layer(torch.cat(list(x))).chunk(len(x)))


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
    (unfolded_to_all_but_the_last, "a real layer", 1),
    (flattened_too_far, "one call", 0),
]

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


def zeroed_after_the_step(loss, weights, optimizer, scaler, clip):
    norm = never_zeroed(loss, weights, optimizer, scaler, clip)
    optimizer.zero_grad()
    return norm


def clipped_by_hand(loss, weights, optimizer, scaler, clip):
    for weight in weights:
        weight.grad = None
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.cat([weight.grad.flatten() for weight in weights]).norm()
    for weight in weights:
        weight.grad.mul_((clip / norm).clamp(max=1))
    scaler.step(optimizer)
    scaler.update()
    return norm.item()


def without_return(loss, weights, optimizer, scaler, clip):
    scaled_update(loss, weights, optimizer, scaler, clip)


WRONG = {"07.1": PRICES, "07.2": FOLDS, "07.3": UPDATES}

RIGHT = {
    "07.1": [counted_by_pytorch, value_by_value],
    "07.2": [with_reshape, part_by_part, by_the_kit],
    "07.3": [zeroed_after_the_step, clipped_by_hand],
}

STUBS = {
    "07.1": [lambda inputs, outputs, kernel, height, width, steps=1, static=False: ...],
    "07.2": [lambda layer, x: ...],
    "07.3": [lambda loss, weights, optimizer, scaler, clip: ..., without_return],
}
