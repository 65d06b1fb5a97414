"""What the networks refuse."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any


def check_count(value: int, name: str, *, at_least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an int of at least {at_least}, but it is {value!r}")
    if value < at_least:
        raise ValueError(f"{name} must be at least {at_least}, but it is {value}")


def check_widths(widths: Any, example: tuple[int, ...]) -> None:
    """As many widths as in ``example``."""
    wanted = f"widths must be {len(example)} ints, such as {example}, but it is"
    if isinstance(widths, str) or not isinstance(widths, Sequence):
        raise TypeError(f"{wanted} {widths!r}")
    if len(widths) != len(example):
        raise ValueError(f"{wanted} {tuple(widths)}")
    for i, width in enumerate(widths):
        check_count(width, f"widths[{i}]")


def check_flag(value: bool, name: str) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, but it is {value!r}")
