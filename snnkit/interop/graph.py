"""Graph: a network whose layers branch and join, and the order in which its nodes run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from torch import Tensor, nn

from ..engine import check_sequence
from ..nn import is_stateful, time_batched

INPUT, OUTPUT = "input", "output"


class Graph(nn.Module):
    """``out, state = graph(x, state=None)``: the input of a node is the sum over its incoming edges.

    Each node runs over the whole sequence, as in ``nn.Sequential``. ``from_nir`` makes it, and checks what it is made
    of.

    Args:
        layers: by name: neurons, ``Recurrent``s and stateless modules.
        edges: (from, to), with "input" and "output" for those of the graph.
    """

    def __init__(self, layers: Mapping[str, nn.Module], edges: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self.edges = list(edges)
        self.order = in_order(self.edges)
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
        for name, part in zip(self.order, state, strict=True):
            if name != INPUT:
                first, *others = (values[a] for a, b in self.edges if b == name)
                values[name] = sum(others, first)
                if name != OUTPUT:
                    layer = self.get_submodule(name)
                    if is_stateful(layer):
                        values[name], part = layer(values[name], part)
                    else:
                        values[name] = time_batched(layer, values[name])
            new.append(part)
        return values[OUTPUT], tuple(new)


def in_order(edges: Sequence[tuple[str, str]]) -> list[str]:
    """All nodes of ``edges``, each after those before it; ValueError for a loop."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for a, b in edges:
        sorter.add(b, a)
    try:
        return list(sorter.static_order())
    except CycleError as error:
        loop = " → ".join(reversed(error.args[1]))
        raise ValueError(
            f"loops of graph must be a matrix from a neuron to itself, as Recurrent has it, but there is {loop}"
        ) from None
