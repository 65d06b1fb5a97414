"""Results of a run, from within its notebook: ``sweep.record(accuracy=0.97)``, an output that the sweep reads.

The numbers are a display output with a MIME type of their own, in the notebook itself. So the notebook needs no file,
no port and no sweep, and the executed copy has them beside the plots.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

from snnkit import checks

MIME = "application/vnd.snnkit.sweep.v1+json"
RESERVED = ("run", "status", "seconds", "peak_mb", "error")  # columns that every table of results has
_SHOWN = 60  # characters of a value


def record(**values: Any) -> None:
    """Note results of this run of a notebook, by their names; in a sweep they become columns of its table.

    It may be called several times. The last value of a name counts, so a notebook may record after each epoch, and an
    interrupted run has the values so far. Outside a sweep the values are only shown.

    Args:
        values: int, float (nan and inf, too), bool or str; also of numpy or torch, if they have no axes.
    """
    if not values:
        raise TypeError("record needs at least one name with its value, such as record(accuracy=0.97)")
    for name in values:
        if name in RESERVED or not name.isidentifier():
            raise ValueError(f"{name!r} can't be recorded: these are columns of every table: {', '.join(RESERVED)}")
    plain = {name: _scalar(name, value) for name, value in values.items()}
    text = " · ".join(f"{name} {show_value(value)}" for name, value in plain.items())
    IPython = sys.modules.get("IPython")
    if IPython is None or IPython.get_ipython() is None:
        print(text)
        return
    from IPython.display import display

    display({MIME: {"values": pack(plain)}, "text/plain": text}, raw=True)


def recorded(data: Mapping[str, Any]) -> dict[str, Any]:
    """The values in the MIME bundle of an output; empty if it holds none."""
    try:
        read = unpack(data[MIME]["values"])
    except (KeyError, TypeError, ValueError, AttributeError):  # not made by record
        return {}
    return {k: v for k, v in read.items() if k not in RESERVED and isinstance(v, (bool, int, float, str))}


def pack(values: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON can hold them, which has no nan and no inf."""
    odd = {k: {"float": str(v)} for k, v in values.items() if isinstance(v, float) and not math.isfinite(v)}
    return {**values, **odd}


def unpack(values: Mapping[str, Any]) -> dict[str, Any]:
    """The argument of ``pack``."""
    return {k: float(v["float"]) if isinstance(v, Mapping) else v for k, v in values.items()}


def show_value(value: Any) -> str:
    """A value for people: four digits of a float, the beginning of what is long."""
    return checks.cut(f"{value:.4g}" if isinstance(value, float) else str(value), _SHOWN)


def _scalar(name: str, value: Any) -> bool | int | float | str:
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # of numpy or torch, without importing them
        value = value.item()
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"{name} must be int, float, bool or str, but it is {checks.shown(value)}")
