"""Arguments of figures that are no arrays: numbers, whole numbers and dicts, refused by name where they are none."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any


def number(value: Any, name: str, what: str = "a finite number", *, above: float = -math.inf) -> float:
    """``value`` as a float: a finite number above ``above``, also one of numpy's or a tensor without axes.

    Args:
        what: it must be, for the message.

    Raises:
        TypeError: it is no number.
        ValueError: it is not finite, or not above.
    """
    if isinstance(value, (bool, str, bytes)) or getattr(value, "ndim", 0):
        raise TypeError(f"{name} must be {what}, not {told(value)}")
    try:
        found = float(value)
    except (TypeError, ValueError, RuntimeError, NotImplementedError, OverflowError):
        raise TypeError(f"{name} must be {what}, not {told(value)}") from None
    if not (math.isfinite(found) and found > above):
        raise ValueError(f"{name} must be {what}, not {value!r}")
    return found


def whole(value: Any, name: str, least: int = 1) -> int:
    """``value`` as an int of at least ``least``. TypeError: no number at all; ValueError: not whole, or smaller."""
    what = f"a whole number of at least {least}"
    if isinstance(value, bool) or getattr(value, "ndim", 0):
        raise TypeError(f"{name} must be {what}, not {told(value)}")
    if isinstance(value, float):
        raise ValueError(f"{name} must be {what}, not {value!r}")
    try:
        found = operator.index(value)
    except (TypeError, RuntimeError, NotImplementedError):
        raise TypeError(f"{name} must be {what}, not {told(value)}") from None
    if found < least:
        raise ValueError(f"{name} must be {what}, not {value!r}")
    return found


def named(value: Any, name: str, what: str) -> Mapping[str, Any]:
    """``value``, if it is a dict or the like; TypeError otherwise. ``what``: it holds, such as "name to height"."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dict of {what}, not {told(value)}")
    return value


def told(value: Any) -> str:
    """``value`` in an error message: arrays by their shape."""
    shape = getattr(value, "shape", None)
    return repr(value) if shape is None else f"{type(value).__name__} of shape {tuple(shape)}"
