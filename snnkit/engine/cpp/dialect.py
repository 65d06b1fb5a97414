"""C++ expressions for PyTorch's elementwise operations."""

from __future__ import annotations

import math

import torch

from ..program import Dialect, Op

TYPES = {torch.float32: "float", torch.float64: "double", torch.bool: "bool"}

# Dtypes of inputs and outputs in memory; the prelude defines those that C++ does not have.
STORAGE = {
    torch.float32: "float",
    torch.float64: "double",
    torch.bfloat16: "bfloat16",
    torch.float16: "_Float16",
    torch.uint8: "uint8_t",
}


def _number(value: float | int | bool, dtype: torch.dtype) -> str:
    if dtype == torch.bool:
        return "true" if value else "false"
    if math.isnan(value):
        return f"{TYPES[dtype]}(NAN)"
    if math.isinf(value):
        return f"{TYPES[dtype]}({'-' if value < 0 else ''}INFINITY)"
    # Rounded here, as decimal text may round the other way.
    rounded = repr(torch.tensor(value, dtype=dtype).item())
    return f"({rounded}f)" if dtype == torch.float32 else f"({rounded})"


def _power(base: str, exponent: str, op: Op) -> str:
    if op.arguments[1] == 2:
        return f"{base} * {base}"
    return f"std::pow({base}, {exponent})"


def _in(type_: str):
    """An expression that needs to know the type of its result, as {T}."""
    return lambda *arguments, op: type_.replace("{T}", TYPES[op.dtype]).format(*arguments)


EXPRESSIONS = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "div_trunc": "std::trunc({0} / {1})",
    "div_floor": "floor_divided({0}, {1})",
    "fmod": "std::fmod({0}, {1})",
    "remainder": "remainder_of({0}, {1})",
    "neg": "-{0}",
    "reciprocal": _in("{T}(1) / {0}"),
    "abs": "std::fabs({0})",
    "sign": _in("{T}({0} > 0) - {T}({0} < 0)"),
    "sgn": _in("{T}({0} > 0) - {T}({0} < 0)"),
    "copysign": "std::copysign({0}, {1})",
    "pow": _power,
    "sqrt": "std::sqrt({0})",
    "rsqrt": _in("{T}(1) / std::sqrt({0})"),
    "exp": "std::exp({0})",
    "exp2": "std::exp2({0})",
    "expm1": "std::expm1({0})",
    "log": "std::log({0})",
    "log2": "std::log2({0})",
    "log10": "std::log10({0})",
    "log1p": "std::log1p({0})",
    "sigmoid": _in("{T}(1) / ({T}(1) + std::exp(-{0}))"),
    "tanh": "std::tanh({0})",
    "erf": "std::erf({0})",
    "erfc": "std::erfc({0})",
    "sin": "std::sin({0})",
    "cos": "std::cos({0})",
    "tan": "std::tan({0})",
    "asin": "std::asin({0})",
    "acos": "std::acos({0})",
    "atan": "std::atan({0})",
    "atan2": "std::atan2({0}, {1})",
    "sinh": "std::sinh({0})",
    "cosh": "std::cosh({0})",
    "asinh": "std::asinh({0})",
    "acosh": "std::acosh({0})",
    "atanh": "std::atanh({0})",
    "hypot": "std::hypot({0}, {1})",
    "floor": "std::floor({0})",
    "ceil": "std::ceil({0})",
    "trunc": "std::trunc({0})",
    "round": "std::nearbyint({0})",
    "frac": "{0} - std::trunc({0})",
    # A NaN on either side stays one, as in PyTorch.
    "maximum": "({0} > {1} || {0} != {0}) ? {0} : {1}",
    "minimum": "({0} < {1} || {0} != {0}) ? {0} : {1}",
    "clamp_min": "({0} > {1} || {0} != {0}) ? {0} : {1}",
    "clamp_max": "({0} < {1} || {0} != {0}) ? {0} : {1}",
    "relu": "{0} < 0 ? 0 : {0}",
    "where": "{0} ? {1} : {2}",
    "ge": "{0} >= {1}",
    "gt": "{0} > {1}",
    "le": "{0} <= {1}",
    "lt": "{0} < {1}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "isnan": "{0} != {0}",
    "logical_and": "{0} && {1}",
    "logical_or": "{0} || {1}",
    "logical_xor": "bool({0}) != bool({1})",
    "logical_not": "!{0}",
    "bitwise_and": "{0} && {1}",
    "bitwise_or": "{0} || {1}",
    "bitwise_xor": "{0} != {1}",
    "bitwise_not": "!{0}",
}


def _cast(value: str, before: torch.dtype, after: torch.dtype) -> str:
    # A choice between numbers becomes a vector's mask; the conversion of a bool goes through bytes.
    if before == torch.bool:
        return f"{value} ? {TYPES[after]}(1) : {TYPES[after]}(0)"
    return f"{value} != 0" if after == torch.bool else f"{TYPES[after]}({value})"


CPP = Dialect(
    expressions=EXPRESSIONS,
    number=_number,
    cast=_cast,
    assignment="const {type} {name} = {value};",
    types=TYPES,
)
