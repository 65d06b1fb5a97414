"""Triton expressions for PyTorch's elementwise operations; nothing but ``tl.*``, so that a kernel stands alone.

Eager PyTorch rounds every operation by itself, and so must whatever decides about spikes. A product whose only use is
an addition would become one fused multiply-add; ``tl.fma(a, b, nil)`` with ``nil`` = -0.0 at run time is the product,
rounded, that no compiler may fuse any further, at the same cost. Divisions and roots come in their IEEE versions.
Gradients need none of this: there, products fuse, and a division may be off by two units in the last place.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from ..program import Dialect, Op

TYPES = {torch.float32: "tl.float32", torch.float64: "tl.float64", torch.bool: "tl.int1"}


def _number(value: float | int | bool, dtype: torch.dtype) -> str:
    if dtype == torch.bool:
        return f"tl.full([], {int(value)}, tl.int1)"
    text = f'float("{value}")' if math.isinf(value) or math.isnan(value) else repr(float(value))
    # A bare number in a kernel is float32.
    return text if dtype == torch.float32 else f"tl.full([], {text}, {TYPES[dtype]})"


def _cast(value: str, before: torch.dtype, after: torch.dtype) -> str:
    return f"{value} != 0" if after == torch.bool else f"{value}.to({TYPES[after]})"


def _for_dtype(single: str, double: str):
    """Expressions of results in float32 and in float64, whose plain operations are IEEE already."""
    return lambda *arguments, op: (single if op.dtype == torch.float32 else double).format(*arguments)


def _round(value: str, op: Op) -> str:
    # To even, as PyTorch does: a number of this size has no fraction left. Beyond it there is nothing to round.
    magic = repr(2.0**23 if op.dtype == torch.float32 else 2.0**52)
    away = f"(tl.abs({value}) + {magic}) - {magic}"
    return f"tl.where(tl.abs({value}) < {magic}, tl.where({value} < 0, -({away}), {away}), {value})"


_TANH = "(1 - 2 / (tl.exp(2 * tl.abs({0})) + 1))"
# (e - 1) · x / log(e) with e = exp(x): what is lost of x in e cancels.
_EXPM1 = "tl.where(tl.exp({0}) == 1, {0}, (tl.exp({0}) - 1) * {0} / tl.log(tl.exp({0})))"
_SIGN = "({0} > 0).to({1}) - ({0} < 0).to({1})"

_GRADIENT = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "-{0}",
    "reciprocal": "1 / {0}",
    "abs": "tl.abs({0})",
    "sign": lambda value, op: _SIGN.format(value, TYPES[op.dtype]),
    "sgn": lambda value, op: _SIGN.format(value, TYPES[op.dtype]),
    "sqrt": "tl.sqrt({0})",
    "rsqrt": "tl.rsqrt({0})",
    "exp": "tl.exp({0})",
    "exp2": "tl.exp2({0})",
    "expm1": f"tl.where(tl.abs({{0}}) > 0.5, tl.exp({{0}}) - 1, {_EXPM1})",
    "log": "tl.log({0})",
    "log1p": "tl.where(1 + {0} == 1, {0}, tl.log(1 + {0}) * ({0} / ((1 + {0}) - 1)))",
    "log2": "tl.log2({0})",
    "sigmoid": "1 / (1 + tl.exp(-{0}))",
    "tanh": f"tl.where({{0}} < 0, -{_TANH}, {_TANH})",
    "erf": "tl.erf({0})",
    "sin": "tl.sin({0})",
    "cos": "tl.cos({0})",
    "floor": "tl.floor({0})",
    "ceil": "tl.ceil({0})",
    "trunc": "tl.where({0} < 0, tl.ceil({0}), tl.floor({0}))",
    "round": _round,
    # A NaN on either side stays one, as in PyTorch.
    "maximum": "tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "minimum": "tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "clamp_min": "tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "clamp_max": "tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "relu": "tl.where({0} < 0, 0.0, {0})",
    "where": "tl.where({0}, {1}, {2})",
    "ge": "{0} >= {1}",
    "gt": "{0} > {1}",
    "le": "{0} <= {1}",
    "lt": "{0} < {1}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "isnan": "{0} != {0}",
    "logical_and": "{0} & {1}",
    "logical_or": "{0} | {1}",
    "logical_xor": "{0} ^ {1}",
    "logical_not": "{0} == 0",
    "bitwise_and": "{0} & {1}",
    "bitwise_or": "{0} | {1}",
    "bitwise_xor": "{0} ^ {1}",
    "bitwise_not": "{0} == 0",
}

GRADIENT = Dialect(expressions=_GRADIENT, number=_number, cast=_cast, assignment="{name} = {value}", types=TYPES)

EXACT = replace(
    GRADIENT,
    expressions={
        **_GRADIENT,
        "mul": "tl.fma({0}, {1}, nil)",
        "div": _for_dtype("tl.div_rn({0}, {1})", "{0} / {1}"),
        "reciprocal": _for_dtype("tl.div_rn(1.0, {0})", "1 / {0}"),
        "sqrt": _for_dtype("tl.sqrt_rn({0})", "tl.sqrt({0})"),
        "rsqrt": _for_dtype("tl.div_rn(1.0, tl.sqrt_rn({0}))", "1 / tl.sqrt({0})"),
        "sigmoid": _for_dtype("tl.div_rn(1.0, 1 + tl.exp(-{0}))", "1 / (1 + tl.exp(-{0}))"),
    },
)
