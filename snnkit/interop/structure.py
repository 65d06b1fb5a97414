"""How modules hold each other, as a graph's metadata note it: NIR itself knows layers and edges only.

A module is a list, ready for JSON: its class and what it is made of. A layer with a node of its own is the name of that
node.

    ["Sequential", {"0": ["TimeBatched", "0"], "1": "1", "2": ["Dropout", {"p": 0.5, "inplace": False}]}]
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from snnkit.interop.graph import INPUT, OUTPUT, Graph, in_order, sources_of
from snnkit.nn import Once, Residual, Sequential, TimeBatched

Structure = str | list[Any]

SEQUENCES: dict[str, type[Sequential] | type[nn.Sequential]] = {
    "Sequential": Sequential,
    "torch.Sequential": nn.Sequential,
}
WRAPPERS = {kind.__name__: kind for kind in (TimeBatched, Once)}
_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)
# Layers that do not change the values of a trained network.
TRANSPARENT: dict[str, type[nn.Module]] = {kind.__name__: kind for kind in (nn.Identity, *_DROPOUTS)}


def transparent(module: nn.Module) -> Structure:
    """A layer without a node."""
    settings = {} if isinstance(module, nn.Identity) else {"p": module.p, "inplace": module.inplace}
    return [type(module).__name__, settings]


def connected(
    structure: Structure, sources: list[str], edges: list[tuple[str, str]], most: float = math.inf
) -> list[str]:
    """Append the edges of a module whose input is the sum of ``sources``; returns the nodes whose sum is its output.

    ValueError: a signal arrives twice somewhere, there is a loop, or there are more edges than ``most``.
    """
    if isinstance(structure, str):
        edges += [(source, structure) for source in sources]
        if len(edges) > most:
            raise ValueError(f"there are more than {most} edges")
        return [structure]
    kind, *parts = structure
    if kind == "same":
        return connected(parts[1], sources, edges, most)
    if kind in SEQUENCES:
        for part in parts[0].values():
            sources = connected(part, sources, edges, most)
        return sources
    if kind in WRAPPERS:
        return connected(parts[0], sources, edges, most)
    if kind not in ("Graph", "Residual"):
        return sources
    own = [(a, b) for a, b in parts[1]]
    before, ends = sources_of(own), {INPUT: sources}
    for name in in_order(own):
        if name != INPUT:
            joined = [end for source in before[name] for end in ends[source]]
            if len(set(joined)) < len(joined):
                raise ValueError(f"{name} of Graph gets one signal twice, which NIR can't express")
            ends[name] = joined if name == OUTPUT else connected(parts[0][name], joined, edges, most)
    return ends[OUTPUT]


def built(structure: Structure, layers: dict[str, nn.Module]) -> nn.Module:
    """The module with these layers, by the names of their nodes."""
    if isinstance(structure, str):
        return layers[structure]
    kind, *parts = structure
    if kind == "same":  # as an earlier one, if no other program has changed one of the two
        first, second = (layers[name] for name in parts)
        return first if _equal(first.state_dict(), second.state_dict()) else second
    if kind in SEQUENCES:
        sequence = SEQUENCES[kind]()
        for name, part in parts[0].items():
            sequence.add_module(name, built(part, layers))
        return sequence
    if kind in WRAPPERS:
        return WRAPPERS[kind](built(parts[0], layers))
    if kind == "Graph":
        return Graph({name: built(part, layers) for name, part in parts[0].items()}, [(a, b) for a, b in parts[1]])
    if kind == "Residual":
        return Residual(**{name: built(part, layers) for name, part in parts[0].items()})
    return TRANSPARENT[kind](**parts[0])


def _equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)
