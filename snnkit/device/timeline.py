"""The memory of a program from operation to operation: where it climbs, where its summit is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..measure.tracker import MemoryTracker


def timeline(function: Callable[[], Any]) -> list[int]:
    """Bytes of tensors alive after each operation that ``function()`` runs, on any device.

    As in a ``MemoryTracker``, only tensors made within count, and the result is alive to the end. Views and others
    that run no kernel are operations, too. Call ``function`` once before where it compiles something at first.

    Raises:
        TypeError: ``function`` can't be called.
    """
    if not callable(function):
        raise TypeError(f"function must be callable without arguments, but it is a {type(function).__name__}")
    with _Recorder() as recorder:
        result = function()
    del result
    return recorder.curve


def outline(curve: list[int], share: float = 0.01) -> list[int]:
    """The points of a timeline at which memory has changed by ``share`` of its summit or more since the last of them,
    the first, the last and the summit in any case: its shape, without the many operations on small tensors.

    Raises ValueError where ``share`` is not within 0 and 1.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share must be within 0 and 1, but it is {share!r}")
    kept: list[int] = []
    summit = max(curve, default=0)
    for i, alive in enumerate(curve):
        if not kept or i == len(curve) - 1 or alive == summit or abs(alive - kept[-1]) > share * summit:
            kept.append(alive)
    return kept


class _Recorder(MemoryTracker):
    def __init__(self) -> None:
        super().__init__()
        self.curve: list[int] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = super().__torch_dispatch__(func, types, args, kwargs)
        self.curve.append(self.live)
        return out
