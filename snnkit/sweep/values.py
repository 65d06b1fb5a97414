"""The values that a parameter goes through: a list of them, or a law that numbers are drawn from."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from snnkit.tools.parameters import Parameter, ParameterError


@dataclass(frozen=True)
class Listed:
    """Each value in turn in a grid; one of them, all equally likely, in a random sweep."""

    values: tuple[Any, ...]

    def at(self, u: float) -> Any:
        """The value for a number `u` in [0, 1)."""
        return self.values[min(int(u * len(self.values)), len(self.values) - 1)]

    def plain(self) -> Any:
        """As a manifest has it."""
        return list(self.values)


@dataclass(frozen=True)
class Law:
    """Numbers between `low` and `high`: `uniform`, `log_uniform` (each decade equally likely) or `integer` (both ends
    included)."""

    kind: str
    low: float
    high: float

    def at(self, u: float) -> float:
        """The number for `u` in [0, 1)."""
        if self.kind == "integer":
            return min(int(self.low) + int(u * (int(self.high) - int(self.low) + 1)), int(self.high))
        if self.kind == "log_uniform":
            drawn = math.exp(math.log(self.low) + u * (math.log(self.high) - math.log(self.low)))
            # Libraries differ in the last digits of exp, and a run is known by its parameters.
            return min(max(float(f"{drawn:.12g}"), self.low), self.high)
        return self.low + u * (self.high - self.low)

    def plain(self) -> Any:
        """As a manifest has it."""
        return {self.kind: [self.low, self.high]}


_MOST_WHOLE = 2**53  # a draw has so many different numbers
_MOST_REAL = sys.float_info.max / 2  # so that the distance of two ends is finite, too
LAWS = ("uniform", "log_uniform", "integer")


def read(given: Any, parameter: Parameter, mode: str) -> Listed | Law:
    """What a manifest says of one parameter, checked against the declaration of the notebook.

    Raises ParameterError, whose text begins with what is wrong and not with the parameter's name.
    """
    if isinstance(given, dict):
        if mode != "random":
            raise ParameterError(f"must be a list in mode grid, was {given!r}; ranges are for mode random")
        if len(given) != 1 or next(iter(given)) not in (*LAWS, "choice"):
            raise ParameterError(f"must be a list or one of {', '.join(LAWS)}, choice with its values, was {given!r}")
        ((kind, ends),) = given.items()
        return _listed(ends, parameter) if kind == "choice" else _law(kind, ends, parameter)
    return _listed(given, parameter)


def _listed(given: Any, parameter: Parameter) -> Listed:
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ParameterError(f"must be a list of values, such as [{parameter.default!r}], was {given!r}")
    if not given:
        raise ParameterError("must list at least one value, was an empty list: there would be nothing to run")
    values = tuple(parameter.check(value) for value in given)
    seen: set[Any] = set()
    for value, written in zip(values, given, strict=True):
        if value in seen:
            raise ParameterError(f"lists {written!r} twice")
        seen.add(value)
    return Listed(values)


def _law(kind: str, ends: Any, parameter: Parameter) -> Law:
    wanted = "{" + f"{kind}: [low, high]" + "}"
    if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != 2:
        raise ParameterError(f"must be {wanted}, was {ends!r}")
    whole = kind == "integer"
    if parameter.kind is not (int if whole else float):
        raise ParameterError(
            f"is {parameter.expects}, but {kind} is for {'int' if whole else 'float'}; for int there is integer, for "
            "float uniform and log_uniform, for all choice"
        )
    for end in ends:
        fits = not isinstance(end, bool) and isinstance(end, int if whole else (int, float))
        if not fits or not abs(end) <= (_MOST_WHOLE if whole else _MOST_REAL):
            raise ParameterError(f"must be {wanted} with {'whole' if whole else 'finite'} numbers, was {ends!r}")
    low, high = ends
    if not low < high:
        raise ParameterError(f"must be {wanted} with low < high, was {ends!r}")
    if kind == "log_uniform" and low <= 0:
        raise ParameterError(f"must be {wanted} with low above 0, was {ends!r}")
    return Law(kind, low, high) if whole else Law(kind, float(low), float(high))
