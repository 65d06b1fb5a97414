"""Rooms whose parts are loaded when they are first named (PEP 562): importing a room costs no more than itself."""

import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

MOVED: dict[str, str] = {}  #: full names of rooms that had another place once, from the old one to that of today
ELSEWHERE: dict[str, str] = {}  #: full names of what other libraries have, with a sentence on what is here instead
PAGE = "more names: docs/coming_from.md"


class _Moved:
    """The last finder of ``sys.meta_path``, which Python calls for modules that do not exist."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name in MOVED or name in ELSEWHERE:
            raise ModuleNotFoundError(_hint(name))


sys.meta_path.append(_Moved)  # type: ignore[arg-type]


def _hint(name: str) -> str:
    return f"{name} is now {MOVED[name]}" if name in MOVED else f"there is no {name}: {ELSEWHERE[name]} ({PAGE})"


def missing(room: str, name: str) -> AttributeError:
    """The error for a name that a room does not have; it says where or what is there instead."""
    full = f"{room}.{name}"
    known = full in MOVED or full in ELSEWHERE
    return AttributeError(_hint(full) if known else f"module {room!r} has no attribute {name!r}")


def attach(room: str, *parts: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a room, for the last line of its ``__init__``.

    Public are ``parts``, and what the room has imported from its own files by now, but for the files themselves.

    Args:
        room: the package's ``__name__``.
        parts: public modules of the package, or "module:Name" for a name in one of them; loaded when first named.
    """
    places = {part.rpartition(":")[2]: part.partition(":")[0] for part in parts}
    loaded = vars(sys.modules[room])
    public = [name for name, value in loaded.items() if not name.startswith("_") and _is_own(value)]

    def __getattr__(name: str) -> object:
        if name not in places:
            raise missing(room, name)
        module = importlib.import_module(f"{room}.{places[name]}")
        return module if places[name] == name else getattr(module, name)

    names = list(dict.fromkeys([*public, *places]))
    return __getattr__, lambda: sorted(names), names


def instead(room: str, names: dict[str, str]) -> Callable[[str], object]:
    """``__getattr__`` of a room that is a single file, for its last line.

    Args:
        room: the module's ``__name__``.
        names: what to use, by names of PyTorch or of another library that are not here.
    """
    ELSEWHERE.update((f"{room}.{name}", f"use {use}") for name, use in names.items())

    def __getattr__(name: str) -> object:
        raise missing(room, name)

    return __getattr__


def explains(required: Mapping[str, str] = MappingProxyType({}), /, **hints: str) -> Callable[[F], F]:
    """For a function or a class: a keyword of another library is a TypeError that says what to write here.

    Of a class, only its own ``__init__`` is wrapped: a subclass takes what its author lets it take.

    Args:
        required: what to give for arguments that have no default, by name.
        hints: what to write here, by name of an argument of another library.
    """
    from inspect import signature  # here, as importing the package imports this file

    def around(thing: F) -> F:
        is_class = isinstance(thing, type)
        function = thing.__init__ if is_class else thing
        accepted = {name: one.default is one.empty for name, one in signature(thing).parameters.items()}
        needed = [(position, name) for position, name in enumerate(accepted, is_class) if accepted[name]]

        @functools.wraps(function)
        def checked(*args: Any, **named: Any) -> Any:
            for name in named:
                if name not in accepted:
                    hint = f": {hints[name]}" if name in hints else f"; it has {', '.join(sorted(accepted))}"
                    raise TypeError(f"{thing.__name__} has no argument {name}{hint}")
            for position, name in needed:
                if position >= len(args) and name not in named and name in required:
                    raise TypeError(f"{name} of {thing.__name__} must be given: {required[name]}")
            return function(*args, **named)

        if not is_class:
            return cast(F, checked)
        thing.__init__ = checked  # type: ignore[misc]
        return cast(F, thing)

    return around


def _is_own(value: object) -> bool:
    """Whether it was made in this package, and not imported from another; numbers and tables do not say."""
    return not isinstance(value, ModuleType) and getattr(value, "__module__", "snnkit").startswith("snnkit")
