"""Building blocks for checks: each raises ``Violation`` when a property does not hold.

def leaks(candidate, reference):
    v = torch.tensor([0.5])
    expect.close(candidate(v), reference(v), "Without input, the potential decays.", inputs={"v": v}, hint=0)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .exercise import NotWritten, Violation

NO_NUMBERS = "a tensor on the device `meta`: it has a shape, but no numbers"


def written(value: Any) -> Any:
    """Hand ``value`` on, unless it is (or holds) ``...`` or is None: then the exercise is still to do."""
    if value is None or value is Ellipsis:
        raise NotWritten()
    if isinstance(value, (tuple, list)) and any(item is Ellipsis for item in value):
        raise NotWritten()
    return value


def true(
    condition: Any,
    message: str,
    *,
    inputs: dict[str, Any] | str | None = None,
    yours: Any = None,
    expected: Any = None,
    hint: int | str | None = None,
) -> None:
    """``condition`` holds (a bool, or a tensor of bools: all of them)."""
    if isinstance(condition, Tensor) and condition.is_meta:
        raise Violation(message, inputs=inputs, yours=NO_NUMBERS, expected=expected, hint=hint)
    holds = bool(condition.all()) if isinstance(condition, Tensor) else bool(condition)
    if not holds:
        raise Violation(message, inputs=inputs, yours=yours, expected=expected, hint=hint)


def tensor(
    yours: Any,
    like: Tensor,
    message: str | None = None,
    *,
    inputs: dict[str, Any] | str | None = None,
    hint: int | str | None = None,
) -> None:
    """``yours`` is a tensor with the shape, dtype and device of ``like``."""
    written(yours)
    if not isinstance(yours, Tensor):
        wrong = f"The answer must be a tensor, not {article(type(yours).__name__)}."
        raise Violation(message or wrong, inputs=inputs, yours=type(yours).__name__, expected="Tensor", hint=hint)
    for name in ("shape", "dtype", "device"):
        have, want = getattr(yours, name), getattr(like, name)
        if have != want:
            if name == "shape":
                have, want = tuple(have), tuple(want)
            text = message or f"The answer has the wrong {name}."
            raise Violation(text, inputs=inputs, yours=f"{name} {have}", expected=f"{name} {want}", hint=hint)


def close(
    yours: Any,
    expected: Any,
    message: str,
    *,
    inputs: dict[str, Any] | str | None = None,
    hint: int | str | None = None,
    rtol: float = 1e-4,
    atol: float = 1e-6,
) -> None:
    """``yours`` equals ``expected`` up to rounding: numbers, tensors, or tuples and lists of them.

    A tensor against a tensor must also agree in shape (so that broadcasting hides nothing); dtypes may differ:
    ask for them with ``tensor``.
    """
    written(yours)
    if isinstance(expected, (tuple, list)):
        if not isinstance(yours, (tuple, list)) or len(yours) != len(expected):
            count = f"{len(yours)} values" if isinstance(yours, (tuple, list)) else article(type(yours).__name__)
            raise Violation(message, inputs=inputs, yours=count, expected=f"{len(expected)} values", hint=hint)
        for one, want in zip(yours, expected, strict=True):
            close(one, want, message, inputs=inputs, hint=hint, rtol=rtol, atol=atol)
        return
    b = torch.as_tensor(expected).detach().to("cpu", torch.float64)
    try:
        a = _numbers(yours)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise Violation(message, inputs=inputs, yours=_described(yours), expected=expected, hint=hint) from None
    if a.shape != b.shape:
        raise Violation(
            f"{message} (The shapes differ.)",
            inputs=inputs,
            yours=f"shape {tuple(a.shape)}",
            expected=f"shape {tuple(b.shape)}",
            hint=hint,
        )
    if not torch.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True):
        raise Violation(message, inputs=inputs, yours=yours, expected=expected, hint=hint)


def one_of(yours: Any, choices: Sequence[Any], message: str, *, hint: int | str | None = None) -> None:
    """``yours`` is one of ``choices`` (for exercises that ask for a word or a name)."""
    written(yours)
    try:
        known = yours in choices
    except (TypeError, ValueError, RuntimeError):  # tensors and arrays are compared element by element
        known = False
    if not known:
        raise Violation(message, yours=yours, hint=hint)


def _numbers(yours: Any) -> Tensor:
    tensor = torch.as_tensor(yours).detach()
    if tensor.is_meta or tensor.is_complex():
        raise TypeError("neither is comparable with real numbers")
    if tensor.layout != torch.strided or tensor.is_quantized:
        tensor = tensor.dequantize() if tensor.is_quantized else tensor.to_dense()
    return tensor.to("cpu", torch.float64)


def _described(yours: Any) -> str:
    """Description of a value that is not a number, tensor or array of real numbers."""
    if isinstance(yours, Tensor):
        return NO_NUMBERS if yours.is_meta else f"a tensor of {yours.dtype}"
    kind = article(type(yours).__name__)
    if callable(yours):
        name = getattr(yours, "__name__", "it")
        return f"{kind}: are the brackets of the call missing, `{name}()`?"
    return f"{kind}: {yours!r}"


def article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
