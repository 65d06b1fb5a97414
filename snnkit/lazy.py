"""Rooms whose parts are loaded when they are first named (PEP 562): importing a room costs no more than itself."""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType

MOVED: dict[str, str] = {}  #: full names of rooms that had another place once, from the old one to that of today


class _Moved:
    """The last finder of ``sys.meta_path``: asked for modules that are not there."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name in MOVED:
            raise ModuleNotFoundError(f"{name} is now {MOVED[name]}")


sys.meta_path.append(_Moved)  # type: ignore[arg-type]


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
            full = f"{room}.{name}"
            missing = f"module {room!r} has no attribute {name!r}"
            raise AttributeError(f"{full} is now {MOVED[full]}" if full in MOVED else missing)
        module = importlib.import_module(f"{room}.{places[name]}")
        return module if places[name] == name else getattr(module, name)

    names = list(dict.fromkeys([*public, *places]))
    return __getattr__, lambda: sorted(names), names


def missing(room: str, instead: dict[str, str]) -> Callable[[str], object]:
    """``__getattr__`` of a room, for its last line: it names what is here for a name of PyTorch or of another library.

    Args:
        room: the module's ``__name__``.
        instead: by the name that is not here, what to use.
    """

    def __getattr__(name: str) -> object:
        use = f": use {instead[name]}" if name in instead else ""
        raise AttributeError(f"module {room!r} has no attribute {name!r}{use}", name=name, obj=sys.modules[room])

    return __getattr__


def _is_own(value: object) -> bool:
    """Whether it was made in this package, and not imported from another; numbers and tables do not say."""
    return not isinstance(value, ModuleType) and getattr(value, "__module__", "snnkit").startswith("snnkit")
