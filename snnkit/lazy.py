"""Rooms whose parts are loaded when they are first named (PEP 562): importing a room costs no more than itself."""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType


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
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        module = importlib.import_module(f"{room}.{places[name]}")
        return module if places[name] == name else getattr(module, name)

    names = list(dict.fromkeys([*public, *places]))
    return __getattr__, lambda: sorted(names), names


def _is_own(value: object) -> bool:
    """Whether it was made in this package, and not imported from another; numbers and tables do not say."""
    return not isinstance(value, ModuleType) and getattr(value, "__module__", "snnkit").startswith("snnkit")
