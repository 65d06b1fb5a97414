"""Run an exercise's checks on an answer. Never raises for a wrong answer, whatever the answer does."""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from traceback import FrameSummary
from typing import Any

from . import registry, trial, wording
from .candidate import Candidate
from .exercise import Exercise, NotWritten, Violation
from .limits import OutOfTime
from .prints import Prints


@dataclass(frozen=True)
class Outcome:
    """What came of an attempt.

    Args:
        status: "passed", "to do" or "failed".
        check: the name of the first check that did not hold ("" when none).
        message: the violated property, or what the answer raised.
        inputs, yours, expected: what shows it (None where there is nothing to show).
        hint: the violation's own hint, as text.
        where: the learner's line that raised, as "line 3: return v * beta".
        passed: how many checks held before; ``total``: how many there are.
        printed: the first lines that the answer printed, and how many more there were.
    """

    status: str
    check: str = ""
    message: str = ""
    inputs: dict[str, Any] | str | None = None
    yours: Any = None
    expected: Any = None
    hint: str = ""
    where: str = ""
    passed: int = 0
    total: int = 0
    printed: str = ""


def grade(exercise: Exercise | str, candidate: Any, *, tell: Callable[[], None] | None = None) -> Outcome:
    """Run the checks of ``exercise`` (or of its key) on ``candidate``, up to the first that does not hold.

    Each check has ``exercise.seconds`` (the reference is trusted, and has no limit). ``tell`` is called when they are
    over and the answer cannot be stopped, as in one long operation of PyTorch.
    """
    if isinstance(exercise, str):
        exercise = registry.exercise(exercise)
    total = len(exercise.checks)
    mine = Candidate(candidate, exercise)
    if mine.is_stub:
        return Outcome("to do", total=total)
    limit = None if candidate is exercise.reference else exercise.seconds
    prints = Prints()
    for passed, check in enumerate(exercise.checks):
        work = functools.partial(check.run, mine.answer, exercise.reference)
        done = trial.run(work, limit, prints, mine.files, tell)
        found = functools.partial(
            Outcome, "failed", check=check.name, passed=passed, total=total, printed=prints.text()
        )
        error, where = done.error, _line(done.stack, mine.files)
        if isinstance(error, OutOfTime):
            return found(**wording.out_of_time(limit or 0.0, done.seconds, done.abandoned), where=where)
        if isinstance(error, NotWritten):
            return Outcome("to do", message=error.note, total=total, printed=prints.text())
        known = error is None or isinstance(error, Violation)
        if done.changed and (known or not where):  # first: a changed dtype, say, is the reason why a result is wrong
            return found(**wording.changed(done.changed))
        if error is not None and not isinstance(error, Violation):
            if "ellipsis" in wording.text_of(error):
                return Outcome("to do", message="A `...` is still in your code.", total=total, printed=prints.text())
            return found(**wording.raised(error, where, mine.last), where=where)
        if error is not None:
            return found(
                message=error.message,
                inputs=error.inputs,
                yours=error.yours,
                expected=error.expected,
                hint=_hint_text(exercise, error.hint),
            )
    return Outcome("passed", passed=total, total=total, printed=prints.text())


def _hint_text(exercise: Exercise, hint: int | str | None) -> str:
    if isinstance(hint, int):
        return exercise.hints[hint] if hint < len(exercise.hints) else ""
    return hint or ""


def _line(stack: Iterable[FrameSummary], files: set[str]) -> str:
    """The last line of the learner's own file or cell that was running."""
    frames = [frame for frame in stack if frame.filename in files]
    if not frames:
        return ""
    number = frames[-1].lineno or 0
    line = (frames[-1].line or linecache.getline(frames[-1].filename, number)).strip()
    return f"line {number}: {line}" if line else f"line {number}"
