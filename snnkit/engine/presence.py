"""Gradients that are absent are not gradients of zero: 0 · ∞ is NaN, and autograd never computes it.

In eager PyTorch, if a loss does not depend on a state, its gradient is undefined, and the backward pass skips the
computation of that state. The vector-Jacobian product of a step is one straight line of code for all steps, with zeros
in place of such gradients. The result is the same, unless a zero meets an infinite derivative: of ``sqrt`` at 0, of a
quotient, of ``exp`` that overflowed. If this is possible, ``with_presence`` adds a flag for each incoming gradient, 1
if it is present and 0 if not, and turns results of absent gradients back into zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten

# These pass gradients on, add them up or choose among them; a zero stays a zero.
_LINEAR = {"add", "sub", "rsub", "neg", "where", "_to_copy", "to", "detach", "alias", "clone", "expand", "view"}
_LINEAR |= {"zeros_like", "full_like", "ones_like", "lift_fresh_copy", "masked_fill", "masked_fill_"}

# Finite for finite arguments, except for overflow.
_FINITE = _LINEAR | {"mul", "abs", "sign", "sgn", "clamp", "clamp_min", "clamp_max", "maximum", "minimum", "relu"}
_FINITE |= {"ge", "gt", "le", "lt", "eq", "ne", "logical_and", "logical_or", "logical_not", "logical_xor"}
_FINITE |= {"logical_and_", "sigmoid", "tanh", "sin", "cos", "atan", "erf", "floor", "ceil", "round", "trunc"}
_FINITE |= {"scalar_tensor", "sigmoid_backward", "tanh_backward", "threshold_backward"}

_LARGEST_EXPONENT = 80.0  # exp of it is finite in float32

Bounds = tuple[float, float]


def with_presence(graph: fx.GraphModule, gradients: int, states: int) -> int:
    """Add the flags to a vector-Jacobian product, in place, if it needs them.

    The flags are further arguments at the end; after the gradients of the state come the flags of the step before.
    ``gradients`` is the position of ``d_out`` among the arguments, ``states`` the number of tensors of the state.
    Returns how many flags were added: 0, or one for the output and for each tensor of the state.
    """
    nodes = list(graph.graph.nodes)
    arguments = [node for node in nodes if node.op == "placeholder"]
    incoming = arguments[gradients:]
    # Which incoming gradients each value consists of.
    parts: dict[fx.Node, frozenset[int]] = {node: frozenset([i]) for i, node in enumerate(incoming)}
    for node in nodes:
        if node.op == "call_function":
            parts[node] = frozenset().union(*(parts.get(a, frozenset()) for a in node.all_input_nodes))
    # The result of an in-place operation is not examined.
    pure = not any(_changes(node) for node in nodes if not parts.get(node))
    finite = _Finite(set(arguments[1 + states : gradients]), pure)
    risky = [n for n in nodes if parts.get(n) and n.op == "call_function" and _risky(n, parts, finite)]
    if not risky:
        return 0
    with graph.graph.inserting_before(next(n for n in nodes if n.op != "placeholder")):
        flags = [graph.graph.placeholder(f"present_{i}") for i in range(len(incoming))]
    for flag in flags:
        flag.meta.update(incoming[0].meta)

    def call(operation: Callable, *values: Any) -> fx.Node:
        return graph.graph.call_function(operation, values)

    def any_of(which: frozenset[int]) -> fx.Node:
        first, *others = (flags[i] for i in sorted(which))
        for other in others:
            first = call(aten.maximum.default, first, other)
        return first

    for node in risky:
        with graph.graph.inserting_after(node):
            zero = call(aten.zeros_like.default, node)
        with graph.graph.inserting_after(zero):
            safe = call(aten.where.self, None, node, zero)
        with graph.graph.inserting_before(safe):
            present = call(aten.gt.Scalar, any_of(parts[node]), 0)
        node.replace_all_uses_with(safe, delete_user_cb=lambda user, ours=(zero, safe): user not in ours)
        safe.args, parts[safe] = (present, node, zero), parts[node]
    output = nodes[-1]
    with graph.graph.inserting_before(output):
        none = call(aten.zeros_like.default, flags[0])
        results = list(output.args[0])
        before = [parts.get(r, frozenset()) for r in results[1 : 1 + states]]
        now = [flags[0], *(any_of(which) if which else none for which in before)]
    output.args = ([*results[: 1 + states], *now, *results[1 + states :]],)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return len(flags)


def _risky(node: fx.Node, parts: dict[fx.Node, frozenset[int]], finite: _Finite) -> bool:
    """Whether the result may be NaN where its gradients are zero."""
    name = operation_of(node)
    if name in _LINEAR:
        return False
    if name in ("mul", "sigmoid_backward", "tanh_backward", "threshold_backward"):
        return not all(finite(a) for a in node.args if isinstance(a, fx.Node) and not parts.get(a))
    return name != "div" or not finite.divides(node.args[1])


class _Finite:
    """Whether values are finite if x, state and parameters are, as far as bounds of intervals show it."""

    def __init__(self, parameters: set[fx.Node], pure: bool) -> None:
        self.parameters, self.pure = parameters, pure
        self.known: dict[fx.Node, bool] = {}
        self.ranges: dict[fx.Node, Bounds] = {}

    def __call__(self, value: Any) -> bool:
        if not isinstance(value, fx.Node):
            return value is None or isinstance(value, (bool, torch.dtype)) or math.isfinite(value)
        if value not in self.known:
            self.known[value] = value.op == "placeholder" or self._computed(value)
        return self.known[value]

    def divides(self, value: Any) -> bool:
        """Whether a quotient by it is finite. If a parameter is zero, the forward pass has already divided by it."""
        if isinstance(value, fx.Node) and self._steady(value):
            return True
        low, high = self.bounds(value)
        return self(value) and (low > 0 or high < 0)

    def _steady(self, node: fx.Node) -> bool:
        return node in self.parameters or (bool(node.all_input_nodes) and all(map(self._steady, node.all_input_nodes)))

    def _computed(self, node: fx.Node) -> bool:
        name, values = operation_of(node), node.args
        if not self.pure or not all(map(self, node.all_input_nodes)):
            return False
        if name in ("div", "reciprocal"):
            return self.divides(values[-1])
        if name == "pow":
            return isinstance(values[1], (int, float)) and values[1] >= 0
        if name == "exp":
            return self.bounds(values[0])[1] <= _LARGEST_EXPONENT
        return name in _FINITE

    def bounds(self, value: Any) -> Bounds:
        """The interval of a value."""
        if not isinstance(value, fx.Node):
            return (float(value), float(value))
        if value not in self.ranges:
            low, high = self._bounds(value) if value.op == "call_function" else (-math.inf, math.inf)
            self.ranges[value] = (-math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high)
        return self.ranges[value]

    def _bounds(self, node: fx.Node) -> Bounds:
        name, values = operation_of(node), node.args
        first, *rest = [self.bounds(a) for a in values[:2] if isinstance(a, (fx.Node, int, float))] or [(0.0, 0.0)]
        second = rest[0] if rest else first
        if name in ("mul", "pow") and (values[0] is values[1] or (name == "pow" and values[1] == 2)):
            nearest = 0.0 if first[0] <= 0 <= first[1] else min(map(abs, first))
            return nearest * nearest, math.inf
        if name == "add":
            return first[0] + second[0], first[1] + second[1]
        if name in ("sub", "rsub"):
            a, b = (first, second) if name == "sub" else (second, first)
            return a[0] - b[1], a[1] - b[0]
        if name == "mul" or (name == "div" and (second[0] > 0 or second[1] < 0)):
            products = [a * b if name == "mul" else a / b for a in first for b in second]
            return min(products), max(products)
        if name == "neg":
            return -first[1], -first[0]
        if name in ("abs", "relu"):
            return max(first[0], 0.0), math.inf
        if name == "exp":
            return 0.0, math.exp(min(first[1], 700.0))
        if name in ("sigmoid", "tanh"):
            return (0.0 if name == "sigmoid" else -1.0), 1.0
        return first if name in ("detach", "alias", "clone", "_to_copy") else (-math.inf, math.inf)


def _changes(node: fx.Node) -> bool:
    """Whether it changes a tensor of numbers in place."""
    schema = getattr(node.target, "_schema", None)
    return bool(schema and schema.is_mutable) and node.meta["val"].dtype != torch.bool


def operation_of(node: fx.Node) -> str:
    """The name of its operation without namespace and overload."""
    return str(node.target).removeprefix("aten.").partition(".")[0]
