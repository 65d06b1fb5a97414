"""Exercises of "Taking a network home"."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Exercise, Violation


def snapshot(net, optimizer, order, epoch):
    """All that a run needs to continue: a dict with "net", "optimizer", "order" and "epoch"."""
    states = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "order": order.get_state()}
    return copy.deepcopy(states) | {"epoch": epoch}


def to_integers(weight, bits=8):
    """Whole numbers [outputs, inputs] (int8) and a scale per output [outputs, 1], whose product is about weight."""
    largest = 2 ** (bits - 1) - 1
    scale = weight.abs().amax(1, keepdim=True).clamp(min=1e-12) / largest
    return (weight / scale).round().to(torch.int8), scale


# Exercise 1

PARTS = ("net", "optimizer", "order", "epoch")


class _Net(nn.Linear):
    """A layer that also keeps the mean of its inputs, as a batch norm does."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__(2, 1, bias=False)
        self.register_buffer("mean", torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        self.mean.lerp_(x.mean(0), 0.1)
        return super().forward(x)


class _Run:
    """A layer, SGD with momentum, and a generator that draws the samples."""

    def __init__(self, seed: int) -> None:
        self.net = _Net()
        nn.init.constant_(self.net.weight, float(seed))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)
        self.order = torch.Generator().manual_seed(seed)

    def update(self, x: Tensor) -> None:
        self.optimizer.zero_grad()
        (self.net(x) - 1).square().sum().backward()
        self.optimizer.step()

    def state(self) -> list[Tensor]:
        momenta = [entry["momentum_buffer"] for entry in self.optimizer.state.values()]
        return [*self.net.state_dict().values(), *momenta, self.order.get_state()]

    def updates(self, count: int) -> _Run:
        for _ in range(count):
            self.update(torch.rand(1, 2, generator=self.order))
        return self


def _taken(candidate: Any, run: _Run, epoch: int = 3) -> dict[str, Any]:
    saved = expect.written(candidate(run.net, run.optimizer, run.order, epoch))
    message = 'The snapshot is a dict with the keys "net", "optimizer", "order" and "epoch".'
    keys = sorted(map(str, saved)) if isinstance(saved, dict) else type(saved).__name__
    expect.true(isinstance(saved, dict) and set(saved) == set(PARTS), message, yours=keys, hint=0)
    for part in PARTS:
        expect.written(saved[part])
    return saved


def _restored(saved: dict[str, Any], run: _Run) -> _Run:
    ways = run.net.load_state_dict, run.optimizer.load_state_dict, run.order.set_state
    for hint, (part, put_back) in enumerate(zip(PARTS, ways, strict=False), 1):
        try:
            put_back(copy.deepcopy(saved[part]))  # an optimizer changes the very tensors that it gets
        except Exception as error:  # PyTorch raises many kinds of errors for anything but a state
            message = f'"{part}" can be put back: it is the state, not the object.'
            raise Violation(message, yours=f"{type(error).__name__}: {error}"[:120], hint=hint) from None
    return run


def _four_parts(candidate: Any, reference: Any) -> None:
    for epoch in (3, 8):
        run = _Run(1).updates(3)
        before = copy.deepcopy(run.state())
        saved = _taken(candidate, run, epoch)
        message = "A snapshot changes nothing: the run goes on as if there had been none."
        unchanged = len(before) == len(run.state()) and all(map(torch.equal, before, run.state())) and run.net.training
        expect.true(unchanged, message, hint="Draw no samples, clear nothing, and leave `net` in its mode.")
        expect.close(saved["epoch"], epoch, '"epoch" is how many epochs are finished.', inputs={"epoch": epoch}, hint=0)


def _it_goes_on(candidate: Any, reference: Any) -> None:
    run = _Run(1).updates(3)
    run.optimizer.param_groups[0]["lr"] = 0.05  # as a schedule does
    other = _restored(_taken(candidate, run), _Run(2))
    expect.close(other.net.weight, run.net.weight, "The restored net has the same weights.", hint=1)
    expect.close(other.net.mean, run.net.mean, "The restored net has the same running means.", hint=1)
    x = torch.tensor([[1.0, 2.0]])
    run.update(x)
    other.update(x)
    message = "From the same sample, both make the same update: momentum and learning rate are restored."
    expect.close(other.net.weight, run.net.weight, message, hint=2)
    yours, expected = (torch.rand(3, generator=one.order) for one in (other, run))
    expect.close(yours, expected, "Both draw the same samples next.", hint=3)


def _a_picture_of_the_moment(candidate: Any, reference: Any) -> None:
    run = _Run(1).updates(3)
    then = copy.deepcopy((run.net.state_dict(), run.optimizer.state_dict()))
    saved = _taken(candidate, run)
    run.updates(5)
    other = _restored(saved, _Run(2))
    message = "The run goes on for 5 updates after the snapshot. They must not change the snapshot."
    for name in ("weight", "mean"):
        expect.close(getattr(other.net, name), then[0][name], message, hint=4)
    yours, expected = (one["state"][0]["momentum_buffer"] for one in (other.optimizer.state_dict(), then[1]))
    expect.close(yours, expected, message, hint=4)


# Exercise 2


def _converted(candidate: Any, weight: Tensor, **more: Any) -> tuple[Tensor, Tensor]:
    pair, column = (
        "The answer is a pair: the whole numbers, then the scales.",
        "There is one scale per output: [outputs, 1].",
    )
    with expect.explained(RuntimeError, "size of tensor", column, inputs={"weight": weight}, hint=1):
        result = candidate(weight, *more.values())
    numbers, scale = map(expect.written, expect.parts(result, 2, pair, hint=0))
    expect.tensor(numbers, weight.to(torch.int8), inputs={"weight": weight}, hint=0)
    expect.tensor(scale, weight[:, :1], column, inputs={"weight": weight}, hint=1)
    return numbers, scale


WEIGHT = torch.tensor([[1.0, -0.3, 0.4962, -1.0], [0.01, 0.002, -0.0076, 0.01], [-2.0, 0.5, 1.25, -0.1]])
TOP = torch.tensor([[1.0], [0.01], [2.0]])  # the largest of each row


def _a_pair(candidate: Any, reference: Any) -> None:
    _converted(candidate, WEIGHT)


def _one_scale_per_output(candidate: Any, reference: Any) -> None:
    _, scale = _converted(candidate, WEIGHT)
    message = "The largest weight of each row becomes 127. Other rows do not matter."
    # It accepts 127 and 128 alike; the next check distinguishes them.
    expect.close(scale * 127, TOP, message, inputs={"weight": WEIGHT}, rtol=0.02, hint=1)


def _no_overflow(candidate: Any, reference: Any) -> None:
    numbers, _ = _converted(candidate, WEIGHT)
    message = "int8 reaches from -128 to 127. The largest weight becomes 127, its negative -127."
    in_range = numbers[0, 0] == 127 and numbers[0, 3] == -127 and numbers[2, 0] == -127
    expect.true(in_range, message, inputs={"weight": WEIGHT}, yours=numbers, hint=2)


def _rounded(candidate: Any, reference: Any) -> None:
    numbers, scale = _converted(candidate, WEIGHT)
    message = "Each number is the nearest one: no weight is off by more than half a scale."
    wanted, _ = reference(WEIGHT)
    expect.close(numbers, wanted, message, inputs={"weight": WEIGHT}, hint=3)
    expect.close(scale * 127, TOP, "scale · number gives the weight again.", hint=2)


def _fewer_bits(candidate: Any, reference: Any) -> None:
    for bits, top in ((4, 7), (6, 31)):
        inputs, message = {"weight": WEIGHT, "bits": bits}, f"With {bits} bits the numbers reach from -{top} to {top}."
        expect.close(_converted(candidate, **inputs), reference(**inputs), message, inputs=inputs, hint=4)


def _a_row_of_zeros(candidate: Any, reference: Any) -> None:
    small = 1e-4 * WEIGHT
    message = "Weights that are 10,000 times smaller give the same numbers."
    hint = "What keeps the scale above 0 must be far below any weight, 1e-12 say."
    expect.close(_converted(candidate, small)[0], reference(small)[0], message, inputs={"weight": small}, hint=hint)
    weight = torch.tensor([[0.0, 0.0], [1.0, 0.5]])
    numbers, scale = _converted(candidate, weight)
    message = "A row of zeros stays a row of zeros. Its scale is above 0: else 0 is divided by 0."
    good = (numbers[0] == 0).all() and (scale > 0).all()  # NaN becomes different numbers in int8 on different machines
    expect.true(good, message, yours=scale, inputs={"weight": weight}, hint=5)


EXERCISES = [
    Exercise(
        "taking_a_network_home.1",
        "Everything that the next update needs",
        snapshot,
        [_four_parts, _it_goes_on, _a_picture_of_the_moment],
        minutes=6,
        difficulty=2,
        in_place=True,  # a generator can't be compared
        hints=(
            'Return `{"net": …, "optimizer": …, "order": …, "epoch": epoch}`.',
            "`net.state_dict()` holds all weights, and the running means of batch norms.",
            "The momentum is in `optimizer.state_dict()`.",
            "`order` is a `torch.Generator`. Its position is `order.get_state()`; its seed is only its start.",
            "`state_dict()` returns the tensors themselves, and training changes them: `copy.deepcopy(…)` first.",
        ),
    ),
    Exercise(
        "taking_a_network_home.2",
        "Eight bits per weight",
        to_integers,
        [_a_pair, _one_scale_per_output, _no_overflow, _rounded, _fewer_bits, _a_row_of_zeros],
        minutes=6,
        difficulty=2,
        hints=(
            "Return two tensors: `….to(torch.int8)` with the shape of `weight`, then the scale.",
            "The largest absolute value of each row: `weight.abs().amax(1, keepdim=True)`, which is [outputs, 1].",
            "Divide the largest value by 127, not by 128 or 255: int8 ends at 127.",
            "`.to(torch.int8)` cuts off the decimals. `.round()` first.",
            "The largest number of `bits` bits, with a sign, is `2 ** (bits - 1) - 1`: 127 for 8, 7 for 4.",
            "0 / 0 is not a number. `.clamp(min=1e-12)` keeps the scale above 0.",
        ),
    ),
]
