"""From a traced graph to a program: a straight line of scalar assignments that one neuron computes in one step.

``programs(equation)`` reads both graphs of an equation. It splits larger operations, and drops those without effect on
the results. A ``Dialect`` (a table from operation to expression) writes the assignments in a language; the ``cpp`` and
``triton`` engines have one each. ``split`` decides which values of each step are saved for backward.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx

from snnkit import checks
from snnkit.engine.presence import operation_of
from snnkit.engine.trace import Disturbed, Equation, graph_of, undisturbed

Value = str | float | int | bool  # the name of a value, or a Python number

# Operations that change the dtype and nothing else.
CASTS = {"_to_copy", "to", "convert_element_type"}

# Operations that only pass a value on or make a constant: name -> position of the number (or the number).
_SAME = {"detach", "alias", "clone", "lift_fresh_copy", "expand", "view", "reshape", "contiguous"}
_CONSTANTS = {"full": 1, "full_like": 1, "new_full": 2, "scalar_tensor": 0, "fill": 1}
_ZEROS = {"zeros_like", "zeros", "new_zeros", "empty", "empty_like", "empty_permuted"}
_ONES = {"ones_like", "ones", "new_ones"}
# Settings of operations that are used here, or do not change a value.
_SETTINGS = {"alpha", "value", "rounding_mode", "min", "max", "decimals"}
_SETTINGS |= {"dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking"}
_DTYPES = {torch.float32, torch.float64, torch.bool}

# Exponents for which PyTorch has a shorter way than a general power.
_POWERS = {-2, -1, -0.5, 0.5, 2, 3}

# Operations that IEEE 754 rounds in one way, so that all engines are equal to the bit. (Not ``sqrt``: PyTorch uses a
# library that is off by a unit in the last place for one number in five.)
_EXACT = CASTS | {
    *("add", "sub", "mul", "div", "neg", "reciprocal", "abs", "where", "maximum", "minimum"),
    *("clamp_min", "clamp_max", "ge", "gt", "le", "lt", "eq", "ne"),
    *("logical_and", "logical_or", "logical_xor", "logical_not"),
}


class Untranslatable(Exception):
    """A graph holds an operation without an expression in the language; the message names it."""


@dataclass(frozen=True)
class Op:
    """``name = kind(*arguments)``; ``dtype`` is that of the result, ``dtypes`` those of the arguments."""

    name: str
    kind: str
    arguments: tuple[Value, ...]
    dtype: torch.dtype
    dtypes: tuple[torch.dtype | None, ...]


@dataclass(frozen=True)
class Program:
    """Assignments in order.

    Results are names, or Python numbers if a result does not depend on the input. ``constants`` are names and values
    of numbers that were lifted out (``lifted``). ``dtype`` is that of the constants and of the arguments.
    """

    inputs: tuple[str, ...]
    ops: tuple[Op, ...]
    results: tuple[Value, ...]
    constants: Mapping[str, float]
    dtype: torch.dtype

    def selecting(self, results: Sequence[int]) -> Program:
        """The assignments that the results at these positions need."""
        chosen = tuple(self.results[i] for i in results)
        return replace(self, ops=_needed(self.ops, chosen), results=chosen)

    def lifted(self, known: Mapping[str, float] | None = None) -> Program:
        """The same with floats as named constants, so that another tau has the same kernel.

        0, 1 and -1 stay: compilers can then leave whole operations out. ``known``: existing names of numbers.
        """
        names = {value: name for name, value in (known or {}).items()}

        def lift(value: Value, op: Op) -> Value:
            if not isinstance(value, float) or value in (0.0, 1.0, -1.0) or not math.isfinite(value):
                return value
            # Constants are passed in the dtype of the equation, as another dtype would round them differently.
            if any(d is not None and d.is_floating_point and d != self.dtype for d in (op.dtype, *op.dtypes)):
                return value
            return names.setdefault(value, f"c{len(names)}")

        ops = tuple(replace(op, arguments=tuple(lift(a, op) for a in op.arguments)) for op in self.ops)
        return replace(self, ops=ops, constants={name: value for value, name in names.items()})

    def uniform(self, shared: set[str]) -> set[str]:
        """Names of values that are the same for all neurons if those in ``shared`` are: they can leave the loop."""
        known = shared | set(self.constants)
        for op in self.ops:
            if all(not isinstance(a, str) or a in known for a in op.arguments):
                known.add(op.name)
        return known - shared - set(self.constants)


@dataclass(frozen=True)
class Dialect:
    """How a language writes a program.

    Attributes:
        expressions: operation -> format string over its arguments ({0}, {1}, …) or function of them and the Op.
        number: a Python number of a dtype as text.
        cast: (value, from dtype, to dtype) as text.
        assignment: format of a line over {type}, {name} and {value}.
        types: dtype -> name in the language.
    """

    expressions: Mapping[str, str | Callable[..., str]]
    number: Callable[[float | int | bool, torch.dtype], str]
    cast: Callable[[str, torch.dtype, torch.dtype], str]
    assignment: str
    types: Mapping[torch.dtype, str]

    def written(self, op: Op, rename: Callable[[str], str] = str) -> str:
        """One assignment as a line of text; ``rename`` gives the names of values there."""
        kind = "cast" if op.kind in CASTS else op.kind
        # A Python number gets the dtype of the tensors beside it, as in PyTorch.
        met = next((d for d in op.dtypes if d is not None and d.is_floating_point), op.dtype)
        arguments = [
            rename(a) if isinstance(a, str) else self.number(a, met if kind != "cast" else op.dtype)
            for a in op.arguments
        ]
        if kind == "cast":
            value = self.cast(arguments[0], op.dtypes[0] or op.dtype, op.dtype)
        else:
            try:
                expression = self.expressions[kind]
            except KeyError:
                raise Untranslatable(f"there is no expression for {kind}") from None
            value = expression(*arguments, op=op) if callable(expression) else expression.format(*arguments)
        return self.assignment.format(type=self.types[op.dtype], name=rename(op.name), value=value)


class Programs(NamedTuple):
    """Of one equation; the values are named as in ``arguments``.

    Attributes:
        forward: x, s0 …, p0 … -> out, s0' …
        backward: x, s0 …, p0 …, g, d0 … -> d_x, d_s0 …, d_p0 …, with g the gradient of out, d0 … those of the state and
            the equation's flags after them; d_s0 … likewise.
    """

    forward: Program
    backward: Program


@functools.lru_cache(maxsize=256)
@checks.arguments
def programs(equation: Equation) -> Programs:
    """Both programs of an equation.

    Raises:
        Untranslatable: an argument that is neither a value nor a number, or a dtype that no kernel computes in.
    """
    arguments = ["x", *(f"s{i}" for i in range(equation.states)), *(f"p{i}" for i in range(equation.parameters))]
    gradients = ["g", *(f"d{i}" for i in range(equation.carried))]
    pairs = ((equation.forward, arguments), (equation.backward, [*arguments, *gradients]))
    try:
        simple = undisturbed(lambda: [_taken_apart(graph, len(names), equation.dtype) for graph, names in pairs])
    except Disturbed:
        raise
    except Exception as error:
        raise Untranslatable(f"it can't be taken apart: {error}") from error
    return Programs(*(_Reader(names, equation.dtype).read(g) for (_, names), g in zip(pairs, simple, strict=True)))


@functools.lru_cache(maxsize=512)
def is_exact(equation: Equation, gradients: bool = True) -> bool:
    """Whether the eager and the C++ engine give the same results and ``gradients`` to the bit.

    Gradients of parameters are sums, which the engines add in different orders.
    """
    graphs = (equation.forward, equation.backward) if gradients else (equation.forward,)
    if any(_may_be_fused(node) for graph in graphs for node in graph.graph.nodes):
        return False
    try:
        both = programs(equation)
    except Untranslatable:
        return False
    if gradients and (equation.parameters or late_term(equation) is None):
        return False
    every = [op for program in (both if gradients else both[:1]) for op in program.ops]
    return all(op.kind in _EXACT or (op.kind == "pow" and op.arguments[1] == 2) for op in every)


class LateTerm(NamedTuple):
    """Where the output is also a part of the state: autograd adds up what arrives at it, first the gradient of the
    output, then, one after the other, the terms that the next step sends back. A step's program sums these by itself.

    Attributes:
        state: number of that part, or -1: there is none.
        begin: the name of the sum of both gradients in ``both_programs``.
        terms: the names of the two terms that the step sends back; empty: it sends one.
    """

    state: int = -1
    begin: str = ""
    terms: tuple[str, ...] = ()

    def added(self, program: Program, position: int) -> Program:
        """``program`` with the second term, an input "late" and the last result, apart from the first; ``position``:
        of the part's gradient in the results."""
        ops, first = [], f"{self.begin}_"
        for op in program.ops:
            if op.name == self.begin:
                ops.append(replace(op, name=first))
                op = replace(op, arguments=(first, "late"))
            ops.append(op)
        results = (*program.results[:position], self.terms[0], *program.results[position + 1 :], self.terms[1])
        return replace(program, inputs=(*program.inputs, "late"), ops=_needed(ops, results), results=results)


@functools.lru_cache(maxsize=256)
def late_term(equation: Equation) -> LateTerm | None:
    """None: the step sends back a sum of which the terms are not known."""
    forward, backward = both_programs(equation)
    out, *states = forward.results
    if out not in states:
        return LateTerm()
    state = states.index(out)
    ops = {op.name: op for op in backward.ops}
    begin = next((op.name for op in backward.ops if op.kind == "add" and set(op.arguments) == {"g", f"d{state}"}), None)
    if begin is None or states.count(out) > 1 or not equation.uses:
        return None
    if equation.uses[state] < 2:
        return LateTerm(state, begin)
    total = ops.get(backward.results[1 + state])  # type: ignore[arg-type]
    if equation.uses[state] > 2 or total is None or total.kind != "add" or not ops.keys() >= set(total.arguments):
        return None
    return LateTerm(state, begin, tuple(map(str, total.arguments)))


def _may_be_fused(node: fx.Node) -> bool:
    """Whether eager PyTorch rounds a product and its sum once, in vectors, or twice, in what is left of them."""
    name = operation_of(node).rstrip("_")
    factor = node.args[2] if name == "rsub" and len(node.args) > 2 else node.kwargs.get("alpha", 1)
    return name in ("addcmul", "lerp") or bool(factor != 1)


@functools.cache
def _decompositions() -> dict:
    """How to split larger operations; making this table takes longer than using it."""
    from torch._decomp import core_aten_decompositions, get_decompositions

    # Inductor has such a table, too, but imports all of itself with it.
    aten = torch.ops.aten
    more = [aten.elu, aten.gelu, aten.hardtanh, aten.leaky_relu]
    # A dict first: the table's own "|" leaves most of it out.
    return dict(core_aten_decompositions().items()) | get_decompositions(more)


def _taken_apart(graph: fx.GraphModule, inputs: int, dtype: torch.dtype) -> fx.GraphModule:
    """The graph in fewer kinds of operations."""
    table = _decompositions()
    # On the device where it was traced, as numbers in it may have become tensors there.
    device = next((n.meta["val"].device for n in graph.graph.nodes if n.op == "placeholder"), None)
    with torch.no_grad():
        example = [torch.ones(13, dtype=dtype, device=device) for _ in range(inputs)]
        # Without in-place operations: a value that one changes may have other names.
        pure = torch.func.functionalize(graph)
        return graph_of(pure, example, table)


class _Reader:
    """Reads one graph of tensors of ``dtype`` whose arguments get the names ``inputs``."""

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
        return Program(self.inputs, _needed(self.ops, results), results, {}, self.dtype)

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
        tensors = [a for a in arguments if isinstance(a, fx.Node)]
        if tensors and not any(isinstance(self.values[a], str) for a in tensors):
            same = [
                torch.tensor(self.values[a], dtype=_dtype(a), device="cpu") if a in tensors else a for a in arguments
            ]
            return _number(node.target(*same, **node.kwargs).item(), dtype)
        values = [self._value(a) for a in arguments if a is not None]
        if kind in ("clamp", "clamp_min", "clamp_max"):  # (x, low, high), either of which may be missing
            if kind == "clamp_max":
                arguments.insert(1, None)
            low, high = (*arguments[1:], *[node.kwargs.get(n) for n in ("min", "max")[len(arguments) - 1 :]])
            result = self._value(arguments[0])
            for bound, by_number, by_tensor in ((low, "clamp_min", "maximum"), (high, "clamp_max", "minimum")):
                if bound is not None:  # of zeros with two signs, PyTorch takes x or the tensor
                    kind = by_tensor if isinstance(bound, fx.Node) or bound != bound else by_number  # NaN
                    result = self._add(kind, [result, self._value(bound)], dtype)
            return result
        if kind == "copy":
            return self._cast(values[1], dtype)
        if kind.startswith("logical_"):
            return self._add(kind, [self._cast(value, torch.bool) for value in values], dtype)
        if kind in ("addcmul", "addcdiv"):  # x + value · a · b, or x + value · a / b
            factor = float(node.kwargs.get("value", 1))  # type: ignore[arg-type]
            first = self._add("mul", [values[1], factor], dtype)
            return self._add("add", [values[0], self._add(kind.removeprefix("addc"), [first, values[2]], dtype)], dtype)
        decimals = int(node.kwargs.get("decimals", 0))  # type: ignore[arg-type]
        if abs(decimals) > sys.float_info.max_10_exp:
            raise Untranslatable(f"round to {decimals} decimals")
        if decimals:  # as PyTorch does it
            scale, (into, back) = 10.0 ** abs(decimals), ("mul", "div") if decimals > 0 else ("div", "mul")
            rounded = self._add("round", [self._add(into, [values[0], scale], dtype)], dtype)
            return self._add(back, [rounded, scale], dtype)
        alpha = node.kwargs.get("alpha", 1)
        if kind == "rsub":
            kind, values = "sub", [values[1], values[0]]
        if alpha != 1:
            values[1] = self._add("mul", [values[1], float(alpha)], dtype)  # type: ignore[arg-type]
        if overload.endswith("mode"):
            kind = f"{kind}_{node.kwargs.get('rounding_mode')}"
        return self._add(kind, values, dtype)

    def _add(self, kind: str, values: list[Value], dtype: torch.dtype) -> Value:
        # PyTorch computes in the widest floating-point dtype among the tensors; a bool may meet a float or a number.
        floats = [self.dtypes[v] for v in values if isinstance(v, str) and self.dtypes[v].is_floating_point]
        if not floats and dtype.is_floating_point:  # of numbers, or of bools alone, as in a division
            floats = [dtype]
        elif not floats and any(not isinstance(v, (str, bool)) for v in values):
            floats = [self.dtype]
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
        return self._named(kind, values, dtype)

    def _named(self, kind: str, values: Sequence[Value], dtype: torch.dtype) -> str:
        """The name of this value, computed once however often it is used."""
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
        return value if self.dtypes[value] == dtype else self._named("_to_copy", [value], dtype)

    def _value(self, argument: Any) -> Value:
        if isinstance(argument, fx.Node):
            return self.values[argument]
        if isinstance(argument, (bool, int, float)):
            return argument
        raise Untranslatable(f"an argument is a {type(argument).__name__}, neither a tensor nor a number")


def _simplified(kind: str, values: list[Value]) -> Value | None:
    """The value that the result equals to the bit for any other argument, or None."""
    if kind == "where" and isinstance(values[0], bool):
        return values[1] if values[0] else values[2]
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
        return bool(value) if dtype == torch.bool else torch.tensor(float(value), dtype=dtype, device="cpu").item()
    raise Untranslatable(f"a constant is a {type(value).__name__}")


def _dtype(node: fx.Node) -> torch.dtype:
    value = node.meta.get("val")
    if not isinstance(value, Tensor):
        raise Untranslatable(f"{node.target} gives something else than one tensor")
    if value.dtype not in _DTYPES:
        raise Untranslatable(f"{node.target} gives {value.dtype}")
    return value.dtype


def _needed(ops: Sequence[Op], results: Sequence[Value], stop: Collection[str] = ()) -> tuple[Op, ...]:
    """The operations that a result depends on; values named in ``stop`` are already available."""
    wanted = {r for r in results if isinstance(r, str)} - set(stop)
    chosen = []
    for op in reversed(ops):
        if op.name in wanted:
            chosen.append(op)
            wanted.update(a for a in op.arguments if isinstance(a, str) and a not in stop)
    return tuple(reversed(chosen))


@functools.lru_cache(maxsize=256)
def both_programs(equation: Equation) -> Programs:
    """Forward and backward. A value that both compute has a name v…, backward's other values have names w…."""
    forward, backward = programs(equation)
    own = {replace(op, name=""): op.name for op in forward.ops}
    names: dict[str, str] = {}

    def renamed(value: Value) -> Value:
        return names.get(value, value) if isinstance(value, str) else value

    ops = []
    for op in backward.ops:
        nameless = replace(op, name="", arguments=tuple(map(renamed, op.arguments)))
        names[op.name] = own.get(nameless, "w" + op.name[1:])
        ops.append(replace(nameless, name=names[op.name]))
    return Programs(forward, replace(backward, ops=tuple(ops), results=tuple(map(renamed, backward.results))))


class Split(NamedTuple):
    """A backward pass in two sweeps.

    Running a step again is cheap, reading memory is not. So the smallest set of values is saved from which backward can
    compute the rest: a minimum cut through the step's graph, as in PyTorch's partitioner for whole models. For an LIF
    neuron that is one number, the membrane before its reset.
    """

    saved: tuple[str, ...]  # values from the first sweep for the second, each one number per neuron and step
    recompute: Program  # x, s0 …, p0 … -> (out,) s0' …, and the values to save
    back: Program  # saved values, p0 …, g, d0 … -> the requested gradients


def split(equation: Equation, results: tuple[int, ...], out: bool = False) -> Split:
    """The sweeps for the gradients at these positions of the backward program's results; ``out``: the first one gives
    the output, too."""
    forward, backward = both_programs(equation)
    backward = backward.selecting(results)
    known = {"g", *(f"d{i}" for i in range(equation.carried))}
    recompute: list[Op] = []  # what does not depend on a gradient
    for op in backward.ops:
        if known.isdisjoint(op.arguments):
            recompute.append(op)
        else:
            known.add(op.name)
    parameters = {f"p{i}" for i in range(equation.parameters)}
    steady = parameters | backward.uniform(parameters)
    wanted = {a for op in backward.ops if op.name in known for a in op.arguments} | set(backward.results)
    wanted = {name for name in wanted if isinstance(name, str) and name not in known | steady}
    saved = _fewest([op for op in recompute if op.name not in steady], wanted, equation)
    own = set(forward.ops)
    ops = (*forward.ops, *(op for op in recompute if op not in own))
    first = forward.results[0 if out else 1 :] + saved
    back = _needed(backward.ops, backward.results, stop=set(saved))
    return Split(saved, replace(forward, ops=_needed(ops, first), results=first), replace(backward, ops=back))


def _fewest(ops: list[Op], wanted: set[str], equation: Equation) -> tuple[str, ...]:
    """The smallest set of values from which ``wanted`` can be computed by ``ops``; the latest such set."""
    import networkx  # comes with PyTorch

    inputs = ["x", *(f"s{i}" for i in range(equation.states))]
    names = [*inputs, *(op.name for op in ops)]
    storable = {*inputs, *(op.name for op in ops if op.dtype == equation.dtype)}
    graph = networkx.DiGraph()
    graph.add_nodes_from(("inputs", "wanted"))
    # A value is an edge that can be cut, at the price of one number. Edges without a capacity can't be cut.
    for name in inputs:
        graph.add_edge("inputs", (name, "before"))
    for op in ops:
        for argument in op.arguments:
            if argument in names:
                graph.add_edge((argument, "after"), (op.name, "before"))
    for name in names:
        graph.add_edge((name, "before"), (name, "after"), **({"capacity": 1} if name in storable else {}))
    for name in wanted:
        graph.add_edge((name, "after"), "wanted")
    # Of equal cuts, the one next to "wanted": then the least is computed again.
    _, (_, late) = networkx.minimum_cut(graph, "inputs", "wanted")
    return tuple(name for name in names if (name, "before") not in late and (name, "after") in late)
