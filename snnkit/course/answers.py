"""Attempt an exercise or fall back: the learner's answer if it passes, else the reference, so Run All never stops."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

from . import registry, session
from .card import Card, Line, short
from .exercise import Exercise
from .grading import Outcome, grade


def attempt(key: str, answer: Any) -> Any:
    """Check ``answer`` to the exercise ``key`` ("01.1"), show what came of it, and hand back something that works.

    Returns ``answer`` if it passes every check, else the reference. A wrong, unfinished or raising answer is shown
    on a card and never raises here. In solve mode the reference is checked and returned.

    Raises:
        ValueError: there is no such exercise.
        TypeError: a value was handed over where a function is asked for, or the other way round.
        RuntimeError: in solve mode, when a reference fails its own checks (a fault of the course, not of a learner).
    """
    exercise = registry.exercise(key)
    now = session.current()
    if now.solving:
        return _solved(exercise)
    _check_kind(exercise, answer)
    if answer is exercise.reference and callable(answer):
        Card("open", _heading(exercise), "to do", [Line("This is the reference: run your definition again.")]).show()
        return answer
    outcome = grade(exercise, answer)
    _card(exercise, outcome).show()
    if outcome.status != "to do":  # a stub that Run All passes over is no attempt
        now.progress.attempted(key, outcome.status)
        _plot(exercise, answer)
    return answer if outcome.status == "passed" else exercise.reference


def hint(key: str) -> None:
    """Open the next hint of an exercise; those already open are shown above it."""
    exercise = registry.exercise(key)
    now = session.current()
    total = len(exercise.hints)
    opened = min(now.opened.get(key, 0) + 1, total)
    now.opened[key] = opened
    if not now.solving:
        now.progress.hinted(key, opened)
    lines = [Line(text, label=f"Hint {i + 1}") for i, text in enumerate(exercise.hints[:opened])]
    if opened < total:
        lines.append(Line(f'{_left(total - opened)}: `hint("{key}")` again.'))
    else:
        lines.append(Line(f'{"No more hints." if total else "No hints here."} The solution: `solution("{key}")`.'))
    Card("info", _heading(exercise), f"hint {opened} of {total}" if total else "", lines).show()


def solution(key: str) -> None:
    """Show the reference: its source, or its value."""
    exercise = registry.exercise(key)
    now = session.current()
    if not now.solving:
        now.progress.revealed(key)
    Card("info", _heading(exercise), "solution", [Line(source(exercise), code=True)]).show()


def source(exercise: Exercise) -> str:
    """The reference's source text (or, of a value, the value)."""
    if not callable(exercise.reference):
        return short(exercise.reference)
    return textwrap.dedent(inspect.getsource(exercise.reference)).rstrip()


def _solved(exercise: Exercise) -> Any:
    outcome = grade(exercise, exercise.reference)
    if outcome.status != "passed":
        told = f"{outcome.check}: {outcome.message}"
        raise RuntimeError(f"the reference of exercise {exercise.key} does not pass its own checks ({told})")
    session.current().solved.add(exercise.key)
    Card("good", _heading(exercise), f"passed (solution, {outcome.total} of {outcome.total} checks)").show()
    if exercise.plot is not None:
        _show(exercise.plot(exercise.reference, exercise.reference))
    return exercise.reference


def _check_kind(exercise: Exercise, answer: Any) -> None:
    if answer is None or answer is Ellipsis:
        return
    if callable(exercise.reference) and not callable(answer):
        kind = "class" if inspect.isclass(exercise.reference) else "function"
        raise TypeError(
            f"answer to {exercise.key} must be a {kind} (hand over its name, without calling it), not {short(answer)}"
        )
    if callable(answer) and not callable(exercise.reference):
        raise TypeError(f"answer to {exercise.key} must be a value, not the function {short(answer)}")


def _heading(exercise: Exercise) -> str:
    return f"{exercise.key} {exercise.title}"


def _left(count: int) -> str:
    return "One more hint" if count == 1 else f"{count} more hints"


def _card(exercise: Exercise, outcome: Outcome) -> Card:
    """The card of an attempt: the first violated property, yours against expected, and where help is."""
    tally = f"{outcome.passed} of {outcome.total} checks"
    if outcome.status == "passed":
        return Card("good", _heading(exercise), f"passed ({tally})")
    helps = f'Help: `hint("{exercise.key}")`, then `solution("{exercise.key}")`. ' if exercise.hints else ""
    onward = Line(f"{helps}Until yours passes, the notebook goes on with the reference.")
    if outcome.status == "to do":
        effort = f"about {exercise.minutes} min, {'●' * exercise.difficulty}{'○' * (3 - exercise.difficulty)}"
        lines = [Line(outcome.message)] if outcome.message else []
        return Card("open", _heading(exercise), f"to do ({effort})", [*lines, onward])
    lines = [Line(outcome.message, label=outcome.check)]
    shown = {"where": outcome.where or None, "inputs": outcome.inputs}
    shown |= {"yours": outcome.yours, "expected": outcome.expected}
    lines += [Line(short(value), label=label, code=True) for label, value in shown.items() if value is not None]
    if outcome.hint:
        lines.append(Line(outcome.hint, label="Hint"))
    return Card("bad", _heading(exercise), f"failed ({tally} hold)", [*lines, onward])


def _plot(exercise: Exercise, answer: Any) -> None:
    if exercise.plot is None:
        return
    try:
        figure = exercise.plot(answer, exercise.reference)
    except (Exception, SystemExit):
        return  # a wrong answer need not be drawable, and the card has already said what is wrong
    _show(figure)


def _show(figure: Any) -> None:
    from snnkit.viz import show

    if figure is not None:
        show(figure)
