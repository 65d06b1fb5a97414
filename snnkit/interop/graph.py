"""Graph: a network whose layers branch, join and form loops, and the order in which its nodes run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from snnkit import checks

from ..engine import check_sequence
from ..nn import is_stateful, time_batched

INPUT, OUTPUT = "input", "output"
Edges = Sequence[tuple[str, str]]


class LoopState(NamedTuple):
    """State of nodes that reach each other.

    Attributes:
        outs: the last output of each [B, ...].
        states: the state of each, None for stateless ones.
    """

    outs: tuple[Tensor, ...]
    states: tuple[Any, ...]


class Graph(nn.Module):
    """``out, state = graph(x, state=None)``: the input of a node is the sum over its incoming edges.

    Nodes outside of loops run over the whole sequence, as in ``nn.Sequential``. A loop runs step by step: within a step
    from its entry on, and what goes back arrives in the next step; before the first, its neurons' outputs were zeros.

    Args:
        layers: by name: neurons, ``Recurrent``s and stateless modules.
        edges: (from, to), with "input" and "output" for those of the graph.
        shapes: of the output of each layer for a sample, without time and batch.

    Raises:
        TypeError: a layer that is no module.
        ValueError: a name that no module can have; an edge of an unknown name; a node without incoming or without
            outgoing edges; a loop without a neuron.
    """

    def __init__(
        self, layers: Mapping[str, nn.Module], edges: Sequence[tuple[str, str]], shapes: Mapping[str, Sequence[int]]
    ) -> None:
        super().__init__()
        self.edges: list[tuple[str, str]] = [(a, b) for a, b in edges]
        self.shapes = {name: tuple(shape) for name, shape in shapes.items()}
        names = [INPUT, *layers, OUTPUT]
        for name, layer in layers.items():
            checks.instance(f"{name} of Graph", layer, nn.Module, "a torch.nn.Module")
            if name in (INPUT, OUTPUT) or "." in name or hasattr(self, name):
                raise ValueError(f"layers of Graph can't hold {name!r}: that name is taken, or can't be a module's")
        for a, b in self.edges:
            for name in (a, b):
                if name not in names:
                    raise ValueError(f"edges hold ({a!r}, {b!r}), but there is no {name!r}; there are {names}")
        self.stateful = {name: is_stateful(layer) for name, layer in layers.items()}
        self.order: list[list[str]] = []
        for group in groups(names, self.edges):
            if self._is_loop(group):
                neurons = [name for name in group if self.stateful[name]]
                group = loop_order(group, self.edges, neurons)
            self.order.append(group)
        for name, layer in layers.items():
            if not any(b == name for _, b in self.edges) or not any(a == name for a, _ in self.edges):
                raise ValueError(f"edges must lead to and from every node, but not so to or from {name!r}")
            self.add_module(name, layer)

    def _is_loop(self, group: list[str]) -> bool:
        return len(group) > 1 or (group[0], group[0]) in self.edges

    def _sources(self, name: str) -> list[str]:
        return [a for a, b in self.edges if b == name]

    def forward(self, x: Tensor, state: tuple | None = None) -> tuple[Tensor, tuple]:
        """x [T, B, ...] to out [T, B, ...] and the state: a tuple with one entry per group of nodes."""
        check_sequence(x, "Graph")
        if state is None:
            state = (None,) * len(self.order)
        elif not isinstance(state, tuple) or len(state) != len(self.order):
            actual = f"{len(state)} entries" if isinstance(state, tuple) else f"a {type(state).__name__}"
            raise ValueError(f"state of Graph must be a tuple of {len(self.order)} entries or None, but it is {actual}")
        values = {INPUT: x}
        new = []
        for group, part in zip(self.order, state, strict=True):
            if self._is_loop(group):
                part = self._loop(group, values, part)
            elif group[0] != INPUT:
                part = self._whole(group[0], values, part)
            new.append(part)
        return values[OUTPUT], tuple(new)

    def _whole(self, name: str, values: dict[str, Tensor], state: Any) -> Any:
        """Run a node over all steps; its output goes into ``values``, its new state is returned."""
        x = _total([values[a] for a in self._sources(name)])
        if name == OUTPUT:
            values[name] = x
            return None
        layer = self.get_submodule(name)
        if self.stateful[name]:
            values[name], state = layer(x, state)
        else:
            values[name] = time_batched(layer, x)
        return state

    def _loop(self, group: list[str], values: dict[str, Tensor], state: LoopState | None) -> LoopState:
        """Run the nodes of a loop step by step; as ``_whole``."""
        outside = {name: [values[a] for a in self._sources(name) if a not in group] for name in group}
        arriving = {name: _total(parts) for name, parts in outside.items() if parts}
        first = next(iter(arriving.values()))
        if state is None:
            last = self._rest(group, first)
            states: dict[str, Any] = dict.fromkeys(group)
        else:
            last = dict(zip(group, state.outs, strict=True))
            states = dict(zip(group, state.states, strict=True))
        outputs: dict[str, list[Tensor]] = {name: [] for name in group}
        for t in range(first.shape[0]):
            for name in group:
                parts = [arriving[name][t]] if name in arriving else []
                # Of nodes that ran already, ``last`` has the output of this step.
                x = _total([*parts, *(last[a] for a in self._sources(name) if a in group)])
                layer = self.get_submodule(name)
                if self.stateful[name]:
                    out, states[name] = layer(x.unsqueeze(0), states[name])
                    out = out.squeeze(0)
                else:
                    out = layer(x)
                last[name] = out
                outputs[name].append(out)
        values.update({name: torch.stack(outs) for name, outs in outputs.items()})
        return LoopState(tuple(last[name] for name in group), tuple(states[name] for name in group))

    def _rest(self, group: list[str], like: Tensor) -> dict[str, Tensor]:
        """Outputs of a loop before the first step: of neurons zeros, of layers what follows from these."""
        batch = like.shape[1]
        last = {name: like.new_zeros(batch, *self.shapes[name]) for name in group}
        waiting = [name for name in group if not self.stateful[name]]
        while waiting:
            for name in list(waiting):
                sources = [a for a in self._sources(name) if a in group]
                if not any(a in waiting for a in sources):
                    last[name] = self.get_submodule(name)(_total([last[a] for a in sources]))
                    waiting.remove(name)
        return last


def _total(parts: list[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def reachable(edges: Edges, start: str) -> set[str]:
    """All nodes that a signal from ``start`` reaches; itself only over a loop."""
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        node = waiting.pop()
        new = [b for a, b in edges if a == node and b not in reached]
        reached.update(new)
        waiting.extend(new)
    return reached


def groups(nodes: Sequence[str], edges: Edges) -> list[list[str]]:
    """Nodes that reach each other are one group; groups in an order in which each gets its input from earlier ones."""
    ahead = {node: reachable(edges, node) for node in nodes}
    home: dict[str, str] = {}
    members: dict[str, list[str]] = {}
    for node in nodes:
        if node not in home:
            together = [b for b in nodes if b == node or (b in ahead[node] and node in ahead[b])]
            home.update(dict.fromkeys(together, node))
            members[node] = together
    sorter = TopologicalSorter({first: set() for first in members})
    for a, b in edges:
        if home[a] != home[b]:
            sorter.add(home[b], home[a])
    return [members[first] for first in sorter.static_order()]


def loop_order(members: Sequence[str], edges: Edges, stateful: Collection[str]) -> list[str]:
    """The order in which the nodes of a loop run within one step, from its entry on.

    The input from a node that runs later is its output of the step before. ``edges`` are all of the graph.

    Raises:
        ValueError: part of the loop has no neuron in it, so that its output would depend on itself.
    """
    inside = [(a, b) for a, b in edges if a in members and b in members]
    instant = [(a, b) for a, b in inside if a not in stateful and b not in stateful]
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for a, b in instant:
        sorter.add(b, a)
    try:
        sorter.prepare()
    except CycleError as error:
        raise ValueError(
            f"graph has a cycle without delay, {' → '.join(reversed(error.args[1]))}: every loop must pass a neuron"
        ) from None
    entries = [b for a, b in edges if b in members and a not in members]
    done: list[str] = []
    seen: set[str] = set()

    def visit(node: str) -> None:
        seen.add(node)
        for a, b in inside:
            if a == node and b not in seen:
                visit(b)
        done.append(node)

    for node in (*entries, *members):
        if node not in seen:
            visit(node)
    return done[::-1]
