"""Our networks as NIR graphs, and NIR graphs as our networks."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from snnkit import checks

from ..engine import check_sequence
from ..files import check_hdf5
from ..neuron import IF, LIF, PLIF, Neuron, Recurrent
from ..nn import Once, Sequential, TimeBatched, is_stateful, time_batched
from ..surrogate import ATan
from .layer_nodes import LAYERS, TRANSPARENT, Shape, check_numbers, nir_package, node_of
from .neuron_nodes import EULER, KEY, described, euler_neuron, neuron_of, note_on

INPUT, OUTPUT = "input", "output"


class Graph(nn.Module):
    """``out, state = graph(x, state=None)``: the input of a node is the sum over its incoming edges.

    Each node runs over the whole sequence, as in ``nn.Sequential``. ``from_nir`` makes it and checks its parts.

    Args:
        layers: by name: neurons, ``Recurrent``s and stateless modules.
        edges: (from, to); "input" and "output" are the graph's own.
    """

    @checks.arguments
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


class InexactWarning(UserWarning):
    """Other readers of a graph may compute spikes at other times than the original network."""


@checks.arguments
def to_nir(model: nn.Module, example: Tensor, dt: float) -> Any:
    """Write a network as a graph of NIR, as in evaluation mode.

    Args:
        model: a ``Sequential`` of neurons and of layers that NIR has (may be nested), or one of these.
        example: x [T, B, ...]; only the shape of a sample matters, as NIR has every number once per neuron.
        dt: the time step in s, which turns time constants in steps into seconds. ``CubaLIF`` and ``LI`` must have the
            same.

    Returns:
        A ``nir.NIRGraph``, ready for ``nir.write``. Nodes have the modules' names. If convolutions are grouped
        or not square, read the file with ``nir.read(path, type_check=False)``.

    Raises:
        TypeError, ValueError: NIR can't express a module; the message begins with the module's name in the model.

    Warns:
        InexactWarning: the network fires at its threshold, but other readers will fire only above it.
    """
    nir = nir_package()
    dt = checks.number("dt", dt, above=0)
    check_sequence(example, "to_nir")
    net = copy.deepcopy(model).eval()
    start = torch.zeros((1, 1, *example.shape[2:]), dtype=example.dtype, device=example.device)
    writer = _Writer(nir, dt, tuple(start.shape[2:]))
    with torch.no_grad():
        sources, end = writer.write(net, "", start, [INPUT])
    writer.nodes[OUTPUT] = nir.Output(output_type={"output": np.array(end.shape[2:])})
    writer.edges += [(source, OUTPUT) for source in sources]
    check_numbers(writer.nodes)
    if writer.at_threshold:
        warnings.warn(
            f"{', '.join(writer.at_threshold)} fire at exactly the threshold, as SpikingJelly's neurons do, and NIR's "
            "only above it: spikes may differ elsewhere where a membrane meets it exactly. from_nir reads a note about "
            "it in the graph, and fires at it.",
            InexactWarning,
            stacklevel=2,
        )
    metadata = {KEY: "dt is a hint", "dt": dt}
    # Up to nir 1.0.8, the package's own check assumes square kernels and no groups.
    return nir.NIRGraph(writer.nodes, writer.edges, metadata=metadata, type_check=False)


def from_nir(
    graph: Any,
    dt: float,
    *,
    dtype: torch.dtype = torch.float32,
    surrogate: Callable[..., Tensor] = ATan(),
) -> Sequential | Graph:
    """Make a network from a NIR graph, written by this or another program.

    Args:
        graph: a ``nir.NIRGraph``, or the path of its file.
        dt: time step of the network in s. Euler's rule is accurate if it is far below all time constants.
        dtype: of weights and of numbers that differ between neurons: ``torch.float32`` or ``torch.float64``.
        surrogate: the spike function of all neurons, as NIR has none.

    Returns:
        ``out, state = net(x, state=None)``: a ``Sequential`` if the layers form a chain, else a ``Graph``. Neurons that
        ``to_nir`` wrote are the same again; others are ``EulerLIF`` and the like.

    Raises:
        ValueError: a node or edge can't be used, and the message names it: an unknown kind, a loop other than a matrix
            from a neuron to itself, numbers that don't fit, or a time constant below ``dt``.
    """
    nir = nir_package()
    dt = checks.number("dt", dt, above=0)
    checks.choice("dtype", dtype, (torch.float32, torch.float64))
    if isinstance(graph, (str, os.PathLike)):
        graph = _opened(nir, graph)
    checks.instance("graph", graph, nir.NIRGraph, "a nir.NIRGraph or a path")
    flat = _flattened(graph)
    check_numbers(flat.nodes)
    recurrent = _recurrent(flat)
    edges = [edge for edge in flat.edges if not recurrent.keys() & set(edge)]
    layers = _built(flat, recurrent, edges, dt, dtype, surrogate)
    sources = [a for a, _ in edges]
    if len(set(sources)) < len(sources):  # in a chain, one edge starts at each node
        return Graph(layers, edges)
    net = Sequential()
    for name, layer in layers.items():
        net.add_module(name, layer)
    return net


def _opened(nir: Any, path: str | os.PathLike) -> Any:
    if not os.path.exists(path):
        raise FileNotFoundError(f"graph: there is no file {os.fspath(path)!r}")
    try:
        check_hdf5(path)
        return nir.read(path, type_check=False)
    except (AssertionError, KeyError, OSError, TypeError, ValueError) as error:
        # Without a message for a node of an unknown kind.
        reason = str(error) or "a node of a kind that the package nir does not know"
        raise ValueError(f"graph: {os.fspath(path)!r} can't be read as a NIR graph: {reason}") from error


class _Writer:
    """Nodes and edges so far. The outputs of the nodes ``sources``, added up, are the current signal."""

    def __init__(self, nir: Any, dt: float, shape: tuple[int, ...]) -> None:
        self.nir = nir
        self.dt = dt
        self.nodes: dict[str, Any] = {INPUT: nir.Input(input_type={"input": np.array(shape)})}
        self.edges: list[tuple[str, str]] = []
        self.at_threshold: list[str] = []

    def write(self, module: nn.Module, name: str, x: Tensor, sources: list[str]) -> tuple[list[str], Tensor]:
        """Append a module with the input x [1, 1, ...]; returns sources and x after it."""
        if type(module) in (Sequential, nn.Sequential):
            for part, layer in module._modules.items():
                if layer is not None:
                    sources, x = self.write(layer, f"{name}_{part}" if name else part, x, sources)
            return sources, x
        if type(module) in (TimeBatched, Once):
            return self.write(module.module, name, x, sources)  # type: ignore[arg-type]
        if type(module) in TRANSPARENT:
            return sources, x
        name = self._free(name or type(module).__name__.lower())
        try:
            if isinstance(module, Recurrent):
                self.nodes[name] = self._neuron(module.neuron, name, x)
                weight = self._free(f"{name}_rec")
                self.nodes[weight] = node_of(module.weight, tuple(x.shape[2:]))
                self.edges += [(source, name) for source in sources] + [(name, weight), (weight, name)]
                return [name], x
            if isinstance(module, Neuron):
                self.nodes[name] = self._neuron(module, name, x)
            else:
                self.nodes[name] = node_of(module, tuple(x.shape[2:]))
                x = time_batched(module, x)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name} of model: {error}") from None
        except RuntimeError as error:
            raise ValueError(f"{name} of model does not take samples of {list(x.shape[2:])}: {error}") from error
        self.edges += [(source, name) for source in sources]
        return [name], x

    def _neuron(self, neuron: Neuron, name: str, x: Tensor) -> Any:
        kind, numbers = described(neuron, self.dt)
        shape = tuple(x.shape[2:])
        if not shape:
            raise ValueError("neurons must get samples with at least one dimension, as NIR's do: x [T, B, N]")
        arrays = {}
        for key, value in numbers.items():
            try:
                arrays[key] = np.broadcast_to(value, shape).astype(np.float64)
            except ValueError:
                raise ValueError(
                    f"its {key} of shape {list(np.shape(value))} does not broadcast against samples {list(shape)}"
                ) from None
        if type(neuron) in (IF, LIF, PLIF):
            self.at_threshold.append(f"{name} ({type(neuron).__name__})")
        return getattr(self.nir, kind)(**arrays, metadata=note_on(neuron))

    def _free(self, name: str) -> str:
        while name in self.nodes or name == OUTPUT:
            name += "_"
        return name


class _Flat(NamedTuple):
    """A graph without subgraphs; shapes are those of a sample."""

    nodes: dict[str, Any]  # by name, without inputs and outputs
    edges: list[tuple[str, str]]  # (from, to), with "input" and "output" for those of the graph
    input_shape: Shape
    output_shape: Shape


def _flattened(graph: Any) -> _Flat:
    """The graph without subgraphs, with names that modules can have; ValueError for an unusable node or edge."""
    nodes, edges, ins, outs = _inlined(graph, "")
    for what, ends in (("input", ins), ("output", outs)):
        if len(ends) != 1:
            raise ValueError(f"graph must have one {what}, but it has {len(ends)}: {', '.join(ends) or 'none'}")
    renamed = {ins[0]: INPUT, outs[0]: OUTPUT}
    for name in nodes:
        fitting = name.replace(".", "_").replace("/", "_") or "node"
        while name not in renamed and (fitting in renamed.values() or fitting in _TAKEN):
            fitting += "_"
        renamed.setdefault(name, fitting)
    starts, targets = {a for a, _ in edges}, {b for _, b in edges}
    if not starts | targets <= nodes.keys():
        raise ValueError("a subgraph of graph must have a node on every path from its input to its output")
    for name in nodes:
        if name not in starts | set(outs) or name not in targets | set(ins):
            raise ValueError(f"node {name!r} of graph must be on a path from its input to its output")
    return _Flat(
        {renamed[name]: node for name, node in nodes.items() if name not in (ins[0], outs[0])},
        [(renamed[a], renamed[b]) for a, b in edges],
        _shape(nodes[ins[0]].input_type, "input", ins[0]),
        _shape(nodes[outs[0]].output_type, "output", outs[0]),
    )


# Names that modules can't have: a network has attributes of these names.
_TAKEN = {*dir(Sequential()), *dir(Graph({}, [(INPUT, OUTPUT)]))}


def _inlined(graph: Any, prefix: str) -> tuple[dict[str, Any], list[tuple[str, str]], list[str], list[str]]:
    """Nodes, edges, and the names of inputs and outputs; joined edges replace those of subgraphs."""
    nodes: dict[str, Any] = {}
    ins: dict[str, list[str]] = {}  # where an edge to this name arrives
    outs: dict[str, list[str]] = {}  # where one from it begins
    edges: list[tuple[str, str]] = []
    own: dict[str, list[str]] = {"Input": [], "Output": []}
    for key, node in graph.nodes.items():
        name = f"{prefix}{key}"
        kind = type(node).__name__
        if kind == "NIRGraph":
            inner, inner_edges, entrances, exits = _inlined(node, f"{name}/")  # no name in a file has that sign
            ends = {*entrances, *exits}
            nodes.update({n: part for n, part in inner.items() if n not in ends})
            ins[key] = [b for a, b in inner_edges if a in entrances]
            outs[key] = [a for a, b in inner_edges if b in exits]
            edges += [edge for edge in inner_edges if not ends & set(edge)]
            continue
        checks.choice(f"the kind of node {name!r} of graph", kind, ("Input", "Output", *LAYERS, *EULER, "NIRGraph"))
        nodes[name] = node
        ins[key] = outs[key] = [name]
        if kind in own:
            own[kind].append(name)
    for a, b in graph.edges:
        for key in (a, b):
            if key not in graph.nodes:
                raise ValueError(f"edge {a!r} → {b!r} of graph: there is no node {key!r}")
        edges += [(start, end) for start in outs[a] for end in ins[b]]
    if len(set(edges)) < len(edges):
        raise ValueError("edges of graph must differ, but one is there twice")
    return nodes, edges, own["Input"], own["Output"]


def _shape(types: Any, key: str, name: str) -> Shape:
    value = (types or {}).get(key)
    if value is None:
        raise ValueError(f"node {name!r} of graph must have the shape of a sample, but it is None")
    return tuple(int(size) for size in np.atleast_1d(np.asarray(value)))


def _recurrent(flat: _Flat) -> dict[str, str]:
    """Matrices from the outputs of a neuron to its own inputs only, each with its neuron."""
    loops: dict[str, str] = {}
    for name, node in flat.nodes.items():
        before, after = [a for a, b in flat.edges if b == name], [b for a, b in flat.edges if a == name]
        if type(node).__name__ in ("Linear", "Affine") and before == after and len(before) == 1:
            neuron = flat.nodes.get(before[0])
            if type(neuron).__name__ in EULER and before[0] not in loops.values():
                loops[name] = before[0]
    return loops


def _built(
    flat: _Flat,
    recurrent: dict[str, str],
    edges: list[tuple[str, str]],
    dt: float,
    dtype: torch.dtype,
    surrogate: Callable[..., Tensor],
) -> dict[str, nn.Module]:
    """Every node's layer, from the input on; a neuron with a matrix to itself becomes a ``Recurrent``."""
    shapes: dict[str, Shape] = {INPUT: flat.input_shape}
    layers: dict[str, nn.Module] = {}
    for name in in_order(edges):
        before = [a for a, b in edges if b == name]
        if not before:
            continue
        shape = shapes[before[0]] if name != OUTPUT else flat.output_shape
        for source in before:
            if shapes[source] != shape:
                raise ValueError(
                    f"edge {source!r} → {name!r} of graph: {list(shapes[source])} does not fit {list(shape)}"
                )
        if name == OUTPUT:
            continue
        node = flat.nodes[name]
        try:
            if type(node).__name__ not in EULER:
                layers[name] = LAYERS[type(node).__name__](node, dtype)
                shapes[name] = _shape_after(layers[name], shape, dtype)
                continue
            layers[name], shapes[name] = _neuron(node, shape, dt, dtype, surrogate), shape
            for matrix in (flat.nodes[key] for key, around in recurrent.items() if around == name):
                weight: Any = LAYERS[type(matrix).__name__](matrix, dtype)
                around = Recurrent(layers[name], weight.out_features, bias=weight.bias is not None)  # type: ignore[arg-type]
                around.weight = weight
                layers[name] = around
        except (TypeError, ValueError, RuntimeError, IndexError) as error:
            raise ValueError(
                f"node {name!r} of graph ({type(node).__name__}) with input {list(shape)}: {error}"
            ) from error
    return layers


def _shape_after(layer: nn.Module, shape: Shape, dtype: torch.dtype) -> Shape:
    """The shape of a sample after a layer, computed without its values."""
    parts = {name: part.to("meta") for name, part in layer.named_parameters()}
    with torch.no_grad():
        out = torch.func.functional_call(layer, parts, torch.zeros(1, *shape, dtype=dtype, device="meta"))
    return tuple(out.shape[1:])


def _neuron(node: Any, shape: Shape, dt: float, dtype: torch.dtype, surrogate: Callable[..., Tensor]) -> Neuron:
    kind = type(node).__name__
    numbers = {}
    for name in EULER[kind].names:
        array = np.asarray(getattr(node, name), dtype=np.float64)
        if array.ndim == 0:
            raise ValueError(
                f"{name} must have one value per neuron, but it is a scalar: use np.full({shape}, {array})"
            )
        if array.shape != shape:
            raise ValueError(f"{name} must have the shape of its input, but its shape is {list(array.shape)}")
        if name.startswith("tau") and not array.min() >= dt * (1 - 1e-6):
            raise ValueError(
                f"{name} must be at least dt, {dt:.3g} s, but it is {array.min():.3g} s: take a smaller dt, or "
                "check the units"
            )
        numbers[name] = array
    same = neuron_of(node.metadata, kind, numbers, dt, surrogate)
    if same is None:
        same = euler_neuron(kind, numbers, dt, dtype, surrogate)
    return same.to(dtype)
