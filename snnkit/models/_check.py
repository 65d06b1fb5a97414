"""What the networks refuse."""

from __future__ import annotations

from numbers import Integral


def check_count(value: int, name: str, *, at_least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an int of at least {at_least}, but it is {value!r}")
    if value < at_least:
        raise ValueError(f"{name} must be at least {at_least}, but it is {value}")


def check_flag(value: bool, name: str) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, but it is {value!r}")
