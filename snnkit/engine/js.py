"""A neuron as JavaScript: its step and its gradients, generated from the same program as in the compiled engines.

Pages, explorers and exported networks run it without Python. ``Math.fround`` around each operation turns JavaScript's
float64 into float32. For a sum, a product, a quotient or a root this is exactly IEEE 754's result, as float64 has more
than twice the digits. So spikes and potentials equal eager's to the bit. Library functions such as ``exp`` may differ
in the last place, as between C libraries.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from snnkit.engine.memory_gate import tensors_of
from snnkit.engine.program import Dialect, Op, Program, Untranslatable, Value, programs, split
from snnkit.engine.trace import Equation, field_names
from snnkit.engine.trace_cache import equation_of

PRELUDE = """\
const f = Math.fround;
/** @param {number} a */
const nearest = (a) => {
  const down = Math.floor(a), above = a - down;
  return copysign(above < 0.5 || (above === 0.5 && down % 2 === 0) ? down : down + 1, a);
};
/** In C, and in PyTorch, 1 to any power is 1. @param {number} a @param {number} b */
const pow = (a, b) => (a === 1 || (a === -1 && Math.abs(b) === Infinity) ? 1 : Math.pow(a, b));
/** @param {number} a @param {number} b */
const copysign = (a, b) => ((a < 0 || Object.is(a, -0)) === (b < 0 || Object.is(b, -0)) ? a : -a);
// The series of erf near 0, and the continued fraction of erfc away from it (Abramowitz and Stegun 7.1.6 and 7.1.14).
/** @param {number} a */
const erfc = (a) => {
  if (a !== a) return a;
  const z = Math.abs(a);
  let result = 0;
  if (z < 2) {
    let term = z, sum = z;
    for (let n = 1; term > 1e-17 * sum; n++) sum += term *= (2 * z * z) / (2 * n + 1);
    result = 1 - (2 / Math.sqrt(Math.PI)) * Math.exp(-z * z) * sum;
  } else if (z < 28) {
    let fraction = z;
    for (let n = 60; n > 0; n--) fraction = z + n / 2 / fraction;
    result = Math.exp(-z * z) / (Math.sqrt(Math.PI) * fraction);
  }
  return a < 0 ? 2 - result : result;
};
/** @param {number} a */
const erf = (a) => {
  if (Math.abs(a) >= 0.5) return 1 - erfc(a);
  let term = a, sum = a;
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) sum += term *= (2 * a * a) / (2 * n + 1);
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-a * a) * sum;
};
"""


def _number(value: float | int | bool, dtype: torch.dtype) -> str:
    if dtype == torch.bool:
        return "true" if value else "false"
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"({'-' if value < 0 else ''}Infinity)"
    text = repr(torch.tensor(value, dtype=dtype, device="cpu").item()).removesuffix(".0")
    return f"({text})" if text.startswith("-") else text


def _rounded(expression: str) -> Callable[..., str]:
    def write(*arguments: str, op: Op) -> str:
        value = expression.format(*arguments)
        return f"f({value})" if op.dtype == torch.float32 else value

    return write


def _power(base: str, exponent: str, op: Op) -> str:
    return _rounded("{0} * {0}" if op.arguments[1] == 2 else "pow({0}, {1})")(base, exponent, op=op)


def _cast(value: str, before: torch.dtype, after: torch.dtype) -> str:
    if before == torch.bool:
        return f"{value} ? 1 : 0"
    if after == torch.bool:
        return f"{value} !== 0"
    return f"f({value})" if after == torch.float32 else value


_FUNCTIONS = ("exp", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan")
_FUNCTIONS += ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh")
_COMPARED = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<", "eq": "===", "ne": "!=="}
_COMPARED |= {"logical_and": "&&", "logical_or": "||", "bitwise_and": "&&", "bitwise_or": "||"}
_COMPARED |= {"logical_xor": "!==", "bitwise_xor": "!=="}

DIALECT = Dialect(
    expressions={
        **{name: _rounded(f"Math.{name}({{0}})") for name in _FUNCTIONS},
        **{
            name: _rounded(f"{{0}} {sign} {{1}}")
            for name, sign in zip(("add", "sub", "mul", "div"), "+-*/", strict=True)
        },
        **{name: f"{{0}} {sign} {{1}}" for name, sign in _COMPARED.items()},
        **{name: f"Math.{name}({{0}})" for name in ("abs", "floor", "ceil", "trunc")},
        **{name: _rounded(f"Math.{name}({{0}}, {{1}})") for name in ("atan2", "hypot")},
        **{name: _rounded(f"{name}({{0}})") for name in ("erf", "erfc")},
        "exp2": _rounded("Math.pow(2, {0})"),
        "pow": _power,
        "neg": "-{0}",
        "reciprocal": _rounded("1 / {0}"),
        "rsqrt": _rounded("1 / f(Math.sqrt({0}))"),
        "sigmoid": _rounded("1 / f(1 + f(Math.exp(-{0})))"),
        "round": "nearest({0})",
        "frac": _rounded("{0} - Math.trunc({0})"),
        "sign": "({0} > 0) - ({0} < 0)",
        "sgn": "({0} > 0) - ({0} < 0)",
        "fmod": "{0} % {1}",
        "copysign": "copysign({0}, {1})",
        "div_trunc": _rounded("Math.trunc(f({0} / {1}))"),
        # A NaN on either side stays one, as in PyTorch.
        "maximum": "{0} > {1} || {0} !== {0} ? {0} : {1}",
        "minimum": "{0} < {1} || {0} !== {0} ? {0} : {1}",
        "clamp_min": "{0} < {1} ? {1} : {0}",
        "clamp_max": "{0} > {1} ? {1} : {0}",
        "relu": "{0} < 0 ? 0 : {0}",
        "where": "{0} ? {1} : {2}",
        "isnan": "{0} !== {0}",
        "logical_not": "!{0}",
        "bitwise_not": "!{0}",
    },
    number=_number,
    cast=_cast,
    assignment="const {name} = {value};",
    types={torch.float32: "", torch.float64: "", torch.bool: ""},
)


def source(neuron: nn.Module, *, adjustable: bool = False, backward: bool = True) -> str:
    """One JavaScript expression, an object that steps ``neuron`` through time; ``PRELUDE`` must be there before it.

    ::

        {
          states,      // how many numbers a neuron carries
          rest,        // their values before the first step
          parameters,  // names of the neuron's tensors
          values,      // their values: one for all neurons, or one each
          forward(T, N, x, out, state, params),
          backward(T, N, x, first, params, dOut, dState, dX, dParams),
        }

    Sequences are Float32Arrays [T * N], time first; ``state`` and ``params`` are arrays of Float32Arrays. ``forward``
    writes ``out`` and changes ``state`` to the last state. ``backward`` starts from the state ``first``. It changes
    ``dState`` from the gradients of the last state to those of the first, writes ``dX``, and adds to ``dParams``. A
    null in these means that no gradient is needed.

    Args:
        neuron: a module with ``step`` and ``initial_state``, such as a ``Neuron``; its tensors hold one number, or one
            for each of its neurons.
        adjustable: constants of the equation (``tau``, ``surrogate.alpha``) become parameters, too, without gradients.
            Results may then differ in the last place.
        backward: whether to write ``backward``.

    Raises:
        NotElementwise, Untranslatable: the step can't be compiled neuron by neuron, or holds an operation without an
            expression here.
    """
    step = _Adjustable(neuron) if adjustable else neuron
    tensors = tensors_of(step)
    largest = max(tensors.values(), key=Tensor.numel, default=torch.zeros(1))
    rest = neuron.initial_state(torch.zeros(largest.shape or (1,)))  # type: ignore[operator]
    for name, part in zip(field_names(rest), rest, strict=True):
        if not bool((part == part.flatten()[0]).all()):
            raise Untranslatable(f"its neurons rest at different {name}, and JavaScript has one value for all")
    equation = equation_of(step, rest, torch.float32, torch.device("cpu"))
    shared = [tensor.numel() == 1 for tensor in tensors.values()]
    learnable = [isinstance(tensor, nn.Parameter) for tensor in tensors.values()]
    functions = [_forward(equation, shared)]
    if backward:
        functions.append(_backward(equation, shared, learnable))
    values = [tensor.detach().flatten().tolist() for tensor in tensors.values()]
    names = [name.removeprefix("neuron.").replace("surrogate_", "surrogate.") for name in tensors]
    lines = [
        f"states: {equation.states},",
        f"rest: {json.dumps([part.flatten()[0].item() for part in rest])},",
        f"parameters: {json.dumps(names)},",
        f"values: {json.dumps(values)},",
        *(line for function in functions for line in function),
    ]
    return "\n".join(
        ["(() => {", "  let scratch = new Float32Array(0);", "  return {", *_indented(lines, 4), "  };", "})()"]
    )


class _Adjustable(nn.Module):
    """A neuron whose constants, and those of its surrogate, are buffers."""

    def __init__(self, neuron: nn.Module) -> None:
        super().__init__()
        self.neuron = copy.deepcopy(neuron)
        self.surrogate = vars(neuron).get("surrogate")
        attributes = vars(neuron).items()
        self.names = [name for name, value in attributes if isinstance(value, float) and not name.startswith("_")]
        self.fields: list[str] = []
        if dataclasses.is_dataclass(self.surrogate):
            self.fields = [field.name for field in dataclasses.fields(self.surrogate)]
        for name in self.names:
            self.register_buffer(name, torch.tensor(getattr(neuron, name)))
        for name in self.fields:
            self.register_buffer(f"surrogate_{name}", torch.tensor(float(getattr(self.surrogate, name))))

    def initial_state(self, x: Tensor) -> Any:
        return self.neuron.initial_state(x)  # type: ignore[operator]

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        neuron = self.neuron.__new__(type(self.neuron))
        neuron.__dict__ |= vars(self.neuron) | {name: getattr(self, name) for name in self.names}
        if self.fields:
            surrogate = copy.copy(self.surrogate)
            for name in self.fields:
                object.__setattr__(surrogate, name, getattr(self, f"surrogate_{name}"))
            neuron.__dict__["surrogate"] = surrogate
        return neuron.step(x, state)  # type: ignore[operator]


def _forward(equation: Equation, shared: Sequence[bool]) -> list[str]:
    program = programs(equation).forward
    states = range(equation.states)
    return [
        "forward(T, N, x, out, state, params) {",
        *_arrays("s", "state", equation.states),
        *_parameters(shared),
        *_uniform(program, shared),
        "  for (let t = 0; t < T; t++) {",
        "    for (let i = 0, at = t * N; i < N; i++, at++) {",
        *_body(
            program,
            {"x": "x[at]", **{f"s{i}": f"s{i}[i]" for i in states}},
            ["out[at] = {};", *(f"s{i}[i] = {{}};" for i in states)],
            shared,
        ),
        "    }",
        "  }",
        "},",
    ]


def _backward(equation: Equation, shared: Sequence[bool], learnable: Sequence[bool]) -> list[str]:
    """Forward again, saving each step's values for the gradients (``split``), and then back in time."""
    states, carried = range(equation.states), range(equation.carried)
    wanted = [i for i, needed in enumerate(learnable) if needed]
    results = (0, *(1 + i for i in carried), *(1 + equation.carried + i for i in wanted))
    saved, recompute, back = split(equation, results)
    rows = [f"k{i}" for i in range(len(saved))]
    arrays = [*(f"s{i}" for i in states), *(f"d{i}" for i in carried if i >= equation.states)]
    return [
        "backward(T, N, x, first, params, dOut, dState, dX, dParams) {",
        f"  const size = N * ({len(rows)} * T + {len(arrays)});",
        "  if (scratch.length < size) scratch = new Float32Array(size);",
        *(f"  const {row} = scratch.subarray({i} * T * N, {i + 1} * T * N);" for i, row in enumerate(rows)),
        *(
            f"  const {name} = scratch.subarray(({len(rows)} * T + {i}) * N, ({len(rows)} * T + {i + 1}) * N);"
            for i, name in enumerate(arrays)
        ),
        *(f"  s{i}.set(first[{i}].subarray(0, N));" for i in states),
        *_arrays("d", "dState", equation.states),
        # Flags of the gradients that are present: of the output, and of each part of the state.
        *(
            f"  d{i}.fill({'1' if i == equation.states else f'd{i - equation.states - 1}.some(Boolean) ? 1 : 0'});"
            for i in carried[equation.states :]
        ),
        *_parameters(shared),
        *dict.fromkeys((*_uniform(recompute, shared), *_uniform(back, shared))),
        "  for (let t = 0; t < T; t++) {",
        "    for (let i = 0, at = t * N; i < N; i++, at++) {",
        *_body(
            recompute,
            {"x": "x[at]", **{f"s{i}": f"s{i}[i]" for i in states}},
            [*(f"s{i}[i] = {{}};" for i in states), *(f"{row}[at] = {{}};" for row in rows)],
            shared,
        ),
        "    }",
        "  }",
        "  for (let t = T - 1; t >= 0; t--) {",
        "    for (let i = 0, at = t * N; i < N; i++, at++) {",
        *_body(
            back,
            {
                "g": "dOut[at]",
                **{name: f"{row}[at]" for name, row in zip(saved, rows, strict=True)},
                **{f"d{i}": f"d{i}[i]" for i in carried},
            },
            [
                "dX[at] = {};",
                *(f"d{i}[i] = {{}};" for i in carried),
                *(f"if (dParams[{i}]) dParams[{i}][{'0' if shared[i] else f'i % n{i}'}] += {{}};" for i in wanted),
            ],
            shared,
        ),
        "    }",
        "  }",
        "},",
    ]


def _arrays(name: str, argument: str, count: int) -> list[str]:
    return [f"  const [{', '.join(f'{name}{i}' for i in range(count))}] = {argument};"] if count else []


def _parameters(shared: Sequence[bool]) -> list[str]:
    return [
        f"  const p{i} = params[{i}][0];" if one else f"  const a{i} = params[{i}], n{i} = a{i}.length;"
        for i, one in enumerate(shared)
    ]


def _uniform(program: Program, shared: Sequence[bool]) -> list[str]:
    """Values that are the same for all neurons, before all loops."""
    names = program.uniform({f"p{i}" for i, one in enumerate(shared) if one})
    return ["  " + DIALECT.written(op) for op in program.ops if op.name in names]


def _body(program: Program, reads: dict[str, str], writes: Sequence[str], shared: Sequence[bool]) -> list[str]:
    """One neuron's step. Arrays that are read may also be written, so values get their own names."""
    reads = reads | {f"p{i}": f"a{i}[i % n{i}]" for i, one in enumerate(shared) if not one}
    uniform = program.uniform({f"p{i}" for i, one in enumerate(shared) if one})
    ops = [op for op in program.ops if op.name not in uniform]
    used = {a for op in ops for a in op.arguments} | set(program.results)

    def name(value: Value) -> str:
        return f"{value}_" if value in reads else str(value)

    lines = [f"const {name(key)} = {place};" for key, place in reads.items() if key in used]
    lines += [DIALECT.written(op, name) for op in ops]
    for write, result in zip(writes, program.results, strict=True):
        value = name(result) if isinstance(result, str) else _number(result, torch.float64)
        lines.append(write.format(value))
    return _indented(lines, 6)


def _indented(lines: Sequence[str], by: int) -> list[str]:
    return [" " * by + line for line in lines]
