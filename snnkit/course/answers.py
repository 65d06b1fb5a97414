"""Attempt an exercise or fall back: the learner's answer if it passes, else the reference, so Run All never stops."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any

from snnkit.viz.environment import in_notebook, live

from . import helps, registry, session, trial
from .card import Card, Line, short
from .exercise import Exercise
from .grading import Outcome, grade
from .limits import Limited
from .prints import Prints

SHOWING = 2.0  # seconds in which a value has to become a text


def attempt(key: str, answer: Any) -> Any:
    """Check ``answer`` to the exercise ``key`` ("01.1"), show what came of it, and hand back something that works.

    Returns ``answer`` if it passes every check, else the reference. A wrong, unfinished or raising answer, or one that
    does not end, is shown on a card and never raises here. In solve mode the reference is checked and returned. In a
    live notebook there are buttons under the card, which do what ``hint(key)`` and ``solution(key)`` do.

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
        told = [Line("This is the reference: run your definition again.")]
        Card("open", helps.heading(exercise), "to do", told).show()
        return answer
    outcome = grade(exercise, answer, tell=functools.partial(_tell_waiting, exercise, sys.stdout))
    _card(exercise, outcome).show()
    if live():
        from IPython.display import display

        from . import buttons

        display(buttons.row(exercise, hints=outcome.status != "passed"))
    if outcome.status != "to do":  # a stub that Run All passes over is no attempt
        now.progress.attempted(key, outcome.status, outcome.check)
        _plot(exercise, answer)
    return answer if outcome.status == "passed" else exercise.reference


def hint(key: str) -> None:
    """Open the next hint of an exercise; those already open are shown above it."""
    helps.next_hint(registry.exercise(key)).show()


def solution(key: str) -> None:
    """Show the reference: its source, or its value."""
    helps.reveal(registry.exercise(key)).show()


def _solved(exercise: Exercise) -> Any:
    outcome = grade(exercise, exercise.reference)
    if outcome.status != "passed":
        told = f"{outcome.check}: {outcome.message}"
        raise RuntimeError(f"the reference of exercise {exercise.key} does not pass its own checks ({told})")
    session.current().solved.add(exercise.key)
    Card("good", helps.heading(exercise), f"passed (solution, {outcome.total} of {outcome.total} checks)").show()
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


def _card(exercise: Exercise, outcome: Outcome) -> Card:
    """The card of an attempt: the first violated property, yours against expected, and where help is."""
    tally = f"{outcome.passed} of {outcome.total} checks"
    printed = [Line(outcome.printed, label="printed", code=True)] if outcome.printed else []
    if outcome.status == "passed":
        return Card("good", helps.heading(exercise), f"passed ({tally})", printed)
    asked = f'Help: `hint("{exercise.key}")`, then `solution("{exercise.key}")`. ' if exercise.hints else ""
    onward = Line(f"{asked}Until yours passes, the notebook goes on with the reference.")
    if outcome.status == "to do":
        effort = f"about {exercise.minutes} min, {'●' * exercise.difficulty}{'○' * (3 - exercise.difficulty)}"
        lines = [Line(outcome.message)] if outcome.message else []
        return Card("open", helps.heading(exercise), f"to do ({effort})", [*lines, *printed, onward])
    lines = [Line(outcome.message, label=outcome.check)]
    shown = {"where": outcome.where or None, "inputs": outcome.inputs}
    shown |= {"yours": outcome.yours, "expected": outcome.expected}
    lines += [Line(_readable(value), label=label, code=True) for label, value in shown.items() if value is not None]
    lines += printed
    if outcome.hint:
        lines.append(Line(outcome.hint, label="Hint"))
    return Card("bad", helps.heading(exercise), f"failed ({tally} hold)", [*lines, onward])


def _readable(value: Any) -> str:
    """``short(value)``, if it comes in time: what is shown may be an object of the learner's."""
    texts: list[str] = []
    limited = Limited(SHOWING)
    try:
        limited.run(lambda: texts.append(short(value)))
    except BaseException:
        if limited.interrupted:
            raise
        return f"({type(value).__name__} that cannot be shown)"
    return texts[0]


def _tell_waiting(exercise: Exercise, stream: Any) -> None:
    told = f"Your code has used up its {exercise.seconds:g} s, but sits in one long operation, which nothing can stop."
    help_line = "Wait for it to end, or restart the kernel (Kernel menu)."
    card = Card("open", helps.heading(exercise), "still running", [Line(told), Line(help_line)])
    if in_notebook():
        card.show()
    else:
        print(card.text(), file=stream, flush=True)  # sys.stdout is the answer's as long as it runs


def _plot(exercise: Exercise, answer: Any) -> None:
    if exercise.plot is None:
        return
    plot, figures = exercise.plot, []
    done = trial.run(lambda: figures.append(plot(answer, exercise.reference)), exercise.seconds, Prints(), set())
    # A wrong answer need not be drawable, and the card has already said what is wrong.
    if done.error is None and figures:
        _show(figures[0])


def _show(figure: Any) -> None:
    from snnkit.viz import show

    if figure is not None:
        show(figure)
