"""The help of an exercise as cards: its hints, one by one, and its solution."""

from __future__ import annotations

import inspect
import textwrap

from . import session
from .card import Card, Line, short
from .exercise import Exercise


def next_hint(exercise: Exercise) -> Card:
    """Open one more hint, and note it. The card shows all that are open."""
    now, total = session.current(), len(exercise.hints)
    with now.lock:
        opened = min(now.opened.get(exercise.key, 0) + 1, total)
        now.opened[exercise.key] = opened
        if not now.solving:
            now.progress.hinted(exercise.key, opened)
        return open_hints(exercise)


def open_hints(exercise: Exercise) -> Card:
    """The hints that are open in this session."""
    opened, total = session.current().opened.get(exercise.key, 0), len(exercise.hints)
    lines = [Line(text, label=f"Hint {i + 1}") for i, text in enumerate(exercise.hints[:opened])]
    if opened < total:
        lines.append(Line(f'{_left(total - opened)}: `hint("{exercise.key}")` again.'))
    else:
        lines.append(
            Line(f'{"No more hints." if total else "No hints here."} The solution: `solution("{exercise.key}")`.')
        )
    return Card("info", heading(exercise), f"hint {opened} of {total}" if total else "", lines)


def reveal(exercise: Exercise) -> Card:
    """The reference, its source or its value; that it was looked at is noted."""
    now = session.current()
    if not now.solving:
        now.progress.revealed(exercise.key)
    return Card("info", heading(exercise), "solution", [Line(source(exercise), code=True)])


def source(exercise: Exercise) -> str:
    """The reference's source text (or, of a value, the value)."""
    if not callable(exercise.reference):
        return short(exercise.reference)
    return textwrap.dedent(inspect.getsource(exercise.reference)).rstrip()


def heading(exercise: Exercise) -> str:
    return f"{exercise.key} {exercise.title}"


def _left(count: int) -> str:
    return "One more hint" if count == 1 else f"{count} more hints"
