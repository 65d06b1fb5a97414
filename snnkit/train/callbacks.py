"""Several callbacks as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from snnkit.train.arguments import check_callables


def in_turn(name: str, *groups: Callable[..., Any] | Iterable[Callable[..., Any]] | None) -> Callable[..., Any] | None:
    """One callback that calls all of these, in their order; the one itself if there is one, None if there is none.

    Args:
        name: of the argument they come from, for errors.
        groups: functions, lists of functions, None.

    Raises:
        TypeError: one is no function.
    """
    lists = [[] if group is None else list(group) if isinstance(group, Iterable) else [group] for group in groups]
    callbacks = [callback for group in lists for callback in group]
    for callback in callbacks:
        check_callables(optional=False, **{name: callback})
    return _InTurn(callbacks) if len(callbacks) > 1 else next(iter(callbacks), None)


def finish(callback: Any) -> None:
    """Tell a callback that training is over, if it, or the object whose method it is, wants to know."""
    for listener in (callback, getattr(callback, "__self__", None)):
        if callable(told := getattr(listener, "finish", None)):
            told()


class _InTurn:
    def __init__(self, callbacks: list[Callable[..., Any]]) -> None:
        self.callbacks = callbacks
        self.shows_progress = any(getattr(callback, "shows_progress", False) for callback in callbacks)

    def __call__(self, *arguments: Any) -> None:
        for callback in self.callbacks:
            callback(*arguments)

    def finish(self) -> None:
        for callback in self.callbacks:
            finish(callback)
