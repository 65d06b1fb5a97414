"""Answers to the exercises of train_your_first_network."""

import math

import torch
import torch.nn.functional as F

from snnkit import loss
from snnkit.lab.exercises.train_your_first_network import fit

# Exercise 1


def by_hand(spikes, labels):
    p = spikes.sum(0).softmax(1)
    return -p[torch.arange(len(labels)), labels].log().mean()


LOSSES = [
    (lambda s, y: F.cross_entropy(s.sum(0).clamp(max=4), y), "right votes help", 1, "clamped counts"),
    (lambda s, y: F.cross_entropy(s.sum(0), y, reduction="none"), "one number", 3, "one loss per image"),
    (lambda s, y: F.cross_entropy(s.sum(0), y, reduction="sum"), "silence is a guess", 2, "sum over the batch"),
    (lambda s, y: s.sum(0).log_softmax(1).gather(1, y[:, None]).mean(), "silence is a guess", 2, "sign forgotten"),
    (lambda s, y: 1 - s.sum(0).softmax(1).gather(1, y[:, None]).mean(), "silence is a guess", 2, "a probability"),
    (lambda s, y: F.cross_entropy(s.sum(0), y) / math.log(2), "silence is a guess", 2, "logarithm to base 2"),
    (lambda s, y: F.cross_entropy(s[-1], y), "only counts matter", 0, "last step only"),
    (lambda s, y: F.cross_entropy(s.amax(0), y), "right votes help", 1, "did it fire at all"),
    (lambda s, y: F.cross_entropy(s.mean(0), y), "right votes help", 1, "mean over time"),
    (lambda s, y: F.cross_entropy(s.sum(0).softmax(1), y), "right votes help", 1, "two softmaxes"),
    (lambda s, y: F.cross_entropy(-s.sum(0), y), "right votes help", 2, "rewards the wrong ones"),
    (loss.rate_cross_entropy, "only counts matter", 0, "rate loss"),
    (lambda s, y: F.cross_entropy(s.detach().sum(0), y), "every spike learns", 4, "cut from the graph"),
]


# Exercise 2


def recipe(*order, result=lambda value: value.item(), sign=1):
    """A training step that calls these things in this order."""

    def step(net, optimizer, loss_fn, x, y):
        out, _ = net(x)
        value = sign * loss_fn(out, y)
        calls = {"zero": optimizer.zero_grad, "net.zero": net.zero_grad, "back": value.backward, "step": optimizer.step}
        for name in order:
            calls[name]()
        return result(value)

    return step


def loss_after_the_update(net, optimizer, loss_fn, x, y):
    recipe("zero", "back", "step")(net, optimizer, loss_fn, x, y)
    return loss_fn(net(x)[0], y).item()


def twice(net, optimizer, loss_fn, x, y):
    recipe("zero", "back", "step")(net, optimizer, loss_fn, x, y)
    return recipe("zero", "back", "step")(net, optimizer, loss_fn, x, y)


def clipped(net, optimizer, loss_fn, x, y):
    value = loss_fn(net(x)[0], y)
    optimizer.zero_grad()
    value.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
    optimizer.step()
    return value.item()


def first_step_only(net, optimizer, loss_fn, x, y):
    out, _ = net(x[:1])
    value = loss_fn(out, y)
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    return value.item()


def by_hand_and_by_autograd(net, optimizer, loss_fn, x, y):
    value = loss_fn(net(x)[0], y)
    weights = list(net.parameters())
    for weight, gradient in zip(weights, torch.autograd.grad(value, weights), strict=True):
        weight.grad = gradient
    optimizer.step()
    return float(value.detach())


def lower_rate_each_time(net, optimizer, loss_fn, x, y):
    value = recipe("zero", "back", "step")(net, optimizer, loss_fn, x, y)
    optimizer.param_groups[0]["lr"] *= 0.9
    return value


STEPS = [
    (lower_rate_each_time, "fresh gradients", "All steps are alike"),
    (recipe("zero", "step"), "the weights move", 1, "no backward"),
    (recipe("zero", "back"), "the weights move", 2, "no step"),
    (recipe(), "the weights move", 1, "forward only"),
    (recipe("back", "zero", "step"), "the weights move", 3, "zero_grad between"),
    (recipe("zero", "step", "back"), "the weights move", 3, "step before backward"),
    (recipe("back", "step"), "fresh gradients", 3, "no zero_grad"),
    (recipe("zero", "back", "step", sign=-1), "downhill", 4, "uphill"),
    (recipe("zero", "back", "step", sign=0.5), "downhill", 4, "half the gradient"),
    (twice, "downhill", 4, "two updates"),
    (clipped, "downhill", 4),
    (recipe("zero", "back", "step", result=lambda value: value), "the loss is handed back", 5, "the graph is kept"),
    (loss_after_the_update, "the loss is handed back", 5, "the loss after the update"),
    (recipe("zero", "back", "step", result=lambda value: 0.0), "the loss is handed back", 5, "a wrong number"),
    (lambda net, optimizer, loss_fn, x, y: loss_fn(net(x), y), "the weights move", 0, "state to the loss"),
    (first_step_only, "downhill", 4),
]


# Exercise 3


COUNTS = [
    (lambda s, fan_out: int(s.sum() * fan_out / s.shape[1]), "per image", 2, "a whole number"),
    (lambda s, fan_out: s.sum() / s.shape[1], "one spike", 0, "no fan_out"),
    (lambda s, fan_out: s.mean() * fan_out, "one spike", 0, "the rate"),
    (lambda s, fan_out: s.sum() * fan_out / s.shape[0], "one spike", 0, "divided by the steps"),
    (lambda s, fan_out: s.shape[2] * fan_out, "one spike", 0, "every synapse"),
    (lambda s, fan_out: (s.sum(0) > 0).sum() * fan_out / s.shape[1], "every spike counts", 1, "neurons that fired"),
    (lambda s, fan_out: s.sum() * fan_out, "per image", 2, "the whole batch"),
    (lambda s, fan_out: s[:, 0].sum() * fan_out, "per image", 2, "the first image"),
    (lambda s, fan_out: s.sum() // s.shape[1] * fan_out, "per image", 2, "rounded down"),
]


# Exercise 4


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
    """An answer to exercise 4 with some of its lines exchanged."""

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
    """An answer to exercise 4 with another step: a function of (weights, gradients, lr, the number of steps before)."""

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


WRONG = {
    1: LOSSES,
    2: STEPS,
    3: COUNTS,
    4: LOOPS,
}

RIGHT = {
    1: [by_hand, loss.count_cross_entropy],
    2: [
        recipe("net.zero", "back", "step"),
        recipe("back", "step", "zero"),
        by_hand_and_by_autograd,
    ],
    3: [
        lambda s, fan_out: float(s.sum() * fan_out) / s.shape[1],
        lambda s, fan_out: s.flatten(2).sum((0, 2)).mean() * fan_out,
    ],
    4: [loop(), with_an_optimiser],
}

STUBS = {
    1: [lambda spikes, labels: ...],
    2: [
        lambda net, optimizer, loss_fn, x, y: ...,
        recipe("zero", "back", "step", result=lambda value: None),
    ],
    3: [lambda spikes, fan_out: ...],
    4: [..., lambda *args, **kwargs: ...],
}
