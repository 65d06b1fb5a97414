"""Triton text of an equation's kernels: all T steps in one launch, the state in registers.

``neuron_forward`` reads x and writes spikes; for a backward pass to come it also keeps the state before every block of
K steps. ``neuron_backward`` goes through the blocks in reverse: it loads the state that was saved, runs the block's
steps forward again, and then their vector-Jacobian products from last to first. Per neuron and step this moves 8 bytes
forward and 12 backward in float32 (and 8/K for what is saved), and half of that in 16 bits.

The steps of a block are written out one after the other, inside of a loop over blocks. Steps past T do nothing: neither
T nor the number of neurons is part of the text. Nor are numbers such as tau, nor the dtypes of x and out.

Eager PyTorch rounds every operation separately, and so must whatever decides about spikes. A product whose only use is
an addition would become one fused multiply-add; ``tl.fma(a, b, nil)`` with ``nil`` = -0.0 at run time is the product,
rounded, that no compiler may fuse any further, at the same cost. Divisions and roots come in their IEEE versions.
Gradients need none of this: there, products fuse, and a division may be off by two units in the last place.
"""

from __future__ import annotations

import functools
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from snnkit.engine.program import Dialect, Op, Program, Value, both_programs
from snnkit.engine.trace import Equation

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
    whole = f"tl.where({away} == 0, {value} * 0.0, tl.where({value} < 0, -({away}), {away}))"
    return f"tl.where(tl.abs({value}) < {magic}, {whole}, {value})"


_TANH = "(1 - 2 / (tl.exp(2 * tl.abs({0})) + 1))"
# (e - 1) · x / log(e) with e = exp(x): what is lost of x in e cancels.
_EXPM1 = "tl.where(tl.exp({0}) == 1, {0}, (tl.exp({0}) - 1) * {0} / tl.log(tl.exp({0})))"
_SMALL_TANH = _EXPM1.replace("{0}", "(2 * {0})")
# What 1 + x loses of x cancels here, too; neither where all of x is lost nor at infinity.
_LOG1P = 'tl.where((1 + {0} == 1) | ({0} == float("inf")), {0}, tl.log(1 + {0}) * ({0} / ((1 + {0}) - 1)))'
_SIGN = "({0} > 0).to({1}) - ({0} < 0).to({1})"

_GRADIENT = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "{0} * -1.0",  # Triton takes -x for 0 - x, which is 0 for 0
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
    "log1p": _LOG1P,
    "log2": "tl.log2({0})",
    "sigmoid": "1 / (1 + tl.exp(-{0}))",
    "tanh": f"tl.where(tl.abs({{0}}) < 0.25, {_SMALL_TANH} / ({_SMALL_TANH} + 2), "
    f"tl.where({{0}} < 0, -{_TANH}, {_TANH}))",
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
    "clamp_min": "tl.where({0} < {1}, {1}, {0})",
    "clamp_max": "tl.where({0} > {1}, {1}, {0})",
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

_FORWARD = "All T steps of BLOCK neurons{}."
_BACKWARD = "Gradients of all T steps of BLOCK neurons, back in time; v are values of the step, w gradients."

# K: steps that backward runs again from one saved state. 16 would need twice the registers; 4 would write and read
# twice as much state, a tenth of all traffic in float32.
BLOCK_STEPS = 8

# In these a product may be fused, and then it is rounded differently.
_SUMS = {"add", "sub", "neg"}


@dataclass(frozen=True)
class Source:
    """A kernel's text; ``constants`` are the numbers that it takes as arguments c0, c1, …"""

    name: str
    text: str
    constants: tuple[float, ...]


def lifted(program: Program, equation: Equation, known: Mapping[str, float] | None = None) -> Program:
    """``program`` with its numbers as arguments, so that another tau is the same kernel.

    Not in float64, as launchers hand numbers over in float32.
    """
    return program if equation.dtype == torch.float64 else program.lifted(known)


def reads(*programs: Program) -> set[str]:
    """Names that the programs use."""
    return {a for program in programs for op in program.ops for a in op.arguments if isinstance(a, str)} | {
        r for program in programs for r in program.results if isinstance(r, str)
    }


class Writer:
    """Writes the programs of one equation as Triton.

    Args:
        equation: where the programs come from.
        dims: of each parameter, 0 if all neurons share it and 1 if each has its own.
        parts: the programs that make the kernel; the last one's constants are those of all.
    """

    shape = "[BLOCK]"  # of what a program computes at once

    def __init__(self, equation: Equation, dims: Sequence[int], *parts: Program) -> None:
        self.type = TYPES[equation.dtype]
        self.dims, self.parts = tuple(dims), parts
        self.constants = dict(parts[-1].constants)
        every = {f"p{i}" for i in range(len(dims))}
        shared = {f"p{i}" for i, dim in enumerate(dims) if dim == 0}
        self.scalars = shared | set(self.constants) | {name for part in parts for name in part.uniform(shared)}
        self.steady = {name for part in parts for name in part.uniform(every)}
        forward = both_programs(equation).forward
        self.exact = {op.name for op in forward.ops}
        self.added = {a for op in forward.ops if op.kind in _SUMS for a in op.arguments}
        self.added |= set(forward.results)

    def opening(self, strides: Sequence[str]) -> list[str]:
        """Sizes, which neurons are this program's, and the values that stay the same from step to step."""
        return [
            "# Sizes count UNITs of 16 neurons or of 1: of 16 the compiler sees that rows are aligned, and loads wide.",
            *(f"{size} = tl.cast({size}, tl.int64) * UNIT" for size in ("N", *strides)),
            "first = tl.cast(tl.program_id(0), tl.int64) * BLOCK",
            "lane = tl.arange(0, BLOCK)",
            "inside = lane < N - first",
            "",
            *self.numbers(),
        ]

    def numbers(self) -> list[str]:
        """The values that stay the same from step to step."""
        used = reads(*self.parts)
        ops = {op.name: op for part in self.parts for op in part.ops if op.name in self.steady}
        same = [self._line(op, {}) for op in ops.values()]
        numbers = [f"{name} = tl.cast({name}, {self.type})" for name in self.constants]
        if any(self._guarded(op) for part in self.parts for op in part.ops):
            numbers += [
                "# nil is 0, and -0.0 from here on: fma(a, b, nil) is a * b, rounded, and not fused with a sum.",
                f"nil = tl.cast(nil, {self.type}) * -1.0",
            ]
        parameters = (self._parameter(i) for i in range(len(self.dims)) if f"p{i}" in used)
        return [*numbers, *parameters, *(["# The same in all steps.", *same] if same else [])]

    def loads(self, name: str, steps: int, stride: str) -> list[str]:
        """A block's loads, all of them before anything waits for the first."""
        rows = [f"{name}_row" + (f" + {i} * {stride}" if i else "") for i in range(steps)]
        return [f"{name}_{i} = tl.load({row} + lane, mask={_mask(i)}, other=0.0)" for i, row in enumerate(rows)]

    def store(self, name: str, step: int, value: str) -> str:
        """One step's row of an output, in the dtype that it has in memory."""
        row = f"{name}_row" + (f" + {step} * N" if step else "")
        return f"tl.store({row} + lane, {value}.to({name}_ptr.dtype.element_ty), mask={_mask(step)})"

    def step(self, program: Program, at: int, names: Mapping[str, str]) -> list[str]:
        """One step of ``program``; ``names`` are those that states have here."""
        used = reads(program)
        inputs = [f"{name} = {name}_{at}.to({self.type})" for name in ("x", "g") if name in used]
        return [*inputs, *(self._line(op, names) for op in program.ops if op.name not in self.steady)]

    def updates(self, targets: Sequence[str], values: Sequence[str], step: int) -> list[str]:
        """Assign all at once, unless the step is past the end."""
        active = _active(step)
        new = [f"tl.where({active}, {v}, {t})" if active else v for t, v in zip(targets, values, strict=True)]
        return [f"{', '.join(targets)} = {', '.join(new)}"] if targets else []

    def result(self, value: Value, names: Mapping[str, str] | None = None) -> str:
        """A result of a program as one value per lane."""
        if not isinstance(value, str):
            return self.constant(value)
        if value in self.scalars:
            return f"tl.broadcast_to({value}, {self.shape})"
        return (names or {}).get(value, value)

    def constant(self, value: float) -> str:
        """The same number in each lane."""
        return f"tl.full({self.shape}, {_number(value, torch.float32)}, {self.type})"

    def load(self, start: str) -> str:
        """One value per lane, from ``start`` on."""
        return f"tl.load({start} + lane, mask=inside, other=0.0)"

    def kernel(
        self,
        name: str,
        about: str,
        pointers: Sequence[str],
        strides: Sequence[str],
        body: Sequence[str],
        fixed: Sequence[str] = ("UNIT", "BLOCK"),
    ) -> Source:
        """The whole text."""
        arguments = [*(f"{p}_ptr" for p in pointers), *(f"p{i}_ptr" for i in range(len(self.dims)))]
        arguments += [*self.constants, "nil", "T", *strides, *(f"{size}: tl.constexpr" for size in fixed)]
        signature = textwrap.wrap(", ".join(arguments) + ",", 100)
        lines = [f"def {name}(", *indented(signature), "):", *indented([f'"""{about}"""', *body])]
        return Source(name, "\n".join(lines) + "\n", tuple(self.constants.values()))

    def _line(self, op: Op, names: Mapping[str, str]) -> str:
        exact = op.name in self.exact and (op.kind != "mul" or self._guarded(op))
        return (EXACT if exact else GRADIENT).written(op, lambda name: names.get(name, name))

    def _guarded(self, op: Op) -> bool:
        """Whether it is a product that must be rounded before it is added to something."""
        return op.kind == "mul" and op.name in self.exact & self.added

    def _parameter(self, i: int) -> str:
        return f"p{i} = " + (self.load(f"p{i}_ptr + first") if self.dims[i] else f"tl.load(p{i}_ptr)")


def indented(lines: Sequence[str]) -> list[str]:
    """One level deeper."""
    return [line and f"    {line}" for line in lines]


def _active(step: int) -> str:
    """Whether a step of a block is one of the T; the first always is."""
    return f"start + {step} < T" if step else ""


def _mask(step: int) -> str:
    """The lanes of a step that are neurons; "!= 0" makes it a mask in the interpreter of Triton 3.9, too."""
    return f"(inside & ({_active(step)})) != 0" if step else "inside"


@functools.lru_cache(maxsize=512)
def saves_state(equation: Equation) -> bool:
    """Whether backward needs the state: that of a linear equation does not."""
    return _reads_state(both_programs(equation).backward, equation)


@functools.lru_cache(maxsize=512)
def values_held(equation: Equation) -> int:
    """How many values of each step backward keeps from running the step again until it gets back there."""
    backward = both_programs(equation).backward
    steady = backward.uniform({f"p{i}" for i in range(equation.parameters)})
    gradients = tuple(op for op in backward.ops if op.name.startswith("w"))
    recompute = {name for name in reads(replace(backward, ops=gradients)) if name[0] in "vsx"}
    return 1 + len(recompute - steady)


@functools.lru_cache(maxsize=512)
def forward_source(equation: Equation, dims: tuple[int, ...], save: bool, every: bool = False) -> Source:
    """The forward kernel; ``dims``: 0 or 1 for each parameter, shared or one per neuron; ``save``: for backward;
    ``every``: it also writes the state after every step.

    Pointers: x, out, first state, last state, saved state (with ``save``), states (with ``every``), parameters.

    Raises:
        Untranslatable: the step has an operation that Triton has no expression for.
    """
    program = lifted(both_programs(equation).forward, equation)
    write = Writer(equation, dims, program)
    states = [f"s{i}" for i in range(equation.states)]
    saved = states if save and saves_state(equation) else []
    written = {s: f"{s}_every" for s in states} if every else {}
    block = [*write.loads("x", BLOCK_STEPS, "x_step"), ""]
    if saved:
        block += ["# Backward runs this block again from here.", *(_store(f"{s}_row", s) for s in saved), ""]
    for step in range(BLOCK_STEPS):
        out, *after = (write.result(r) for r in program.results)
        block += [f"# Step {step}.", *write.step(program, step, {}), write.store("out", step, out)]
        block += [*write.updates(states, after, step), *(write.store(row, step, s) for s, row in written.items()), ""]
    block += [f"x_row += {BLOCK_STEPS} * x_step", f"out_row += {BLOCK_STEPS} * N"]
    block += [*(f"{row}_row += {BLOCK_STEPS} * N" for row in written.values()), *(f"{s}_row += N" for s in saved)]
    body = [
        *write.opening(["x_step"]),
        *(["# The state stays in registers from the first step to the last."] if states else []),
        *(f"{s} = {write.load(f'{s}_first_ptr + first')}" for s in states),
        "",
        "x_row = x_ptr + first",
        "out_row = out_ptr + first",
        *(f"{s}_row = {s}_saved_ptr + first" for s in saved),
        *(f"{row}_row = {row}_ptr + first" for row in written.values()),
        f"for start in range(0, T, {BLOCK_STEPS}):",
        *indented(block),
        *(_store(f"{s}_last_ptr + first", s) for s in states),
    ]
    pointers = ["x", "out", *(f"{s}_{when}" for when in ("first", "last") for s in states)]
    pointers += [*(f"{s}_saved" for s in saved), *written.values()]
    about = _FORWARD.format(f"; the state before every {BLOCK_STEPS}th is saved" if saved else "")
    return write.kernel("neuron_forward", about, pointers, ["N", "x_step"], body)


@functools.lru_cache(maxsize=512)
def backward_source(
    equation: Equation,
    dims: tuple[int, ...],
    needs: tuple[bool, ...],
    summed: bool = False,
    given: tuple[int, ...] = (),
) -> Source:
    """The backward kernel; ``needs``: whether x, and each parameter, wants a gradient; ``summed``: that of x over time;
    ``given``: the parts of the state that have gradients after every step.

    Pointers: x, gradient of out, gradient of x (if needed), saved state (if ``saves_state``), gradients of the last and
    of the first state, the sums (gradient of x if it is one, gradients of parameters that need one), gradients of the
    states after every step, parameters.

    Raises:
        Untranslatable: the step or its derivative has an operation that Triton has no expression for.
    """
    recompute, backward = _backward_programs(equation, needs)
    write = Writer(equation, dims, recompute, backward)
    count = equation.carried
    gradients = [f"d{i}" for i in range(count)]
    sums = ["d_x"] if needs[0] and summed else []
    sums += [f"d_p{i}" for i, need in enumerate(needs[1:]) if need]
    saved = [f"s{i}" for i in range(equation.states)] if saves_state(equation) else []
    inputs = [name for name in ("x", "g") if name in reads(recompute, backward)]
    outputs = ["d_x"] if needs[0] and not summed else []
    block = [f"start = (blocks - 1 - block) * {BLOCK_STEPS}"]
    block += [line for name in inputs for line in write.loads(name, BLOCK_STEPS, f"{name}_step")]
    block += [line for i in given for line in write.loads(f"h{i}", BLOCK_STEPS, "N")]
    if recompute.results:
        block += ["", "# Forward again: the state before each step."]
        block += [f"{s}_0 = {write.load(f'{s}_row')}" for s in saved]
        for step in range(BLOCK_STEPS - 1):
            before = {s: f"{s}_{step}" for s in saved}
            block += write.step(recompute, step, before)
            block += [f"s{i}_{step + 1} = {write.result(r, before)}" for i, r in enumerate(recompute.results)]
    for step in reversed(range(BLOCK_STEPS)):
        block += ["", f"# Back through step {step}."]
        before = {s: f"{s}_{step}" for s in saved}
        block += [f"d{i} += h{i}_{step}" for i in given]
        block += [f"d{equation.states + 1 + i} = {write.constant(1.0)}" for i in given if equation.flags]
        block += write.step(backward, step, before)
        results = [write.result(r, before) for r in backward.results]
        d_x = [results.pop(0)] if needs[0] else []
        if outputs:
            block.append(write.store("d_x", step, d_x.pop()))
        results[count:count] = d_x
        new = [*results[:count], *(f"{d} + {r}" for d, r in zip(sums, results[count:], strict=True))]
        block += write.updates([*gradients, *sums], new, step)
    strides = {name: f"{name}_step" for name in inputs}
    strides |= dict.fromkeys([*outputs, *(f"h{i}" for i in given)], "N")
    block += ["", *(f"{name}_row -= {BLOCK_STEPS} * {stride}" for name, stride in strides.items())]
    block += [f"{s}_row -= N" for s in saved]
    body = [
        *write.opening(["x_step", "g_step"]),
        "# Gradients of the state go back in registers, and those of parameters are summed there.",
        *(f"{d} = {write.load(f'{d}_last_ptr + first')}" for d in gradients),
        *(f"{d} = {write.constant(0.0)}" for d in sums),
        "",
        f"blocks = (T + {BLOCK_STEPS - 1}) // {BLOCK_STEPS}",
        "last = tl.cast(blocks - 1, tl.int64)",
        *(f"{name}_row = {name}_ptr + first + last * {BLOCK_STEPS} * {stride}" for name, stride in strides.items()),
        *(f"{s}_row = {s}_saved_ptr + first + last * N" for s in saved),
        "for block in range(0, blocks):",
        *indented(block),
        *(_store(f"{d}_first_ptr + first", d) for d in gradients),
        *(_store(f"{d}_ptr + first", d) for d in sums),
    ]
    pointers = ["x", "g", *outputs, *(f"{s}_saved" for s in saved)]
    pointers += [*(f"{d}_{when}" for when in ("last", "first") for d in gradients), *sums]
    pointers += [f"h{i}" for i in given]
    return write.kernel("neuron_backward", _BACKWARD, pointers, ["N", "x_step", "g_step"], body)


def _backward_programs(equation: Equation, needs: tuple[bool, ...]) -> tuple[Program, Program]:
    """What is run again of the step to get the states in a block, and the vector-Jacobian product of a step."""
    states = range(equation.states)
    wanted = [i for i, need in enumerate(needs[1:]) if need]
    forward, backward = both_programs(equation)
    count = equation.carried
    backward = backward.selecting(
        [*([0] if needs[0] else []), *(1 + i for i in range(count)), *(1 + count + i for i in wanted)]
    )
    recompute = forward.selecting([1 + i for i in states] if _reads_state(backward, equation) else [])
    recompute = lifted(recompute, equation)
    return recompute, lifted(backward, equation, recompute.constants)


def _reads_state(program: Program, equation: Equation) -> bool:
    return any(f"s{i}" in reads(program) for i in range(equation.states))


def _store(start: str, value: str) -> str:
    return f"tl.store({start} + lane, {value}, mask=inside)"
