"""In which order the nodes of a graph run, and where it goes round in circles."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from graphlib import CycleError, TopologicalSorter

Edges = Sequence[tuple[str, str]]


def reachable(edges: Edges, start: str) -> set[str]:
    """All nodes that a signal from ``start`` comes to; itself only if it comes back."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        node = waiting.pop()
        new = [b for a, b in edges if a == node and b not in found]
        found.update(new)
        waiting.extend(new)
    return found


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
    """How the nodes of a loop run within one step, beginning where signals come in.

    A node that reads from one that runs later gets what that gave a step ago. ``edges`` are all of the graph.

    Raises:
        ValueError: part of the loop has no neuron in it, so that it would have to know its output to find it.
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
