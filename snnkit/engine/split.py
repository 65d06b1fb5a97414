"""Both directions of an equation side by side, and what a backward pass should keep of each step.

Running a step again is cheap, reading memory is not. So of all values that the gradients need, and all from which those
can be computed again, the fewest are kept: a minimum cut through the step's graph, as PyTorch's own partitioner makes
it for whole models. Of an LIF neuron that is one number, the membrane before its reset.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import NamedTuple

from .program import Op, Program, Value, needed
from .reader import Programs, programs
from .trace import Equation


@functools.lru_cache(maxsize=256)
def both_programs(equation: Equation) -> Programs:
    """Forward and backward; a value that both compute has one name (v…), any other of backward's another (w…)."""
    forward, backward = programs(equation)
    own, common, names = set(forward.ops), set(forward.inputs), {}
    for op in backward.ops:
        if op in own and all(a in common for a in op.arguments if isinstance(a, str)):
            common.add(op.name)
        else:
            names[op.name] = "w" + op.name[1:]

    def renamed(value: Value) -> Value:
        return names.get(value, value) if isinstance(value, str) else value

    ops = tuple(
        replace(op, name=names.get(op.name, op.name), arguments=tuple(map(renamed, op.arguments)))
        for op in backward.ops
    )
    return Programs(forward, replace(backward, ops=ops, results=tuple(map(renamed, backward.results))))


class Split(NamedTuple):
    """A backward pass in two sweeps.

    Attributes:
        kept: names of the values that the second sweep takes over from the first, one number a neuron and step each.
        again: forward once more: x, s0 …, p0 … -> s0' …, and the values to keep.
        back: kept values, p0 …, g, d0 … -> the gradients asked for.
    """

    kept: tuple[str, ...]
    again: Program
    back: Program


def split(equation: Equation, results: tuple[int, ...]) -> Split:
    """The sweeps for the gradients at these positions of the backward program's results."""
    forward, backward = both_programs(equation)
    backward = backward.selecting(results)
    known = {"g", *(f"d{i}" for i in range(equation.states))}
    again: list[Op] = []  # what does not depend on a gradient
    for op in backward.ops:
        if known.isdisjoint(op.arguments):
            again.append(op)
        else:
            known.add(op.name)
    parameters = {f"p{i}" for i in range(equation.parameters)}
    steady = parameters | backward.uniform(parameters)
    wanted = {a for op in backward.ops if op.name in known for a in op.arguments} | set(backward.results)
    wanted = {name for name in wanted if isinstance(name, str) and name not in known | steady}
    kept = _fewest([op for op in again if op.name not in steady], wanted, equation)
    own = set(forward.ops)
    ops = (*forward.ops, *(op for op in again if op not in own))
    first = forward.results[1:] + kept
    back = needed(backward.ops, backward.results, stop=set(kept))
    return Split(kept, replace(forward, ops=needed(ops, first), results=first), replace(backward, ops=back))


def _fewest(ops: list[Op], wanted: set[str], equation: Equation) -> tuple[str, ...]:
    """The smallest set of values from which ``wanted`` can be computed by ``ops``; the latest such set."""
    import networkx  # comes with PyTorch

    inputs = ["x", *(f"s{i}" for i in range(equation.states))]
    names = [*inputs, *(op.name for op in ops)]
    storable = {*inputs, *(op.name for op in ops if op.dtype == equation.dtype)}
    graph = networkx.DiGraph()
    graph.add_nodes_from(("inputs", "wanted"))
    # A value is an edge that can be cut, at the price of one number; edges without a capacity can't be.
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
    # Of equal cuts the one next to "wanted": it leaves the least to compute again.
    _, (_, late) = networkx.minimum_cut(graph, "inputs", "wanted")
    return tuple(name for name in names if (name, "before") not in late and (name, "after") in late)
