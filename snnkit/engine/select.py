"""Which engine runs an equation, and why."""

from __future__ import annotations

import functools
import os
import shutil
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from . import block
from .check import name_of
from .trace import Equation, NotElementwise

ENGINES = ("auto", "eager", "block")

# Neuron-steps (elements of x) from which "auto" compiles. Below, a pass takes milliseconds in the eager engine, while
# the first compilation of an equation takes about ten seconds.
AUTO_MINIMUM = {"cpu": 2**20, "cuda": 2**16}


class Choice(NamedTuple):
    """An engine and the reason why it was taken.

    Attributes:
        engine: "eager" or "block".
        reason: a sentence.
        fallback: another engine had been asked for, or would have been better.
        equation: what the block engine is to run.
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
    asked = engine == "block"
    if torch.compiler.is_compiling():
        return Choice("eager", "inside torch.compile the loop is inlined, so that it fuses with its neighbours")
    if inside_functional_transform():
        return Choice("eager", "inside torch.func transforms the loop runs step by step", fallback=asked)
    if x.numel() == 0:
        return Choice("eager", "there are no neurons to compute")
    minimum = AUTO_MINIMUM.get(x.device.type)
    if minimum is None:
        return Choice("eager", f"the block engine is not made for {x.device.type!r} devices", fallback=asked)
    if not asked and x.numel() < minimum:
        return Choice("eager", f"{x.numel():,} neuron-steps are fewer than {minimum:,}: compiling would not pay")
    missing = _missing_compiler(x.device.type)
    if missing:
        return Choice("eager", missing, fallback=True)
    try:
        equation = block.equation_of(step, state, dtype, x.device)
    except NotElementwise as reason:
        return Choice("eager", f"its step can't be compiled: {reason}", fallback=True)
    why = "asked for" if asked else f"{x.numel():,} neuron-steps are worth compiling"
    return Choice("block", why, equation=equation)


def inside_functional_transform() -> bool:
    """Whether a ``torch.func`` transform (vmap, grad, …) is at work."""
    return torch._C._functorch.peek_interpreter_stack() is not None  # pyright: ignore[reportAttributeAccessIssue]


def warn_of_fallback(step: Callable | nn.Module, choice: Choice) -> None:
    """Say once per kind of step and reason that it runs slower than it could, and why."""
    if choice.fallback:
        _warn_once(name_of(step), choice.reason)


@functools.cache
def _warn_once(name: str, reason: str) -> None:
    message = f"{name} runs in the eager engine: {reason}. Use engine='eager' to ask for that."
    warnings.warn(message, UserWarning, stacklevel=5)


@functools.cache
def _missing_compiler(device_type: str) -> str:
    """What torch.compile lacks on this machine, or an empty string."""
    if os.environ.get("TORCH_COMPILE_DISABLE") == "1":
        return "TORCH_COMPILE_DISABLE=1 forbids compiling"
    if device_type == "cuda":
        from torch.utils._triton import has_triton

        return "" if has_triton() else "torch.compile needs Triton on CUDA, which is not installed"
    candidates = (os.environ.get("CXX", ""), "g++", "clang++", "cl")
    if not any(name and shutil.which(name) for name in candidates):
        return "torch.compile needs a C++ compiler, and none was found (Debian and Ubuntu: apt install g++)"
    return ""
