"""Answers to the exercises of preflight."""

import torch


def count_spikes(spikes):
    return ...


def one_by_one(spikes):
    found = 0
    for number in spikes.flatten().tolist():
        found += number == 1
    return found


def of_one_shape(spikes):
    return sum(spikes[t, b, n] for t in range(6) for b in range(2) for n in range(3))


WRONG = {
    1: [
        (of_one_shape, "count", 1),
        (lambda spikes: spikes.mean(), "count", 1, "mean"),
        (lambda spikes: torch.tensor(spikes.numel()), "silence", 1, "numel"),
        (lambda spikes: spikes.sum(0), "one number", 0, "per neuron"),
        (lambda spikes: len(spikes), "silence", 1, "length"),
        (lambda spikes: spikes.any().float(), "count", 1, "any spike"),
        (lambda spikes: (spikes == 0).sum(), "silence", 1, "zeros counted"),
        (lambda spikes: spikes.tolist(), "one number", 0, "a list"),
        (lambda spikes: f"{int(spikes.sum())} spikes", "one number", 0, "in words"),
    ],
    2: [
        ((32, 20, 64), "time first", 1),
        ((32, 64, 20), "time first", 1),
        ((20, 64, 32), "batch, then neurons", 2),
        ((20, 32, 8, 8), "three numbers", 2),
        ((20, 32, 8), "batch, then neurons", 2),
        ((20, 64), "three numbers", 0),
        (20 * 32 * 64, "three numbers", 3),
        ("20, 32, 64", "three numbers", 0),
        (("20", "32", "64"), "three numbers", 0),
    ],
}

RIGHT = {
    1: [
        lambda spikes: int(spikes.sum()),
        lambda spikes: spikes.count_nonzero(),
        one_by_one,
    ],
    2: [[20, 32, 64], torch.zeros(20, 32, 64).shape],
}

NUDGES = {1: {2}}  # the answer itself

STUBS = {1: [count_spikes], 2: [..., (..., 32, 64)]}
