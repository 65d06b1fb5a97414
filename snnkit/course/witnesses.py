"""The checks of exercise 12.3: an event is believed if a neighbour fired shortly before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from . import expect
from .event_rows import drawn, made, shown
from .exercise import Violation


def _asked(candidate: Any, rows: Sequence[tuple[int, int, int, int]], within: int = 1000) -> tuple[list[bool], dict]:
    found = candidate(made(rows, (5, 6)), within)
    inputs = shown(rows, size="5 × 6", within=within)
    expect.tensor(found, torch.zeros(len(rows), dtype=torch.bool), inputs=inputs, hint="One bool for each event: [n].")
    return found.tolist(), inputs


def alone(candidate: Any, reference: Any) -> None:
    rows = [(5000, 1, 1, 1), (5200, 4, 1, 1), (5300, 1, 3, 0)]
    found, inputs = _asked(candidate, rows)
    told = "None of these is next to another."
    expect.true(found == [False] * 3, told, inputs=inputs, yours=found, hint=0 if all(found) else 1)
    found, inputs = _asked(candidate, [(100, 1, 1, 1)])
    told, hint = (
        "The very first has no witness.",
        "At the start nobody has fired yet: `heard` begins with `-torch.inf`.",
    )
    expect.true(found == [False], told, inputs=inputs, yours=found, hint=hint)


def neighbours(candidate: Any, reference: Any) -> None:
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            if dx or dy:
                rows = [(500, 2, 2, 1), (800, 2 + dx, 2 + dy, 1)]
                found, inputs = _asked(candidate, rows)
                told = "The first is alone, the second is next to it."
                expect.true(found == [False, True], told, inputs=inputs, yours=found, hint=1)
    rows = [(500, 2, 2, 1), (800, 3, 2, 0)]
    found, inputs = _asked(candidate, rows)
    told = "A neighbour of the other polarity counts as well."
    expect.true(found == [False, True], told, inputs=inputs, yours=found, hint=5)


def in_time(candidate: Any, reference: Any) -> None:
    for later, want in ((1000, True), (1001, False)):
        rows = [(500, 2, 2, 1), (500 + later, 3, 2, 1)]
        found, inputs = _asked(candidate, rows)
        told = f"The neighbour fired {later} µs before."
        expect.true(found[1] == want, told, inputs=inputs, yours=found[1], expected=want, hint=2)
    rows = [(500, 2, 2, 1), (1400, 1, 2, 1), (2000, 3, 2, 1)]
    found, inputs = _asked(candidate, rows)
    told = "The third's neighbour fired 1500 µs before; the second is no neighbour of it."
    expect.true(found == [False, True, False], told, inputs=inputs, yours=found, hint=2)


def itself(candidate: Any, reference: Any) -> None:
    rows = [(500, 2, 2, 1), (700, 2, 2, 0), (900, 2, 2, 1)]
    found, inputs = _asked(candidate, rows)
    told = "A defective pixel that fires again and again has no neighbours for that."
    expect.true(found == [False] * 3, told, inputs=inputs, yours=found, hint=3)
    rows = [(500, 3, 2, 1), (600, 2, 2, 1), (900, 2, 2, 1)]
    found, inputs = _asked(candidate, rows)
    told = "A neighbour of the third fired 400 µs before it. That its own pixel fired since then changes nothing."
    expect.true(found == [False, True, True], told, inputs=inputs, yours=found, hint=3)


def at_the_edge(candidate: Any, reference: Any) -> None:
    cases = {
        "The corner has neighbours, too.": ([(500, 0, 0, 1), (800, 1, 1, 1)], [False, True]),
        "The last column is not next to the first.": ([(500, 0, 2, 1), (800, 5, 2, 1)], [False, False]),
        "The last row is not next to the first.": ([(500, 3, 0, 1), (800, 3, 4, 1)], [False, False]),
        "At the far corner nothing is different.": ([(500, 5, 4, 1), (800, 5, 3, 1)], [False, True]),
    }  # fmt: skip
    for told, (rows, want) in cases.items():
        try:
            found, inputs = _asked(candidate, rows)
        except IndexError as error:
            raise Violation(told, inputs=shown(rows, size="5 × 6"), yours=f"IndexError: {error}", hint=4) from None
        expect.true(found == want, told, inputs=inputs, yours=found, expected=want, hint=4)


def many(candidate: Any, reference: Any) -> None:
    recording = drawn(300, (5, 6), 20_000, seed=4)
    found, want = candidate(recording, 300), reference(recording, 300)
    expect.close(found, want, "300 events anywhere on the sensor.", inputs={"size": "5 × 6", "within": 300}, hint=0)
