"""Exercises of "Blank pages": four builds from an empty cell."""

from __future__ import annotations

import math
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Check, Exercise, NotWritten
from snnkit.surrogate import ATan

# --- the references ---------------------------------------------------------------------------------------------------


def population(x, beta, fire, v=None):
    """Leaky neurons with a soft reset: x [T, B, N] -> spikes [T, B, N] and the membrane after the last step [B, N]."""
    v = torch.zeros_like(x[0]) if v is None else v
    spikes = []
    for x_t in x:
        v = beta * v + x_t
        s = fire(v - 1)
        v = v - s
        spikes.append(s)
    return torch.stack(spikes), v


class Triangle(torch.autograd.Function):
    @staticmethod
    def forward(ctx, u, width):
        ctx.save_for_backward(u)
        ctx.width = width
        return (u >= 0).to(u.dtype)

    @staticmethod
    def backward(ctx, *grads):
        (u,) = ctx.saved_tensors
        return grads[0] * (1 - u.abs() / ctx.width).clamp(min=0) / ctx.width, None


def spike(u, width):
    """A step forward, a triangle of this half-width and of area 1 backward."""
    return Triangle.apply(u, width)


def fit(scores, weights, x, y, epochs, batch, lr, generator):
    """Gradient descent on the mean cross-entropy; changes the weights, returns the mean loss of each epoch."""
    losses = []
    for _ in range(epochs):
        total = 0.0
        for rows in torch.randperm(len(x), generator=generator).split(batch):
            loss = F.cross_entropy(scores(x[rows], weights), y[rows])
            gradients = torch.autograd.grad(loss, weights)
            with torch.no_grad():
                for w, gradient in zip(weights, gradients, strict=True):
                    w -= lr * gradient
            total += loss.item() * len(rows)
        losses.append(total / len(x))
    return losses


def stdp(pre, post, w, tau, up, down, traces=None):
    """Pair STDP over time: pre [T, M], post [T, N], w [N, M] -> the weights after it [N, M], and the two traces."""
    x, y = (torch.zeros_like(pre[0]), torch.zeros_like(post[0])) if traces is None else traces
    keep = math.exp(-1 / tau)
    for pre_t, post_t in zip(pre, post, strict=True):
        x, y = keep * x + pre_t, keep * y + post_t
        w = (w + up * torch.outer(post_t, x) - down * torch.outer(y, pre_t)).clamp(0, 1)
    return w, (x, y)


# --- Exercise 1 -------------------------------------------------------------------------------------------------------


def step(u):
    return (u >= 0).to(u.dtype)


def _both(candidate: Any, x: Tensor, beta: Any = 0.5, fire: Any = step, **more: Any) -> Any:
    return expect.parts(candidate(x, beta, fire, **more), 2, "It returns two things: spikes, v.", hint=0)


def _seeded(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def _spikes_and_v(candidate: Any, reference: Any) -> None:
    for x in (torch.zeros(5, 2, 3), torch.zeros(4, 1, 2, dtype=torch.float64)):
        spikes, v = _both(candidate, x)
        expect.tensor(spikes, x, "The spikes have the shape and dtype of x.", hint=0)
        expect.tensor(v, x[0], "v is one number per sample and neuron, [B, N]: time is not in it.", hint=0)


def _it_leaks_and_charges(candidate: Any, reference: Any) -> None:
    message = "Below the threshold: v is beta times the old v, plus the input."
    for steps, hint in (((-0.4, -0.2, 0.0, 0.05), 1), ((-3e4, 0.0, 0.05), "v has no lower bound: clamp nothing.")):
        x = torch.tensor(steps).view(-1, 1, 1)
        want = reference(x, 0.5, step)[1]
        expect.close(_both(candidate, x)[1], want, message, inputs={"x": x.flatten(), "beta": 0.5}, hint=hint)


def _it_fires_as_fire_says(candidate: Any, reference: Any) -> None:
    x = torch.tensor([0.5, 0.75, 0.1]).view(3, 1, 1)  # v reaches exactly 1 in the second step
    for name, fire in {"u >= 0": step, "u > 0": lambda u: (u > 0).to(u.dtype), "u >= 1": lambda u: step(u - 1)}.items():
        inputs = {"x": x.flatten(), "beta": 0.5, "fire": name}
        message = "The spikes are what `fire` makes of u = v - 1."
        yours, want = _both(candidate, x, fire=fire)[0], reference(x, 0.5, fire)[0]
        expect.close(yours.flatten(), want.flatten(), message, inputs=inputs, hint=2)


def _the_surplus_stays(candidate: Any, reference: Any) -> None:
    x = torch.tensor([1.7, 0.0, 3.0, 0.0, 0.0]).view(5, 1, 1)
    message = "Soft reset, in the step of the spike: a neuron that fired loses 1 and keeps the rest."
    far = torch.tensor([3e4, 0.0, 0.0]).view(3, 1, 1)
    for given, hint in ((x, 3), (x[:1], 3), (far, "v has no upper bound: clamp nothing.")):
        for yours, want in zip(_both(candidate, given), reference(given, 0.5, step), strict=True):
            inputs = {"x": given.flatten(), "beta": 0.5}
            expect.close(yours.flatten(), want.flatten(), message, inputs=inputs, hint=hint)


def _the_reset_follows_fire(candidate: Any, reference: Any) -> None:
    x = torch.tensor([0.5, 0.75, 0.1]).view(3, 1, 1)
    for name, fire in {"u > 0": lambda u: (u > 0).to(u.dtype), "u >= 1": lambda u: step(u - 1)}.items():
        inputs = {"x": x.flatten(), "beta": 0.5, "fire": name}
        message = "Where `fire` gives 0 there is no reset, whatever v is."
        yours, want = _both(candidate, x, fire=fire)[1], reference(x, 0.5, fire)[1]
        expect.close(yours.flatten(), want.flatten(), message, inputs=inputs, hint=3)


def _each_its_own_beta(candidate: Any, reference: Any) -> None:
    x, beta = 0.3 * _seeded(30, 2, 3), torch.tensor([0.0, 0.5, 0.95])
    message = "beta may be a tensor [N]: a decay for each neuron."
    expect.close(_both(candidate, x, beta), reference(x, beta, step), message, inputs={"beta": beta}, hint=4)


def _no_one_hears_another(candidate: Any, reference: Any) -> None:
    x = 0.4 * _seeded(30, 3, 4, seed=1)
    message = "Samples and neurons do not influence each other."
    expect.close(_both(candidate, x), reference(x, 0.5, step), message, inputs="30 steps, 3 samples, 4 neurons", hint=4)


def _in_two_pieces(candidate: Any, reference: Any) -> None:
    x = 0.4 * _seeded(40, 2, 3, seed=2)
    whole, last = _both(candidate, x, 0.9)
    first, v = _both(candidate, x[:17], 0.9)
    second, end = _both(candidate, x[17:], 0.9, v=v)
    message = "17 steps, then 23 that start from the v returned, are the same as 40 at once."
    expect.close(end, last, message, hint=5)
    expect.close(torch.cat([first, second]), whole, message, hint=5)


def _gradient_to_the_first_step(candidate: Any, reference: Any) -> None:
    x = torch.full((6, 1, 2), 0.1).requires_grad_()
    spikes = _both(candidate, x, 0.9, ATan(2.0))[0]
    message = "A gradient gets from the last spike to the first input, through `fire` and the leak."
    expect.true(spikes.requires_grad, message, yours="the spikes are cut off from x", hint=6)
    (gradient,) = torch.autograd.grad(spikes[-1].sum(), x, allow_unused=True)
    expect.true(gradient is not None and bool((gradient[0] > 0).all()), message, yours=gradient, hint=6)
    message = "The gradient crosses the border of two pieces: through the v that is given, and the v returned."
    start = torch.full((1, 2), 0.1).requires_grad_()
    end = _both(candidate, x.detach(), 0.9, ATan(2.0), v=start)[1]
    expect.true(end.requires_grad, message, yours="v is cut off from the v given", hint=6)
    (gradient,) = torch.autograd.grad(end.sum(), start, allow_unused=True)
    expect.true(gradient is not None and bool((gradient != 0).all()), message, yours=gradient, hint=6)


# --- Exercise 2 -------------------------------------------------------------------------------------------------------


def _slope(candidate: Any, u: Tensor, width: float, upstream: Tensor | None = None) -> Tensor:
    """What arrives at u when ``upstream`` (ones) arrives at the spikes."""
    u = u.clone().requires_grad_()
    spikes = expect.written(candidate(u, width))
    expect.tensor(spikes, u, hint=0)
    expect.true(spikes.requires_grad, "The spikes are connected to u.", yours="no graph back to u", hint=1)
    upstream = torch.ones_like(u) if upstream is None else upstream
    given, message = upstream.clone(), "`backward` returns two values: the gradient for u, and None for width."
    with expect.explained(RuntimeError, "incorrect number of gradients|different than None", message, hint=4):
        (gradient,) = torch.autograd.grad(spikes, u, given, allow_unused=True)
    expect.true(torch.equal(given, upstream), "The gradient that arrives must not be changed in place.", hint=4)
    expect.true(gradient is not None, "A gradient arrives at u.", yours=None, hint=1)
    return gradient


def _exactly_0_and_1(candidate: Any, reference: Any) -> None:
    for u in (torch.tensor([-2.0, -1e-6, 0.0, 1e-6, 0.3]), torch.linspace(-2, 2, 401), torch.zeros(2, 3).double()):
        for width in (1.0, 0.3):
            yours, want = expect.written(candidate(u, width)), reference(u, width)
            message = "1 where u >= 0, else 0, in the shape and dtype of u."
            expect.tensor(yours, u, message, hint=0)
            if bool((yours[u == 0] == 0).all()) and torch.equal(yours[u != 0], want[u != 0]):
                expect.close(yours, want, message, inputs={"u": u}, hint=0)
            off = yours[yours != want]
            shown = {"inputs": {"width": width}, "yours": [f"{one:.9g}" for one in off[:3].flatten().tolist()]}
            expect.true(len(off) == 0, "The spikes are 0 or 1 exactly, not nearly.", hint=2, **shown)


def _the_slope_at_the_threshold(candidate: Any, reference: Any) -> None:
    u = torch.zeros(1)
    for width in (1.0, 0.5, 0.1):
        message = "At the threshold the slope is 1 / width."
        expect.close(_slope(candidate, u, width), 1 / (width + u), message, inputs={"u": u, "width": width}, hint=3)


def _the_triangle(candidate: Any, reference: Any) -> None:
    u = torch.linspace(-1.95, 1.95, 14)
    for width in (1.0, 2.0, 0.4):
        message = "The slope is a triangle: it falls evenly to 0 at u = ± width, and is 0 beyond."
        want = _slope(reference, u, width)
        expect.close(_slope(candidate, u, width), want, message, inputs={"u": u, "width": width}, hint=3)


def _the_chain_rule(candidate: Any, reference: Any) -> None:
    u, upstream = torch.tensor([-0.5, 0.0, 0.5]), torch.tensor([2.0, -3.0, 0.0])
    message = "The gradient at the spikes is multiplied by the slope and passed on."
    want = _slope(reference, u, 1.0, upstream)
    expect.close(_slope(candidate, u, 1.0, upstream), want, message, inputs={"u": u, "grad": upstream}, hint=4)


def _far_away(candidate: Any, reference: Any) -> None:
    u = torch.tensor([-3e38, -1e20, 1e20, 3e38])
    message = "Far from the threshold the spikes are still 0 and 1, and the gradient is 0, never NaN."
    expect.close(candidate(u, 0.5), step(u), message, inputs={"u": u}, hint=2)
    expect.close(_slope(candidate, u, 0.5), torch.zeros(4), message, inputs={"u": u}, hint=3)


def _inside_your_population(candidate: Any, reference: Any) -> None:
    def through(fire: Any) -> Tensor:
        x = (0.3 * _seeded(20, 1, 3, seed=4)).requires_grad_()
        spikes, _ = population(x, 0.9, lambda u: fire(u, 1.0))
        return torch.autograd.grad(spikes.sum(), x)[0]

    message = "As `fire` of a population it gives the gradient of all inputs over 20 steps."
    expect.close(through(candidate), through(reference), message, atol=1e-5, hint=4)


# --- Exercise 3 -------------------------------------------------------------------------------------------------------


def _linear(x: Tensor, weights: list[Tensor]) -> Tensor:
    return weights[2] * (x @ weights[0].T) + weights[1]


def _weights() -> list[Tensor]:
    """Of 3 inputs and 3 classes: a matrix, a bias and a gain."""
    start = _seeded(3, 3, seed=7) - 0.5, torch.zeros(3), torch.ones(3)
    return [w.requires_grad_() for w in start]


def _run(
    fit: Any,
    x: Tensor,
    y: Tensor,
    scores: Any = _linear,
    epochs: int = 1,
    batch: int = 2,
    lr: float = 0.5,
    seed: int = 3,
) -> tuple[Any, list[Tensor]]:
    """The losses, and the weights after it."""
    weights = _weights()
    given = list(weights)
    losses = fit(scores, weights, x, y, epochs, batch, lr, generator=torch.Generator().manual_seed(seed))
    message = "The tensors in `weights` are changed in place, and still require gradients."
    pairs = zip(given, weights, strict=False)
    same = len(given) == len(weights) and all(a is b and a.is_leaf and a.requires_grad for a, b in pairs)
    expect.true(same, message, hint=1)
    if losses is None:
        raise NotWritten("Your function returned None. Is a `return` missing?")
    return losses, [w.detach().clone() for w in weights]


_X, _Y = torch.eye(3), torch.arange(3)
PLAIN = "Every step is `w -= lr * gradient` with the same lr: no momentum, no decay, no clipping."


def _one_float_per_epoch(candidate: Any, reference: Any) -> None:
    losses, _ = _run(candidate, _X, _Y, epochs=4)
    message = "It returns a list with the mean loss of each epoch, as floats."
    right = isinstance(losses, list) and len(losses) == 4 and all(isinstance(one, float) for one in losses)
    expect.true(right, message, yours=losses, expected="a list of 4 floats", hint=0)


def _one_step_downhill(candidate: Any, reference: Any) -> None:
    message = "One batch: each weight moves by -lr times its gradient."
    for scale, hint in ((1.0, 1), (100.0, PLAIN)):
        (_, yours), (_, want) = (_run(one, scale * _X, 0 * _Y, batch=3) for one in (candidate, reference))
        inputs = f"3 images of brightness {scale:g}, batch 3, 1 epoch, lr 0.5"
        expect.close(yours, want, message, inputs=inputs, hint=hint)


def _every_step_starts_from_zero(candidate: Any, reference: Any) -> None:
    x, y = torch.tensor([[1.0, 0.5, 0.0]]).repeat(6, 1), torch.zeros(6, dtype=torch.int64)
    (_, yours), (_, want) = (_run(one, x, y, epochs=2) for one in (candidate, reference))
    added, total = _weights(), [torch.zeros_like(w) for w in want]  # what becomes of gradients that are never cleared
    for _ in range(6):
        gradients = torch.autograd.grad(F.cross_entropy(_linear(x[:2], added), y[:2]), added)
        total = [a + b for a, b in zip(total, gradients, strict=True)]
        added = [(w - 0.5 * one).detach().requires_grad_() for w, one in zip(added, total, strict=True)]
    hint = 2 if all(torch.allclose(a, b, atol=1e-5) for a, b in zip(yours, added, strict=True)) else PLAIN
    message = "Six equal images in batches of 2, two epochs: six steps, each with the gradient of its own batch only."
    expect.close(yours, want, message, hint=hint)


def _seen(fit: Any, epochs: int = 4, seed: int = 3) -> list[list[int]]:
    """Which of 7 images were in each batch."""
    batches: list[list[int]] = []

    def scores(x: Tensor, weights: list[Tensor]) -> Tensor:
        batches.append([int(one) for one in x[:, 0]])
        return _linear(x, weights)

    x = torch.arange(7.0)[:, None] * torch.tensor([1.0, 0.0, 0.0])
    _run(fit, x, torch.arange(7) % 3, scores, epochs, batch=3, lr=1e-3, seed=seed)
    return batches


def _each_image_once_per_epoch(candidate: Any, reference: Any) -> None:
    batches = _seen(candidate, epochs=1)
    message = "Seven images in batches of 3: two batches of 3, one of 1, and each image once."
    right = [len(one) for one in batches] == [3, 3, 1] and sorted(chain(*batches)) == list(range(7))
    expect.true(right, message, yours=batches, expected="sizes 3, 3, 1", hint=3)


def _a_new_order_each_epoch(candidate: Any, reference: Any) -> None:
    batches = _seen(candidate)
    orders = {tuple(chain(*batches[n : n + 3])) for n in range(0, len(batches), 3)}
    message = "The images come in another order in each epoch."
    expect.true(len(orders) >= 3, message, yours=f"{len(orders)} different orders in 4 epochs", hint=4)


def _the_generator_decides(candidate: Any, reference: Any) -> None:
    torch.rand(1)  # earlier draws must not matter
    first, second = _seen(candidate), _seen(candidate)
    message = "Two calls with equal generators see the images in the same order."
    expect.true(first == second, message, yours=(first[:3], second[:3]), hint=4)
    message = "Another seed of the generator gives another order."
    expect.true(first != _seen(candidate, seed=4), message, yours=first[:3], hint=4)


def _images_keep_their_labels(candidate: Any, reference: Any) -> None:
    losses, weights = _run(candidate, _X.repeat(8, 1), _Y.repeat(8), epochs=30, batch=4)
    right = (_linear(_X, weights).argmax(1) == _Y).all()
    message = "It learns three images exactly: each batch has the labels of its own images."
    expect.true(right & (losses[-1] < 0.2), message, yours=f"last loss {losses[-1]:.3g}", hint=4)


def _the_mean_over_images(candidate: Any, reference: Any) -> None:
    x, y = _X.repeat(3, 1)[:7], torch.tensor([0, 0, 1, 1, 2, 0, 2])
    weights = _weights()
    want = F.cross_entropy(_linear(x, weights), y).item()
    losses, _ = _run(candidate, x, y, batch=5, lr=0.0)
    message = "With lr = 0 the loss of an epoch is the mean over all images, for any batches."
    expect.close(losses, [want], message, inputs="7 images, batch 5", hint=5)


# --- Exercise 4 -------------------------------------------------------------------------------------------------------


def _stdp(candidate: Any, pre: Tensor, post: Tensor, w: Tensor, **changes: Any) -> Any:
    given = {"tau": 10.0, "up": 0.1, "down": 0.05} | changes
    return expect.parts(candidate(pre, post, w, **given), 2, "It returns two things: w, traces.", hint=0)


_W = torch.tensor([[0.5, 0.4], [0.3, 0.6], [0.5, 0.5]])  # from 2 inputs to 3 neurons


def _weights_like_w(candidate: Any, reference: Any) -> None:
    for given in (_W, _W.double()):
        pre, post = given.new_zeros(20, 2), given.new_zeros(20, 3)
        w = _stdp(candidate, pre, post, given)[0]
        expect.tensor(w, given, "The weights have the shape and dtype of w, [N, M].", hint=0)
        expect.close(w, given, "Without spikes no weight changes.", hint=0)


def _pair(candidate: Any, reference: Any, first: int, then: int, message: str, hint: int) -> None:
    """One spike of input 1 and one of neuron 2."""
    pre, post = torch.zeros(20, 2), torch.zeros(20, 3)
    pre[first, 1] = post[then, 2] = 1.0
    inputs = {"input 1 fires at": first, "neuron 2 fires at": then, "w": _W, "tau": 10, "up": 0.1, "down": 0.05}
    for tau in (10.0, 4.5):
        yours, want = (_stdp(one, pre, post, _W, tau=tau)[0] for one in (candidate, reference))
        expect.close(yours, want, message, inputs=inputs | {"tau": tau}, hint=hint)


def _pre_then_post(candidate: Any, reference: Any) -> None:
    message = "Input 1 fires, neuron 2 five steps later: w[2, 1] grows by up * exp(-5 / tau), nothing else changes."
    _pair(candidate, reference, 3, 8, message, 1)


def _post_then_pre(candidate: Any, reference: Any) -> None:
    message = "Neuron 2 fires, input 1 five steps later: w[2, 1] shrinks by down * exp(-5 / tau)."
    _pair(candidate, reference, 8, 3, message, 2)


def _in_the_same_step(candidate: Any, reference: Any) -> None:
    message = "Two spikes in one step are a pair on both sides: w[2, 1] changes by up - down."
    _pair(candidate, reference, 5, 5, message, 3)


def _every_pair_counts(candidate: Any, reference: Any) -> None:
    pre, post = (_seeded(40, n, seed=5) < 0.2 for n in (2, 3))
    yours, want = (_stdp(f, pre.float(), post.float(), _W, up=0.01, down=0.008)[0] for f in (candidate, reference))
    message = "Each spike forms a pair with every earlier spike of the other side."
    expect.close(yours, want, message, inputs="random spikes over 40 steps", hint=4)


def _between_0_and_1(candidate: Any, reference: Any) -> None:
    pre, post = torch.zeros(20, 2), torch.zeros(20, 3)
    pre[2], post[3], pre[9] = 1.0, 1.0, 1.0
    post[9, 1:] = 1.0  # both at once: the sum of both changes is clamped, once
    for change in ({"up": 2.0, "down": 0.4}, {"up": 0.0, "down": 2.0}, {"up": 0.6, "down": 2.0}):
        yours, want = (_stdp(one, pre, post, _W, **change)[0] for one in (candidate, reference))
        message = (
            "After each step, growth and shrinkage together, the weights are in [0, 1]. The next starts from these."
        )
        expect.close(yours, want, message, inputs=change, hint=5)


def _it_goes_on(candidate: Any, reference: Any) -> None:
    pre, post = (_seeded(40, n, seed=6) < 0.2 for n in (2, 3))
    pre, post, small = pre.float(), post.float(), {"up": 0.01, "down": 0.008}
    whole, _ = _stdp(candidate, pre, post, _W, **small)
    w, traces = _stdp(candidate, pre[:15], post[:15], _W, **small)
    w, _ = _stdp(candidate, pre[15:], post[15:], w, **small, traces=traces)
    message = "15 steps, then 25 that start from the traces returned, are the same as 40 at once."
    expect.close(w, whole, message, hint=6)


EXERCISES = [
    Exercise(
        "blank_pages.1",
        "A population",
        population,
        [
            _spikes_and_v,
            _it_leaks_and_charges,
            _it_fires_as_fire_says,
            _the_surplus_stays,
            _the_reset_follows_fire,
            _each_its_own_beta,
            Check("samples and neurons alone", _no_one_hears_another),
            _in_two_pieces,
            _gradient_to_the_first_step,
        ],
        minutes=20,
        difficulty=1,
        list_all=True,
        hints=(
            "Begin with `v = torch.zeros_like(x[0])` and an empty list; loop over `x`, append, and at the end return "
            "`torch.stack(spikes), v`.",
            "Charge: `v = beta * v + x_t`. The input is not multiplied by beta.",
            "Spikes: `s = fire(v - 1)`. Write no comparison: `fire` decides.",
            "Reset: `v = v - s`, in the same step. A hard reset, `v * (1 - s)`, would throw the surplus away.",
            "Use whole tensors: no loop over samples or neurons, and no mean, sum or max.",
            "If a `v` is given, start from it, and return the v after the last reset.",
            "A `.detach()`, `.item()` or `torch.no_grad()` cuts the graph. Leave them out.",
        ),
    ),
    Exercise(
        "blank_pages.2",
        "A surrogate gradient",
        spike,
        [
            _exactly_0_and_1,
            _the_slope_at_the_threshold,
            _the_triangle,
            _the_chain_rule,
            _far_away,
            _inside_your_population,
        ],
        minutes=25,
        difficulty=2,
        list_all=True,
        hints=(
            "`(u >= 0).to(u.dtype)` is the step. At u = 0 it fires.",
            "A comparison cuts the graph. Write a `torch.autograd.Function`, or add something to the step that is 0 "
            "and has a gradient.",
            "Forward has no ramp: return the step, or the step plus `a - a.detach()`, which is exactly 0.",
            "The triangle: `(1 - u.abs() / width).clamp(min=0) / width`. Its area is 1 for each width.",
            "In `backward`: return the gradient times the slope, and `None` for width. In the other way "
            "PyTorch multiplies: `slope.detach() * u` has the gradient slope.",
        ),
    ),
    Exercise(
        "blank_pages.3",
        "A training loop",
        fit,
        [
            _one_float_per_epoch,
            _each_image_once_per_epoch,
            _one_step_downhill,
            _every_step_starts_from_zero,
            _a_new_order_each_epoch,
            _the_generator_decides,
            _images_keep_their_labels,
            _the_mean_over_images,
        ],
        minutes=30,
        difficulty=2,
        in_place=True,
        list_all=True,
        hints=(
            "For each epoch append one number, `loss.item()` and not the tensor: a tensor would keep the whole graph.",
            "Under `torch.no_grad()`: `w -= lr * gradient`, for all weights. `w = w - …` only makes a new name.",
            "PyTorch adds up gradients. Set `w.grad = None` after each step, or use `torch.autograd.grad`.",
            "`order.split(batch)` gives the batches, the last one smaller. None may be dropped.",
            "In each epoch `order = torch.randperm(len(x), generator=generator)`. Then `x[rows]`, and also `y[rows]`.",
            "A small batch counts less: sum `loss.item() * len(rows)` and divide by `len(x)`.",
        ),
    ),
    Exercise(
        "blank_pages.4",
        "STDP with traces",
        stdp,
        [
            _weights_like_w,
            Check("pre, then post", _pre_then_post),
            Check("post, then pre", _post_then_pre),
            _in_the_same_step,
            _every_pair_counts,
            _between_0_and_1,
            Check("in two pieces", _it_goes_on),
        ],
        minutes=35,
        difficulty=3,
        list_all=True,
        hints=(
            "Two traces: x with one number per input, y with one per neuron, zeros at first. Return `w, (x, y)`.",
            "In each step `x = keep * x + pre_t` with `keep = math.exp(-1 / tau)`. Where post fires, w grows: "
            "`up * torch.outer(post_t, x)`.",
            "The mirror: `y = keep * y + post_t`. Where pre fires, w shrinks: `down * torch.outer(y, pre_t)`.",
            "Update both traces first, then the weights. Then a spike also meets the other side's spike of this step.",
            "A trace adds up: `+ pre_t`, not a maximum or a restart at 1.",
            "`.clamp(0, 1)` inside the loop, once in a step: after both changes.",
            "If traces are given, start from them in place of zeros.",
        ),
    ),
]
