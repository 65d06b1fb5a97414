"""Exercises of "Your own data"."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Exercise
from snnkit.measure import Traffic


def standardised(train, test):
    """Columns with mean 0 and standard deviation 1 in `train` [N, columns]; `test` by the same numbers. A pair."""
    mean, sd = train.mean(0), train.std(0)
    sd = torch.where(sd > 0, sd, 1.0)
    return (train - mean) / sd, (test - mean) / sd


def fields(x, centres, sigma):
    """How strongly each centre answers to each number: x [B, columns], centres [K] -> [B, columns · K]."""
    distance = x.unsqueeze(-1) - centres
    return torch.exp(-(distance**2) / (2 * sigma**2)).flatten(1)


def loudest(wave, length):
    """The `length` samples in a row with the most energy; a shorter wave [n] gets zeros at its end."""
    wave = torch.nn.functional.pad(wave, (0, max(length - len(wave), 0)))
    energy = torch.nn.functional.pad(wave.double().square().cumsum(0), (1, 0))
    start = int((energy[length:] - energy[:-length]).argmax())
    return wave[start : start + length]


# Exercise 1

TRAIN = torch.tensor([[1.0, 100.0], [2.0, 300.0], [3.0, 200.0], [6.0, 400.0]])
TEST = torch.tensor([[3.0, 250.0], [5.0, 900.0]])


def _scaled(candidate: Any, train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    message = "The answer is a pair: the training rows, then the test rows."
    pair = expect.parts(candidate(train, test), 2, message, hint=0)
    for one, like in zip(pair, (train, test), strict=True):
        expect.tensor(one, like, inputs={"train": train, "test": test}, hint=0)
    return pair[0], pair[1]


def _each_column(candidate: Any, reference: Any) -> None:
    train, _ = _scaled(candidate, TRAIN, TEST)
    inputs = {"train": TRAIN}
    expect.close(train.mean(0), torch.zeros(2), "Each column of `train` has the mean 0.", inputs=inputs, hint=1)
    message = "Each column of `train` has the standard deviation 1, as `std(0)` computes it."
    expect.close(train.std(0), torch.ones(2), message, inputs=inputs, hint=1)


def _test_rows_by_training_numbers(candidate: Any, reference: Any) -> None:
    inputs = {"train": TRAIN, "test": TEST}
    message = "The test rows are scaled by the mean and standard deviation of the training rows."
    expect.close(_scaled(candidate, TRAIN, TEST)[1], reference(TRAIN, TEST)[1], message, inputs=inputs, hint=2)
    alone = _scaled(candidate, TRAIN, TEST[:1])[1]
    message = "A test row is scaled alike, whether others are there or not."
    expect.close(alone, reference(TRAIN, TEST[:1])[1], message, inputs={"test": TEST[:1]}, hint=2)


def _a_constant_column(candidate: Any, reference: Any) -> None:
    train = torch.tensor([[1.0, 7.0], [3.0, 7.0]])
    test = torch.tensor([[2.0, 8.0]])
    message = "A column that is the same in all training rows becomes 0 there: nothing is divided by 0."
    inputs = {"train": train, "test": test}
    scaled = _scaled(candidate, train, test)
    expect.close(scaled[0], reference(train, test)[0], message, inputs=inputs, hint=3, atol=1e-5)
    message = "A new value in such a column stays a number of moderate size."
    expect.true(scaled[1].abs() < 1000, message, inputs=inputs, yours=scaled[1], hint=3)


# Exercise 2

CENTRES = torch.tensor([-2.0, 0.0, 1.0])
ROWS = torch.tensor([[0.0, -2.0], [1.5, 0.3]])


def _answers(candidate: Any, x: Tensor, centres: Tensor, sigma: float) -> Tensor:
    inputs = {"x": x, "centres": centres, "sigma": sigma}
    message = "Each number meets each centre: `x` [B, columns] needs one more axis, the last."
    with expect.explained(RuntimeError, "size of tensor", message, inputs=inputs, hint=0):
        result = expect.written(candidate(x, centres, sigma))
    like = x.new_empty(len(x), x.shape[1] * len(centres))
    expect.tensor(result, like, inputs=inputs, hint=0)
    return result


def _one_input_for_each_centre(candidate: Any, reference: Any) -> None:
    _answers(candidate, ROWS, CENTRES, 0.5)
    _answers(candidate, torch.rand(4, 3), torch.linspace(-1, 1, 5), 0.5)


def _best_at_its_centre(candidate: Any, reference: Any) -> None:
    result = _answers(candidate, torch.tensor([[-2.0], [0.0], [1.0]]), CENTRES, 0.5)
    message = "At its own centre a field answers with 1."
    inputs = {"x": CENTRES, "centres": CENTRES}
    expect.close(result.diagonal(), torch.ones(3), message, inputs=inputs, hint=1)
    message = "Other fields answer with less than 1."
    expect.true((result < 1) | torch.eye(3, dtype=torch.bool), message, inputs=inputs, yours=result, hint=1)


def _half_width(candidate: Any, reference: Any) -> None:
    for sigma in (0.5, 2.0):
        x = torch.tensor([[sigma], [-sigma]])
        message = "At a distance of sigma, on both sides, a field answers with exp(-1/2), about 0.61."
        inputs = {"x": x, "centres": torch.zeros(1), "sigma": sigma}
        wanted = torch.full((2, 1), 0.6065307)
        expect.close(_answers(candidate, x, torch.zeros(1), sigma), wanted, message, inputs=inputs, hint=2)


def _fields_of_a_number_side_by_side(candidate: Any, reference: Any) -> None:
    message = "First come all fields of the first number, then those of the second."
    inputs = {"x": ROWS, "centres": CENTRES, "sigma": 0.5}
    expect.close(_answers(candidate, *inputs.values()), reference(*inputs.values()), message, inputs=inputs, hint=3)


# Exercise 3


def _cut(candidate: Any, wave: Tensor, length: int, message: str, wanted: Tensor, hint: int) -> None:
    inputs = {"wave": wave, "length": length}
    with expect.explained(RuntimeError, "maximum size", message, inputs=inputs, hint=3):  # of `unfold`, a short wave
        result = expect.written(candidate(wave, length))
    expect.tensor(result, wanted, inputs=inputs, hint=0)
    expect.close(result, wanted, message, inputs=inputs, hint=hint)


def _a_part_of_this_length(candidate: Any, reference: Any) -> None:
    wave = torch.tensor([0.0, 0.0, 0.1, 0.9, -0.8, 0.2, 0.0])
    message = "The loudest two samples in a row."
    _cut(candidate, wave, 2, message, torch.tensor([0.9, -0.8]), 1)


def _energy_not_height(candidate: Any, reference: Any) -> None:
    wave = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.7, -0.7, 0.7, 0.0])
    message = "Three samples of 0.7 have more energy than one of 1: square them, and add the squares up."
    _cut(candidate, wave, 3, message, torch.tensor([0.7, -0.7, 0.7]), 1)
    wave = torch.tensor([0.0, 0.9, 0.3, 0.0, 0.65, 0.65, 0.0])
    _cut(candidate, wave, 2, "The squares of 0.9 and 0.3 add up to 0.9, those of twice 0.65 to 0.845.", wave[1:3], 1)
    wave = torch.tensor([0.0, 0.5, -0.5, 0.5, 0.0, 0.3, 0.3, 0.3])
    message = "Samples below 0 are as loud as those above."
    _cut(candidate, wave, 3, message, wave[1:4], 1)


def _at_the_ends(candidate: Any, reference: Any) -> None:
    wave = torch.tensor([0.1, 0.0, 0.0, 0.3, 0.9])
    _cut(candidate, wave, 2, "The last part counts, too.", wave[3:], 2)
    _cut(candidate, wave.flip(0), 2, "The first part counts, too.", wave.flip(0)[:2], 2)
    _cut(candidate, wave, 5, "A wave of just this length stays as it is.", wave, 2)


def _a_short_wave(candidate: Any, reference: Any) -> None:
    wave = torch.tensor([0.4, 0.2])
    _cut(candidate, wave, 4, "A shorter wave gets zeros at its end.", torch.tensor([0.4, 0.2, 0.0, 0.0]), 3)


def _a_second_of_sound(candidate: Any, reference: Any) -> None:
    time = torch.arange(8000) / 8000
    wave = torch.sin(2000 * time) * (0.2 + 0.7 * torch.exp(-(((time - 0.7) / 0.1) ** 2)))
    inputs = {"wave": "a tone of 1 s", "length": 2000}
    with Traffic() as seen:
        yours = expect.written(candidate(wave, 2000))
    wanted = reference(wave, 2000)
    expect.tensor(yours, wanted, inputs=inputs, hint=0)
    energies = [float(one.double().square().sum()) for one in (yours, wanted)]
    shown = {"yours": f"energy {energies[0]:.1f}", "expected": f"energy {energies[1]:.1f}"}
    message = "Of a whole second, too, it finds the loudest quarter."
    expect.true(energies[0] > 0.9999 * energies[1], message, inputs=inputs, hint=2, **shown)
    message = "It is done without a copy of each part: for ten seconds at 44 kHz that would be gigabytes."
    expect.true(seen.bytes < 5e6, message, inputs=inputs, yours=f"{seen.bytes / 1e6:.0f} MB moved", hint=4)


EXERCISES = [
    Exercise(
        "your_own_data.1",
        "Scale by what you may know",
        standardised,
        [_each_column, _test_rows_by_training_numbers, _a_constant_column],
        minutes=5,
        difficulty=1,
        hints=(
            "Return two tensors: `train` scaled, then `test` scaled.",
            "`train.mean(0)` and `train.std(0)` have one number for each column.",
            "The test rows stand for rows that you do not have yet. Use only numbers that `train` gave.",
            "Where the standard deviation is 0, divide by 1: `torch.where(sd > 0, sd, 1.0)`.",
        ),
    ),
    Exercise(
        "your_own_data.2",
        "Receptive fields",
        fields,
        [_one_input_for_each_centre, _best_at_its_centre, _half_width, _fields_of_a_number_side_by_side],
        minutes=5,
        difficulty=2,
        hints=(
            "`x.unsqueeze(-1)` is [B, columns, 1]. Less `centres` [K], it is [B, columns, K]. `flatten(1)` comes last.",
            "The exponent is 0 where `x` equals the centre, and below 0 elsewhere.",
            "Equation (1): the squared distance, divided by 2 σ². Mind the brackets around `2 * sigma**2`.",
            "`flatten(1)` of [B, columns, K] keeps the K fields of a number side by side.",
        ),
    ),
    Exercise(
        "your_own_data.3",
        "Cut out the sound",
        loudest,
        [_a_part_of_this_length, _energy_not_height, _at_the_ends, _a_short_wave, _a_second_of_sound],
        minutes=6,
        difficulty=2,
        hints=(
            "Return a tensor [length]: a slice `wave[start : start + length]`.",
            "The energy of a part is the sum of its squares. `wave.square().cumsum(0)` is the energy up to a sample. "
            "That of a part is the difference of two, and the first part starts from 0: put a 0 before the sums.",
            "There are n - length + 1 places to start. `.argmax()` of the energies is the best.",
            "`torch.nn.functional.pad(wave, (0, missing))` puts zeros at the end.",
            "`unfold` and a loop look at `length` samples for each start. Two values of a running sum are enough.",
        ),
    ),
]
