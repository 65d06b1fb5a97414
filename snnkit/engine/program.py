"""A straight line of scalar assignments, which a generator can write down in its language.

A program is what one neuron computes in one step; ``reader`` makes it from a traced graph. ``written`` turns its
assignments into text with a ``Dialect``: a table from operation to expression. ``cpp`` and ``triton`` each have one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

Value = str | float | int | bool  # the name of a value, or a Python number

# Operations that change the dtype and nothing else.
CASTS = {"_to_copy", "to", "convert_element_type"}


class Untranslatable(Exception):
    """A graph holds an operation that the language has no expression for; the message names it."""


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

    Attributes:
        inputs: names of the arguments.
        ops: the assignments.
        results: names, or Python numbers where a result is the same whatever the input.
        constants: names of numbers that were lifted out (``lifted``), with their values.
        dtype: of the arguments and of these constants.
    """

    inputs: tuple[str, ...]
    ops: tuple[Op, ...]
    results: tuple[Value, ...]
    constants: Mapping[str, float]
    dtype: torch.dtype

    def selecting(self, results: Sequence[int]) -> Program:
        """Only what the results at these positions need."""
        chosen = tuple(self.results[i] for i in results)
        return replace(self, ops=needed(self.ops, chosen), results=chosen)

    def lifted(self, known: Mapping[str, float] | None = None) -> Program:
        """The same with its floats as named constants, so that another tau is the same kernel.

        0, 1 and -1 stay: with them, compilers leave whole operations out. ``known``: names that numbers have already.
        """
        names = {value: name for name, value in (known or {}).items()}

        def lift(value: Value, op: Op) -> Value:
            if not isinstance(value, float) or value in (0.0, 1.0, -1.0) or not math.isfinite(value):
                return value
            # Constants are handed over in the dtype of the equation; another one rounds them in another way.
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
    """How a language writes things.

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
        """One assignment as a line of text; ``rename`` gives the names that values have there."""
        kind = "cast" if op.kind in CASTS else op.kind
        # A Python number has the dtype of the tensors it meets, as in PyTorch.
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


def needed(ops: Sequence[Op], results: Sequence[Value], stop: Collection[str] = ()) -> tuple[Op, ...]:
    """Those that a result depends on; values named in ``stop`` are there already."""
    wanted = {r for r in results if isinstance(r, str)} - set(stop)
    kept = []
    for op in reversed(ops):
        if op.name in wanted:
            kept.append(op)
            wanted.update(a for a in op.arguments if isinstance(a, str) and a not in stop)
    return tuple(reversed(kept))
