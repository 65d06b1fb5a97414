"""Triton text of an equation's kernels: all T steps in one launch, the state in registers.

``neuron_forward`` reads x and writes spikes; for a backward pass to come it also keeps the state before every block of
K steps. ``neuron_backward`` goes through the blocks in reverse: it loads the state that was kept, runs the block's
steps forward again, and then their vector-Jacobian products from last to first. Per neuron and step this moves 8 bytes
forward and 12 backward in float32 (and 8/K for what is kept), and half of that in 16 bits.

The steps of a block are written out one after the other, inside of a loop over blocks. Steps past T do nothing: neither
T nor the number of neurons is part of the text. Nor are numbers such as tau, nor the dtypes of x and out.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from ..program import Program
from ..split import both_programs
from ..trace import Equation
from .writer import Source, Writer, indented, lifted, reads

_FORWARD = "All T steps of BLOCK neurons{}."
_BACKWARD = "Gradients of all T steps of BLOCK neurons, back in time; v are values of the step, w gradients."

# K: steps that backward runs again from one kept state. 16 would need twice the registers; 4 would keep, write and read
# twice as much, a tenth of all traffic in float32.
BLOCK_STEPS = 8


def keeps_state(equation: Equation) -> bool:
    """Whether backward needs the state: that of a linear equation does not."""
    return _reads_state(both_programs(equation).backward, equation)


def values_held(equation: Equation) -> int:
    """How many values of each step backward keeps from running the step again until it gets back there."""
    backward = both_programs(equation).backward
    steady = backward.uniform({f"p{i}" for i in range(equation.parameters)})
    gradients = tuple(op for op in backward.ops if op.name.startswith("w"))
    again = {name for name in reads(replace(backward, ops=gradients)) if name[0] in "vsx"}
    return 1 + len(again - steady)


@functools.lru_cache(maxsize=512)
def forward_source(equation: Equation, dims: tuple[int, ...], keep: bool) -> Source:
    """The forward kernel; ``dims``: 0 or 1 for each parameter, shared or one per neuron; ``keep``: for backward.

    Pointers: x, out, first state, last state, kept state (with ``keep``), parameters.

    Raises:
        Untranslatable: the step has an operation that Triton has no expression for.
    """
    program = lifted(both_programs(equation).forward, equation)
    write = Writer(equation, dims, program)
    states = [f"s{i}" for i in range(equation.states)]
    kept = states if keep and keeps_state(equation) else []
    block = [*write.loads("x", BLOCK_STEPS), ""]
    if kept:
        block += ["# Backward runs this block again from here.", *(_store(f"{s}_row", s) for s in kept), ""]
    for step in range(BLOCK_STEPS):
        out, *after = (write.result(r) for r in program.results)
        block += [f"# Step {step}.", *write.step(program, step, {}), write.store("out", step, out)]
        block += [*write.updates(states, after, step), ""]
    block += [f"x_row += {BLOCK_STEPS} * x_step", f"out_row += {BLOCK_STEPS} * N", *(f"{s}_row += N" for s in kept)]
    body = [
        *write.opening(["x_step"]),
        *(["# The state stays in registers from the first step to the last."] if states else []),
        *(f"{s} = {write.load(f'{s}_first_ptr + first')}" for s in states),
        "",
        "x_row = x_ptr + first",
        "out_row = out_ptr + first",
        *(f"{s}_row = {s}_kept_ptr + first" for s in kept),
        f"for start in range(0, T, {BLOCK_STEPS}):",
        *indented(block),
        *(_store(f"{s}_last_ptr + first", s) for s in states),
    ]
    pointers = ["x", "out", *(f"{s}_{when}" for when in ("first", "last") for s in states)]
    pointers += [f"{s}_kept" for s in kept]
    about = _FORWARD.format(f"; the state before every {BLOCK_STEPS}th is kept" if kept else "")
    return write.kernel("neuron_forward", about, pointers, ["x_step"], body)


@functools.lru_cache(maxsize=512)
def backward_source(equation: Equation, dims: tuple[int, ...], needs: tuple[bool, ...], summed: bool = False) -> Source:
    """The backward kernel; ``needs``: whether x, and each parameter, wants a gradient; ``summed``: that of x over time.

    Pointers: x, gradient of out, gradient of x (if needed), kept state (if ``keeps_state``), gradients of the last and
    of the first state, the sums (gradient of x if it is one, gradients of parameters that need one), parameters.

    Raises:
        Untranslatable: the step or its derivative has an operation that Triton has no expression for.
    """
    again, backward = _backward_programs(equation, needs)
    write = Writer(equation, dims, again, backward)
    count = equation.states
    gradients = [f"d{i}" for i in range(count)]
    sums = ["d_x"] if needs[0] and summed else []
    sums += [f"d_p{i}" for i, need in enumerate(needs[1:]) if need]
    kept = [f"s{i}" for i in range(count)] if keeps_state(equation) else []
    inputs = [name for name in ("x", "g") if name in reads(again, backward)]
    outputs = ["d_x"] if needs[0] and not summed else []
    block = [f"start = (blocks - 1 - block) * {BLOCK_STEPS}"]
    block += [line for name in inputs for line in write.loads(name, BLOCK_STEPS)]
    if again.results:
        block += ["", "# Forward again: the state before each step."]
        block += [f"{s}_0 = {write.load(f'{s}_row')}" for s in kept]
        for step in range(BLOCK_STEPS - 1):
            before = {s: f"{s}_{step}" for s in kept}
            block += write.step(again, step, before)
            block += [f"s{i}_{step + 1} = {write.result(r, before)}" for i, r in enumerate(again.results)]
    for step in reversed(range(BLOCK_STEPS)):
        block += ["", f"# Back through step {step}."]
        before = {s: f"{s}_{step}" for s in kept}
        block += write.step(backward, step, before)
        results = [write.result(r, before) for r in backward.results]
        d_x = [results.pop(0)] if needs[0] else []
        if outputs:
            block.append(write.store("d_x", step, d_x.pop()))
        results[count:count] = d_x
        new = [*results[:count], *(f"{d} + {r}" for d, r in zip(sums, results[count:], strict=True))]
        block += write.updates([*gradients, *sums], new, step)
    strides = {**{name: f"{name}_step" for name in inputs}, **dict.fromkeys(outputs, "N")}
    block += ["", *(f"{name}_row -= {BLOCK_STEPS} * {stride}" for name, stride in strides.items())]
    block += [f"{s}_row -= N" for s in kept]
    body = [
        *write.opening(["x_step", "g_step"]),
        "# Gradients of the state go back in registers, and those of parameters are summed there.",
        *(f"{d} = {write.load(f'{d}_last_ptr + first')}" for d in gradients),
        *(f"{d} = {write.constant(0.0)}" for d in sums),
        "",
        f"blocks = (T + {BLOCK_STEPS - 1}) // {BLOCK_STEPS}",
        "last = tl.cast(blocks - 1, tl.int64)",
        *(f"{name}_row = {name}_ptr + first + last * {BLOCK_STEPS} * {stride}" for name, stride in strides.items()),
        *(f"{s}_row = {s}_kept_ptr + first + last * N" for s in kept),
        "for block in range(0, blocks):",
        *indented(block),
        *(_store(f"{d}_first_ptr + first", d) for d in gradients),
        *(_store(f"{d}_ptr + first", d) for d in sums),
    ]
    pointers = ["x", "g", *outputs, *(f"{s}_kept" for s in kept)]
    pointers += [*(f"{d}_{when}" for when in ("last", "first") for d in gradients), *sums]
    return write.kernel("neuron_backward", _BACKWARD, pointers, ["x_step", "g_step"], body)


def _backward_programs(equation: Equation, needs: tuple[bool, ...]) -> tuple[Program, Program]:
    """What is run again of the step to get the states in a block, and the vector-Jacobian product of a step."""
    states = range(equation.states)
    wanted = [i for i, need in enumerate(needs[1:]) if need]
    forward, backward = both_programs(equation)
    backward = backward.selecting(
        [*([0] if needs[0] else []), *(1 + i for i in states), *(1 + equation.states + i for i in wanted)]
    )
    again = forward.selecting([1 + i for i in states] if _reads_state(backward, equation) else [])
    again = lifted(again, equation)
    return again, lifted(backward, equation, again.constants)


def _reads_state(program: Program, equation: Equation) -> bool:
    return any(f"s{i}" in reads(program) for i in range(equation.states))


def _store(start: str, value: str) -> str:
    return f"tl.store({start} + lane, {value}, mask=inside)"
