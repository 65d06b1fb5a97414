"""From a traced graph to a program.

``read(graph, …)`` takes larger operations apart, drops what nothing reads and what changes no bit, and names each
value.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

from .program import CASTS, Op, Program, Untranslatable, Value, needed
from .trace import Equation, undisturbed

# Operations that only hand a value on, and those that make a constant: name -> position of the number (or the number).
_SAME = {"detach", "alias", "clone", "lift_fresh_copy", "expand", "view", "reshape", "contiguous"}
_CONSTANTS = {"full": 1, "full_like": 1, "new_full": 2, "scalar_tensor": 0, "fill": 1}
_ZEROS = {"zeros_like", "zeros", "new_zeros", "empty", "empty_like", "empty_permuted"}
_ONES = {"ones_like", "ones", "new_ones"}
# Settings of operations that are taken into account, or say nothing of a value.
_SETTINGS = {"alpha", "value", "rounding_mode", "min", "max"}
_SETTINGS |= {"dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking"}
_DTYPES = {torch.float32, torch.float64, torch.bool}

# Exponents for which PyTorch has a shorter way than a general power.
_POWERS = {-2, -1, -0.5, 0.5, 2, 3}


class Programs(NamedTuple):
    """Of one equation; the values are named as in ``arguments``.

    Attributes:
        forward: x, s0 …, p0 … -> out, s0' …
        backward: x, s0 …, p0 …, g, d0 … -> d_x, d_s0 …, d_p0 …, with g the gradient of out, d0 … those of the state.
    """

    forward: Program
    backward: Program


@functools.lru_cache(maxsize=256)
def programs(equation: Equation) -> Programs:
    """Both programs of an equation. Raises Untranslatable."""
    arguments = ["x", *(f"s{i}" for i in range(equation.states)), *(f"p{i}" for i in range(equation.parameters))]
    gradients = ["g", *(f"d{i}" for i in range(equation.states))]
    forward = read(equation.forward, arguments, equation.dtype)
    return Programs(forward, read(equation.backward, [*arguments, *gradients], equation.dtype))


def read(graph: fx.GraphModule, inputs: Sequence[str], dtype: torch.dtype) -> Program:
    """The program of an elementwise ``graph`` of tensors of ``dtype`` whose arguments get the names ``inputs``.

    Raises:
        Untranslatable: an argument that is neither a value nor a number, or a dtype that no kernel computes in.
    """
    try:
        taken_apart = undisturbed(_taken_apart, graph, len(inputs), dtype)
    except Exception as error:
        raise Untranslatable(f"it can't be taken apart: {error}") from error
    return _Reader(inputs, dtype).read(taken_apart)


def _taken_apart(graph: fx.GraphModule, inputs: int, dtype: torch.dtype) -> fx.GraphModule:
    """The graph in fewer kinds of operations."""
    from torch._decomp import core_aten_decompositions, get_decompositions

    # Inductor has such a table, too, but brings all of itself along.
    aten = torch.ops.aten
    more = [aten.elu, aten.gelu, aten.hardtanh, aten.leaky_relu]
    # A dict first: the table's own "|" leaves most of it out.
    table = dict(core_aten_decompositions().items()) | get_decompositions(more)
    # Where it was traced, as numbers in it may have become tensors there.
    device = next((n.meta["val"].device for n in graph.graph.nodes if n.op == "placeholder"), None)
    with torch.no_grad():
        example = [torch.empty(13, dtype=dtype, device=device) for _ in range(inputs)]
        # Without in-place operations: what one changes may have other names.
        pure = torch.func.functionalize(graph)
        return make_fx(pure, table, tracing_mode="fake")(*example)  # type: ignore[arg-type]


class _Reader:
    """Reads one graph."""

    def __init__(self, inputs: Sequence[str], dtype: torch.dtype) -> None:
        self.inputs, self.dtype = tuple(inputs), dtype
        self.ops: list[Op] = []
        self.values: dict[fx.Node, Value] = {}
        self.known: dict[Any, str] = {}
        self.dtypes: dict[str, torch.dtype] = dict.fromkeys(self.inputs, dtype)

    def read(self, graph: fx.GraphModule) -> Program:
        names = iter(self.inputs)
        results: tuple[Value, ...] = ()
        for node in graph.graph.nodes:
            if node.op == "placeholder":
                self.values[node] = next(names)
            elif node.op == "output":
                results = tuple(self._value(a) for a in node.args[0])
            elif node.op == "call_function":
                self.values[node] = self._call(node)
            else:
                raise Untranslatable(f"it reads {node.target}, which is not among its arguments")
        return Program(self.inputs, needed(self.ops, results), results, {}, self.dtype)

    def _call(self, node: fx.Node) -> Value:
        kind, _, overload = str(node.target).partition(".")[2].partition(".")
        if not isinstance(node.target, torch._ops.OpOverload):
            raise Untranslatable(f"{node.target} is not an operation on tensors")
        if unknown := set(node.kwargs) - _SETTINGS:
            raise Untranslatable(f"there is no expression for {kind} with {', '.join(sorted(unknown))}")
        kind = kind.removesuffix("_") if _in_place(node) else kind
        dtype = _dtype(node)
        arguments = list(node.args)
        if kind in _SAME:
            return self._value(arguments[0])
        if kind in _ZEROS | _ONES:
            return _number(1.0 if kind in _ONES else 0.0, dtype)
        if kind in _CONSTANTS:
            return _number(arguments[_CONSTANTS[kind]], dtype)
        if kind in CASTS:
            inner = self._value(arguments[0])
            return self._cast(inner, dtype)
        values = [self._value(a) for a in arguments if a is not None]
        if kind == "clamp":  # (x, low, high), either of which may be missing
            low, high = (*arguments[1:], *[node.kwargs.get(n) for n in ("min", "max")[len(arguments) - 1 :]])
            result = self._value(arguments[0])
            if low is not None:
                result = self._add("maximum", [result, self._value(low)], dtype)
            return result if high is None else self._add("minimum", [result, self._value(high)], dtype)
        if kind == "copy":
            return self._cast(values[1], dtype)
        if kind in ("addcmul", "addcdiv"):  # x + value · a · b, or x + value · a / b
            factor = float(node.kwargs.get("value", 1))  # type: ignore[arg-type]
            first = self._add("mul", [values[1], factor], dtype)
            return self._add("add", [values[0], self._add(kind.removeprefix("addc"), [first, values[2]], dtype)], dtype)
        alpha = node.kwargs.get("alpha", 1)
        if kind == "rsub":
            kind, values = "sub", [values[1], values[0]]
        if alpha != 1:
            values[1] = self._add("mul", [values[1], float(alpha)], dtype)  # type: ignore[arg-type]
        if overload.endswith("mode"):
            kind = f"{kind}_{node.kwargs.get('rounding_mode')}"
        return self._add(kind, values, dtype)

    def _add(self, kind: str, values: list[Value], dtype: torch.dtype) -> Value:
        # PyTorch computes in the widest floating-point dtype among the tensors; a bool may meet a float.
        floats = [self.dtypes[v] for v in values if isinstance(v, str) and self.dtypes[v].is_floating_point]
        if floats:
            wide = torch.float64 if torch.float64 in floats else torch.float32
            condition = 1 if kind == "where" else 0
            values = [*values[:condition], *(self._cast(v, wide) for v in values[condition:])]
        simple = _simplified(kind, values)
        if simple is not None:
            return simple
        if kind == "pow" and values[1] in _POWERS:
            # As PyTorch computes these, and before the exponent is lifted out.
            return self._power(values[0], float(values[1]), dtype)
        if kind == "div" and isinstance(values[1], float) and _power_of_two(values[1]):
            kind, values = "mul", [values[0], 1 / values[1]]
        key = (kind, tuple((type(v), repr(v)) for v in values), dtype)
        if key not in self.known:
            self.known[key] = name = f"v{len(self.ops)}"
            dtypes = tuple(self.dtypes[v] if isinstance(v, str) else None for v in values)
            self.ops.append(Op(name, kind, tuple(values), dtype, dtypes))
            self.dtypes[name] = dtype
        return self.known[key]

    def _power(self, base: Value, exponent: float, dtype: torch.dtype) -> Value:
        if exponent < 0:
            return self._add("reciprocal", [self._add("pow", [base, -exponent], dtype)], dtype)
        if exponent == 0.5:
            return self._add("sqrt", [base], dtype)
        square = self._add("mul", [base, base], dtype)
        return square if exponent == 2 else self._add("mul", [square, base], dtype)

    def _cast(self, value: Value, dtype: torch.dtype) -> Value:
        if not isinstance(value, str):
            return _number(value, dtype)
        return value if self.dtypes[value] == dtype else self._add_cast(value, dtype)

    def _add_cast(self, value: str, dtype: torch.dtype) -> str:
        key = ("_to_copy", value, dtype)
        if key not in self.known:
            self.known[key] = name = f"v{len(self.ops)}"
            self.ops.append(Op(name, "_to_copy", (value,), dtype, (self.dtypes[value],)))
            self.dtypes[name] = dtype
        return self.known[key]

    def _value(self, argument: Any) -> Value:
        if isinstance(argument, fx.Node):
            return self.values[argument]
        if isinstance(argument, (bool, int, float)):
            return argument
        raise Untranslatable(f"an argument is a {type(argument).__name__}, neither a tensor nor a number")


def _simplified(kind: str, values: list[Value]) -> Value | None:
    """The value that this equals bit for bit whatever the other one is, or None."""
    neutral = {"mul": 1.0, "div": 1.0, "pow": 1.0, "sub": 0.0}.get(kind)
    if neutral is None:
        return None
    if isinstance(values[1], float) and values[1] == neutral and isinstance(values[0], str):
        return values[0]
    if kind == "mul" and isinstance(values[0], float) and values[0] == neutral:
        return values[1]
    return None


def _power_of_two(value: float) -> bool:
    """Whether dividing by it is the same as multiplying by its inverse (and that inverse is no subnormal)."""
    return value != 0 and math.isfinite(value) and math.frexp(abs(value))[0] == 0.5 and 2**-60 < abs(value) < 2**60


def _in_place(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _number(value: Any, dtype: torch.dtype) -> Value:
    if isinstance(value, (bool, int, float)):
        return bool(value) if dtype == torch.bool else torch.tensor(float(value), dtype=dtype).item()
    raise Untranslatable(f"a constant is a {type(value).__name__}")


def _dtype(node: fx.Node) -> torch.dtype:
    value = node.meta.get("val")
    if not isinstance(value, Tensor):
        raise Untranslatable(f"{node.target} gives something else than one tensor")
    if value.dtype not in _DTYPES:
        raise Untranslatable(f"{node.target} gives {value.dtype}")
    return value.dtype
