"""Answers to the exercises of event_data."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from snnkit.data.events import Events, in_order
from snnkit.lab.exercises.event_data import backwards, count_events
from tests.course.answers.event_data_witnesses import WAYS, WITNESSES, stub

# Exercise 1


def counter(channel=None, place=None, step=None, steps=None):
    """An answer to exercise 1 with one of its parts exchanged."""

    def answer(recording, window):
        height, width = recording.size
        count = steps(recording, window) if steps else -(-recording.duration // window)
        now = step(recording, window, count) if step else recording.t // window
        which = channel(recording) if channel else recording.p.long()
        pixel = place(recording) if place else recording.y.long() * width + recording.x.long()
        cell = (now * 2 + which) * height * width + pixel
        return torch.bincount(cell, minlength=count * 2 * height * width).view(count, 2, height, width).float()

    return answer


def empty(recording, window):
    return torch.zeros(-(-recording.duration // window), 2, *recording.size)


def indices(recording, window):
    return recording.t // window, recording.p.long(), recording.y.long(), recording.x.long()


def once_per_place(recording, window):
    frames = empty(recording, window)
    frames[indices(recording, window)] += 1
    return frames


def event_by_event(recording, window):
    frames = empty(recording, window)
    for t, x, y, p in zip(recording.t, recording.x, recording.y, recording.p, strict=True):
        frames[int(t) // window, int(p), int(y), int(x)] += 1
    return frames


def some_are_left_out(recording, window):
    return count_events(recording.where(torch.arange(len(recording)) < 1000), window)


def by_index_put(recording, window):
    return empty(recording, window).index_put_(indices(recording, window), torch.ones(1), accumulate=True)


def by_numpy(recording, window):
    frames = empty(recording, window).numpy()
    np.add.at(frames, tuple(part.numpy() for part in indices(recording, window)), 1)
    return torch.from_numpy(frames)


def transposed_square(recording, window):
    found = count_events(recording, window)
    return found.transpose(2, 3) if found.shape[2] == found.shape[3] else found


def mirrored_into(recording, window):
    """x and y exchanged, with the shape right: what lies beyond the rows comes back from the top."""
    height, width = recording.size
    moved = replace(recording, x=recording.y % width, y=recording.x % height)
    return count_events(moved, window)


COUNTS = [
    (counter(channel=lambda r: 1 - r.p.long()), "one event", 1, "ON first"),
    (counter(place=lambda r: r.x.long() * r.size[0] + r.y.long()), "one event", 2, "columns first"),
    (lambda recording, window: count_events(recording, window).flip(0), "one event", 0, "windows turned round"),
    (transposed_square, "rows and columns", 2),
    (mirrored_into, "one event", 2),
    (lambda recording, window: count_events(recording, window).long(), "one event", 0, "whole numbers"),
    (lambda recording, window: count_events(recording, window).transpose(2, 3), "one event", 0, "swapped axes"),
    (once_per_place, "several at one place", 3),
    (lambda recording, window: count_events(recording, window).clamp(max=1), "several at one place", 3, "as spikes"),
    (counter(step=lambda r, w, steps: ((r.t + w // 2) // w).clamp(max=steps - 1)), "one event", 0, "half a window"),
    (counter(step=lambda r, window, steps: r.t * steps // r.duration), "edges of windows", 4, "equal parts"),
    (counter(steps=lambda r, window: int(r.t[-1]) // window + 1), "one event", 0, "until the last event"),
    (counter(step=lambda r, window, steps: (r.t / window).long()), "a long recording", 4, "float32"),
    (counter(place=lambda r: (r.y * r.size[1] + r.x).long()), "a large sensor", 5, "16 bits"),
    (event_by_event, "no loop", 6),
    (some_are_left_out, "nothing is lost", 0),
]

# Exercise 2


def player(t=None, places=None, p=None):
    """An answer to exercise 2 with one of its parts exchanged."""

    def answer(recording):
        right = backwards(recording)
        x, y = (places(part) for part in (recording.x, recording.y)) if places else (right.x, right.y)
        when, which = t(recording) if t else right.t, p(recording) if p else right.p
        return replace(recording, t=when, x=x, y=y, p=which)

    return answer


def in_place(recording):
    recording.p.logical_not_()
    return backwards(recording)


def another_recording(recording):
    turned = backwards(recording)
    return Events(turned.t, turned.x, turned.y, turned.p, turned.size)


def four_tensors(recording):
    turned = backwards(recording)
    return turned.t, turned.x, turned.y, turned.p


def by_sorting(recording):
    t = recording.duration - 1 - recording.t
    return in_order(t, recording.x, recording.y, ~recording.p, recording.size, recording.duration)


def by_an_order(recording):
    order = torch.arange(len(recording) - 1, -1, -1)
    columns = {name: getattr(recording, name)[order] for name in ("x", "y", "p")}
    columns["p"] = columns["p"] == 0
    return replace(recording, t=(recording.t[order] - recording.duration + 1).abs(), **columns)


FILMS = [
    (player(t=lambda r: r.t[-1] - r.t.flip(0)), "times", 0, "without the pause"),
    (player(t=lambda r: r.duration - r.t.flip(0)), "times", 0, "a microsecond late"),
    (player(t=lambda r: 2 * r.duration - r.t.flip(0)), "times", 0, "beyond the end"),
    (player(t=lambda r: r.duration - 1 - r.t), "times", 1, "not sorted"),
    (lambda recording: recording, "times", 0, "as it was"),
    (player(places=lambda part: part), "pixels", 2, "pixels as they were"),
    (player(p=lambda recording: ~recording.p), "polarity", 2, "polarities not turned round"),
    (player(p=lambda recording: recording.p.flip(0)), "polarity", 3, "polarities kept"),
    (player(p=lambda recording: torch.ones_like(recording.p)), "polarity", 3, "all ON"),
    (in_place, "times", 4),
    (four_tensors, "times", 4),
    (another_recording, "and back again", 4),
]

WRONG = {1: COUNTS, 2: FILMS, 3: WITNESSES}

RIGHT = {1: [by_index_put, by_numpy], 2: [by_sorting, by_an_order], 3: WAYS}


def stub_of_the_notebook_1(recording, window):
    height, width = recording.size
    steps = -(-recording.duration // window)
    cell: Any = ...
    return torch.bincount(cell, minlength=steps * 2 * height * width).view(steps, 2, height, width).float()


def stub_of_the_notebook_2(recording):
    t = ...
    x, y, p = ..., ..., ...
    return replace(recording, t=t, x=x, y=y, p=p)


STUBS = {1: [stub_of_the_notebook_1], 2: [stub_of_the_notebook_2], 3: [stub]}
