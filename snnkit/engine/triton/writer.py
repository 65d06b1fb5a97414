"""Lines of a kernel: what forward and backward have in common."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from ..program import Op, Program, Value
from ..split import both_programs
from ..trace import Equation
from .dialect import EXACT, GRADIENT, TYPES

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
        used = reads(*self.parts)
        ops = {op.name: op for part in self.parts for op in part.ops if op.name in self.steady}
        same = [self._line(op, {}) for op in ops.values()]
        numbers = [f"{name} = tl.cast({name}, {self.type})" for name in self.constants]
        if any(self._guarded(op) for part in self.parts for op in part.ops):
            numbers += [
                "# -0.0: fma(a, b, nil) is a * b, rounded; a * b alone could be fused with the sum that it goes into.",
                f"nil = tl.cast(nil, {self.type})",
            ]
        return [
            "# Sizes count UNITs of 16 neurons or of 1: of 16 the compiler sees that rows are aligned, and loads wide.",
            *(f"{size} = tl.cast({size}, tl.int64) * UNIT" for size in ("N", *strides)),
            "first = tl.cast(tl.program_id(0), tl.int64) * BLOCK",
            "lane = tl.arange(0, BLOCK)",
            "inside = lane < N - first",
            "",
            *numbers,
            *(self._parameter(i) for i in range(len(self.dims)) if f"p{i}" in used),
            *(["# The same in all steps.", *same] if same else []),
        ]

    def loads(self, name: str, steps: int) -> list[str]:
        """A block's loads, all of them before anything waits for the first."""
        rows = [(f"{name}_row" + (f" + {i} * {name}_step" if i else ""), _active(i)) for i in range(steps)]
        return [
            f"{name}_{i} = tl.load({row} + lane, mask=inside{active and f' & ({active})'}, other=0.0)"
            for i, (row, active) in enumerate(rows)
        ]

    def store(self, name: str, step: int, value: str) -> str:
        """One step's row of an output, in the dtype that it has in memory."""
        row = f"{name}_row" + (f" + {step} * N" if step else "")
        mask = "inside" + (f" & ({_active(step)})" if step else "")
        return f"tl.store({row} + lane, {value}.to({name}_ptr.dtype.element_ty), mask={mask})"

    def step(self, program: Program, at: int, names: Mapping[str, str]) -> list[str]:
        """One step of ``program``; ``names`` are those that states have here."""
        used = reads(program)
        inputs = [f"{name} = {name}_{at}.to({self.type})" for name in ("x", "g") if name in used]
        return [*inputs, *(self._line(op, names) for op in program.ops if op.name not in self.steady)]

    def updates(self, targets: Sequence[str], values: Sequence[str], step: int) -> list[str]:
        """Assign all at once, unless the step lies past the end."""
        active = _active(step)
        new = [f"tl.where({active}, {v}, {t})" if active else v for t, v in zip(targets, values, strict=True)]
        return [f"{', '.join(targets)} = {', '.join(new)}"] if targets else []

    def result(self, value: Value, names: Mapping[str, str] | None = None) -> str:
        """A result of a program as one value per lane."""
        if not isinstance(value, str):
            return self.constant(value)
        if value in self.scalars:
            return f"tl.broadcast_to({value}, [BLOCK])"
        return (names or {}).get(value, value)

    def constant(self, value: float) -> str:
        """The same number in each lane."""
        return f"tl.full([BLOCK], {float(value)!r}, {self.type})"

    def load(self, start: str) -> str:
        """One value per lane, from ``start`` on."""
        return f"tl.load({start} + lane, mask=inside, other=0.0)"

    def kernel(
        self, name: str, about: str, pointers: Sequence[str], strides: Sequence[str], body: Sequence[str]
    ) -> Source:
        """The whole text."""
        arguments = [*(f"{p}_ptr" for p in pointers), *(f"p{i}_ptr" for i in range(len(self.dims)))]
        arguments += [*self.constants, "nil", "T", "N", *strides, "UNIT: tl.constexpr", "BLOCK: tl.constexpr"]
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
