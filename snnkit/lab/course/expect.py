"""Building blocks for checks: each raises ``Violation`` when a property does not hold.

def leaks(candidate, reference):
    v = torch.tensor([0.5])
    expect.close(candidate(v), reference(v), "Without input, the potential decays.", inputs={"v": v}, hint=0)

``same`` makes a whole check: the answer returns what the reference returns.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from snnkit.engine import NotElementwise, equation_of
from snnkit.lab.course.card import WHOLE
from snnkit.lab.course.exercise import Check, NotWritten, Shown, Violation

if TYPE_CHECKING:
    from typing_extensions import Unpack

NO_NUMBERS = "a tensor on the device `meta`: it has a shape, but no numbers"


def written(value: Any) -> Any:
    """Return ``value``. If it is None, or is or holds ``...``, the exercise is still to do."""
    if value is None or value is Ellipsis:
        raise NotWritten()
    if isinstance(value, (tuple, list)) and any(item is Ellipsis for item in value):
        raise NotWritten()
    return value


def true(condition: Any, message: str, **shown: Unpack[Shown]) -> None:
    """``condition`` is true: a bool, or all bools of a tensor."""
    if isinstance(condition, Tensor) and condition.is_meta:
        raise Violation(message, **(shown | {"yours": NO_NUMBERS}))
    if not (bool(condition.all()) if isinstance(condition, Tensor) else condition):
        raise Violation(message, **shown)


def parts(yours: Any, count: int, message: str, /, **shown: Unpack[Shown]) -> Sequence[Any]:
    """Return ``yours``, which must be a tuple, a list, a tensor or an array of so many parts."""
    written(yours)
    has_numbers = (
        not yours.is_meta if isinstance(yours, Tensor) else isinstance(yours, np.ndarray) and yours.dtype != object
    )
    if has_numbers and yours.ndim:
        yours = list(yours)
    if not isinstance(yours, (tuple, list)) or len(yours) != count:
        shown.setdefault("yours", yours)
        raise Violation(message, **shown)
    return yours


def tensor(yours: Any, like: Tensor, /, message: str | None = None, **shown: Unpack[Shown]) -> None:
    """``yours`` is a tensor with the shape, dtype and device of ``like``."""
    written(yours)
    if not isinstance(yours, Tensor):
        wrong = f"The answer must be a tensor, not {_article(type(yours).__name__)}."
        raise Violation(message or wrong, **(shown | {"yours": type(yours).__name__, "expected": "Tensor"}))
    for name in ("shape", "dtype", "device"):
        have, want = getattr(yours, name), getattr(like, name)
        if have != want:
            have, want = (tuple(one) if name == "shape" else one for one in (have, want))
            text = message or f"The answer has the wrong {name}."
            raise Violation(text, **(shown | {"yours": f"{name} {have}", "expected": f"{name} {want}"}))


def close(
    yours: Any, expected: Any, message: str, /, *, rtol: float = 1e-4, atol: float = 1e-6, **shown: Unpack[Shown]
) -> None:
    """``yours`` equals ``expected`` up to rounding: numbers, tensors, or tuples and lists of them.

    Two tensors must also have the same shape, so that broadcasting hides nothing. Dtypes may differ: check them with
    ``tensor``.
    """
    written(yours)
    if isinstance(expected, (tuple, list)):
        for one, want in zip(parts(yours, len(expected), message, **shown), expected, strict=True):
            close(one, want, message, rtol=rtol, atol=atol, **shown)
        return
    b = torch.as_tensor(expected).detach().to("cpu", torch.float64)
    try:
        a = _numbers(yours)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise Violation(message, **(shown | {"yours": _described(yours), "expected": expected})) from None
    if a.shape != b.shape:
        have, want = (f"shape {tuple(one.shape)}" for one in (a, b))
        raise Violation(f"{message} (The shapes differ.)", **(shown | {"yours": have, "expected": want}))
    off = ~torch.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    if off.any():
        have, want = (yours, expected) if a.numel() <= WHOLE else _first_difference(a, b, off)
        raise Violation(message, **(shown | {"yours": have, "expected": want}))


def _first_difference(a: Tensor, b: Tensor, off: Tensor) -> tuple[str, str]:
    """Of tensors that are too large to compare by eye."""
    place = tuple(off.nonzero()[0].tolist())
    have = f"{a[place]:.6g} at {list(place)} ({off.sum()} of {off.numel()} numbers differ)"
    return have, f"{b[place]:.6g} at {list(place)}"


@contextlib.contextmanager
def explained(
    kind: type[Exception] | tuple[type[Exception], ...], words: str, message: str, **shown: Unpack[Shown]
) -> Iterator[None]:
    """Turn an exception of this kind that holds one of these words (split by "|") into a violation that explains it."""
    try:
        yield
    except kind as error:
        if not any(word in str(error) for word in words.split("|")):
            raise
        shown.setdefault("yours", f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
        raise Violation(message, **shown) from None


def same(
    name: str, hint: int | str, *cases: str | Mapping[str, Any], part: int | None = None, atol: float = 1e-6
) -> Check:
    """A check that the answer returns the same as the reference for some arguments.

    Args:
        hint: for all violations.
        cases: a message, then the arguments it is about, by name and in their order; then the next message, …
        part: which of the returned values is compared; None: all.
    """

    def run(candidate: Any, reference: Any) -> None:
        message = ""
        for case in cases:
            if isinstance(case, str):
                message = case
                continue
            yours, expected = (written(f(*copy.deepcopy(list(case.values())))) for f in (candidate, reference))
            if part is not None:
                yours, expected = parts(yours, len(expected), message, inputs=dict(case))[part], expected[part]
            close(yours, expected, message, inputs=dict(case), hint=hint, atol=atol)

    return Check(name, run)


def elementwise(step: Any, state: Any, message: str, *, hint: int) -> None:
    """An engine is able to compile ``step(x, state)``."""
    try:
        equation_of(step, state, torch.float32, torch.device("cpu"))
    except NotElementwise as reason:
        raise Violation(message, yours=str(reason), hint=hint) from None


def _numbers(yours: Any) -> Tensor:
    tensor = torch.as_tensor(yours).detach()
    if tensor.is_meta or tensor.is_complex():
        raise TypeError("neither can be compared with real numbers")
    return (tensor if tensor.layout == torch.strided else tensor.to_dense()).to("cpu", torch.float64)


def _described(yours: Any) -> str:
    """Description of a value that is not a number, tensor or array of real numbers."""
    if isinstance(yours, Tensor):
        return NO_NUMBERS if yours.is_meta else f"a tensor of {yours.dtype}"
    kind = _article(type(yours).__name__)
    if callable(yours):
        return f"{kind}: are the brackets of the call missing, `{getattr(yours, '__name__', 'it')}()`?"
    return f"{kind}: {yours!r}"


def _article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
