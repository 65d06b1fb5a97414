"""What the course remembers while a kernel runs: solve mode, the hints opened so far, the progress file."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from . import registry
from .progress import Progress, default_path


@dataclass
class Session:
    progress: Progress
    solving: bool = False
    opened: dict[str, int] = field(default_factory=dict)
    solved: set[str] = field(default_factory=set)
    lock: threading.RLock = field(default_factory=threading.RLock)  # buttons may have a thread of their own


_session: Session | None = None


def current() -> Session:
    """The running session; made at the first use, so that importing the course touches no file."""
    global _session
    if _session is None:
        _session = Session(Progress(default_path()))
    return _session


def start(notebook: str, *, solve: bool = False) -> None:
    """Begin a notebook ("01"): load the progress file, close the opened hints.

    With ``solve=True`` the references are used (see ``solve``). ValueError for a notebook that has no exercises.
    """
    registry.exercises(notebook)
    global _session
    _session = Session(Progress(default_path()), solving=_flag(solve))


def solve(on: bool = True) -> None:
    """Switch solve mode: ``attempt`` then uses, checks and returns the references, and records nothing."""
    current().solving = _flag(on)


def _flag(on: Any) -> bool:
    if not isinstance(on, bool):
        raise TypeError(f"solve must be True or False, not {on!r}")
    return on
