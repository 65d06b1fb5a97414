"""Runs a learner's answer and shields the notebook from it: time, prints, settings, arguments."""

from __future__ import annotations

import contextlib
import ctypes
import dis
import functools
import inspect
import io
import random
import threading
from collections.abc import Callable, Iterator
from traceback import StackSummary, extract_tb
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from snnkit.engine.trace import renew_in_children
from snnkit.lab.course import expect, time_limit
from snnkit.lab.course.exercise import Exercise, NotWritten, Violation


def _set_default_device(device: torch.device) -> None:
    """An explicit "cpu" would slow every call."""
    torch.set_default_device(None if device.type == "cpu" else device)
    setting = torch._GLOBAL_DEVICE_CONTEXT  # whose None is an error of ``torch.get_default_device`` in torch 2.8
    if getattr(setting, "device_context", setting) is None:
        del setting.device_context


BYTES = 1 << 20  # of larger tensors the values are not compared
# PyTorch's settings that belong to the whole notebook.
SETTINGS: tuple[tuple[str, Callable[[], Any], Callable[[Any], Any]], ...] = (
    ("PyTorch's default dtype", torch.get_default_dtype, torch.set_default_dtype),
    ("PyTorch's default device", torch.get_default_device, _set_default_device),
    ("whether PyTorch records gradients", torch.is_grad_enabled, torch.set_grad_enabled),
)
# Prints and settings belong to the process, so two checks at a time would mix them up.
_one_at_a_time = threading.RLock()
renew_in_children(globals(), _one_at_a_time=threading.RLock)


class Trial(NamedTuple):
    """The error (``OutOfTime`` when the time was up), its place, and the settings that were changed and restored."""

    error: BaseException | None
    stack: StackSummary
    changed: list[str]


class Prints(io.StringIO):
    """Replaces ``sys.stdout`` and ``sys.stderr``: the first lines are saved, the rest is counted."""

    LINES, CHARACTERS = 8, 800
    count = 0

    def write(self, text: str, /) -> int:
        self.count += text.count("\n")
        super().write(text[: self.CHARACTERS - self.tell()])
        return len(text)

    def text(self) -> str:
        """The first lines and the number of further ones; "" if nothing was printed."""
        shown = self.getvalue().splitlines()[: self.LINES]
        more = self.count - len(shown)
        return "\n".join([*shown, f"… and {more:,} more lines"] if more > 0 else shown)


def run(work: Callable[[], Any], seconds: float | None, prints: Prints) -> Trial:
    """Call ``work()`` with a limit of ``time_limit.call`` (None: no limit). Raises nothing but KeyboardInterrupt."""
    error: BaseException | None = None
    stack, changed, settings = StackSummary(), [], _read_settings()

    def there_and_back() -> None:  # it may run in a thread of its own, and some settings belong to a thread
        _write_settings(settings)
        try:
            work()
        finally:
            settings[:] = _read_settings()

    with _one_at_a_time, _restored(changed), contextlib.redirect_stdout(prints), contextlib.redirect_stderr(prints):
        try:
            work() if seconds is None else time_limit.call(there_and_back, seconds)
        except KeyboardInterrupt:
            raise
        except BaseException as raised:
            error, stack = raised, getattr(raised, "left_at", None) or extract_tb(raised.__traceback__)
        if seconds is not None:
            _write_settings(settings)
    return Trial(error, stack, changed)


def _read_settings() -> list[Any]:
    return [read() for _, read, _ in SETTINGS]


def _write_settings(values: list[Any]) -> None:
    for (_, read, write), value in zip(SETTINGS, values, strict=True):
        if read() != value:
            write(value)


@contextlib.contextmanager
def _restored(changed: list[str]) -> Iterator[None]:
    """Restore settings and random states, and append to ``changed`` what was different.

    Random number generators are restored silently: drawing from them is no mistake, but a check must not change the
    numbers of the next cell. Setting PyTorch's seed is reported.
    """
    settings, seed = _read_settings(), torch.initial_seed()
    numpy_state, python_state = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(devices=None if torch.cuda.is_initialized() else []):
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            random.setstate(python_state)
            if torch.initial_seed() != seed:
                changed.append("set the seed of PyTorch's random numbers")
            for (name, read, write), before in zip(SETTINGS, settings, strict=True):
                if (now := read()) != before:
                    changed.append(f"changed {name} ({before} → {now})")
                    write(before)


# --- the answer -------------------------------------------------------------------------------------------------------


class Candidate:
    """An answer as the checks see it.

    Attributes:
        answer: for the checks. A function is wrapped, so that its arguments and its result are watched.
        is_stub: whether it holds nothing but ``...``.
        files: the names of the files or cells that hold its code.
        last: the latest result of the function.
    """

    def __init__(self, given: Any, exercise: Exercise) -> None:
        self.last: Any = None
        self.is_stub = given is None or given is Ellipsis or _is_stub(given)
        kind = given if inspect.isclass(given) else type(given)
        members = [getattr(member, "__func__", member) for member in vars(kind).values()]  # also of static methods
        functions = [given] if isinstance(given, FunctionType) else members
        self.files = {f.__code__.co_filename for f in functions if isinstance(f, FunctionType)}
        watched = isinstance(exercise.reference, FunctionType) and callable(given) and not inspect.isclass(given)
        self.answer = self._watched(given, exercise.in_place) if watched else given

    def _watched(self, function: Any, in_place: bool) -> Any:
        """``function``, but a result of ``...`` or None means "to do", and changed arguments are a violation."""

        def answer(*args: Any, **kwargs: Any) -> Any:
            given = {f"argument {i + 1}": a for i, a in enumerate(args)} | kwargs
            before = {} if in_place else {name: fingerprint(value) for name, value in given.items()}
            changed: list[str] = []
            try:
                self.last = result = function(*args, **kwargs)
            finally:  # also where it raises: later checks use the same values
                changed = [name for name, was in before.items() if fingerprint(given[name]) != was]
                for name in changed:
                    _put_back(given[name], before[name])
            if result is None and not _is_stub(function):
                raise NotWritten("Your function returned None. Is a `return` missing?")
            expect.written(result)
            if inspect.isgenerator(result) or inspect.iscoroutine(result):
                raise _uncomputed(result)
            if changed:
                raise _changed_in_place(changed[0])
            return result

        # Of anything but a function, reading a name may run its code.
        names = functools.WRAPPER_ASSIGNMENTS if isinstance(function, FunctionType) else ()
        return functools.update_wrapper(answer, function, assigned=names, updated=())


def _uncomputed(result: Any) -> Violation:
    result.close()
    kind = type(result).__name__
    hint = "Use `return`. With `yield`, `(… for … in …)` or `async`, nothing is computed."
    return Violation(f"The function returned a {kind}, not a result.", yours=f"a {kind}", hint=hint)


def _changed_in_place(name: str) -> Violation:
    return Violation(
        "The function must not change its inputs in place.",
        yours=f"{name} was changed",
        expected="inputs as they were",
        hint="In-place operations (`+=`, `x[...] =`, methods ending in `_`) change what the caller still uses. Change "
        "a copy instead.",
    )


def _is_stub(candidate: Any) -> bool:
    """Whether the body is only ``...``, ``pass`` or ``return ...``; for a class: whether one of its methods is."""
    if inspect.isclass(candidate):
        return any(_is_stub(m) for m in vars(candidate).values() if isinstance(m, FunctionType))
    if not isinstance(candidate, FunctionType):
        return False
    idle = {"RESUME", "NOP", "POP_TOP", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE", "CACHE"}
    instructions = list(dis.get_instructions(candidate.__code__))
    if any(i.opname not in idle for i in instructions):
        return False
    return all(i.argval is None or i.argval is Ellipsis for i in instructions if i.opname.endswith("_CONST"))


def fingerprint(value: Any) -> Any:
    """A value that equals an earlier fingerprint of ``value`` if ``value`` was not changed in place since."""
    if isinstance(value, Tensor):
        # An in-place operation counts even if no value changes; bytes show changes that bypass PyTorch (x.numpy()).
        return None if value.is_inference() else value._version, _bytes(value)
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, dict):
        return [(key, fingerprint(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [fingerprint(item) for item in value]
    return id(value)


def _put_back(value: Any, was: Any) -> None:
    """Undo what changed in place in ``value`` since its fingerprint ``was``, as far as this has its bytes."""
    if isinstance(value, Tensor):
        content = was[1] if was else None
        if content is not None and (now := _bytes(value)) is not None and len(now) == len(content):
            ctypes.memmove(value.untyped_storage().data_ptr(), content, len(content))
    elif isinstance(value, np.ndarray):
        if value.flags.writeable and value.nbytes == len(was) and not value.dtype.hasobject:
            value[...] = np.frombuffer(was, value.dtype).reshape(value.shape)
    elif isinstance(value, (dict, list, tuple)):
        keyed = isinstance(value, dict)
        for item, then in zip(value.values() if keyed else value, (t for _, t in was) if keyed else was, strict=False):
            if type(then) is not int:  # an id: nothing to put back
                _put_back(item, then)


def _bytes(tensor: Tensor) -> bytes | None:
    """The bytes of a plain tensor, read without an operation: a check may be tracing."""
    if type(tensor) is not Tensor or tensor.device.type != "cpu":
        return None
    try:
        storage = tensor.untyped_storage()
        size = storage.nbytes()
        return ctypes.string_at(storage.data_ptr(), size) if 0 < size <= BYTES else None
    except (RuntimeError, NotImplementedError):  # sparse, or a tracer's stand-in: it has no storage of its own
        return None
