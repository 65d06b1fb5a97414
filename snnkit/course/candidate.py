"""A learner's answer as the checks see it: is it written yet, where is its code, does it keep its arguments whole?"""

from __future__ import annotations

import dis
import functools
import inspect
from types import CodeType, FunctionType
from typing import Any

from torch import Tensor

from . import expect
from .exercise import Exercise, NotWritten, Violation
from .inputs import fingerprint


class Candidate:
    """An answer to an exercise.

    Attributes:
        answer: what the checks are given: of a function, one that watches its arguments and its result.
        is_stub: whether there is nothing in it but ``...``.
        files: the names of the files or cells that hold its code.
        last: what the function gave last.
    """

    def __init__(self, given: Any, exercise: Exercise) -> None:
        self.last: Any = None
        self.is_stub = given is None or given is Ellipsis or _is_stub(given)
        self.files = _files(given)
        watched = isinstance(exercise.reference, FunctionType) and callable(given) and not inspect.isclass(given)
        self._lazy = inspect.isgeneratorfunction(exercise.reference)
        self.answer = self._watched(given, exercise.in_place) if watched else given

    def _watched(self, function: Any, in_place: bool) -> Any:
        """``function``, but ``...`` or None as its result means "to do", and changed arguments are a violation."""

        def answer(*args: Any, **kwargs: Any) -> Any:
            given = {f"argument {i + 1}": a for i, a in enumerate(args)} | kwargs
            before = {} if in_place else {name: fingerprint(value) for name, value in given.items()}
            self.last = result = function(*args, **kwargs)
            if result is None and not _is_stub(function):
                raise NotWritten("Your function gave None. Is a `return` missing?")
            expect.written(result)
            if not self._lazy:
                _finished(result)
            for name, was in before.items():
                if fingerprint(given[name]) != was:
                    _changed(name, given[name])
            return result

        return functools.update_wrapper(answer, function, updated=("__dict__",) if _is_function(function) else ())


def _is_function(value: Any) -> bool:
    return isinstance(value, FunctionType)


def _changed(name: str, value: Any) -> None:
    hint = "In-place operations (`+=`, `x[...] =`, methods ending in `_`) change the caller's tensor."
    if not isinstance(value, Tensor):
        hint = "Whoever calls the function goes on using what was handed over: make a copy, and change that."
    raise Violation(
        "The function must not change its inputs in place.",
        yours=f"{name} was changed",
        expected="inputs as they were",
        hint=hint,
    )


def _finished(result: Any) -> None:
    """A result is there at once: neither a generator nor a coroutine."""
    if inspect.iscoroutine(result):
        result.close()
        told = "The function gave a coroutine, not a result."
        raise Violation(told, yours="async def", expected="def", hint="Leave `async` out: nothing here is awaited.")
    if inspect.isgenerator(result):
        told = "The function gave a generator, not a result."
        hint = "`return` hands a result back. With `yield`, or `(… for … in …)`, nothing is computed until it is asked."
        raise Violation(told, yours="a generator", hint=hint)


def _is_stub(candidate: Any) -> bool:
    """Whether the body is only ``...``, ``pass`` or ``return ...``; of a class: whether a method of its own is."""
    if inspect.isclass(candidate):
        return any(_is_stub(m) for m in vars(candidate).values() if _is_function(m))
    return _is_function(candidate) and _is_empty(candidate.__code__)


def _is_empty(code: CodeType) -> bool:
    idle = {"RESUME", "NOP", "POP_TOP", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE", "CACHE"}
    instructions = list(dis.get_instructions(code))
    if any(i.opname not in idle for i in instructions):
        return False
    return all(i.argval is None or i.argval is Ellipsis for i in instructions if i.opname.endswith("_CONST"))


def _files(candidate: Any) -> set[str]:
    if _is_function(candidate):
        return {candidate.__code__.co_filename}
    kind = candidate if inspect.isclass(candidate) else type(candidate)
    return {m.__code__.co_filename for m in vars(kind).values() if _is_function(m)}
