"""Run an exercise's checks on an answer. Never raises for a wrong answer, whatever the answer does."""

from __future__ import annotations

import dis
import functools
import inspect
import linecache
import traceback
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from torch import Tensor

from . import expect, registry
from .exercise import Exercise, NotWritten, Violation


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


def grade(exercise: Exercise | str, candidate: Any) -> Outcome:
    """Run the checks of ``exercise`` (or of its key) on ``candidate``, up to the first that does not hold."""
    if isinstance(exercise, str):
        exercise = registry.exercise(exercise)
    total = len(exercise.checks)
    if candidate is None or candidate is Ellipsis or _is_stub(candidate):
        return Outcome("to do", total=total)
    answer = _watched(candidate, exercise.in_place) if isinstance(candidate, FunctionType) else candidate
    for passed, check in enumerate(exercise.checks):
        found = functools.partial(Outcome, check=check.name, passed=passed, total=total)
        try:
            check.run(answer, exercise.reference)
        except NotWritten as stub:
            return Outcome("to do", message=stub.note, total=total)
        except Violation as violation:
            return found(
                "failed",
                message=violation.message,
                inputs=violation.inputs,
                yours=violation.yours,
                expected=violation.expected,
                hint=_hint_text(exercise, violation.hint),
            )
        except (Exception, SystemExit) as error:
            if "ellipsis" in str(error):
                return Outcome("to do", message="A `...` is still in your code.", total=total)
            where = _learners_line(error, candidate)
            told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            said = "Your code raised" if where else "The answer could not be checked:"
            return found("failed", message=f"{said} {told}", where=where)
    return Outcome("passed", passed=total, total=total)


def _hint_text(exercise: Exercise, hint: int | str | None) -> str:
    if isinstance(hint, int):
        return exercise.hints[hint] if hint < len(exercise.hints) else ""
    return hint or ""


def _watched(function: FunctionType, in_place: bool) -> Any:
    """``function``, but ``...`` or None as its result means "to do", and changed input tensors are a violation."""

    @functools.wraps(function)
    def answer(*args: Any, **kwargs: Any) -> Any:
        tensors = {f"argument {i + 1}": a for i, a in enumerate(args)} | kwargs
        before = {name: a._version for name, a in tensors.items() if isinstance(a, Tensor) and not a.is_inference()}
        result = function(*args, **kwargs)
        if result is None and not _is_stub(function):
            raise NotWritten("Your function gave None. Is a `return` missing?")
        expect.written(result)
        for name, version in before.items():
            if not in_place and tensors[name]._version != version:
                raise Violation(
                    "The function must not change its inputs in place.",
                    yours=f"{name} was changed",
                    expected="inputs as they were",
                    hint="In-place operations (`+=`, `x[...] =`, methods ending in `_`) change the caller's tensor.",
                )
        return result

    return answer


def _is_stub(candidate: Any) -> bool:
    """Whether the body is only ``...``, ``pass`` or ``return ...``; of a class: whether a method of its own is."""
    if inspect.isclass(candidate):
        methods = (m for m in vars(candidate).values() if isinstance(m, FunctionType))
        return any(_is_stub(m) for m in methods)
    return isinstance(candidate, FunctionType) and _is_empty(candidate.__code__)


def _is_empty(code: CodeType) -> bool:
    idle = {"RESUME", "NOP", "POP_TOP", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE", "CACHE"}
    instructions = list(dis.get_instructions(code))
    if any(i.opname not in idle for i in instructions):
        return False
    return all(i.argval is None or i.argval is Ellipsis for i in instructions if i.opname.endswith("_CONST"))


def _learners_line(error: BaseException, candidate: Any) -> str:
    """The last line of the learner's own file or cell in the traceback."""
    mine = _filenames(candidate)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in mine]
    if not frames:
        return ""
    line = frames[-1].line or linecache.getline(frames[-1].filename, frames[-1].lineno or 0).strip()
    return f"line {frames[-1].lineno}: {line}" if line else f"line {frames[-1].lineno}"


def _filenames(candidate: Any) -> set[str]:
    if isinstance(candidate, FunctionType):
        return {candidate.__code__.co_filename}
    kind = candidate if inspect.isclass(candidate) else type(candidate)
    return {m.__code__.co_filename for m in vars(kind).values() if isinstance(m, FunctionType)}
