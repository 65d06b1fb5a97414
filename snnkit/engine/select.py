"""Which engine runs an equation, and why."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from .check import name_of
from .compiled import kernels
from .equations import equation_of
from .trace import Equation, NotElementwise
from .worth import worth_compiling

ENGINES = ("auto", "eager", "block", "cpp", "triton")

# What "auto" takes on each kind of device, in order, and the neuron-steps (elements of x) from which it does. Below, a
# pass takes a millisecond in the eager engine, while the first compilation takes about a second (cpp) or ten (block);
# `worth` says when it pays nevertheless.
AUTO = {"cpu": (("cpp", 2**16), ("block", 2**20)), "cuda": (("block", 2**16), ("triton", 2**16))}


class Choice(NamedTuple):
    """An engine and the reason why it was taken.

    Attributes:
        engine: "eager", "block", "cpp" or "triton".
        reason: a sentence.
        fallback: another engine had been asked for, or would have been better.
        equation: what a compiled engine is to run.
    """

    engine: str
    reason: str
    fallback: bool = False
    equation: Equation | None = None


def check_engine(engine: Any) -> str:
    """``engine`` if it is one of ENGINES, else ValueError."""
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(map(repr, ENGINES))}, but it is {engine!r}")
    return engine


def choose(engine: str, step: Callable | nn.Module, x: Tensor, state: Any, dtype: torch.dtype) -> Choice:
    """Decide for one call. Every reason is a sentence that ``explain`` prints."""
    check_engine(engine)
    if engine == "eager":
        return Choice("eager", "asked for")
    asked = engine != "auto"
    if torch.compiler.is_compiling():
        return Choice("eager", "inside torch.compile the loop is inlined, so that it fuses with its neighbours")
    second = _second_order()
    if second:
        return Choice("eager", second, fallback=asked)
    if x.numel() == 0:
        return Choice("eager", "there are no neurons to compute")
    if x.device.type not in AUTO:
        return Choice("eager", f"no engine compiles for {x.device.type!r} devices", fallback=asked)
    # One that was asked for and can't gives way to block, which knows every operation.
    candidates = dict.fromkeys((engine, "block")) if asked else _paying(x)
    if not candidates:
        paid = worth_compiling(step, x, state, dtype)
        if paid is not None:
            return Choice("cpp", paid[1], equation=paid[0])
        minimum = min(minimum for _, minimum in AUTO[x.device.type])
        return Choice("eager", f"{x.numel():,} neuron-steps are fewer than {minimum:,}: compiling would not pay")
    try:
        equation = equation_of(step, state, dtype, x.device)
    except NotElementwise as reason:
        return Choice("eager", f"its step can't be compiled: {reason}", fallback=True)
    refusals = []
    for candidate in candidates:
        refusal = kernels(candidate).supports(equation, x.device)
        if refusal:
            refusals.append(refusal)
            continue
        why = "asked for" if asked else f"{x.numel():,} neuron-steps are worth compiling"
        return Choice(candidate, refusals[0] if refusals else why, fallback=bool(refusals), equation=equation)
    return Choice("eager", refusals[0], fallback=True)


def after_failure(choice: Choice, error: Exception, equation: Equation, device: torch.device) -> Choice:
    """What runs when the engine that was chosen could not compile its kernel: block, then eager."""
    reason = f"compiling failed ({error})" if choice.engine == "block" else f"{choice.engine} failed ({error})"
    if choice.engine != "block" and not kernels("block").supports(equation, device):
        return Choice("block", reason, fallback=True, equation=equation)
    return Choice("eager", reason, fallback=True)


def _paying(x: Tensor) -> list[str]:
    return [engine for engine, minimum in AUTO[x.device.type] if x.numel() >= minimum]


def inside_functional_transform() -> bool:
    """Whether a ``torch.func`` transform (vmap, grad, …) is at work."""
    return torch._C._functorch.peek_interpreter_stack() is not None  # pyright: ignore[reportAttributeAccessIssue]


def _second_order() -> str:
    """Why derivatives are asked for that compiled engines don't have, or an empty string."""
    stack = torch._C._functorch.get_interpreter_stack() or ()  # pyright: ignore[reportAttributeAccessIssue]
    kinds = [interpreter.key() for interpreter in stack]
    transform = torch._C._functorch.TransformType  # pyright: ignore[reportAttributeAccessIssue]
    if transform.Jvp in kinds or forward_ad._current_level >= 0:
        return "forward-mode derivatives run step by step"
    if kinds.count(transform.Grad) > 1:
        return "second derivatives run step by step"
    return ""


def warn_of_fallback(step: Callable | nn.Module, choice: Choice) -> None:
    """Say once per kind of step and reason that it runs slower than it could, and why."""
    if choice.fallback:
        _warn_once(name_of(step), choice.engine, choice.reason)


@functools.cache
def _warn_once(name: str, engine: str, reason: str) -> None:
    message = f"{name} runs in the {engine} engine: {reason}. Use engine={engine!r} to ask for that."
    warnings.warn(message, UserWarning, stacklevel=5)
