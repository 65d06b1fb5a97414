"""Answers to the exercises of conv_snn."""

import math

import torch
from torch.utils.flop_counter import FlopCounterMode

from snnkit.lab.exercises.conv_snn import all_steps, scaled_update
from snnkit.nn import is_static, time_batched

clip_grad_norm_ = torch.nn.utils.clip_grad_norm_

# Exercise 1


def price(formula):
    """An answer to exercise 1 from a formula of (i, o, k, h, w, s, static)."""

    def answer(inputs, outputs, kernel, height, width, steps=1, static=False):
        return formula(inputs, outputs, kernel, height, width, steps, static)

    return answer


PRICES = [
    (
        price(lambda i, o, k, h, w, s, static: 2 * i * o * (9 if k > 1 else 1) * h * w * (1 if static else s)),
        "a sum of products",
        2,
        "nine",
    ),
    (
        price(lambda i, o, k, h, w, s, static: 2 * i * o * k * k * h * w * (6 if s > 1 and not static else 1)),
        "every step",
        4,
        "six",
    ),
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


# Exercise 2


def always_all(layer, x):
    return layer(x.flatten(0, 1)).unflatten(0, x.shape[:2])


def unfolded_to_all_but_the_last(layer, x):
    if is_static(x):
        return all_steps(layer, x)
    return layer(x.flatten(0, 1)).view(*x.shape[:-1], -1)


def twice(layer, x):
    layer(x[0])
    return all_steps(layer, x)


def part_by_part(layer, x):
    if x.stride(0) == 0:
        once = layer(x[0])
        return torch.broadcast_to(once, (len(x), *once.shape))
    return torch.stack(layer(torch.cat(list(x))).chunk(len(x)))


FOLDS = [
    (lambda layer, x: all_steps(layer, x).float(), "a real layer", 1, "float32 only"),
    (lambda layer, x: all_steps(layer, x).detach(), "a real layer", "No `.detach()`", "detached"),
    (
        lambda layer, x: (once := layer(x[0])).expand(5, *once.shape) if is_static(x) else always_all(layer, x),
        "static once",
        4,
        "five",
    ),
    (lambda layer, x: torch.stack([layer(x_t) for x_t in x]), "one call", 0, "in a loop"),
    (twice, "one call", 0),
    (lambda layer, x: layer(x[0]).unsqueeze(0).expand(len(x), *layer(x[0]).shape), "each step", 2, "the first step"),
    (lambda layer, x: layer(x.flatten(0, 1)), "each step", 1, "not unfolded"),
    (lambda layer, x: layer(x.flatten(0, 1)).view(x.shape), "each step", 1, "unfolded to the old shape"),
    (lambda layer, x: layer(x.flatten(0, 1)).unflatten(0, x.shape[:2][::-1]), "each step", 1, "batch before time"),
    (lambda layer, x: layer(x.transpose(0, 1).flatten(0, 1)).unflatten(0, x.shape[:2]), "each step", 2, "mixed up"),
    (always_all, "static once", 3),
    (lambda layer, x: layer(x[0]) if is_static(x) else always_all(layer, x), "static once", 4, "one step left"),
    (lambda layer, x: layer(x[0]).expand(x.shape) if is_static(x) else always_all(layer, x), "static once", 4, "as x"),
    (lambda layer, x: all_steps(layer, x).contiguous(), "static once", 5, "copied"),
    (unfolded_to_all_but_the_last, "a real layer", 1),
    (lambda layer, x: layer(x.flatten(1, 2)).unflatten(1, (x.shape[1], -1)), "one call", 0, "flattened too far"),
]


# Exercise 3


def update(*calls, which=0):
    """An answer to exercise 3 that makes these calls in this order, and returns one of the norms that they measure."""

    def answer(loss, weights, optimizer, scaler, clip):
        norms = []
        does = {
            "zero": optimizer.zero_grad,
            "backward": lambda: scaler.scale(loss).backward(),
            "bare backward": loss.backward,
            "unscale": lambda: scaler.unscale_(optimizer),
            "norm": lambda: norms.append(clip_grad_norm_(weights, math.inf)),
            "norm / scale": lambda: norms.append(clip_grad_norm_(weights, math.inf) / scaler.get_scale()),
            "clip": lambda: norms.append(clip_grad_norm_(weights, clip)),
            "step": lambda: scaler.step(optimizer),
            "bare step": optimizer.step,
            "update": scaler.update,
        }
        for call in calls:
            does[call]()
        return norms[which]

    return answer


def clipped(by):
    """An answer to exercise 3 with other clipping."""

    def answer(loss, weights, optimizer, scaler, clip):
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = by(weights, clip)
        scaler.step(optimizer)
        scaler.update()
        return norm

    return answer


UPDATES = [
    (clipped(lambda weights, clip: clip_grad_norm_(weights[0], clip)), "the true step", 2, "the first weight"),
    (
        clipped(lambda weights, clip: clip_grad_norm_(weights, min(clip, 1.0) if clip < math.inf else clip)),
        "clipped",
        "only shortens",
        "at most one",
    ),
    (update("zero", "bare backward", "clip", "bare step"), "scaled on the way", 0, "unscaled"),
    (update("zero", "bare backward", "clip", "step", "update"), "scaled on the way", 0, "half scaled"),
    (update("backward", "zero", "clip", "step", "update"), "scaled on the way", 0, "zeroed too late"),
    (update("zero", "backward", "norm / scale", "bare step"), "the true step", 1, "a step of its own"),
    (update("zero", "backward", "norm", "unscale", "clip", "step", "update"), "the true step", 2, "the scaled norm"),
    (update("zero", "backward", "unscale", "clip", "update"), "the true step", 6, "never stepped"),
    (update("zero", "backward", "unscale", "clip", "update", "step"), "the true step", 5, "updated before the step"),
    (update("zero", "backward", "norm / scale", "clip", "step", "update"), "clipped", 3, "clipped first"),
    (update("zero", "backward", "unscale", "clip", "norm", "step", "update", which=1), "clipped", 2, "clipped norm"),
    (update("zero", "backward", "unscale", "clip", "bare step", "update"), "overflow", 4, "a step after unscaling"),
    (update("zero", "backward", "unscale", "clip", "step"), "overflow", 5, "never updated"),
    (update("zero", "backward", "unscale", "unscale", "clip", "step", "update"), "scaled on the way", 5, "twice"),
    (update("backward", "unscale", "clip", "step", "update"), "a clean start", 7, "never zeroed"),
]


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


WRONG = {1: PRICES, 2: FOLDS, 3: UPDATES}

RIGHT = {
    1: [
        counted_by_pytorch,
        value_by_value,
        lambda i, o, k, h, w, t=1, same=False: 2 * i * o * k * k * h * w * (1 if same else t),
    ],
    2: [part_by_part, time_batched],
    3: [update("backward", "unscale", "clip", "step", "update", "zero"), clipped_by_hand],
}

STUBS = {
    1: [lambda inputs, outputs, kernel, height, width, steps=1, static=False: ...],
    2: [lambda layer, x: ...],
    3: [lambda loss, weights, optimizer, scaler, clip: ..., without_return],
}
