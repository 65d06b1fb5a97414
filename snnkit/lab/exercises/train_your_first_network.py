"""Exercises of "Train your first spiking network"."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snnkit import loss
from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Exercise, Violation
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
    shown = {"spikes": f"{int(spikes.sum())} spikes in {list(spikes.shape)}", "fan_out": fan_out}
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
        hints=(
            "Each spike is added once in each neuron that it reaches: additions = spikes × fan_out.",
            "Count spikes, not neurons that fired, and not a rate: do not divide by the number of steps.",
            "Dimension 1 is the batch: divide by its size.",
        ),
    ),
]
