"""Exercises of "Events and time"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from snnkit.data.events import Events
from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Exercise, Violation
from snnkit.measure import Traffic


def count_events(recording, window):
    """Events per window of `window` µs, polarity (OFF first) and pixel: float32 [T, 2, height, width]. No loop."""
    height, width = recording.size
    steps = -(-recording.duration // window)  # rounded up
    step, channel = recording.t // window, recording.p.long()
    cell = ((step * 2 + channel) * height + recording.y.long()) * width + recording.x.long()
    return torch.bincount(cell, minlength=steps * 2 * height * width).view(steps, 2, height, width).float()


def backwards(recording):
    """The recording of the same film played backwards."""
    t = recording.duration - 1 - recording.t.flip(0)
    x, y, p = recording.x.flip(0), recording.y.flip(0), ~recording.p.flip(0)
    return replace(recording, t=t, x=x, y=y, p=p)


def supported(recording, within):
    """Which events had one of the 8 pixels around theirs fire at most `within` µs before: bool [n]."""
    last_near = torch.full(recording.size, -math.inf, dtype=torch.float64)  # when a neighbour fired last
    accepted = []
    for t, x, y in zip(recording.t.tolist(), recording.x.tolist(), recording.y.tolist(), strict=True):
        before = last_near[y, x].item()
        accepted.append(t - before <= within)
        last_near[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2] = t
        last_near[y, x] = before  # a pixel does not support itself
    return torch.tensor(accepted)


# Exercise 1


def _one_event(candidate: Any, reference: Any) -> None:
    for row, place in (((2500, 2, 1, 1), (2, 1, 1, 2)), ((4999, 0, 2, 0), (4, 0, 2, 0))):
        inputs = shown([row], size="3 × 4", duration=5000, window=1000)
        result = candidate(made([row], (3, 4), 5000), 1000)
        expect.tensor(result, torch.zeros(5, 2, 3, 4), inputs=inputs, hint=0)
        places = result.nonzero().tolist()
        step, channel, y, x = place
        columns_first = divmod(x * 3 + y, 4)
        known = {(step, 1 - channel, y, x): 1, (step, channel, x, y): 2, (step, channel, *columns_first): 2}
        hint = known.get(tuple(places[0]), 0) if len(places) == 1 else 0
        message = "One event is a single 1, at [window, channel, row, column]."
        expect.true(places == [list(place)], message, inputs=inputs, yours=places, expected=[list(place)], hint=hint)


def _rows_and_columns(candidate: Any, reference: Any) -> None:
    row = (0, 1, 2, 1)
    result, message = candidate(made([row], (4, 4)), 1), "The row is y and the column is x, also on a square sensor."
    expect.close(result.nonzero(), torch.tensor([[0, 1, 2, 1]]), message, inputs=shown([row], size="4 × 4"), hint=2)


def _several_at_one_place(candidate: Any, reference: Any) -> None:
    rows = [(t, 1, 1, p) for t, p in ((10, 1), (20, 1), (30, 0), (40, 1))]
    result = candidate(made(rows, (3, 3), 100), 100)
    message = "Three ON events of one pixel in one window count three."
    expect.close(result[0, :, 1, 1], torch.tensor([1.0, 3.0]), message, inputs=shown(rows, window=100), hint=3)


def _edges_of_windows(candidate: Any, reference: Any) -> None:
    rows = [(t, 0, 0, 1) for t in (0, 999, 1000, 1999, 2000, 2400)]
    inputs = shown(rows, duration=3500, window=1000)
    result, message = candidate(made(rows, (1, 1), 3500), 1000), "The recording lasts four windows, the last shorter."
    expect.true(len(result) == 4, message, inputs=inputs, yours=f"{len(result)} windows", hint=4)
    message = "A window starts at its first microsecond and ends before the next window starts."
    expect.close(result[:, 1, 0, 0], torch.tensor([2.0, 2.0, 2.0, 0.0]), message, inputs=inputs, hint=4)


def _a_long_recording(candidate: Any, reference: Any) -> None:
    rows = [(t, 0, 0, 1) for t in (0, 20_000_999, 20_001_000)]
    message = "Also after 20 s an event is in its window: divide by `//`, as float32 skips whole numbers above 2^24."
    result = candidate(made(rows, (1, 1), 20_002_000), 1000)[:, 1, 0, 0]
    inputs = shown(rows, duration=20_002_000, window=1000)
    expect.close(result.nonzero().flatten(), torch.tensor([0, 20_000, 20_001]), message, inputs=inputs, hint=4)


def _a_large_sensor(candidate: Any, reference: Any) -> None:
    rows = [(10, 200, 100, 1), (20, 5, 299, 0), (30, 399, 250, 1)]
    message = "Each event is in its place, also on a sensor of 300 × 400 pixels."
    inputs = shown(rows, size="300 × 400")
    with expect.explained((RuntimeError, IndexError), "", message, inputs=inputs, hint=5):
        result = candidate(made(rows, (300, 400), 40), 40)
    want = torch.tensor([[0, 0, 299, 5], [0, 1, 100, 200], [0, 1, 250, 399]])
    expect.close(result.nonzero(), want, message, inputs=inputs, hint=5)


def _no_loop(candidate: Any, reference: Any) -> None:
    counts = []
    for many in (10, 400):
        recording = drawn(many, (5, 6), 1000, seed=1)
        with Traffic() as seen:
            candidate(recording, 250)
        counts.append(len(seen.kernels))
    message = "Forty times the events need no more operations on tensors: a loop would be over a hundred times slower."
    inputs, yours = {"events": "10, then 400"}, f"{counts[0]} operations, then {counts[1]}"
    expect.true(counts[1] <= counts[0] + 20, message, inputs=inputs, yours=yours, hint=6)


def _nothing_is_lost(candidate: Any, reference: Any) -> None:
    recording = drawn(3000, (11, 7), 10_000, seed=2)
    result, inputs = candidate(recording, 1500), {"events": 3000, "size": "11 × 7", "window": 1500}
    count, message = result.sum(), "All events are counted."
    expect.true(count == 3000, message, inputs=inputs, yours=count, expected=3000, hint=0)
    expect.close(result, reference(recording, 1500), "Each event is counted in its place.", inputs=inputs, hint=0)


# Exercise 2

_FILM = [(100, 0, 1, 1), (400, 2, 0, 1), (450, 3, 1, 0), (700, 1, 2, 1)]


def _played(candidate: Any, recording: Events) -> Events:
    was = [part.clone() for part in (recording.t, recording.x, recording.y, recording.p)]
    inputs = shown(_FILM, duration=recording.duration)
    with (
        expect.explained(ValueError, "", "All times stay within the recording.", inputs=inputs, hint=0),
        expect.explained(ValueError, "fall", "Times never fall.", inputs=inputs, hint=1),
    ):
        result = expect.written(candidate(recording))
    if not isinstance(result, Events):
        raise Violation("The answer is a recording.", yours=type(result).__name__, expected="Events", hint=4)
    now = recording.t, recording.x, recording.y, recording.p
    expect.true(all(map(torch.equal, was, now)), "The given recording does not change.", hint=4)
    return result


def _times(candidate: Any, reference: Any) -> None:
    result = _played(candidate, made(_FILM, (3, 4), 1000))
    message, inputs = "An event 100 µs after the start comes 100 µs before the end.", shown(_FILM, duration=1000)
    expect.close(result.t, torch.tensor([299, 549, 599, 899]), message, inputs=inputs, hint=0)


def _pixels(candidate: Any, reference: Any) -> None:
    result = _played(candidate, made(_FILM, (3, 4), 1000))
    message, inputs = "Each event keeps its pixel. The last event is now the first.", shown(_FILM, duration=1000)
    expect.close(result.x, torch.tensor([1, 3, 2, 0]), message, inputs=inputs, hint=2)
    expect.close(result.y, torch.tensor([2, 1, 0, 1]), message, inputs=inputs, hint=2)


def _polarity(candidate: Any, reference: Any) -> None:
    result = _played(candidate, made(_FILM, (3, 4), 1000))
    turned = result.p.tolist() == [False, False, True, False]  # made dark, but not turned round
    message, inputs = "Played backwards, a pixel that became brighter becomes darker.", shown(_FILM, duration=1000)
    expect.close(result.p, torch.tensor([0, 1, 0, 0]), message, inputs=inputs, hint=2 if turned else 3)


def _and_back_again(candidate: Any, reference: Any) -> None:
    recording = drawn(200, (6, 5), 5000, seed=3)
    once = _played(candidate, recording)
    message = "The sensor size and the duration stay the same."
    expect.true((once.size, once.duration) == ((6, 5), 5000), message, yours=once, expected=recording, hint=4)
    twice = _played(candidate, once)
    for name in ("t", "x", "y", "p"):
        expect.close(getattr(twice, name), getattr(recording, name), f"Played backwards twice, {name} is as before.")


# --- small recordings -------------------------------------------------------------------------------------------------


def made(rows: Sequence[tuple[int, int, int, int]], size: tuple[int, int], duration: int = 0) -> Events:
    """Of rows (t, x, y, p)."""
    t, x, y, p = torch.tensor(rows).T
    return Events(t, x, y, p.bool(), size, duration)


def drawn(count: int, size: tuple[int, int], duration: int, seed: int) -> Events:
    """Events anywhere, at moments that differ."""
    draw = torch.Generator().manual_seed(seed)
    t = torch.randperm(duration, generator=draw)[:count].sort().values
    y, x = (torch.randint(limit, (count,), generator=draw) for limit in size)
    return Events(t, x, y, torch.rand(count, generator=draw) < 0.5, size, duration)


def shown(rows: Sequence[tuple[int, int, int, int]], **more: Any) -> dict[str, Any]:
    return {"events (t, x, y, p)": list(rows), **more}


# --- Exercise 3: an event is believed if a neighbour fired shortly before ---------------------------------------------


def _answers(candidate: Any, rows: Sequence[tuple[int, int, int, int]]) -> tuple[list[bool], dict]:
    result = candidate(made(rows, (5, 6)), 1000)
    inputs = shown(rows, size="5 × 6", within=1000)
    expect.tensor(result, torch.zeros(len(rows), dtype=torch.bool), inputs=inputs, hint="One bool for each event: [n].")
    return result.tolist(), inputs


def _alone(candidate: Any, reference: Any) -> None:
    rows = [(5000, 1, 1, 1), (5200, 4, 1, 1), (5300, 1, 3, 0)]
    result, inputs = _answers(candidate, rows)
    message = "None of these is next to another."
    expect.true(result == [False] * 3, message, inputs=inputs, yours=result, hint=0 if all(result) else 1)
    result, inputs = _answers(candidate, [(100, 1, 1, 1)])
    hint = "At the start no pixel has fired yet: `last_near` begins with `-torch.inf`."
    expect.true(result == [False], "The very first event has no support.", inputs=inputs, yours=result, hint=hint)
    ever = bool(candidate(made([(100, 1, 1, 1)], (5, 6)), 10**7)[0])
    expect.true(not ever, "The very first event has no support.", inputs={"within": 10**7}, yours=ever, hint=hint)


def _neighbours(candidate: Any, reference: Any) -> None:
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            if dx or dy:
                rows = [(500, 2, 2, 1), (800, 2 + dx, 2 + dy, 1)]
                result, inputs = _answers(candidate, rows)
                message = "The first is alone, the second is next to it."
                expect.true(result == [False, True], message, inputs=inputs, yours=result, hint=1)
    rows = [(500, 2, 2, 1), (800, 3, 2, 0)]
    result, inputs = _answers(candidate, rows)
    message = "A neighbour of the other polarity counts as well."
    expect.true(result == [False, True], message, inputs=inputs, yours=result, hint=5)


def _in_time(candidate: Any, reference: Any) -> None:
    for later, want in ((1000, True), (1001, False)):
        rows = [(500, 2, 2, 1), (500 + later, 3, 2, 1)]
        result, inputs = _answers(candidate, rows)
        message = f"The neighbour fired {later} µs before."
        expect.true(result[1] == want, message, inputs=inputs, yours=result[1], expected=want, hint=2)
    late = candidate(made([(500, 2, 2, 1), (50_000, 3, 2, 1)], (5, 6)), 60_000)
    message = "The neighbour fired 49,500 µs before."
    expect.true(bool(late[1]), message, inputs={"within": 60_000}, yours=late, hint=2)
    rows = [(500, 2, 2, 1), (1400, 1, 2, 1), (2000, 3, 2, 1)]
    result, inputs = _answers(candidate, rows)
    message = "The neighbour of the third fired 1500 µs before. The second is not its neighbour."
    expect.true(result == [False, True, False], message, inputs=inputs, yours=result, hint=2)


def _itself(candidate: Any, reference: Any) -> None:
    rows = [(500, 2, 2, 1), (700, 2, 2, 0), (900, 2, 2, 1)]
    result, inputs = _answers(candidate, rows)
    message = "A defective pixel that fires again and again does not support itself."
    expect.true(result == [False] * 3, message, inputs=inputs, yours=result, hint=3)
    rows = [(500, 3, 2, 1), (600, 2, 2, 1), (900, 2, 2, 1)]
    result, inputs = _answers(candidate, rows)
    message = "A neighbour of the third fired 400 µs before it. That its own pixel fired since then changes nothing."
    expect.true(result == [False, True, True], message, inputs=inputs, yours=result, hint=3)


def _at_the_edge(candidate: Any, reference: Any) -> None:
    cases = {
        "The corner has neighbours, too.": ([(500, 0, 0, 1), (800, 1, 1, 1)], [False, True]),
        "The last column is not next to the first.": ([(500, 0, 2, 1), (800, 5, 2, 1)], [False, False]),
        "The last row is not next to the first.": ([(500, 3, 0, 1), (800, 3, 4, 1)], [False, False]),
        "The far corner follows the same rule.": ([(500, 5, 4, 1), (800, 5, 3, 1)], [False, True]),
    }  # fmt: skip
    for message, (rows, want) in cases.items():
        with expect.explained(IndexError, "", message, inputs=shown(rows, size="5 × 6"), hint=4):
            result, inputs = _answers(candidate, rows)
        expect.true(result == want, message, inputs=inputs, yours=result, expected=want, hint=4)


def _many_events(candidate: Any, reference: Any) -> None:
    recording = drawn(300, (5, 6), 20_000, seed=4)
    result, want = candidate(recording, 300), reference(recording, 300)
    expect.close(result, want, "300 events anywhere on the sensor.", inputs={"size": "5 × 6", "within": 300}, hint=0)
    crowd = made([(100, 4, 3, 1), *((200 + n, 0, 0, 1) for n in range(200)), (600, 3, 2, 1)], (5, 6))
    message = "A neighbour of the last fired 500 µs before. A far pixel fired 200 times since then."
    hint = "Keep one number per pixel, for the whole recording: when one of its neighbours fired last."
    expect.true(bool(candidate(crowd, 1000)[-1]), message, inputs={"within": 1000}, yours=False, hint=hint)


EXERCISES = [
    Exercise(
        "event_data.1",
        "Count without a loop",
        count_events,
        [
            _one_event,
            _rows_and_columns,
            _several_at_one_place,
            _edges_of_windows,
            _a_long_recording,
            _a_large_sensor,
            _no_loop,
            _nothing_is_lost,
        ],
        minutes=8,
        difficulty=2,
        hints=(
            "Put all cells of the result in one long row. Which number does the cell [window, channel, y, x] have?",
            "OFF comes first: channel 0 where `p` is False, channel 1 where it is True.",
            "The row is `y`, the column is `x`, and a row has `width` pixels: `y * width + x`.",
            "`frames[places] += 1` adds once per place, however often it occurs. `torch.bincount` counts every time, "
            "and so does `index_put_(…, accumulate=True)`.",
            "Window k holds the times from `k * window` up to but not including `(k + 1) * window`: `t // window`.",
            "`x` and `y` are int16, which ends at 32767, and `y * width` is more: convert first, `recording.y.long()`.",
            "Whole tensors at a time: `((window * 2 + channel) * height + y) * width + x`, then one `torch.bincount`.",
        ),
    ),
    Exercise(
        "event_data.2",
        "Play it backwards",
        backwards,
        [_times, _pixels, _polarity, _and_back_again],
        hints=(
            "The first microsecond, 0, becomes the last, `recording.duration - 1`. What becomes of 100?",
            "The last event comes first now, and times must not fall: `.flip(0)`.",
            "Flip x, y and p with the times, or each event gets the values of another one.",
            "In a film played backwards, a lamp that goes on goes off: `~p`.",
            "`replace(recording, t=…, x=…, y=…, p=…)` makes a new recording of the same size and duration.",
        ),
    ),
    Exercise(
        "event_data.3",
        "Which events have support?",
        supported,
        [_alone, _neighbours, _in_time, _itself, _at_the_edge, _many_events],
        minutes=8,
        difficulty=3,
        optional=True,
        hints=(
            "Read first, then write: an event that has already entered its own time would support itself.",
            "Exactly the eight pixels around (x, y): rows y - 1 to y + 1, columns x - 1 to x + 1.",
            "The time since a neighbour last fired is at most `within`: `<=`.",
            "The block of nine includes the pixel itself. Save its value, and put it back.",
            "At the edge `y - 1` is -1, which means the last row in Python: `max(y - 1, 0)`.",
            "An OFF edge often follows an ON edge. Neighbours of either polarity count.",
        ),
    ),
]
