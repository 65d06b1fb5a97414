"""Arguments are checked here, so that every error reads alike: ``tau of LIF must be greater than 0, but it is -1``.

Each function returns the value in its plain type, or raises

- TypeError: the value is of the wrong kind;
- ValueError: the kind is right, but not the value.

``name`` is what the caller calls the argument; of a class it is "tau of LIF".
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Mapping
from numbers import Real
from typing import Any, TypeVar

T = TypeVar("T")
_LONGEST = 200
_LEAST, _MOST = 1.2e-38, 3.4e38  # normal numbers of float32, in size
_INT64 = 2**63 - 1
_BRACKETS = {list: "[]", tuple: "()", dict: "{}", set: "{}"}


def cut(text: str, longest: int = _LONGEST) -> str:
    """``text`` without what is beyond ``longest`` characters."""
    return text if len(text) <= longest else f"{text[:longest]}…"


def shown(value: Any) -> str:
    """``value`` as an error message quotes it: arrays by their shape, long texts cut, however large it is."""
    text = ""
    for piece in _pieces(value):
        text += piece
        if len(text) > _LONGEST:
            break
    return cut(text)


def _pieces(value: Any) -> Iterator[str]:
    """``repr(value)`` bit by bit: the whole of it could be larger than memory where a list holds others many times."""
    kind = type(value)
    if kind in _BRACKETS and value:
        opening, closing = _BRACKETS[kind]
        for i, item in enumerate(value.items() if kind is dict else value):
            yield ", " if i else opening
            if kind is dict:
                key, item = item
                yield from _pieces(key)
                yield ": "
            yield from _pieces(item)
        yield ",)" if kind is tuple and len(value) == 1 else closing
    elif kind in (str, bytes):
        yield repr(value[: _LONGEST + 1])
    elif kind is int and value.bit_length() > _LONGEST * 4:  # Python refuses to print those of thousands of digits
        yield f"an int of {value.bit_length()} bits"
    else:
        try:
            shape = getattr(value, "shape", None)
            text = f"a {kind.__name__} of shape {list(shape)}" if shape is not None and tuple(shape) else repr(value)
        except Exception:  # whatever a class of somebody else raises
            text = f"a {kind.__name__}"
        yield text


def number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    finite: bool = True,
) -> float:
    """A real number within its bounds, as a float. Numbers of NumPy and tensors without axes count, booleans do not.

    It has to be one of float32, the dtype of nearly all arithmetic: 1e39 would be infinite there, and 1e-40 may be 0,
    which counts where it has to be above that.
    """
    value = _without_axes(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, but it is {shown(value)}")
    try:
        infinite = math.isinf(value)
    except OverflowError:  # of an int beyond all floats
        infinite = finite = True
    if (finite and infinite) or value != value:
        raise ValueError(f"{name} must be finite, but it is {shown(value)}")
    _within(name, value, above, at_least, below, at_most)
    if finite:
        _within(name, value, None, _LEAST if above == 0 else -_MOST, None, _MOST)
    return float(value)


def integer(name: str, value: Any, *, at_least: int | None = None, at_most: int | None = None) -> int:
    """A whole number of 64 bits within its bounds, as an int. 3.0 is none, as it may come of a rounding error."""
    value = _without_axes(value)
    try:
        if isinstance(value, bool):
            raise TypeError
        value = operator.index(value)
    except (TypeError, RuntimeError):  # arrays have the method, and raise
        raise TypeError(f"{name} must be an integer, but it is {shown(value)}") from None
    _within(name, value, None, -_INT64 if at_least is None else at_least, None, _INT64 if at_most is None else at_most)
    return value


def counts(**values: Any) -> None:
    """Each of them an integer of at least 1."""
    for name, value in values.items():
        integer(name, value, at_least=1)


def flag(name: str, value: Any, *, optional: bool = False) -> Any:
    """True or False; nothing that merely counts as one."""
    if not isinstance(value, bool) and not (optional and value is None):
        kinds = "True, False or None" if optional else "True or False"
        raise TypeError(f"{name} must be {kinds}, but it is {shown(value)}")
    return value


def flags(**values: Any) -> None:
    """Each of them True or False."""
    for name, value in values.items():
        flag(name, value)


def fits(name: str, value: int, size: float) -> None:
    """So many things of ``size`` bytes each have to fit into the memory that this machine has left."""
    if value * size > _memory():
        most = int(_memory() // size)
        raise ValueError(f"{name} must be at most {most}, which is what memory holds here, but it is {value}")


def _memory() -> float:
    """Bytes; infinity where it is not known."""
    try:
        with open("/proc/meminfo") as file:
            return next(float(line.split()[1]) for line in file if line.startswith("MemAvailable")) * 1024
    except (OSError, StopIteration):  # no Linux
        return math.inf


def choice(name: str, value: Any, choices: Iterable[T]) -> T:
    """One of a few values, compared by type and value."""
    choices = tuple(choices)
    for known in choices:
        if type(value) is type(known) and value == known:
            return known
    listed = ", ".join(map(repr, choices))
    error = ValueError if any(isinstance(value, type(known)) for known in choices) else TypeError
    raise error(f"{name} must be one of {listed}, but it is {shown(value)}")


def instance(name: str, value: Any, kinds: type | tuple[type, ...], what: str, *, optional: bool = False) -> Any:
    """An object of the given class or classes. ``what`` says so in words: "a torch.Tensor"."""
    if not (optional and value is None) and not isinstance(value, kinds):
        hint = f"{'the class ' if isinstance(value, type) else ''}{shown(value)}"
        raise TypeError(f"{name} must be {what}{' or None' if optional else ''}, but it is {hint}")
    return value


def function(name: str, value: Any, *, optional: bool = False) -> Any:
    """Something that can be called."""
    if not callable(value) and not (optional and value is None):
        raise TypeError(f"{name} must be a function{' or None' if optional else ''}, but it is {shown(value)}")
    return value


def mapping(name: str, value: Any, what: str) -> Mapping[str, Any]:
    """A dict or the like. ``what`` it holds: "name to height"."""
    return instance(name, value, Mapping, f"a dict of {what}")


def _without_axes(value: Any) -> Any:
    """The number in an array or tensor without axes."""
    try:
        return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value
    except RuntimeError:  # a tensor without values, on the device "meta"
        return value


def _within(
    name: str, value: Any, above: float | None, at_least: float | None, below: float | None, at_most: float | None
) -> None:
    for holds, bound in (
        (above is None or value > above, f"greater than {above}"),
        (at_least is None or value >= at_least, f"at least {at_least}"),
        (below is None or value < below, f"less than {below}"),
        (at_most is None or value <= at_most, f"at most {at_most}"),
    ):
        if not holds:
            raise ValueError(f"{name} must be {bound}, but it is {shown(value)}")
