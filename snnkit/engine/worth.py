"""When a compiled kernel pays for passes that are small.

A small pass takes a millisecond step by step, and a tenth of that compiled, whatever its size; but the first
compilation takes a second. So "auto" takes the C++ engine for small passes, too, as soon as its kernel is there (made
for a larger layer with the same equation, or by an earlier process), or when a layer has run so many steps that
compiling has paid.

Which engine runs must not be seen in results: a training run that was stopped and resumed would not be that of an
unbroken one. So this holds only where both engines compute equally to the bit: operations that IEEE 754 rounds in one
way, no parameters and no standing input, whose gradients are sums in another order.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from . import cpp
from .equations import equation_of, is_known
from .fingerprint import owner
from .program import CASTS, Untranslatable
from .reader import programs
from .trace import Equation, NotElementwise

# Steps of one pass from which its kernel wins over the steps one by one, for ten neurons as for thousands: with fewer,
# calling it takes as long as they do.
FEWEST = 4

# Steps that a layer runs in the eager engine before its equation is traced, and before its kernel is compiled: each
# takes as long as they did. An equation that is known, of a layer with the same neurons, costs nothing to look at.
# Before the first equation of a process, PyTorch's tracer takes a second to be imported.
_UNTIL_TRACED, _UNTIL_COMPILED = 2**11, 2**15
_TRACER = "torch._dynamo"

_EXACT = CASTS | {
    *("add", "sub", "mul", "div", "neg", "reciprocal", "abs", "sqrt", "where", "maximum", "minimum"),
    *("clamp_min", "clamp_max", "ge", "gt", "le", "lt", "eq", "ne"),
    *("logical_and", "logical_or", "logical_xor", "logical_not"),
}

# Steps run so far, by what equations are remembered by; None: it is never worth it.
_run: weakref.WeakKeyDictionary[Any, int | None] = weakref.WeakKeyDictionary()


def worth_compiling(
    step: Callable | nn.Module, x: Tensor, state: Any, dtype: torch.dtype
) -> tuple[Equation, str] | None:
    """The equation of ``step`` and the reason, if the C++ engine pays for passes as small as ``x``; else None.

    Counts the steps of ``x``, so ask once for each pass.
    """
    if x.device.type != "cpu" or len(x) < FEWEST or x.stride(0) == 0:
        return None
    try:
        before = _run.get(key := owner(step), 0)
        if before is None:
            return None
        _run[key] = steps = before + len(x)
    except TypeError:  # neither hashable nor open to weak references
        return None
    tracing_pays = steps >= (_UNTIL_TRACED if _TRACER in sys.modules else _UNTIL_COMPILED)
    if not tracing_pays and not is_known(step, state, dtype, x.device):
        return None
    try:
        equation = equation_of(step, state, dtype, x.device)
    except NotElementwise:
        equation = None
    if equation is None or not is_exact(equation) or cpp.supports(equation, x.device):
        _run[key] = None
        return None
    if cpp.is_made(equation, x.dtype):
        return equation, "its kernel is there already"
    return (equation, f"it has run {steps:,} steps one by one") if steps >= _UNTIL_COMPILED else None


@functools.lru_cache(maxsize=512)
def is_exact(equation: Equation) -> bool:
    """Whether eager and C++ give the same results and gradients to the bit."""
    if equation.parameters:
        return False
    try:
        both = programs(equation)
    except Untranslatable:
        return False
    out, *state = both.forward.results
    # An output that is a state, too: autograd adds the gradients of a sequence to it in another order than of a step.
    if out in state:
        return False
    return all(op.kind in _EXACT or _is_square(op) for program in both for op in program.ops)


def _is_square(op: Any) -> bool:
    return op.kind == "pow" and op.arguments[1] == 2
