"""A graph's nodes and edges without walls between subgraphs, and with names that modules can have."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from torch import nn

from ..nn import Sequential
from .graph import INPUT, OUTPUT, Graph
from .layers import LAYERS
from .numbers import EULER


class Flat(NamedTuple):
    """One graph.

    Attributes:
        nodes: by name, without inputs and outputs.
        edges: (from, to), with "input" and "output" for those of the graph.
        input_shape, output_shape: of a sample.
    """

    nodes: dict[str, Any]
    edges: list[tuple[str, str]]
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]


def flattened(graph: Any) -> Flat:
    """The graph in one piece; ValueError if a node is unknown, an edge leads nowhere or there is not one input."""
    nodes, edges, ins, outs = _inlined(graph, "")
    for what, ends in (("input", ins), ("output", outs)):
        if len(ends) != 1:
            raise ValueError(f"graph must have one {what}, but it has {len(ends)}: {', '.join(ends) or 'none'}")
    fitting: dict[str, str] = {ins[0]: INPUT, outs[0]: OUTPUT}
    for name in nodes:
        if name not in fitting:
            fitting[name] = _fitting(name, set(fitting.values()))
    return Flat(
        {fitting[name]: node for name, node in nodes.items() if name not in (ins[0], outs[0])},
        [(fitting[a], fitting[b]) for a, b in edges],
        _shape(nodes[ins[0]].input_type, "input", ins[0]),
        _shape(nodes[outs[0]].output_type, "output", outs[0]),
    )


def _inlined(graph: Any, prefix: str) -> tuple[dict[str, Any], list[tuple[str, str]], list[str], list[str]]:
    """Nodes, edges, and the names of inputs and outputs; those of subgraphs are gone, their edges joined."""
    nodes: dict[str, Any] = {}
    ins: dict[str, list[str]] = {}  # where an edge to this name arrives
    outs: dict[str, list[str]] = {}  # where one from it begins
    edges: list[tuple[str, str]] = []
    own: dict[str, list[str]] = {"Input": [], "Output": []}
    for key, node in graph.nodes.items():
        name = f"{prefix}{key}"
        kind = type(node).__name__
        if kind == "NIRGraph":
            inner, inner_edges, entrances, exits = _inlined(node, f"{name}_")
            ends = {*entrances, *exits}
            nodes.update({n: part for n, part in inner.items() if n not in ends})
            ins[key] = [b for a, b in inner_edges if a in entrances]
            outs[key] = [a for a, b in inner_edges if b in exits]
            if ends & {*ins[key], *outs[key]}:
                raise ValueError(
                    f"subgraph {name!r} of graph must have a node on every way from its input to its output"
                )
            edges += [edge for edge in inner_edges if not ends & set(edge)]
            continue
        if kind not in ("Input", "Output", *LAYERS, *EULER):
            known = ", ".join(["Input", "Output", *LAYERS, *EULER, "NIRGraph"])
            raise ValueError(f"node {name!r} of graph is a {kind}, which is not known here; known are {known}")
        if name in nodes:
            raise ValueError(f"node {name!r} of graph has the name of a node in a subgraph")
        nodes[name] = node
        ins[key] = outs[key] = [name]
        if kind in own:
            own[kind].append(name)
    for a, b in graph.edges:
        for key in (a, b):
            if key not in graph.nodes:
                raise ValueError(f"edge {a!r} → {b!r} of graph: there is no node {key!r}")
        joined = [(start, end) for start in outs[a] for end in ins[b]]
        if twice := [edge for edge in joined if edge in edges]:
            raise ValueError(f"edge {twice[0][0]!r} → {twice[0][1]!r} of graph is there twice")
        edges += joined
    return nodes, edges, own["Input"], own["Output"]


def _fitting(name: str, taken: set[str]) -> str:
    """``name``, or one like it that a module of a network can have."""
    name = name.replace(".", "_") or "node"
    # ``add_module`` refuses names of what a module has already.
    while name in taken or hasattr(Sequential, name) or name in _PLAIN or name in _GRAPHS:
        name += "_"
    return name


_PLAIN = {*vars(Sequential())}
_GRAPHS = {*vars(nn.Module()), *dir(Graph), "edges", "shapes", "stateful", "order"}


def _shape(types: Any, key: str, name: str) -> tuple[int, ...]:
    value = (types or {}).get(key)
    if value is None:
        raise ValueError(f"node {name!r} of graph must say the shape of a sample, but its shape is None")
    return tuple(int(size) for size in np.atleast_1d(np.asarray(value)))
