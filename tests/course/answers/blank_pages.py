"""Answers to the exercises of blank_pages."""

import math

import torch
from torch.nn import functional as F

from snnkit.lab.exercises.blank_pages import Triangle, fit, population, spike, stdp

# Exercise 1


def neurons(
    charge=lambda beta, v, x: beta * v + x,
    fires=lambda fire, v: fire(v - 1),
    reset=lambda v, s: v - s,
    start=lambda v: v,
    end=lambda before, after: after,
):
    """An answer to exercise 1 with some of its lines exchanged."""

    def answer(x, beta, fire, v=None):
        v = start(torch.zeros_like(x[0]) if v is None else v)
        spikes = []
        for x_t in x:
            before = charge(beta, v, x_t)
            s = fires(fire, before)
            v = reset(before, s)
            spikes.append(s)
        return torch.stack(spikes), end(before, v)

    return answer


def late(x, beta, fire, v=None):
    """The reset comes one step after the spike."""
    v = torch.zeros_like(x[0]) if v is None else v
    spikes, s = [], torch.zeros_like(v)
    for x_t in x:
        v = beta * v + x_t - s
        s = fire(v - 1)
        spikes.append(s)
    return torch.stack(spikes), v


def batch_as_time(x, beta, fire, v=None):
    spikes, v = population(x.transpose(0, 1), beta, fire, v)
    return spikes.transpose(0, 1), v


def on_one_neuron(x, beta, fire, v=None):
    spikes, v = population(x.mean(-1, keepdim=True), beta, fire, v)
    return spikes.expand_as(x).clone(), v.expand_as(x[0]).clone()


def in_place(x, beta, fire, v=None):
    v = torch.zeros_like(x[0]) if v is None else v
    spikes = []
    for x_t in x:
        v *= beta
        v += x_t
        s = fire(v - 1)
        v -= s
        spikes.append(s)
    return torch.stack(spikes), v


def afterwards(change):
    """The right answer to exercise 1 with spikes and v changed."""
    return lambda *given, **named: change(*population(*given, **named))


POPULATIONS = [
    (
        neurons(charge=lambda beta, v, x: (beta * v + x).clamp(min=-0.5)),
        "it leaks and charges",
        "no lower bound",
        "not below -0.5",
    ),
    (
        neurons(charge=lambda beta, v, x: (beta * v + x).clamp(max=5)),
        "the surplus stays",
        "no upper bound",
        "not above 5",
    ),
    (
        neurons(charge=lambda beta, v, x: (beta * v + x).clamp(-50, 50)),
        "it leaks and charges",
        "no lower bound",
        "within 50",
    ),
    (neurons(reset=lambda v, s: v - (v >= 1).to(v.dtype)), "the reset follows fire", 3, "its own comparison"),
    (neurons(reset=lambda v, s: torch.where(v >= 1, v - 1, v)), "the reset follows fire", 3, "without the spikes"),
    (neurons(start=lambda v: v.detach()), "gradient to the first step", 6, "detached at the start"),
    (afterwards(lambda spikes, v: (spikes, v.detach())), "gradient to the first step", 6, "detached at the end"),
    (afterwards(lambda spikes, v: spikes), "spikes and v", 0, "spikes alone"),
    (afterwards(lambda spikes, v: (list(spikes), v)), "spikes and v", 0, "as a list"),
    (afterwards(lambda spikes, v: (spikes, torch.stack([v] * len(spikes)))), "spikes and v", 0, "with a history"),
    (batch_as_time, "spikes and v", 0),
    (neurons(fires=lambda fire, v: v >= 1), "spikes and v", None, "booleans"),
    (neurons(charge=lambda beta, v, x: beta * (v + x)), "it leaks and charges", 1),
    (neurons(charge=lambda beta, v, x: v + x), "it leaks and charges", 1),
    (neurons(charge=lambda beta, v, x: beta * v + (1 - beta) * x), "it leaks and charges", 1),
    (neurons(fires=lambda fire, v: (v > 1).to(v.dtype)), "it fires as fire says", 2),
    (neurons(fires=lambda fire, v: fire(v)), "it fires as fire says", 2),
    (neurons(reset=lambda v, s: v * (1 - s)), "the surplus stays", 3),
    (neurons(reset=lambda v, s: v), "the surplus stays", 3),
    (neurons(end=lambda before, after: before), "the surplus stays", 3),
    (late, "the surplus stays", 3),
    (neurons(charge=lambda beta, v, x: torch.as_tensor(beta).mean() * v + x), "each its own beta", 4),
    (neurons(charge=lambda beta, v, x: torch.as_tensor(beta).flatten()[0] * v + x), "each its own beta", 4),
    (on_one_neuron, "each its own beta", 4),
    (neurons(charge=lambda beta, v, x: beta * v.mean(0, keepdim=True) + x), "each its own beta", 4),
    (
        neurons(charge=lambda beta, v, x: beta * (v if v.shape[0] < 3 else v.mean(0, keepdim=True)) + x),
        "samples and neurons alone",
        4,
    ),
    (neurons(start=lambda v: torch.zeros_like(v)), "in two pieces", 5),
    (in_place, "in two pieces", "Change a copy"),
    (torch.no_grad()(population), "gradient to the first step", 6, "without a graph"),
    (neurons(charge=lambda beta, v, x: beta * v.detach() + x), "gradient to the first step", 6),
]


def first_reset_then_leak(x, beta, fire, v=None):
    """The same in another order: the reset of the last step first, and one more at the end."""
    v = torch.zeros_like(x[0]) if v is None else v
    s, spikes = torch.zeros_like(v), []
    for x_t in x:
        v = beta * (v - s) + x_t
        s = fire(v - 1)
        spikes.append(s)
    return [torch.stack(spikes), v - s]


# Exercise 2


def by_function(slope, forward=lambda u: (u >= 0).to(u.dtype), chained=True):
    """An answer to exercise 2 with `autograd.Function`."""

    class Answer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, u, width):
            ctx.save_for_backward(u)
            ctx.width = width
            return forward(u)

        @staticmethod
        def backward(ctx, grad):
            (u,) = ctx.saved_tensors
            value = slope(u, ctx.width)
            return (grad * value if chained else value), None

    return lambda u, width: Answer.apply(u, width)


def returning(result):
    """An answer to exercise 2 whose backward returns ``result(grad, slope)``."""

    def backward(ctx, grad):
        (u,) = ctx.saved_tensors
        return result(grad, triangle(u, ctx.width))

    return type("Answer", (Triangle,), {"backward": staticmethod(backward)}).apply


def triangle(u, width):
    return (1 - u.abs() / width).clamp(min=0) / width


def ramp(u, width):
    """The primitive of the triangle, from 0 to 1."""
    z = (u / width).clamp(-1, 1)
    return 0.5 + z - z * z.abs() / 2


def by_detach(u, width):
    soft = ramp(u, width)
    return soft + ((u >= 0).to(u.dtype) - soft).detach()


def by_a_zero(u, width):
    soft = ramp(u, width)
    return (u >= 0).to(u.dtype) + (soft - soft.detach())


def by_a_long_line(u, width):
    """Swallows the 1 far away: 1e20 + (1 - 1e20) is 0."""
    line = u / width
    return line + ((u >= 0).to(u.dtype) - line).detach()


SPIKES = [
    (lambda u, width: u >= 0, "exactly 0 and 1", 0),
    (by_function(triangle, forward=lambda u: (u > 0).to(u.dtype)), "exactly 0 and 1", 0, "above the threshold"),
    (returning(lambda grad, slope: grad * slope), "the slope at the threshold", 4, "forgotten None"),
    (returning(lambda grad, slope: (grad.mul_(slope), None)), "the slope at the threshold", 4, "in place"),
    (by_function(lambda u, width: triangle(u, width).clamp(max=3)), "the slope at the threshold", 3, "clamped"),
    (by_function(triangle, forward=lambda u: (u >= 0).float()), "exactly 0 and 1", 0),
    (lambda u, width: ramp(u, width), "exactly 0 and 1", 2),
    (by_a_long_line, "the triangle", 3),
    (lambda u, width: (u >= 0).to(u.dtype), "the slope at the threshold", 1),
    (by_function(lambda u, width: triangle(u, width) * width), "the slope at the threshold", 3),
    (by_function(lambda u, width: triangle(u, 1.0)), "the slope at the threshold", 3),
    (by_function(lambda u, width: 0 * u), "the slope at the threshold", 3),
    (by_function(lambda u, width: (u.abs() <= width) / width), "the triangle", 3),
    (by_function(lambda u, width: (1 - u.abs() / width) / width), "the triangle", 3),
    (by_function(lambda u, width: (1 - u / width).clamp(min=0) / width), "the triangle", 3),
    (by_function(triangle, chained=False), "the chain rule", 4),
    (by_function(lambda u, width: triangle(u, width) + 0 * (u * u)), "far away", 3),
]


def only_once(u, width):
    """Right for one step, but cut off from what came before: the gradient ends at a copy of u."""
    return spike(u, width) if u.is_leaf or u.grad_fn.name() == "CloneBackward0" else spike(u, width).detach() + 0 * u


SPIKES.append((only_once, "inside your population", 4))

# Exercise 3


def loop(
    order=lambda n, generator: torch.randperm(n, generator=generator),
    batches=lambda order, size: order.split(size),
    labels=lambda y, rows: y[rows],
    loss_of=F.cross_entropy,
    clear=True,
    sign=-1.0,
    which=lambda weights: weights,
    mean=lambda losses, sizes: sum(a * b for a, b in zip(losses, sizes, strict=True)) / sum(sizes),
    once=False,
):
    """An answer to exercise 3 with some of its lines exchanged."""

    def answer(scores, weights, x, y, epochs, batch, lr, generator):
        result, first = [], order(len(x), generator)
        for w in weights:
            w.grad = None
        for epoch in range(epochs):
            losses, sizes = [], []
            mixed = first if once or not epoch else order(len(x), generator)
            for rows in batches(mixed, batch):
                loss = loss_of(scores(x[rows], weights), labels(y, rows))
                loss.backward()
                with torch.no_grad():
                    for w in which(weights):
                        w += sign * lr * w.grad
                        if clear:
                            w.grad = None
                losses.append(loss.item())
                sizes.append(len(rows))
            result.append(mean(losses, sizes))
        return result

    return answer


def new_names(scores, weights, x, y, epochs, batch, lr, generator):
    copies = [w.detach().clone().requires_grad_() for w in weights]
    losses = fit(scores, copies, x, y, epochs, batch, lr, generator)
    weights[:] = copies
    return losses


def stepping(rule):
    """An answer to exercise 3 with another step: a function of (weights, gradients, lr, the number of steps before)."""

    def answer(scores, weights, x, y, epochs, batch, lr, generator):
        losses, steps = [], 0
        for _ in range(epochs):
            total = 0.0
            for rows in torch.randperm(len(x), generator=generator).split(batch):
                loss = F.cross_entropy(scores(x[rows], weights), y[rows])
                gradients = torch.autograd.grad(loss, weights)
                with torch.no_grad():
                    rule(weights, gradients, lr, steps)
                total, steps = total + loss.item() * len(rows), steps + 1
            losses.append(total / len(x))
        return losses

    return answer


def with_momentum(weights, gradients, lr, steps):
    for w, gradient in zip(weights, gradients, strict=True):
        w.speed = gradient if not steps else 0.9 * w.speed + gradient
        w -= lr * w.speed


def with_decay(weights, gradients, lr, steps):
    for w, gradient in zip(weights, gradients, strict=True):
        w -= lr * 0.9**steps * gradient


def with_clipping(weights, gradients, lr, steps):
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    for w, gradient in zip(weights, gradients, strict=True):
        w -= lr * gradient / norm.clamp(min=5) * 5


def for_two(weights, gradients, lr, steps):
    for w, gradient in list(zip(weights, gradients, strict=True))[:2]:
        w -= lr * gradient


LOOPS = [
    (stepping(with_momentum), "every step starts from zero", "no momentum", "momentum"),
    (stepping(with_decay), "every step starts from zero", "no decay", "a falling rate"),
    (stepping(with_clipping), "one step downhill", "no clipping", "clipped"),
    (stepping(for_two), "one step downhill", 1, "two weights"),
    (lambda *given, generator: fit(*given, torch.Generator().manual_seed(0)), "the generator decides", 4, "a seed"),
    (lambda *given, **named: fit(*given, **named)[-1], "one float per epoch", 0, "the last of all"),
    (lambda *given, **named: [*map(torch.tensor, fit(*given, **named))], "one float per epoch", 0, "tensors"),
    (new_names, "one float per epoch", 1, "other tensors"),
    (loop(sign=1.0), "one step downhill", 1),
    (loop(which=lambda weights: weights[:1]), "one step downhill", 1),
    (loop(loss_of=lambda s, y: F.cross_entropy(s, y, reduction="sum")), "one step downhill", 1),
    (loop(clear=False), "every step starts from zero", 2),
    (loop(batches=lambda order, size: order.split(size)[:-1]), "each image once per epoch", 3, "no last batch"),
    (loop(order=lambda n, g: torch.randint(n, (n,), generator=g)), "each image once per epoch", 3),
    (loop(order=lambda n, g: torch.arange(n)), "a new order each epoch", 4),
    (loop(once=True), "a new order each epoch", 4),
    (loop(order=lambda n, generator: torch.randperm(n)), "the generator decides", 4),
    (loop(labels=lambda y, rows: y[: len(rows)]), "images keep their labels", 4),
    (loop(mean=lambda losses, sizes: sum(losses) / len(losses)), "the mean over images", 5),
    (loop(mean=lambda losses, sizes: losses[-1]), "the mean over images", 5),
]


def with_an_optimiser(scores, weights, x, y, epochs, batch, lr, generator):
    optimizer, losses = torch.optim.SGD(weights, lr=lr), []
    for _ in range(epochs):
        order, total = torch.randperm(len(x), generator=generator), 0.0
        for start in range(0, len(x), batch):
            rows = order[start : start + batch]
            optimizer.zero_grad()
            loss = F.cross_entropy(scores(x[rows], weights), y[rows], reduction="sum")
            (loss / len(rows)).backward()
            optimizer.step()
            total += loss.item()
        losses.append(total / len(x))
    return losses


# Exercise 4


def rule(
    keep=lambda tau: math.exp(-1 / tau),
    trace=lambda keep, x, spikes: keep * x + spikes,
    grow=lambda pre, post, x, y: torch.outer(post, x),
    shrink=lambda pre, post, x, y: torch.outer(y, pre),
    cut=lambda w: w.clamp(0, 1),
    at_the_end=False,
    early=False,
    forget=False,
):
    """An answer to exercise 4 with some of its lines exchanged; ``early``: with the traces before this step."""

    def answer(pre, post, w, tau, up, down, traces=None):
        zeros = torch.zeros_like(pre[0]), torch.zeros_like(post[0])
        x, y = zeros if traces is None or forget else traces
        for pre_t, post_t in zip(pre, post, strict=True):
            seen = keep(tau) * x, keep(tau) * y
            x, y = trace(keep(tau), x, pre_t), trace(keep(tau), y, post_t)
            now = seen if early else (x, y)
            w = w + up * grow(pre_t, post_t, *now) - down * shrink(pre_t, post_t, *now)
            w = w if at_the_end else cut(w)
        return cut(w), (x, y)

    return answer


def clamped_twice(pre, post, w, tau, up, down, traces=None):
    x, y = (torch.zeros_like(pre[0]), torch.zeros_like(post[0])) if traces is None else traces
    for pre_t, post_t in zip(pre, post, strict=True):
        x, y = math.exp(-1 / tau) * x + pre_t, math.exp(-1 / tau) * y + post_t
        w = (w + up * torch.outer(post_t, x)).clamp(0, 1)
        w = (w - down * torch.outer(y, pre_t)).clamp(0, 1)
    return w, (x, y)


RULES = [
    (clamped_twice, "between 0 and 1", 5),
    (rule(keep=lambda tau: math.exp(-1 / int(tau))), "pre, then post", 1, "whole tau"),
    (lambda *given, **named: [stdp(*given, **named)[0].float(), 0], "weights like w", 0, "float32 only"),
    (lambda pre, post, w, tau, up, down, traces=None: stdp(pre, post, w, tau, up, down)[0], "weights like w", 0),
    (lambda *a, traces=None, **k: (rule()(*a, **k)[0].double(), None), "weights like w", 0),
    (rule(cut=lambda w: 0.99 * w), "weights like w", 0),
    (rule(grow=lambda pre, post, x, y: torch.outer(post, pre)), "pre, then post", 1),
    (rule(grow=lambda pre, post, x, y: torch.outer(y, x)), "pre, then post", 1),
    (rule(keep=lambda tau: 1 - 1 / tau), "pre, then post", 1),
    (rule(keep=lambda tau: math.exp(-1 / 10)), "pre, then post", 1),
    (rule(shrink=lambda pre, post, x, y: torch.outer(post, pre)), "post, then pre", 2),
    (rule(shrink=lambda pre, post, x, y: -torch.outer(y, pre)), "post, then pre", 2),
    (rule(early=True), "in the same step", 3),
    (rule(trace=lambda keep, x, spikes: torch.maximum(keep * x, spikes)), "every pair counts", 4),
    (rule(trace=lambda keep, x, spikes: torch.where(spikes > 0, spikes, keep * x)), "every pair counts", 4),
    (rule(cut=lambda w: w), "between 0 and 1", 5),
    (rule(cut=lambda w: w.clamp(min=0)), "between 0 and 1", 5),
    (rule(at_the_end=True), "between 0 and 1", 5),
    (rule(forget=True), "in two pieces", 6),
]


def in_a_dictionary(pre, post, w, tau, up, down, traces=None):
    traces = traces or {"x": pre.new_zeros(pre.shape[1]), "y": post.new_zeros(post.shape[1])}
    x, y = traces["x"], traces["y"]
    for t in range(len(pre)):
        x, y = x * math.exp(-1 / tau) + pre[t], y * math.exp(-1 / tau) + post[t]
        w = w + up * post[t][:, None] * x[None] - down * y[:, None] * pre[t][None]
        w = torch.minimum(torch.maximum(w, torch.zeros(())), torch.ones(()))
    return w, {"x": x, "y": y}


WRONG = {1: POPULATIONS, 2: SPIKES, 3: LOOPS, 4: RULES}

RIGHT = {
    1: [neurons(), first_reset_then_leak],
    2: [Triangle.apply, by_detach, by_a_zero, by_function(triangle)],
    3: [loop(), with_an_optimiser],
    4: [rule(), in_a_dictionary],
}

STUBS = {key: [..., lambda *args, **kwargs: ...] for key in WRONG}
