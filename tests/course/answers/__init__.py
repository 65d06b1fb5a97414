"""Answers that learners give to the exercises: wrong ones, right ones, stubs. A module for each notebook, and in it,
by the number of the exercise,

    WRONG = {1: [(answer, "the check that it fails", hint), ...], ...}
    RIGHT = {1: [answer, ...], ...}
    STUBS = {1: [answer, ...], ...}

``hint`` is the number of the exercise's hint that the card shows, a piece of the hint if the check has one of its own,
or None where the message says all. ``RIGHT`` holds other ways than the reference's. A module may also have

    NUDGES = {1: {0}, ...}

for hints that are opened by ``hint(...)`` and shown with no mistake: a first push, or the answer itself.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

from snnkit.lab.course import order
from snnkit.lab.course.exercise import Exercise

MISTAKES, WAYS = 3, 2  # how many of each an exercise has at least


class Mistake(NamedTuple):
    """A wrong answer, the check that it fails, and the hint that its learner reads."""

    answer: Any
    check: str
    hint: int | str | None
    called: str = ""

    @property
    def name(self) -> str:
        return self.called or named(self.answer)


class Answers(NamedTuple):
    """The answers to one exercise."""

    wrong: Sequence[Mistake]
    right: Sequence[Any]
    stubs: Sequence[Any]
    nudges: frozenset[int] = frozenset()


def answers(exercise: Exercise) -> Answers:
    """What the tables of the exercise's notebook hold for it."""
    tables = module(order.notebook_of(exercise.key))
    if tables is None:
        return Answers((), (), ())
    number = int(exercise.key.rpartition(".")[2])
    wrong = [Mistake(*row) for row in tables.WRONG.get(number, ())]
    nudges = frozenset(getattr(tables, "NUDGES", {}).get(number, ()))
    return Answers(wrong, tables.RIGHT.get(number, ()), tables.STUBS.get(number, ()), nudges)


def module(notebook: str) -> ModuleType | None:
    """The tables of a notebook ("encodings"), None if nobody has written them yet."""
    name = f"{__name__}.{notebook}"
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def named(answer: Any) -> str:
    """A short name for an answer, for the name of its test."""
    name = getattr(answer, "__name__", None) or str(answer)
    return " ".join(name.strip("<>_").split())[:40]


def lacking(exercise: Exercise, found: Answers) -> list[str]:
    """What is missing before these answers can be said to test the exercise, in sentences."""
    helped = {id(m.answer) for m in found.wrong if m.hint is not None}
    ways = {id(answer) for answer in found.right if answer is not exercise.reference}
    failed, shown = {m.check for m in found.wrong}, {m.hint for m in found.wrong}
    missing = [] if len(helped) >= MISTAKES else [f"{len(helped)} wrong answers with a hint, of {MISTAKES}"]
    missing += [] if len(ways) >= WAYS else [f"{len(ways)} right answers that are not the reference, of {WAYS}"]
    missing += [] if found.stubs else ["no stub"]
    missing += [f'no wrong answer fails the check "{c.name}"' for c in exercise.checks if c.name not in failed]
    hints = [(i, text) for i, text in enumerate(exercise.hints) if i not in found.nudges]
    missing += [f"no wrong answer is met with hint {i}: {text}" for i, text in hints if i not in shown]
    return missing + [f"hint {i} is said to be shown with no mistake, but is" for i in found.nudges & shown]
