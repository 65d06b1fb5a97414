"""Exercises of "Train your first spiking network"."""

from __future__ import annotations

import math
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snnkit import loss
from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Exercise, NotWritten, Violation
from snnkit.neuron import Leaky
from snnkit.nn import Sequential


def count_cross_entropy(spikes, labels):
    """Cross-entropy of the spike counts: spikes [T, B, C], labels [B] -> scalar."""
    return F.cross_entropy(spikes.sum(0), labels)


def train_step(net, optimizer, loss_fn, x, y):
    """One update of the weights from one batch: x [T, B, ...], y [B] -> the loss before the update, a float."""
    out, _ = net(x)
    value = loss_fn(out, y)
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    return value.item()


def additions_per_image(spikes, fan_out):
    """Synaptic additions that one image costs on average: spikes [T, B, N], each handed on to fan_out neurons."""
    return spikes.sum() / spikes.shape[1] * fan_out


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


# Exercise 1


def _votes(steps: int, counts: list[int], *, staggered: bool = False) -> Tensor:
    """Spikes [T, 1, C] with these counts per class: all from the first step on, or one class by one."""
    spikes = torch.zeros(steps, 1, len(counts))
    for k, count in enumerate(counts):
        first = steps - sum(counts[: k + 1]) if staggered else 0
        spikes[first : first + count, 0, k] = 1.0
    return spikes


def _one_number(candidate: Any, reference: Any) -> None:
    for dtype in (torch.float32, torch.float64):
        inputs = {"spikes": torch.zeros(4, 3, 10, dtype=dtype), "labels": torch.tensor([1, 2, 3])}
        value = candidate(*inputs.values())
        message = "The loss is one number (a tensor without dimensions), the mean over the batch."
        expect.true(isinstance(value, Tensor) and value.ndim == 0, message, inputs=inputs, yours=value, hint=3)


def _silence_is_a_guess(candidate: Any, reference: Any) -> None:
    for classes, batch in ((10, 1), (10, 6), (3, 2)):
        spikes, labels = torch.zeros(5, batch, classes), torch.arange(batch) % classes
        message = f"A silent network gives all {classes} classes the same chance: its loss is ln {classes}."
        inputs = f"zeros [5, {batch}, {classes}]"
        expect.close(candidate(spikes, labels), math.log(classes), message, inputs=inputs, hint=2)


def _only_counts_matter(candidate: Any, reference: Any) -> None:
    together, apart = _votes(9, [3, 1, 2]), _votes(9, [3, 1, 2], staggered=True)
    label = torch.tensor([0])
    message = "Only the count of each neuron matters, not the moments: both trains have the counts 3, 1, 2."
    yours, want = (candidate(spikes, label) for spikes in (apart, together))
    expect.close(yours, want, message, inputs={"spikes[:, 0]": apart[:, 0]}, hint=0)


def _right_votes_help(candidate: Any, reference: Any) -> None:
    label = torch.tensor([1])
    for votes in (1, 4, 7):
        spikes = _votes(8, [0, votes, 0, 0])
        want = math.log(1 + 3 * math.exp(-votes))
        result = candidate(spikes, label)
        inputs = f"T = 8, counts 0, {votes}, 0, 0, label 1"
        sign = "A spike of the right neuron must lower the loss. The loss is never below 0."
        lower = 0 <= float(result) < math.log(4)
        expect.true(lower, sign, inputs=inputs, yours=result, expected=want, hint=2)
        message = f"With {votes} for the right one of four neurons, the loss is ln(1 + 3 exp(−{votes}))."
        expect.close(result, want, message, inputs=inputs, hint=1)


def _every_spike_learns(candidate: Any, reference: Any) -> None:
    spikes = _votes(6, [1, 3, 0]).repeat(1, 2, 1).requires_grad_()
    labels = torch.tensor([0, 2])
    value = candidate(spikes, labels)
    message = "The loss must be differentiable, so that every spike gets a gradient."
    expect.true(value.requires_grad, message, yours="a number without gradient", hint=4)
    (grad,) = torch.autograd.grad(value, spikes)
    want = (spikes.detach().sum(0).softmax(1) - F.one_hot(labels, 3)) / 2
    expect.close(grad, want.expand(6, 2, 3), "The gradient is (p − 1 of the right class) / B, at every step.", hint=4)


# Exercise 2


_RIGHT_ORDER = "forward → zero_grad → backward → step"


def _the_weights_move(candidate: Any, reference: Any) -> None:
    mine = Watched()
    before = mine.weights()
    mine.run(candidate)
    if torch.equal(before, mine.weights()):
        missing = {"backward": 1, "step": 2}
        hint = next((h for name, h in missing.items() if name not in mine.events), 3)
        raise Violation("One step must change the weights.", yours=mine.order, expected=_RIGHT_ORDER, hint=hint)


def _downhill(candidate: Any, reference: Any) -> None:
    mine, theirs = Watched(), Watched()
    before = mine.weights()
    mine.run(candidate)
    theirs.run(reference)
    moved, wanted = mine.weights() - before, theirs.weights() - before
    uphill = "The weights must move against the gradient, so that the loss falls."
    expect.true((moved * wanted).sum() > 0, uphill, yours=moved[:4], expected=wanted[:4], hint=4)
    message = "One step is one forward pass and one update by the whole gradient of `loss_fn(out, y)`."
    expect.close(moved, wanted, message, inputs={"what happened": mine.order}, hint=4, rtol=1e-3)
    mine, theirs = Watched(steep=1e4), Watched(steep=1e4)
    mine.run(candidate)
    theirs.run(reference)
    message = "The update is by the whole gradient, however large: clip nothing."
    expect.close(mine.weights(), theirs.weights(), message, hint=4, rtol=1e-3)


def _fresh_gradients(candidate: Any, reference: Any) -> None:
    mine, theirs = Watched(), Watched()
    for _ in range(3):
        mine.run(candidate)
        theirs.run(reference)
    message = "After three steps the weights are wrong: gradients of earlier batches were still there and were added."
    hint: int | str = 3
    if mine.events.count("zero_grad") == 3:
        message, hint = "After three steps the weights are wrong.", "All steps are alike: change nothing between them."
    if not torch.allclose(mine.weights(), theirs.weights(), rtol=1e-3, atol=1e-5):
        raise Violation(message, yours=mine.order, expected=" → ".join([_RIGHT_ORDER] * 3), hint=hint)


def _the_loss_is_handed_back(candidate: Any, reference: Any) -> None:
    mine, theirs = Watched(), Watched()
    value, want = mine.run(candidate), theirs.run(reference)
    alive = isinstance(value, Tensor) and value.requires_grad
    message = "The loss still holds the graph of all time steps, so their memory is not freed."
    expect.true(not alive, message, yours=value, expected=want, hint=5)
    expect.close(value, want, "The function returns the loss of this batch before the update.", hint=5)


# Exercise 3


def _operations(candidate: Any, spikes: Tensor, fan_out: int, want: float, message: str, hint: int) -> None:
    shown = {"spikes": f"tensor {list(spikes.shape)} that holds {int(spikes.sum())} of them", "fan_out": fan_out}
    expect.close(candidate(spikes, fan_out), want, message, inputs=shown, hint=hint)


def _one_spike(candidate: Any, reference: Any) -> None:
    spikes = torch.zeros(20, 1, 8)
    _operations(candidate, spikes, 10, 0.0, "Neurons that are silent cost no additions.", 0)
    spikes[3, 0, 2] = 1
    _operations(candidate, spikes, 10, 10.0, "One spike is one addition in each of the fan_out neurons it reaches.", 0)


def _every_spike_counts(candidate: Any, reference: Any) -> None:
    spikes = torch.zeros(12, 1, 4)
    spikes[::2, 0, 1] = 1
    _operations(candidate, spikes, 7, 42.0, "A neuron that fires six times costs six times as much as one spike.", 1)


def _per_image(candidate: Any, reference: Any) -> None:
    spikes = (torch.rand(9, 1, 5, generator=torch.Generator().manual_seed(1)) < 0.4).float()
    want = float(spikes.sum()) * 3
    message = "The answer is per image: four equal images in a batch cost as much per image as one alone."
    _operations(candidate, spikes.repeat(1, 4, 1), 3, want, message, 2)
    other = torch.zeros(9, 1, 5)
    other[0, 0, 0] = 1
    message = "The answer is the mean of both images, whether or not they fire alike."
    both = torch.cat([spikes.repeat(1, 2, 1), other], 1)
    _operations(candidate, both, 4, float(both.sum()) * 4 / 3, message, 2)  # no whole number


# Exercise 4


def _seeded(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


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
    yours = "the same order in all 4 epochs" if len(orders) == 1 else f"{len(orders)} orders in 4 epochs"
    expect.true(len(orders) >= 3, message, yours=yours, hint=4)


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


def _vote_plot(candidate: Any, reference: Any) -> Any:
    from snnkit.lab.viz import figures

    votes, label = list(range(9)), torch.tensor([0])
    both = {"expected": reference, "yours": candidate}
    series = {name: [float(fn(_votes(8, [n, 2, 0]), label)) for n in votes] for name, fn in both.items()}
    title = "Loss when the wrong neuron has fired twice"
    return figures.lines(series, x=votes, x_title="spikes of the right neuron", y_title="loss", title=title)


# --- a training step under observation --------------------------------------------------------------------------------


class Watched:
    """A small network, optimizer, loss and batch, always the same, and a record of a training step with them.

    Args:
        steep: factor of the loss, and of all gradients.

    Attributes:
        events: "forward", "zero_grad", "backward" and "step", in the order in which they happened.
    """

    def __init__(self, steep: float = 1.0) -> None:
        generator = torch.Generator().manual_seed(4)
        self.steep = steep
        self.net = Sequential(nn.Linear(6, 5), Leaky(0.9), nn.Linear(5, 3), Leaky(0.9))
        with torch.no_grad():
            for p in self.net.parameters():
                p.copy_(torch.rand(p.shape, generator=generator) - 0.3)
        self.x = torch.rand(5, 8, 6, generator=generator)
        self.y = torch.arange(8) % 3
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.2)
        self.events: list[str] = []
        self.net.register_forward_hook(lambda *_: self.events.append("forward"))
        for owner, name in ((self.optimizer, "step"), (self.optimizer, "zero_grad"), (self.net, "zero_grad")):
            self._note(owner, name)

    def _note(self, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def noted(*args: Any, **kwargs: Any) -> Any:
            self.events.append(name)
            return original(*args, **kwargs)

        setattr(owner, name, noted)

    def loss_fn(self, spikes: Tensor, labels: Tensor) -> Tensor:
        if isinstance(spikes, tuple):
            message = "`net(x)` gives spikes and state; `loss_fn` takes the spikes alone."
            raise Violation(message, yours="loss_fn was given both", expected="loss_fn(out, y)", hint=0)
        value = self.steep * loss.count_cross_entropy(spikes, labels)
        if value.requires_grad:
            value.register_hook(lambda _: self.events.append("backward"))
        return value

    def run(self, step: Any) -> Any:
        return step(self.net, self.optimizer, self.loss_fn, self.x, self.y)

    def weights(self) -> Tensor:
        """All of them in a row."""
        return nn.utils.parameters_to_vector(self.net.parameters()).detach()

    @property
    def order(self) -> str:
        return " → ".join(self.events) or "nothing"


EXERCISES = [
    Exercise(
        "train_your_first_network.1",
        "The loss of a vote",
        count_cross_entropy,
        [_one_number, _silence_is_a_guess, _only_counts_matter, _right_votes_help, _every_spike_learns],
        hints=(
            "First add up the spikes of each neuron over time: that leaves counts [B, C].",
            "The counts themselves are the logits: no mean over time, and no softmax before `F.cross_entropy`, which "
            "contains one.",
            "Cross-entropy is −ln p of the right class, with p the softmax of the counts.",
            "`F.cross_entropy(counts, labels)` takes the mean over the batch by itself.",
            "Stay with operations that have a gradient: `sum` has one; `argmax`, `.item()` and `.detach()` do not.",
        ),
        plot=_vote_plot,
    ),
    Exercise(
        "train_your_first_network.2",
        "The training step",
        train_step,
        [_the_weights_move, _downhill, _fresh_gradients, _the_loss_is_handed_back],
        minutes=8,
        difficulty=2,
        hints=(
            "Five lines: forward, loss, zero_grad, backward, step. `net(x)` gives two things: spikes and state.",
            "There are no gradients yet: call `.backward()` on the loss.",
            "The gradients are there, but nothing has used them: call `optimizer.step()`.",
            "PyTorch adds new gradients to old ones. Call `optimizer.zero_grad()` once per step, before `backward` and "
            "never between `backward` and `step`.",
            "Call `backward` once, on the loss itself, `value = loss_fn(out, y)`, and do not change its sign: the "
            "optimizer goes downhill by itself.",
            "Return `value.item()`: a plain number, of the loss you computed before the update.",
        ),
    ),
    Exercise(
        "train_your_first_network.3",
        "Count the additions",
        additions_per_image,
        [_one_spike, _every_spike_counts, _per_image],
        optional=True,
        hints=(
            "Each spike is added once in each neuron that it reaches: additions = spikes × fan_out.",
            "Count spikes, not neurons that fired, and not a rate: do not divide by the number of steps.",
            "Dimension 1 is the batch: divide by its size.",
        ),
    ),
    Exercise(
        "train_your_first_network.4",
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
        minutes=15,
        difficulty=2,
        in_place=True,
        list_all=True,
        hints=(
            "For each epoch append one number, `loss.item()` and not the tensor: a tensor would keep the whole graph.",
            "Under `torch.no_grad()`: `w -= lr * gradient`, for all weights. `w = w - …` only makes a new name.",
            "PyTorch adds up gradients. Set `w.grad = None` after each step, or use `torch.autograd.grad`.",
            "With the images' order in `order`, `order.split(batch)` gives the batches, the last one smaller. None may "
            "be dropped.",
            "In each epoch `order = torch.randperm(len(x), generator=generator)`. For each batch `rows` of it, "
            "`x[rows]` and also `y[rows]`.",
            "A small batch counts less: sum `loss.item() * len(rows)` and divide by `len(x)`.",
        ),
    ),
]
