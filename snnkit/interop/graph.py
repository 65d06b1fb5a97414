"""Networks whose layers branch and join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from torch import Tensor, nn

from snnkit import checks
from snnkit.engine import check_sequence
from snnkit.nn import Residual, is_stateful, through, with_state

INPUT, OUTPUT = "input", "output"
Edges = Sequence[tuple[str, str]]


class Graph(nn.Module):
    """``out, state = graph(x, state=None)``: the input of a node is the sum over its incoming edges.

    Each node runs over the whole sequence, as in ``nn.Sequential``. A residual block::

        block = Sequential(nn.Conv2d(4, 4, 3, padding=1), LIF())
        Graph({"block": block}, [("input", "block"), ("block", "output"), ("input", "output")])

    Args:
        layers: by name: neurons, ``Recurrent``s, networks and stateless modules.
        edges: (from, to); "input" and "output" are the graph's own.

    Raises:
        ValueError: an edge is there twice or names no layer, a layer is not on a path from input to output, or there is
            a loop.
    """

    @checks.arguments
    def __init__(self, layers: Mapping[str, nn.Module], edges: Edges) -> None:
        super().__init__()
        self.edges = [(a, b) for a, b in edges]
        before = sources_of(self.edges)
        starts = {a for a, _ in self.edges}
        for name in (*before, *starts):
            if name not in layers and name not in (INPUT, OUTPUT):
                raise ValueError(f"edges of Graph must name its layers, but there is no {name!r}")
        if ends := {INPUT, OUTPUT} & layers.keys():
            raise ValueError(f"layers of Graph must not have the names of its own ends, but one is {min(ends)!r}")
        for name in (INPUT, *layers, OUTPUT):
            if (name != INPUT) != (name in before) or (name != OUTPUT) != (name in starts):
                raise ValueError(f"{name!r} of Graph must be on a path from its input to its output")
        if len(set(self.edges)) < len(self.edges):
            raise ValueError("edges of Graph must differ, but one is there twice")
        self.order = in_order(self.edges)
        self._sources = [before.get(name, []) for name in self.order]
        self._stateful = {name: is_stateful(layer) for name, layer in layers.items()}
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x: Tensor, state: tuple | None = None) -> tuple[Tensor, tuple]:
        """x [T, B, ...] to out [T, B, ...] and the state: a tuple with one entry per node, in their order."""
        check_sequence(x, "Graph")
        if state is None:
            state = (None,) * len(self.order)
        elif not isinstance(state, tuple) or len(state) != len(self.order):
            actual = f"{len(state)} entries" if isinstance(state, tuple) else f"a {type(state).__name__}"
            raise ValueError(f"state of Graph must be a tuple of {len(self.order)} entries or None, but it is {actual}")
        values = {INPUT: x}
        new = []
        for name, sources, part in zip(self.order, self._sources, state, strict=True):
            if name != INPUT:
                first, *others = (values[source] for source in sources)
                values[name] = sum(others, first)
                if name != OUTPUT:
                    layer = self.get_submodule(name)
                    if self._stateful[name]:
                        values[name], part = with_state(layer, values[name], part)
                    else:
                        values[name], _ = through(layer, values[name], None, name)
            new.append(part)
        return values[OUTPUT], tuple(new)


def graph_of(block: Residual) -> Graph:
    """The same branches as a ``Graph``, under their names."""
    main, skip = [(INPUT, "main"), ("main", OUTPUT)], [(INPUT, "skip"), ("skip", OUTPUT)]
    if block.skip is None:
        return Graph({"main": block.main}, [*main, (INPUT, OUTPUT)])
    return Graph({"main": block.main, "skip": block.skip}, main + skip)


def sources_of(edges: Edges) -> dict[str, list[str]]:
    """Where the edges to each node begin, in their order."""
    before: dict[str, list[str]] = {}
    for a, b in edges:
        before.setdefault(b, []).append(a)
    return before


def in_order(edges: Edges) -> list[str]:
    """All nodes of ``edges``, each after those before it; ValueError for a loop."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for a, b in edges:
        sorter.add(b, a)
    try:
        return list(sorter.static_order())
    except CycleError as error:
        loop = " → ".join(reversed(error.args[1]))
        raise ValueError(
            f"loops of graph must be weights from a neuron to itself, as Recurrent has them, but there is {loop}"
        ) from None
