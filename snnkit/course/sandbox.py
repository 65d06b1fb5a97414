"""Runs a learner's answer so that nothing it does reaches the notebook: time, prints, settings, arguments.

A check is stopped by a timer's signal when its time is over. That needs the main thread of a system with timers (Linux,
macOS); elsewhere there is no limit. A call into C that never returns to Python cannot be interrupted.
"""

from __future__ import annotations

import contextlib
import ctypes
import dis
import functools
import inspect
import io
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from traceback import StackSummary, extract_tb
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import expect
from .exercise import Exercise, NotWritten, Violation

# --- one check --------------------------------------------------------------------------------------------------------


class OutOfTime(BaseException):
    """Raised in code that has used up its time. A BaseException, so that ``except Exception`` lets it pass."""


@dataclass(frozen=True)
class Trial:
    """What came of a check.

    Args:
        error: what was raised, None if nothing was; ``OutOfTime`` when the time was up.
        stack: where that was, outermost call first.
        seconds: how long it took.
        changed: what of the notebook had been changed and was restored, as parts of a sentence.
    """

    error: BaseException | None
    stack: StackSummary
    seconds: float
    changed: list[str]


# Prints and settings belong to the process: two checks at a time would take one's for the other's.
_one_at_a_time = threading.RLock()


def run(work: Callable[[], Any], seconds: float | None, prints: Prints) -> Trial:
    """Call ``work()`` within ``seconds`` (None: no limit). Raises nothing but KeyboardInterrupt."""
    with _one_at_a_time:
        process, error, changed = os.getpid(), None, []
        began = time.monotonic()
        try:
            with (
                _restored(changed),
                contextlib.redirect_stdout(prints),
                contextlib.redirect_stderr(prints),
                _time_limit(seconds),
            ):
                try:
                    work()
                except KeyboardInterrupt:
                    raise
                except BaseException as raised:
                    error = raised
                if (sys.stdout, sys.stderr) != (prints, prints):
                    changed.append("changed where prints go (`sys.stdout`)")
        except OutOfTime as late:  # between the end of the work and that of the limit
            error = late
        finally:
            if os.getpid() != process:
                os._exit(0)  # a fork of the kernel made by the answer: there must be one kernel only
        stack = extract_tb(error.__traceback__) if error is not None else StackSummary()
        return Trial(error, stack, time.monotonic() - began, changed)


@contextlib.contextmanager
def _time_limit(seconds: float | None) -> Iterator[None]:
    in_main = threading.current_thread() is threading.main_thread()
    if seconds is None or not in_main or not hasattr(signal, "setitimer"):
        yield
        return

    def expire(*_: Any) -> None:
        raise OutOfTime

    before, began = signal.signal(signal.SIGALRM, expire), time.monotonic()
    # It comes again until the code has left: one signal may fall into a destructor, which swallows it.
    other, interval = signal.setitimer(signal.ITIMER_REAL, seconds, 0.05)
    try:
        yield
    finally:
        remaining = max(other - (time.monotonic() - began), 1e-3) if other else 0.0
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before or signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, remaining, interval)


# --- what belongs to the whole notebook -------------------------------------------------------------------------------


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


def _to_folder(folder: str | None) -> None:
    if folder is not None:
        os.chdir(folder)


def _to_device(device: torch.device) -> None:
    torch.set_default_device(None if device.type == "cpu" else device)  # an explicit "cpu" would slow every call


SETTINGS: tuple[tuple[str, Callable[[], Any], Callable[[Any], Any]], ...] = (
    ("PyTorch's default dtype", torch.get_default_dtype, torch.set_default_dtype),
    ("PyTorch's default device", torch.get_default_device, _to_device),
    ("whether PyTorch records gradients", torch.is_grad_enabled, torch.set_grad_enabled),
    ("PyTorch's number of threads", torch.get_num_threads, torch.set_num_threads),
    ("the working folder", _folder, _to_folder),
    ("Python's recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
)


@contextlib.contextmanager
def _restored(changed: list[str]) -> Iterator[None]:
    """Restore settings and random states, and append to ``changed`` what was different.

    Random number generators are restored silently: drawing from them is no mistake, but a check must not shift what the
    next cell draws. Setting PyTorch's seed is reported.
    """
    settings, seed = [read() for _, read, _ in SETTINGS], torch.initial_seed()
    numpy_state, python_state = np.random.get_state(), random.getstate()
    filters = warnings.catch_warnings()
    filters.__enter__()
    known = list(warnings.filters)
    try:
        with torch.random.fork_rng(enabled=True, devices=None if torch.cuda.is_initialized() else []):
            try:
                yield
            finally:
                if torch.initial_seed() != seed:
                    changed.append("set the seed of PyTorch's random numbers")
                for (name, read, write), before in zip(SETTINGS, settings, strict=True):
                    if (now := read()) != before:
                        changed.append(f"changed {name} ({before} → {now})")
                        with contextlib.suppress(OSError):  # the folder was removed: then this process stays here
                            write(before)
    finally:
        np.random.set_state(numpy_state)
        random.setstate(python_state)
        # Libraries add filters, too, but not for warnings of every kind.
        new = [entry for entry in warnings.filters if entry not in known]
        if any(message is None and kind is Warning and module is None for _, message, kind, module, _ in new):
            changed.append("changed the filter of all warnings")
            filters.__exit__(None, None, None)


class Prints(io.TextIOBase):
    """Replaces ``sys.stdout`` and ``sys.stderr``: the first lines are saved, the rest is counted."""

    LINES, CHARACTERS = 8, 800

    def __init__(self) -> None:
        self._start = ""
        self._ends = 0
        self._open = False

    def write(self, text: str, /) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if text:
            self._start += text[: self.CHARACTERS - len(self._start)]
            self._ends += text.count("\n")
            self._open = not text.endswith("\n")
        return len(text)

    def writable(self) -> bool:
        return True

    def text(self) -> str:
        """The first lines, and how many more there were; "" if nothing was printed."""
        shown = self._start.splitlines()[: self.LINES]
        more = self._ends + self._open - len(shown)
        if more:
            shown.append(f"… and {more:,} more line{'s' * (more > 1)}")
        elif len(self._start) == self.CHARACTERS:
            shown.append("…")
        return "\n".join(shown).rstrip("\n")


# --- the answer -------------------------------------------------------------------------------------------------------


class Candidate:
    """An answer as the checks see it.

    Attributes:
        answer: what the checks receive: a function is wrapped, so that its arguments and its result are watched.
        is_stub: whether there is nothing in it but ``...``.
        files: the names of the files or cells that hold its code.
        last: the latest result of the function.
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
                raise NotWritten("Your function returned None. Is a `return` missing?")
            expect.written(result)
            if not self._lazy:
                _check_finished(result)
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
        hint = "The caller goes on using what it passed to the function: make a copy, and change that."
    raise Violation(
        "The function must not change its inputs in place.",
        yours=f"{name} was changed",
        expected="inputs as they were",
        hint=hint,
    )


def _check_finished(result: Any) -> None:
    """The result is neither a generator nor a coroutine."""
    if inspect.iscoroutine(result):
        result.close()
        message, hint = (
            "The function returned a coroutine, not a result.",
            "Leave `async` out: nothing here is awaited.",
        )
        raise Violation(message, yours="async def", expected="def", hint=hint)
    if inspect.isgenerator(result):
        message = "The function returned a generator, not a result."
        hint = "Use `return`. With `yield`, or `(… for … in …)`, nothing is computed until a value is requested."
        raise Violation(message, yours="a generator", hint=hint)


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


BYTES = 1 << 20  # of larger tensors and arrays the values are not compared


def fingerprint(value: Any, depth: int = 4, items: int = 1000) -> Any:
    """Something that equals an earlier fingerprint of ``value`` as long as ``value`` was not changed in place."""
    if isinstance(value, Tensor):
        # An in-place operation counts even where it changes no value; bytes show what bypasses PyTorch (x.numpy()).
        return ("tensor", None if value.is_inference() else value._version, _bytes(value))
    if isinstance(value, np.ndarray):
        return ("array", value.shape, value.dtype.str, value.tobytes() if value.nbytes <= BYTES else None)
    if isinstance(value, dict) and depth and len(value) <= items:
        return ("dict", tuple((key, fingerprint(item, depth - 1)) for key, item in value.items()))
    if isinstance(value, (list, tuple)) and depth and len(value) <= items:
        return ("list", tuple(fingerprint(item, depth - 1) for item in value))
    if isinstance(value, (set, frozenset)) and len(value) <= items:
        return ("set", frozenset(value))
    if isinstance(value, (bytearray, str, int, float, complex, bool)):
        return (type(value).__name__, repr(value) if isinstance(value, (bytearray, float, complex)) else value)
    return ("object", id(value))


def _bytes(tensor: Tensor) -> bytes | None:
    """The bytes behind a plain tensor, read without an operation: checks may trace what is computed."""
    if type(tensor) is not Tensor or tensor.device.type != "cpu":
        return None
    try:
        storage = tensor.untyped_storage()
        size = storage.nbytes()
        return ctypes.string_at(storage.data_ptr(), size) if 0 < size <= BYTES else None
    except (RuntimeError, NotImplementedError):  # sparse, or a tracer's stand-in: it has no storage of its own
        return None
