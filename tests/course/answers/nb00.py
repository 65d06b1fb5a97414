"""Answers to the exercises of notebook 00."""

import torch


def mean(spikes):
    return spikes.mean()


def numel(spikes):
    return torch.tensor(spikes.numel())


def per_neuron(spikes):
    return spikes.sum(0)


def length(spikes):
    return len(spikes)


def any_spike(spikes):
    return spikes.any().float()


def zeros_counted(spikes):
    return (spikes == 0).sum()


def pairs(spikes):
    return spikes.tolist()


def in_words(spikes):
    return f"{int(spikes.sum())} spikes"


def count_spikes(spikes):
    return ...


def one_by_one(spikes):
    found = 0
    for number in spikes.flatten().tolist():
        found += number == 1
    return found


WRONG = {
    "00.1": [
        (mean, "count", 1),
        (numel, "silence", 1),
        (per_neuron, "one number", 0),
        (length, "silence", 1),
        (any_spike, "count", 1),
        (zeros_counted, "silence", 1),
        (pairs, "one number", 0),
        (in_words, "one number", 0),
    ],
    "00.2": [
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
    "00.1": [
        lambda spikes: int(spikes.sum()),
        lambda spikes: spikes.count_nonzero(),
        lambda spikes: len(spikes.nonzero()),
        one_by_one,
    ],
    "00.2": [[20, 32, 64], torch.zeros(20, 32, 64).shape],
}

NUDGES = {"00.1": {2}}  # the answer itself

STUBS = {"00.1": [count_spikes], "00.2": [..., (..., 32, 64)]}
