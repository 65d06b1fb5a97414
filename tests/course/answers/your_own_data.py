"""Answers to the exercises of your_own_data."""

import math

import torch

from snnkit.lab.exercises.your_own_data import fields, loudest, standardised

# Exercise 1


def scaled(mean_of, sd_of):
    """An answer from the mean and the standard deviation of (train, test)."""

    def answer(train, test):
        mean, sd = mean_of(train, test), sd_of(train, test)
        return (train - mean) / sd, (test - mean) / sd

    return answer


def safe(sd):
    return torch.where(sd > 0, sd, 1.0)


def each_by_itself(train, test):
    return standardised(train, train)[0], standardised(test, test)[0]


def all_rows_together(train, test):
    both = torch.cat([train, test])
    return standardised(both, train)[1], standardised(both, test)[1]


def by_hand(train, test):
    n = len(train)
    mean = train.sum(0) / n
    sd = ((train - mean).square().sum(0) / (n - 1)).sqrt()
    sd[sd == 0] = 1
    return (train - mean) / sd, (test - mean) / sd


def column_by_column(train, test):
    columns = [[], []]
    for i in range(train.shape[1]):
        mean, sd = train[:, i].mean(), train[:, i].std()
        for into, rows in zip(columns, (train, test), strict=True):
            into.append((rows[:, i] - mean) / (sd if sd > 1e-12 else 1.0))
    return torch.stack(columns[0], 1), torch.stack(columns[1], 1)


# Exercise 2


def bumps(exponent):
    """An answer from the exponent of (distance, sigma)."""
    return lambda x, centres, sigma: torch.exp(-exponent(x.unsqueeze(-1) - centres, sigma)).flatten(1)


def centre_by_centre(x, centres, sigma):
    parts = [torch.exp(-0.5 * ((x - float(c)) / sigma) ** 2) for c in centres]
    return torch.stack(parts, -1).reshape(len(x), -1)


def with_loops(x, centres, sigma):
    rows = [[math.exp(-((v - c) ** 2) / (2 * sigma**2)) for v in row for c in centres.tolist()] for row in x.tolist()]
    return torch.tensor(rows)


# Exercise 3


def by_parts(measure, missing=0.0):
    """An answer that takes the part with the largest measure."""

    def answer(wave, length):
        wave = torch.nn.functional.pad(wave, (0, max(length - len(wave), 0)), value=missing)
        parts = wave.unfold(0, length, 1)
        return parts[int(measure(parts).argmax())]

    return answer


def around_the_highest(wave, length):
    wave = torch.nn.functional.pad(wave, (0, max(length - len(wave), 0)))
    start = min(max(int(wave.abs().argmax()) - length // 2, 0), len(wave) - length)
    return wave[start : start + length]


def without_the_last(wave, length):
    if len(wave) <= length:
        return loudest(wave, length)
    return loudest(wave[:-1], length)


def without_the_first(wave, length):
    return loudest(wave[1:], length) if len(wave) > length else loudest(wave, length)


def from_the_highest(wave, length):
    start = min(int(wave.argmax()), len(wave) - length)
    return wave[start : start + length]


def by_sums_alone(wave, length):
    """Its sums don't begin with 0, so it never finds the first part."""
    energy = wave.square().cumsum(0)
    start = int((energy[length:] - energy[:-length]).argmax())
    return wave[start : start + length]


def not_padded(wave, length):
    parts = wave.unfold(0, length, 1)
    return parts[int(parts.square().sum(1).argmax())]


def zeros_before(wave, length):
    missing = length - len(wave)
    return torch.nn.functional.pad(wave, (missing, 0)) if missing > 0 else loudest(wave, length)


def in_steps(wave, length):
    """Looks at every 700th place only."""
    if len(wave) < 1000:
        return loudest(wave, length)
    parts = wave.unfold(0, length, 700)
    return parts[int(parts.square().sum(1).argmax())]


def by_two_sums(wave, length):
    padded = torch.zeros(max(len(wave), length))
    padded[: len(wave)] = wave
    upto = padded.pow(2).cumsum(0)
    parts = upto[length - 1 :].clone()
    parts[1:] -= upto[:-length]
    start = int(parts.argmax())
    return padded[start : start + length]


def by_convolution(wave, length):
    wave = torch.cat([wave, wave.new_zeros(max(length - len(wave), 0))])
    ones = torch.ones(1, 1, length, dtype=torch.float64)
    start = int(torch.nn.functional.conv1d(wave.double().square()[None, None], ones)[0, 0].argmax())
    return wave[start : start + length]


WRONG = {
    1: [
        (lambda train, test: standardised(train, test)[0], "each column", 0),
        (lambda train, test: train, "each column", 0, "train alone"),
        (lambda train, test: standardised(train, test)[::-1], "each column", 0, "swapped"),
        (scaled(lambda a, b: a.mean(), lambda a, b: a.std()), "each column", 1, "one number for all columns"),
        (scaled(lambda a, b: 0.0, lambda a, b: a.amax(0)), "each column", 1, "divided by the largest"),
        (scaled(lambda a, b: a.mean(0), lambda a, b: safe(a.var(0))), "each column", 1, "by the variance"),
        (each_by_itself, "test rows by training numbers", 2),
        (all_rows_together, "each column", 1),
        (scaled(lambda a, b: a.mean(0), lambda a, b: a.std(0)), "a constant column", 3),
        (scaled(lambda a, b: a.mean(0), lambda a, b: a.std(0) + 1e-9), "a constant column", 3, "a tiny number added"),
    ],
    2: [
        (lambda x, centres, sigma: x, "one input for each centre", 0),
        (
            lambda x, centres, sigma: fields(x, centres, sigma).view(*x.shape, -1),
            "one input for each centre",
            0,
            "three axes",
        ),
        (
            lambda x, centres, sigma: torch.exp(-((x - centres) ** 2) / (2 * sigma**2)),
            "one input for each centre",
            0,
            "no axis more",
        ),
        (lambda x, centres, sigma: 1 - fields(x, centres, sigma), "best at its centre", 1),
        (bumps(lambda d, s: -(d**2) / (2 * s**2)), "best at its centre", 1, "the other sign"),
        (bumps(lambda d, s: d / s), "best at its centre", 1, "not squared"),
        (bumps(lambda d, s: (d / s) ** 2), "half width", 2, "no 2"),
        (bumps(lambda d, s: d**2 / 2 * s**2), "half width", 2, "brackets"),
        (bumps(lambda d, s: d**2 / (2 * s)), "half width", 2, "sigma not squared"),
        (
            lambda x, centres, sigma: fields(x, centres, sigma).view(*x.shape, -1).transpose(1, 2).flatten(1),
            "fields of a number side by side",
            3,
        ),
    ],
    3: [
        (lambda wave, length: wave, "a part of this length", 0),
        (lambda wave, length: int(wave.abs().argmax()), "a part of this length", 0, "the place"),
        (lambda wave, length: wave[:length], "a part of this length", 1),
        (around_the_highest, "a part of this length", 1),
        (by_parts(lambda parts: parts.amax(1)), "a part of this length", 1, "the first with the highest"),
        (by_parts(lambda parts: parts.abs().amax(1) + 1e-3 * parts.square().sum(1)), "energy not height", 1),
        (from_the_highest, "energy not height", 1),
        (by_parts(lambda parts: parts.abs().sum(1)), "energy not height", 1, "sizes"),
        (by_parts(lambda parts: parts.sum(1)), "a part of this length", 1, "the sum"),
        (without_the_last, "at the ends", 2),
        (without_the_first, "at the ends", 2),
        (zeros_before, "a short wave", 3),
        (not_padded, "a short wave", 3),
        (by_sums_alone, "a part of this length", "put a 0 before the sums"),
        (by_parts(lambda parts: parts.square().sum(1), missing=1.0), "a short wave", 3, "ones"),
        (in_steps, "a second of sound", 2),
        (by_parts(lambda parts: parts.square().sum(1)), "a second of sound", 4, "a copy of each part"),
    ],
}
RIGHT = {
    1: [by_hand, column_by_column],
    2: [centre_by_centre, with_loops],
    3: [by_two_sums, by_convolution],
}
STUBS = {
    1: [lambda train, test: ..., lambda train, test: (..., ...)],
    2: [lambda x, centres, sigma: ...],
    3: [lambda wave, length: ...],
}
