"""Answers to exercise 3, "Which events have support?"."""

import itertools
import math

import numpy as np
import torch

from snnkit.lab.exercises.event_data import supported


def witness(ask=None, tell=None, keep=True, maps=1, start=-math.inf):
    """An answer to exercise 3 with one of its parts exchanged."""

    def answer(recording, within):
        height, width = recording.size
        heard = torch.full((2, height, width), start, dtype=torch.float64)
        kept = []
        for t, x, y, p in zip(*(getattr(recording, name).tolist() for name in "txyp"), strict=True):
            channel = heard[int(p) if maps == 2 else 0]
            before = channel[y, x].item()
            kept.append(ask(t - before, within) if ask else t - before <= within)
            if tell:
                tell(channel, t, x, y)
            else:
                channel[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2] = t
            if keep:
                channel[y, x] = before
        return torch.tensor(kept)

    return answer


def told_first(recording, within):
    kept, heard = [], torch.full(recording.size, -math.inf)
    for t, x, y in zip(recording.t.tolist(), recording.x.tolist(), recording.y.tolist(), strict=True):
        heard[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2] = t
        kept.append(t - heard[y, x].item() <= within)
    return torch.tensor(kept)


def the_four_beside(heard, t, x, y):
    heard[max(y - 1, 0) : y + 2, x] = t
    heard[y, max(x - 1, 0) : x + 2] = t


def square(reach):
    def tell(heard, t, x, y):
        heard[max(y - reach, 0) : y + reach + 1, max(x - reach, 0) : x + reach + 1] = t

    return tell


def without_care_at_the_edge(heard, t, x, y):
    heard[y - 1 : y + 2, x - 1 : x + 2] = t


def one_by_one(at=lambda place, size: place):
    def tell(heard, t, x, y):
        for dy, dx in itertools.product((-1, 0, 1), repeat=2):
            heard[at(y + dy, heard.shape[0]), at(x + dx, heard.shape[1])] = t

    return tell


def forgets_after_a_hundred(recording, within):
    first = torch.arange(len(recording)) < 100
    return supported(recording, within) & first


def looks_back(events):
    """Every event against so many before it."""

    def answer(recording, within):
        t, x, y = (getattr(recording, name).tolist() for name in "txy")
        found = []
        for i in range(len(t)):
            before = range(max(i - events, 0), i)
            found.append(any(max(abs(x[i] - x[j]), abs(y[i] - y[j])) == 1 and t[i] - t[j] <= within for j in before))
        return torch.tensor(found)

    return answer


def in_pairs(recording, within):
    """Every event against every other."""
    t, x, y = (getattr(recording, name).long() for name in "txy")
    order = torch.arange(len(t))
    near = torch.maximum((x[:, None] - x).abs(), (y[:, None] - y).abs()) == 1
    late = (t[:, None] - t <= within) & (order[:, None] > order)
    return (near & late).any(1)


def on_a_larger_map(recording, within):
    height, width = recording.size
    last = np.full((height + 2, width + 2), -np.inf)  # when each pixel fired
    found = np.zeros(len(recording), dtype=bool)
    for i, (t, x, y) in enumerate(zip(recording.t.numpy(), recording.x.numpy(), recording.y.numpy(), strict=True)):
        around = last[y : y + 3, x : x + 3].copy()
        around[1, 1] = -np.inf
        found[i] = t - around.max() <= within
        last[y + 1, x + 1] = t
    return torch.from_numpy(found)


WITNESSES = [
    (told_first, "alone", 0),
    (witness(start=0.0), "alone", "begins with", "starts at 0"),
    (witness(start=-1e5), "alone", "begins with", "starts long ago"),
    (witness(ask=lambda ago, within: ago <= min(within, 1000)), "in time", 2, "at most 1 ms"),
    (witness(tell=square(3)), "alone", 1, "seven by seven"),
    (witness(tell=square(2)), "alone", 1, "five by five"),
    (lambda recording, within: supported(recording, within).float(), "alone", "One bool", "floats"),
    (witness(tell=the_four_beside), "neighbours", 1, "four neighbours"),
    (witness(maps=2), "neighbours", 5, "polarities apart"),
    (witness(ask=lambda ago, within: ago < within), "in time", 2, "less than"),
    (witness(ask=lambda ago, within: ago < math.inf), "in time", 2, "ever before"),
    (witness(keep=False), "itself", 3, "vouches for itself"),
    (witness(tell=without_care_at_the_edge), "at the edge", 4, "no care at the edge"),
    (witness(tell=one_by_one()), "at the edge", 4, "one by one"),
    (witness(tell=one_by_one(lambda place, size: place % size)), "at the edge", 4, "round the corner"),
    (forgets_after_a_hundred, "many events", 0),
    (looks_back(4), "many events", 0, "the last four"),
    (looks_back(100), "many events", "one number per pixel", "the last hundred"),
]

WAYS = [in_pairs, on_a_larger_map]


def stub(recording, within):
    kept = []
    for _ in range(len(recording)):
        kept.append(...)
        ...
    return torch.tensor(kept)
