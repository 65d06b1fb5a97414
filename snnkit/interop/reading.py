"""A NIR graph as a network of ours."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..neuron import Neuron, Recurrent
from ..nn import Sequential
from ..surrogate import ATan
from .cycles import groups, loop_order, reachable
from .flat import Flat, flattened
from .graph import INPUT, OUTPUT, Graph
from .layers import layer_of
from .notes import neuron_of
from .numbers import EULER, euler_neuron
from .package import checked_dt, nir_package

Shape = tuple[int, ...]


def from_nir(
    graph: Any,
    dt: float,
    *,
    dtype: torch.dtype = torch.float32,
    surrogate: Callable[..., Tensor] = ATan(),
) -> Sequential | Graph:
    """Make a network of a NIR graph, whoever wrote it.

    Args:
        graph: a ``nir.NIRGraph``, or the path of a file of one.
        dt: time step in s at which the network is to run. Euler's rule holds while it is far below all time constants.
        dtype: of weights and of numbers that differ between neurons: ``torch.float32`` or ``torch.float64``.
        surrogate: the spike function of all neurons, as NIR has none.

    Returns:
        ``out, state = net(x, state=None)``: a ``Sequential`` if one layer follows the other, else a ``Graph``. Neurons
        that ``to_nir`` wrote are the same again, others are ``EulerLIF`` and its like.

    Raises:
        ValueError: a node of unknown kind, a loop without a neuron in it, numbers that are scalars or of another shape
            than the layer's input, a time constant below ``dt``, an edge that leads nowhere, more than one input or
            output; the message names the node.
        TypeError: what is neither a graph nor a path; a dtype or dt of the wrong kind.
        ImportError: without the package nir.
    """
    nir = nir_package()
    dt = checked_dt(dt)
    if dtype not in (torch.float32, torch.float64):
        raise TypeError(f"dtype must be torch.float32 or torch.float64, but it is {dtype}")
    if isinstance(graph, (str, os.PathLike)):
        graph = _opened(nir, graph)
    if not isinstance(graph, nir.NIRGraph):
        raise TypeError(f"graph must be a nir.NIRGraph or a path, but it is a {type(graph).__name__}")
    flat = flattened(graph)
    layers, shapes = _built(flat, dt, dtype, surrogate)
    edges = _with_recurrent(layers, flat.edges, shapes)
    chain = _chain(layers, edges)
    if chain is None:
        return Graph(layers, edges, shapes)
    net = Sequential()
    for name in chain:
        net.add_module(name, layers[name])
    return net


def _opened(nir: Any, path: str | os.PathLike) -> Any:
    if not os.path.exists(path):
        raise FileNotFoundError(f"graph: there is no file {os.fspath(path)!r}")
    try:
        return nir.read(path, type_check=False)
    except (AssertionError, KeyError, OSError, TypeError, ValueError) as error:
        # It says nothing about a node that it does not know.
        reason = str(error) or "a node of a kind that the package nir does not know"
        raise ValueError(f"graph: {os.fspath(path)!r} can't be read as a NIR graph: {reason}") from error


def _built(
    flat: Flat, dt: float, dtype: torch.dtype, surrogate: Callable[..., Tensor]
) -> tuple[dict[str, nn.Module], dict[str, Shape]]:
    """Every node's layer, and the shape of what it gives out, from the input on."""
    neurons = [name for name, node in flat.nodes.items() if type(node).__name__ in EULER]
    order: list[str] = []
    for group in groups([INPUT, *flat.nodes, OUTPUT], flat.edges):
        order += loop_order(group, flat.edges, neurons) if len(group) > 1 else group
    ahead = reachable(flat.edges, INPUT)
    for name in flat.nodes:
        if name not in ahead or OUTPUT not in reachable(flat.edges, name):
            raise ValueError(f"node {name!r} of graph must lie on a way from its input to its output")
    for name in flat.nodes:
        if (name, name) in flat.edges and name not in neurons:
            raise ValueError(f"graph has a cycle without delay, {name} → {name}: every loop must pass a neuron")
    shapes: dict[str, Shape] = {INPUT: flat.input_shape}
    layers: dict[str, nn.Module] = {}
    for name in order:
        if name not in flat.nodes:
            continue
        shape = next(shapes[a] for a, b in flat.edges if b == name and a in shapes)
        node = flat.nodes[name]
        try:
            if name in neurons:
                layers[name], shapes[name] = _neuron(node, shape, dt, dtype, surrogate), shape
            else:
                layers[name] = layer_of(node, dtype)
                with torch.no_grad():
                    shapes[name] = tuple(layers[name](torch.zeros(1, *shape, dtype=dtype)).shape[1:])
        except (TypeError, ValueError, RuntimeError, IndexError) as error:
            raise ValueError(
                f"node {name!r} of graph ({type(node).__name__}) with input {list(shape)}: {error}"
            ) from error
    for a, b in flat.edges:
        wanted = flat.output_shape if b == OUTPUT else next(shapes[s] for s, t in flat.edges if t == b)
        if shapes[a] != wanted:
            raise ValueError(f"edge {a!r} → {b!r} of graph: {list(shapes[a])} does not fit {list(wanted)}")
    return {name: layers[name] for name in flat.nodes}, shapes


def _neuron(node: Any, shape: Shape, dt: float, dtype: torch.dtype, surrogate: Callable[..., Tensor]) -> Neuron:
    kind = type(node).__name__
    numbers = {}
    for name in EULER[kind].names:
        array = np.asarray(getattr(node, name), dtype=np.float64)
        if array.ndim == 0:
            raise ValueError(f"{name} is a scalar, but NIR wants one value per neuron: np.full({shape}, {array})")
        if array.shape != shape:
            raise ValueError(f"{name} must be of the shape of its input, but its shape is {list(array.shape)}")
        if name.startswith("tau") and not array.min() >= dt * (1 - 1e-6):
            raise ValueError(
                f"{name} of {array.min():.3g} s is below dt, {dt:.3g} s: take a smaller dt, or mind the units"
            )
        numbers[name] = array
    same = neuron_of(node.metadata, kind, numbers, dt, surrogate)
    if same is None:
        same = euler_neuron(kind, numbers, dt, dtype, surrogate)
    return same.to(dtype)


def _with_recurrent(
    layers: dict[str, nn.Module], edges: list[tuple[str, str]], shapes: dict[str, Shape]
) -> list[tuple[str, str]]:
    """Neurons with nothing but a matrix from their outputs to their inputs become ``Recurrent``; the edges left."""
    for name in [name for name, layer in layers.items() if isinstance(layer, nn.Linear)]:
        before = [a for a, b in edges if b == name]
        after = [b for a, b in edges if a == name]
        neuron = layers.get(before[0])
        if len(before) != 1 or before != after or not isinstance(neuron, Neuron) or len(shapes[name]) != 1:
            continue
        weight = layers.pop(name)
        around = Recurrent(neuron, weight.out_features, bias=weight.bias is not None)  # type: ignore[attr-defined, arg-type]
        around.weight = weight  # type: ignore[assignment]
        layers[before[0]] = around
        edges = [edge for edge in edges if name not in edge]
    return edges


def _chain(layers: dict[str, nn.Module], edges: list[tuple[str, str]]) -> list[str] | None:
    """The names in order if one layer follows the other, else None."""
    # From every node, and from the input, at least one edge leads on; so if there are no more, it is one from each.
    if len(edges) != len(layers) + 1:
        return None
    follows = dict(edges)
    chain = []
    name = follows[INPUT]
    while name != OUTPUT:
        chain.append(name)
        name = follows[name]
    return chain
