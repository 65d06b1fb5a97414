"""Exercises of "A 128-channel conv SNN with AMP"."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from snnkit.encode import repeat
from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Exercise
from snnkit.nn import is_static


def conv_flops(inputs, outputs, kernel, height, width, steps=1, static=False):
    """FLOPs of a convolution for one image: channels in and out, kernel size, pixels of its output, time steps."""
    per_value = 2 * inputs * kernel**2  # a product and its addition for each input channel and pixel of the kernel
    per_step = per_value * outputs * height * width
    return per_step if static else steps * per_step


def all_steps(layer, x):
    """Apply a layer without state to each step of x [T, B, ...]: [T, B, ...]."""
    if is_static(x):
        once = layer(x[0])
        return once.expand(x.shape[0], *once.shape)
    return layer(x.flatten(0, 1)).unflatten(0, x.shape[:2])


def scaled_update(loss, weights, optimizer, scaler, clip):
    """One update of weights (a list) from a loss, by a GradScaler; the norm of the gradients before clipping."""
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(weights, clip)
    scaler.step(optimizer)
    scaler.update()
    return norm


# Exercise 1


def _conv(*sizes: int) -> dict[str, Any]:
    return dict(zip(("inputs", "outputs", "kernel", "height", "width"), sizes, strict=True))


def _a_sum_of_products(candidate: Any, reference: Any) -> None:
    given = _conv(5, 1, 3, 1, 1)
    result = candidate(*given.values())
    message = "One output value from 5 channels with a 3 × 3 kernel is a sum of 45 products."
    expect.close(result, 90, message, inputs=given, hint={30: 2, 18: 1}.get(result, 1))
    given = _conv(5, 1, 7, 1, 1)
    expect.close(candidate(*given.values()), 490, "With a 7 × 7 kernel they are 245 products.", inputs=given, hint=2)


# Exercise 2


class _Counting(nn.Module):
    """Doubles values, halves the last dimension, and notes the shapes of its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, ...]] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(tuple(x.shape))
        return 2 * x[..., ::2]


def _applied(candidate: Any, layer: nn.Module, x: Tensor, hint: int) -> Any:
    message = "The layer takes [B, ...], and its answer must fit into [T, B, ...] again."
    with expect.explained(RuntimeError, "", message, inputs={"x": list(x.shape)}, hint=hint):
        return candidate(layer, x)


def _each_step(candidate: Any, reference: Any) -> None:
    x = torch.rand(3, 2, 4, 6, generator=torch.Generator().manual_seed(0))
    result, inputs = _applied(candidate, _Counting(), x, hint=1), {"x": list(x.shape)}
    want = 2 * x[..., ::2]
    expect.tensor(result, want, "The result is [T, B, ...]: time and batch as before.", inputs=inputs, hint=1)
    expect.close(result, want, "Step t of the result is the layer applied to step t.", inputs=inputs, hint=2)


def _one_call(candidate: Any, reference: Any) -> None:
    layer, x = _Counting(), torch.rand(3, 2, 4, 6)
    _applied(candidate, layer, x, hint=1)
    message = "The layer is called once, with all T · B = 6 samples."
    expect.true(layer.seen == [(6, 4, 6)], message, yours=layer.seen, expected=[(6, 4, 6)], hint=0)


def _a_real_layer(candidate: Any, reference: Any) -> None:
    for dtype in (torch.float32, torch.float64):
        layer = nn.Conv2d(2, 3, 3, padding=1, dtype=dtype)
        x = torch.rand(4, 5, 2, 6, 6, dtype=dtype)
        message = "A convolution does not mix time steps: each step alone gives the same."
        result = _applied(candidate, layer, x, hint=2)
        want = torch.stack([layer(x_t) for x_t in x])
        expect.tensor(result, want, message, inputs={"x": list(x.shape)}, hint=1)
        expect.close(result, want, message, inputs={"x": list(x.shape)}, hint=2, atol=1e-5)
    message = "The layer learns: the result has a gradient."
    cut = "No `.detach()`, no `torch.no_grad()`: the layer has weights that learn."
    expect.true(result.requires_grad, message, yours="no graph", hint=cut)


def _static_once(candidate: Any, reference: Any) -> None:
    for steps in (7, 5):
        layer, image = _Counting(), torch.rand(2, 4, 6)
        result = _applied(candidate, layer, repeat(image, steps), hint=4)
        message = "A static input goes through the layer once, as one step of B = 2 samples."
        expect.true(layer.seen == [(2, 4, 6)], message, yours=layer.seen, expected=[(2, 4, 6)], hint=3)
        want = (2 * image[..., ::2]).expand(steps, 2, 4, 3)
        expect.tensor(result, want, f"The result has T = {steps} steps again.", inputs={"x": [steps, 2, 4, 6]}, hint=4)
        expect.close(result, want, "All steps of the result are the layer applied to the image.", hint=4)
    message = "The result of a static input is static: a view with stride 0 in time."
    expect.true(is_static(result), message, yours=f"stride {result.stride()}", expected="stride (0, ...)", hint=5)


# Exercise 3

_SCALE = 2.0**10


class _Bench:
    """Two weights, plain SGD, a scaler; a loss whose gradient is the requested ``gradient``."""

    def __init__(self) -> None:
        self.weights = [nn.Parameter(torch.tensor(value)) for value in (1.0, -2.0)]
        self.optimizer = torch.optim.SGD(self.weights, lr=0.5)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=_SCALE, growth_interval=1000)
        self.arrived: list[Tensor] = []

    @property
    def weight(self) -> Tensor:
        """The two as one tensor."""
        return torch.stack(tuple(self.weights))

    def update(self, candidate: Any, gradient: tuple[float, float], clip: float = math.inf) -> Any:
        together = self.weight
        together.register_hook(lambda gradient: self.arrived.append(gradient.clone()))
        loss = (together * torch.tensor(gradient)).sum()
        once = "A scaler is unscaled once for each update, and `scaler.update()` ends it."
        with (
            expect.explained(RuntimeError, "unscale_() has already been called", once, hint=5),
            expect.explained(AssertionError, "", "The scaler needs gradients of a scaled loss.", hint=0),
        ):
            return candidate(loss, list(self.weights), self.optimizer, self.scaler, clip)


def _scaled_on_the_way(candidate: Any, reference: Any) -> None:
    bench = _Bench()
    expect.written(bench.update(candidate, (3e-4, 4e-4)))
    expect.true(bool(bench.arrived), "Backward has to run.", yours="no gradient arrived", hint=0)
    message = "Backward starts from the scaled loss, so that the gradients are large."
    expect.close(bench.arrived[0], torch.tensor([3e-4, 4e-4]) * _SCALE, message, inputs={"scale": _SCALE}, hint=0)


def _the_true_step(candidate: Any, reference: Any) -> None:
    bench = _Bench()
    norm = bench.update(candidate, (3.0, 4.0))
    message = "The update is made with the true gradients: the scale is divided out."
    want = torch.tensor([1.0, -2.0]) - 0.5 * torch.tensor([3.0, 4.0])
    inputs = {"gradient": (3.0, 4.0), "lr": 0.5, "scale": _SCALE}
    moved = torch.tensor([1.0, -2.0]) - bench.weight.detach()
    twice = torch.allclose(moved * _SCALE, torch.tensor([1.5, 2.0]), rtol=1e-2)  # after `update`, `step` divides again
    hint = 6 if not moved.any() else 5 if twice else 1
    expect.close(bench.weight, want, message, inputs=inputs, hint=hint)
    expect.close(norm, 5.0, "The norm of the gradients (3, 4) is 5, whatever the scale.", inputs=inputs, hint=2)


def _clipped(candidate: Any, reference: Any) -> None:
    bench = _Bench()
    norm = bench.update(candidate, (3.0, 4.0), clip=1.0)
    message = "Gradients (3, 4), clipped to a norm of 1, are (0.6, 0.8)."
    want = torch.tensor([1.0, -2.0]) - 0.5 * torch.tensor([0.6, 0.8])
    expect.close(bench.weight, want, message, inputs={"clip": 1.0, "scale": _SCALE}, hint=3, rtol=1e-3)
    expect.close(norm, 5.0, "The norm is the one before clipping.", inputs={"clip": 1.0}, hint=2)
    bench = _Bench()
    bench.update(candidate, (3.0, 4.0), clip=100.0)
    want = torch.tensor([1.0, -2.0]) - 0.5 * torch.tensor([3.0, 4.0])
    message = "Gradients whose norm is below `clip` stay as they are."
    hint = "Clipping only shortens: the factor is `min(1, clip / norm)`."
    expect.close(bench.weight, want, message, inputs={"gradient": (3.0, 4.0), "clip": 100.0}, hint=hint, rtol=1e-3)


def _overflow(candidate: Any, reference: Any) -> None:
    bench = _Bench()
    bench.update(candidate, (math.inf, 1.0), clip=1.0)
    inputs = {"gradient": (math.inf, 1.0), "scale": _SCALE}
    message = "An infinite gradient changes no weight: the update is skipped."
    expect.close(bench.weight, torch.tensor([1.0, -2.0]), message, inputs=inputs, hint=4)
    expect.close(bench.scaler.get_scale(), _SCALE / 2, "Then the scale is halved.", inputs=inputs, hint=5)


def _a_clean_start(candidate: Any, reference: Any) -> None:
    bench = _Bench()
    for gradient in ((1.0, 0.0), (0.0, 2.0)):
        bench.update(candidate, gradient)
    message = "The second update does not include the gradients of the first."
    want = torch.tensor([1.0 - 0.5, -2.0 - 1.0])
    expect.close(bench.weight, want, message, inputs={"gradients": "(1, 0), then (0, 2)"}, hint=7)


EXERCISES = [
    Exercise(
        "conv_snn.1",
        "The price of a convolution",
        conv_flops,
        [
            expect.same("one value", 0, "One value from one: a product and an addition.", _conv(1, 1, 1, 1, 1)),
            _a_sum_of_products,
            expect.same(
                "every value",
                3,
                "There are 7 channels of 4 × 5 output values, and each costs the same.",
                _conv(2, 7, 3, 4, 5),
            ),
            expect.same(
                "every step",
                4,
                "Six different steps are six convolutions.",
                _conv(2, 3, 3, 4, 4) | {"steps": 6},
                "Eleven different steps are eleven.",
                _conv(2, 3, 3, 4, 4) | {"steps": 11},
            ),
            expect.same(
                "static",
                5,
                "A static input is the same at all steps: one convolution is enough.",
                _conv(2, 3, 3, 4, 4) | {"steps": 6, "static": True},
            ),
        ],
        hints=(
            "A product is one FLOP, adding it to the sum is another: 2 for each term of the sum.",
            "The sum has a term for each input channel and each pixel of the kernel.",
            "The kernel is square: 3 × 3 pixels, not 3.",
            "Multiply by the number of output values: `outputs * height * width`.",
            "Each step costs the same again: multiply by `steps`.",
            "With `static`, only one step is computed, for any `steps`.",
        ),
    ),
    Exercise(
        "conv_snn.2",
        "Fold time into the batch",
        all_steps,
        [_each_step, _one_call, _a_real_layer, _static_once],
        minutes=8,
        difficulty=2,
        hints=(
            "No loop over time, and not only one step: fold T and B into one dimension, `x.flatten(0, 1)`.",
            "Then unfold: `.unflatten(0, x.shape[:2])`. Only the first dimension: the layer may change the others.",
            "Time and batch keep their order: unfold to (T, B), not (B, T), and fold dimensions 0 and 1.",
            "First check `nn.is_static(x)`. If it is, the layer needs only `x[0]` [B, ...].",
            "`once.expand(x.shape[0], *once.shape)` gives the result T steps. The other sizes come from `once`.",
            "`expand` makes a view, all steps in the same memory. `repeat`, `stack` and `contiguous` make copies.",
        ),
    ),
    Exercise(
        "conv_snn.3",
        "A scaled update",
        scaled_update,
        [_scaled_on_the_way, _the_true_step, _clipped, _overflow, _a_clean_start],
        minutes=8,
        difficulty=3,
        in_place=True,  # it is there to change the weights
        hints=(
            "Begin with `scaler.scale(loss).backward()`: small gradients of a plain loss become 0.",
            "The gradients are `scale` times too large. `scaler.unscale_(optimizer)` divides them, once.",
            "`clip_grad_norm_` returns the norm before it clips. Call it on true gradients: after `unscale_`.",
            "Clip after `unscale_`. Else the scaled gradients are clipped, and nearly nothing is left of them.",
            "`optimizer.step()` uses any gradient. `scaler.step(optimizer)` looks for infinities first.",
            "`scaler.update()`, last of all, sets the scale for the next update.",
            "No line changes the weights yet: `scaler.step(optimizer)`.",
            "`.backward()` adds to the old gradients: call `optimizer.zero_grad()` first.",
        ),
    ),
]
