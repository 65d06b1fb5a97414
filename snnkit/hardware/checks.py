"""Numbers that describe a machine or a run: refused with their name where they can't be."""

from __future__ import annotations

import math
from typing import Any


def above_zero(name: str, value: Any) -> None:
    """TypeError or ValueError unless ``value`` is a finite number above zero."""
    between(name, value, 0.0, math.inf)
    if value == 0:
        raise ValueError(f"{name} must be above 0, but it is {value!r}")


def between(name: str, value: Any, least: float, most: float) -> None:
    """TypeError or ValueError unless ``value`` is a finite number from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number, but it is {value!r}")
    if not (math.isfinite(value) and least <= value <= most):
        limits = f"at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
        raise ValueError(f"{name} must be a finite number, {limits}, but it is {value!r}")


def whole(name: str, value: Any) -> None:
    """TypeError or ValueError unless ``value`` is a whole number above zero."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, but it is {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, but it is {value!r}")
