"""Our networks as NIR graphs, and NIR graphs as our networks."""

from __future__ import annotations

import copy
import json
import os
import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from snnkit import checks
from snnkit.engine import check_sequence
from snnkit.files import check_hdf5, expanded
from snnkit.interop.graph import INPUT, OUTPUT, Graph, graph_of, in_order, sources_of
from snnkit.interop.layer_nodes import KEY, LAYERS, Scale, Shape, check_numbers, nir_package, node_of, note_of
from snnkit.interop.neuron_nodes import (
    EULER,
    described,
    euler_neuron,
    neuron_of,
    note_on,
    one_to_one,
    reach,
    surrogate_of,
    weights_of,
)
from snnkit.interop.structure import TRANSPARENT, Structure, built, connected, transparent
from snnkit.neuron import IF, LIF, PLIF, Neuron, OneToOne, Recurrent
from snnkit.nn import Once, Residual, Sequential, TimeBatched, is_stateful, time_batched
from snnkit.surrogate import ATan


class InexactWarning(UserWarning):
    """Spikes may come at other times than in the network that a graph was written from, or not at all."""


@checks.arguments
def to_nir(model: nn.Module, example: Tensor, dt: float) -> Any:
    """Write a network as a graph of NIR, as in evaluation mode.

    From it ``from_nir`` makes the same modules again, with the same names, so that their ``state_dict``s fit. A graph
    does not hold which modules share a weight (a module that is in two places stays one), the ``engine`` of neurons and
    surrogates of your own classes.

    Args:
        model: a ``Sequential``, ``Residual`` or ``Graph`` of neurons and of layers that NIR has (may be nested), or one
            of these.
        example: x [T, B, ...]; only the shape of a sample matters, as NIR has every number once per neuron.
        dt: the time step in s, which turns time constants in steps into seconds. ``CubaLIF`` and ``LI`` must have the
            same.

    Returns:
        A ``nir.NIRGraph``, ready for ``nir.write``. Nodes have the modules' names. If convolutions are grouped
        or not square, read the file with ``nir.read(path, type_check=False)``.

    Raises:
        TypeError, ValueError: NIR can't express a module; the message begins with the module's name in the model.

    Warns:
        InexactWarning: the network fires at its threshold, but other readers will fire only above it; or a module has
            hooks, which are not in the graph.
    """
    nir = nir_package()
    dt = checks.number("dt", dt, above=0)
    check_sequence(example, "to_nir")
    checks.copyable("model", model)
    checks.values("model", model)
    _check_own_code(model)
    net = copy.deepcopy(model).eval()
    start = torch.zeros((1, 1, *example.shape[2:]), dtype=example.dtype, device=example.device)
    writer = _Writer(nir, dt, tuple(start.shape[2:]))
    with torch.no_grad():
        structure, end = writer.write(net, "", start)
    writer.nodes[OUTPUT] = nir.Output(output_type={"output": np.array(end.shape[2:])})
    edges: list[tuple[str, str]] = []
    edges += [(source, OUTPUT) for source in connected(structure, [INPUT], edges)]
    check_numbers(writer.nodes)
    if writer.at_threshold:
        warnings.warn(
            f"{', '.join(writer.at_threshold)} fire at exactly the threshold, as SpikingJelly's neurons do, and NIR's "
            "only above it: spikes may differ elsewhere where a membrane meets it exactly. from_nir reads a note about "
            "it in the graph, and fires at it.",
            InexactWarning,
            stacklevel=3,
        )
    frozen = [name for name, p in net.named_parameters(remove_duplicate=False) if not p.requires_grad]
    metadata = {KEY: "dt is a hint", "dt": dt, "modules": json.dumps([structure, frozen])}
    # Up to nir 1.0.8, the package's own check assumes square kernels and no groups.
    return nir.NIRGraph(writer.nodes, edges + writer.loops, metadata=metadata, type_check=False)


@checks.arguments
def from_nir(
    graph: Any,
    dt: float,
    *,
    dtype: torch.dtype = torch.float32,
    surrogate: Callable[..., Tensor] | None = None,
    reset: Literal["zero", "subtract"] | None = None,
) -> nn.Module:
    """Make a network from a NIR graph, written by this or another program.

    Args:
        graph: a ``nir.NIRGraph``, or the path of its file.
        dt: time step of the network in s. Euler's rule is accurate if it is far below all time constants.
        dtype: of weights and of numbers that differ between neurons: ``torch.float32`` or ``torch.float64``.
        surrogate: the spike function of all neurons, as NIR has none; None: the one that ``to_nir`` noted, or ``ATan``.
        reset: what a spike does to neurons that don't say it (their ``v_reset`` is None or not in the file, as nir
            writes it since 1.0.6): "zero" sets the membrane to 0, "subtract" lowers it by the threshold. None: as
            "zero", with a warning.

    Returns:
        ``out, state = net(x, state=None)``, in evaluation mode. What ``to_nir`` wrote is the same again; a layer
        without state, written alone, is in a ``Sequential``. Other graphs are a ``Sequential`` if the layers form a
        chain, else a ``Graph``, and their neurons are ``EulerLIF`` and the like.

    Raises:
        ValueError: a node or edge can't be used, and the message names it: an unknown kind, a loop other than a matrix
            from a neuron to itself, numbers that don't fit, or a time constant below ``dt``.

    Warns:
        InexactWarning: neurons don't say how they are reset, or need hundreds of steps to fire at this ``dt``.
        UserWarning: the file is older than nir 1.0, or the shape of its output is not that of the network.
    """
    nir = nir_package()
    dt = checks.number("dt", dt, above=0)
    checks.choice("dtype", dtype, (torch.float32, torch.float64))
    reader = _Reader(dt, dtype, surrogate, reset)
    if isinstance(graph, (str, os.PathLike)):
        graph, remark = _opened(nir, graph)
        if remark:  # before anything else fails
            warnings.warn(remark, stacklevel=3)
    checks.instance("graph", graph, nir.NIRGraph, "a nir.NIRGraph or a path")
    flat = _flattened(graph)
    check_numbers(flat.nodes, dtype)
    net = reader.network(flat, note_of(graph)).eval()
    for category, remark in reader.all_remarks():
        warnings.warn(remark, category, stacklevel=3)
    return net


def _opened(nir: Any, path: str | os.PathLike) -> tuple[Any, str]:
    """The graph in a file, and what is to be said about that; ``v_reset`` is None where the file has none, for which
    the package takes 0."""
    import h5py

    file = expanded(path)
    if not file.exists():
        raise FileNotFoundError(f"graph: there is no file {os.fspath(path)!r}")
    old = ""
    try:
        check_hdf5(file)
        with h5py.File(file, "r") as content:
            version = nir.serialization.read_version(file) if "version" in content else "0"
            if version.split(".")[0] == "0":
                old = f"from before nir 1.0: its version is {version}"
            _check_contents(content["node"], "graph")
            graph = nir.read(file, type_check=False)
            if isinstance(graph, nir.NIRGraph):
                _open_resets(graph, content["node"])
    # Foreign code on foreign data: whatever it raises, the file is to blame.
    except Exception as error:
        # Without a message for a node of an unknown kind.
        reason = str(error) or "a node of a kind that the package nir does not know"
        why = f"{reason} (it is {old})" if old else reason
        raise ValueError(f"graph: {os.fspath(path)!r} can't be read as a NIR graph: {why}") from error
    return graph, f"graph: {os.fspath(path)!r} is {old}. Compare its spikes with those of its author" if old else ""


def _check_contents(content: Any, name: str) -> None:
    """Raise ValueError for what the package would fail at, or build wrong nodes from: text in place of numbers, say."""
    if "type" not in content:
        raise ValueError(f"node {name!r} has no type")
    for key, part in content.items():
        shape = getattr(part, "shape", None)
        if key == "nodes":
            for inside in part:
                _check_contents(part[inside], inside)
        elif key == "edges" and shape != (0,) and (shape is None or shape[1:] != (2,)):
            raise ValueError(f"edges of {name!r} must be pairs of names [n, 2], but their shape is {shape}")
        elif key not in ("type", "edges", "padding", "metadata"):
            if shape is None:
                raise ValueError(f"{key} of node {name!r} must be numbers, but it is empty or a group")
            if part.dtype.kind not in "biuf":
                raise ValueError(f"{key} of node {name!r} must be numbers, but its dtype is {part.dtype}")


def _open_resets(graph: Any, content: Any) -> None:
    """Set ``v_reset`` to None in nodes that have none in the file."""
    for name, node in graph.nodes.items():
        part = content["nodes"][name]
        if "nodes" in part:
            _open_resets(node, part)
        elif hasattr(node, "v_reset") and "v_reset" not in part:
            node.v_reset = None


def _check_own_code(model: nn.Module) -> None:
    """No node holds what is attached to a module: ValueError for another forward, and a warning for hooks."""
    modules = dict(model.named_modules())
    for name, module in modules.items():
        if "forward" in vars(module):
            raise ValueError(f"{name or 'model'} has another forward than its class, which NIR can't express")
    if hooked := [name or "model" for name, one in modules.items() if one._forward_hooks or one._forward_pre_hooks]:
        remark = f"{', '.join(hooked)}: hooks of modules are not in the graph; what they change is lost"
        warnings.warn(remark, InexactWarning, stacklevel=4)


class _Writer:
    """Nodes so far, without those of the output, and the edges of recurrent weights."""

    def __init__(self, nir: Any, dt: float, shape: tuple[int, ...]) -> None:
        self.nir = nir
        self.dt = dt
        self.nodes: dict[str, Any] = {INPUT: nir.Input(input_type={"input": np.array(shape)})}
        self.loops: list[tuple[str, str]] = []
        self.at_threshold: list[str] = []
        self.written: dict[nn.Module, str] = {}

    def write(self, module: nn.Module, name: str, x: Tensor) -> tuple[Structure, Tensor]:
        """Add the nodes of a module with the input x [1, 1, ...]; returns the module's structure and x after it."""
        kind = type(module)
        # A subclass, too, such as models.ConvNet, if it calls its layers as a Sequential does.
        if kind.forward in (Sequential.forward, nn.Sequential.forward):
            parts: dict[str, Structure] = {}
            for part, layer in module._modules.items():
                if layer is not None:
                    parts[part], x = self.write(layer, f"{name}_{part}" if name else part, x)
            # The outermost container is called with a state, so it is the kit's.
            return ["Sequential" if isinstance(module, Sequential) or not name else "torch.Sequential", parts], x
        if kind in (TimeBatched, Once):
            inside, x = self.write(module.module, name, x)  # type: ignore[arg-type]
            return [kind.__name__, inside], x
        if kind in TRANSPARENT.values():
            return transparent(module), x
        if kind is Graph:
            return self._graph(module, name, x)  # type: ignore[arg-type]
        if kind is Residual:
            (_, *inside), x = self._graph(graph_of(module), name, x)  # type: ignore[arg-type]
            return [kind.__name__, *inside], x
        name = self._free(name or kind.__name__.lower())
        try:
            if kind in (Recurrent, OneToOne):
                shape = tuple(x.shape[2:])
                self.nodes[name] = self._neuron(module.neuron, name, x)  # type: ignore[arg-type]
                weight = self._free(f"{name}_rec")
                node = weights_of(module, shape) if kind is OneToOne else node_of(module.weight, shape)  # type: ignore[arg-type]
                self.nodes[weight] = node
                self.loops += [(name, weight), (weight, name)]
            elif isinstance(module, Neuron):
                self.nodes[name] = self._neuron(module, name, x)
            else:
                self.nodes[name] = node_of(module, tuple(x.shape[2:]))
                x = time_batched(module, x)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name} of model: {error}") from None
        except RuntimeError as error:
            raise ValueError(f"{name} of model does not take samples of {list(x.shape[2:])}: {error}") from error
        first = self.written.setdefault(module, name)
        return name if first == name else ["same", first, name], x

    def _graph(self, graph: Graph, name: str, x: Tensor) -> tuple[Structure, Tensor]:
        parts: dict[str, Structure] = {}
        values, before = {INPUT: x}, sources_of(graph.edges)
        for part in graph.order:
            if part == INPUT:
                continue
            first, *others = (values[source] for source in before[part])
            for other in others:
                if other.shape != first.shape:
                    shapes = f"{list(first.shape[2:])} and {list(other.shape[2:])}"
                    raise ValueError(
                        f"{name or 'model'}: signals added at {part} must have one shape, but have {shapes}"
                    )
            values[part] = first
            if part != OUTPUT:
                layer = graph.get_submodule(part)
                parts[part], values[part] = self.write(layer, f"{name}_{part}" if name else part, first)
        return ["Graph", {part: parts[part] for part in graph._modules}, graph.edges], values[OUTPUT]

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

    nodes: dict[str, Any]  # by name, without inputs and outputs; None where signals are only added
    edges: list[tuple[str, str]]  # (from, to), with "input" and "output" for those of the graph
    input_shape: Shape
    output_shape: Shape | None  # not every file knows it
    names: dict[str, str]  # new ones, by those of the graph


def _flattened(graph: Any) -> _Flat:
    """The graph without subgraphs, with names that modules can have; ValueError for an unusable node or edge."""
    nodes, edges, passing = _unfolded(graph)
    own = {kind: [key for key, node in graph.nodes.items() if type(node).__name__ == kind] for kind in _ENDS}
    for what, ends in (("input", own["Input"]), ("output", own["Output"])):
        if len(ends) != 1:
            raise ValueError(f"graph must have one {what}, but it has {len(ends)}: {', '.join(ends) or 'none'}")
    (first,), (last,) = own["Input"], own["Output"]
    before: dict[str, dict[str, None]] = {name: {} for name in nodes}  # sets that keep the order
    after: dict[str, dict[str, None]] = {name: {} for name in nodes}
    for a, b in edges:
        if b in after[a]:
            raise ValueError("edges of graph must differ, but one is there twice")
        after[a][b] = before[b][a] = None
    for name in nodes:
        if (not before[name] and name != first) or (not after[name] and name != last):
            raise ValueError(f"node {name.rstrip('/')!r} of graph must be on a path from its input to its output")
    for name in passing:
        _join(name, nodes, before, after)
    # A name is free once; what modules and networks have already is never.
    renamed, taken = {first: INPUT, last: OUTPUT}, {INPUT, OUTPUT, *_TAKEN}
    for name in nodes:
        if name not in renamed:
            fitting = name.replace(".", "_").replace("/", "_") or "node"
            while fitting in taken:
                fitting += "_"
            taken.add(fitting)
            renamed[name] = fitting
    declared = nodes[last].output_type
    return _Flat(
        {renamed[name]: node for name, node in nodes.items() if name not in (first, last)},
        [(renamed[a], renamed[b]) for b in nodes for a in before[b]],
        _shape(nodes[first].input_type, "input", first),
        None if (declared or {}).get("output") is None else _shape(declared, "output", last),
        renamed,
    )


# Names that modules can't have: a network has attributes of these names.
_TAKEN = {*dir(Sequential()), *dir(Graph({}, [(INPUT, OUTPUT)]))}
_ENDS = ("Input", "Output")


def _unfolded(graph: Any) -> tuple[dict[str, Any], list[tuple[str, str]], list[str]]:
    """Nodes and edges of a graph and of its subgraphs, and the names of nodes that only pass their input on.

    These are the ends of subgraphs, which are None instead of a node.
    """
    nodes: dict[str, Any] = {}
    edges: list[tuple[str, str]] = []
    passing: list[str] = []
    todo: list[tuple[str, Any, tuple[int, ...]]] = [("", graph, ())]
    while todo:
        prefix, part, around = todo.pop()
        if id(part) in around:
            raise ValueError(f"subgraph {prefix.rstrip('/')!r} of graph must not hold itself")
        enters: dict[str, str] = {}  # where an edge to this name arrives
        leaves: dict[str, str] = {}  # where one from it begins
        for key, node in part.nodes.items():
            name = enters[key] = leaves[key] = f"{prefix}{key}"
            kind = type(node).__name__
            if kind == "NIRGraph":
                todo.append((f"{name}/", node, (*around, id(part))))
                # Its input and output, by names that no node of a file has.
                enters[key], leaves[key] = f"{name}/", f"{name}//"
                passing += [enters[key], leaves[key]]
                nodes |= dict.fromkeys((enters[key], leaves[key]))
                continue
            checks.choice(f"the kind of node {name!r} of graph", kind, (*_ENDS, *LAYERS, *EULER, "NIRGraph"))
            if name in nodes:
                raise ValueError(f"names of nodes of graph must differ, but two are {name!r}")
            nodes[name] = node
            if prefix and kind in _ENDS:
                nodes[name] = None
                passing.append(name)
                edges.append((prefix, name) if kind == "Input" else (name, f"{prefix}/"))
        for a, b in part.edges:
            for key in (a, b):
                if key not in part.nodes:
                    raise ValueError(f"edge {a!r} → {b!r} of graph: there is no node {key!r}")
            edges.append((leaves[a], enters[b]))
    return nodes, edges, passing


def _join(
    name: str, nodes: dict[str, Any], before: dict[str, dict[str, None]], after: dict[str, dict[str, None]]
) -> None:
    """Replace a node that only passes its input on by edges, unless there would be more of them, or one twice."""
    sources, targets = before[name], after[name]
    if name in sources:
        raise ValueError(f"node {name.rstrip('/')!r} of graph must not be its own input")
    if len(sources) > 1 and len(targets) > 1:
        return
    if any(target in after[source] for source in sources for target in targets):
        return
    for source in sources:
        # At the place of the old edge, as sums of floats depend on the order.
        after[source] = {k: None for old in after[source] for k in (targets if old == name else (old,))}
    for target in targets:
        before[target] = {k: None for old in before[target] for k in (sources if old == name else (old,))}
    for of in (nodes, before, after):
        del of[name]


def _shape(types: Any, key: str, name: str) -> Shape:
    value = (types or {}).get(key)
    if value is None:
        raise ValueError(f"node {name!r} of graph must have the shape of a sample, but it is None")
    return tuple(int(size) for size in np.atleast_1d(np.asarray(value)))


_LOOPS = ("Linear", "Affine", "Conv1d", "Conv2d", "Scale")


def _recurrent(flat: _Flat) -> dict[str, str]:
    """Weights from the outputs of a neuron to its own inputs only, each with its neuron."""
    before = sources_of(flat.edges)
    after = sources_of([(b, a) for a, b in flat.edges])
    loops: dict[str, str] = {}
    around: set[str] = set()
    for name, node in flat.nodes.items():
        neuron, *others = before[name]
        is_loop = type(node).__name__ in _LOOPS and not others and after[name] == [neuron]
        if is_loop and type(flat.nodes.get(neuron)).__name__ in EULER and neuron not in around:
            loops[name] = neuron
            around.add(neuron)
    return loops


class _Reader:
    """Makes layers of nodes, with the settings of ``from_nir``, and collects the remarks about them."""

    def __init__(
        self, dt: float, dtype: torch.dtype, surrogate: Callable[..., Tensor] | None, reset: str | None
    ) -> None:
        self.dt, self.dtype, self.surrogate, self.reset = dt, dtype, surrogate, reset
        self.ignored = ""  # that the output is of another shape than its node says
        self.open: list[str] = []  # neurons that don't say how they are reset
        self.far: dict[str, float] = {}  # that one spike takes such a part of the way to the threshold, below 0.01
        self.foreign: list[str] = []  # whose surrogate was of a class that is not in this package

    def network(self, flat: _Flat, note: dict[str, Any]) -> nn.Module:
        recurrent = _recurrent(flat)
        edges = [edge for edge in flat.edges if not recurrent.keys() & set(edge)]
        layers = self._layers(flat, recurrent, edges)
        net = self._as_noted(note, {old: layers[new] for old, new in flat.names.items() if new in layers}, flat, edges)
        if net is not None:
            return net
        if len({a for a, _ in edges}) < len(edges):  # in a chain, one edge starts at each node
            return Graph(layers, edges)
        chain = Sequential()
        for name, layer in layers.items():
            chain.add_module(name, layer)
        return chain

    def all_remarks(self) -> list[tuple[type[Warning], str]]:
        """What is to be said as warnings."""
        said: list[tuple[type[Warning], str]] = [(UserWarning, self.ignored)] if self.ignored else []
        if self.open and self.reset is None:
            names = checks.cut(", ".join(self.open))
            remark = (
                f"graph does not say how neurons are reset ({names}): a spike sets them to 0 here, but they may have "
                'been trained to subtract the threshold. Give from_nir reset="zero" or reset="subtract".'
            )
            said.append((InexactWarning, remark))
        if self.reset is not None and not self.open:
            remark = (
                f'reset="{self.reset}" changes nothing, as all neurons of graph say how they are reset. Where their '
                "author meant something else, set v_reset of their nodes to None."
            )
            said.append((UserWarning, remark))
        if self.far:
            names = checks.cut(", ".join(self.far))
            remark = (
                f"in a step of dt = {self.dt:.3g} s, one spike through the largest weight takes neurons ({names}) at "
                f"most {max(self.far.values()):.2g} of the way to their threshold, so they may be silent. Is that the "
                "dt of their author? Libraries that count time in steps, such as Sinabs, write graphs for dt=1."
            )
            said.append((InexactWarning, remark))
        if self.foreign:
            names = checks.cut(", ".join(self.foreign))
            remark = (
                f"neurons ({names}) had surrogates of classes that a graph can't hold, so gradients are those of ATan: "
                "give from_nir surrogate=."
            )
            said.append((UserWarning, remark))
        return said

    def _as_noted(
        self, note: dict[str, Any], layers: dict[str, nn.Module], flat: _Flat, edges: list[tuple[str, str]]
    ) -> nn.Module | None:
        """The modules that ``to_nir`` noted; None if there is no such note, or if it does not fit the graph."""
        old = {new: name for name, new in flat.names.items()} | {INPUT: INPUT, OUTPUT: OUTPUT}
        wanted = {(old[a], old[b]) for a, b in edges}
        try:
            structure, frozen = json.loads(note["modules"])
            pairs: list[tuple[str, str]] = []
            pairs += [(end, OUTPUT) for end in connected(structure, [INPUT], pairs, len(edges))]
            if len(pairs) != len(wanted) or set(pairs) != wanted:
                return None
            net = built(structure, layers)
            for name in frozen:
                net.get_parameter(name).requires_grad_(False)
        # It may be anything: only what can be built from it is believed.
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
            return None
        return net if is_stateful(net) else None

    def _layers(self, flat: _Flat, recurrent: dict[str, str], edges: list[tuple[str, str]]) -> dict[str, nn.Module]:
        """Every node's layer, from the input on; neurons with weights to themselves become one ``Recurrent`` layer, or
        ``OneToOne``."""
        shapes: dict[str, Shape] = {INPUT: flat.input_shape}
        layers: dict[str, nn.Module] = {}
        before = sources_of(edges)
        weights = {neuron: flat.nodes[name] for name, neuron in recurrent.items()}
        for name in in_order(edges):
            if name == INPUT:
                continue
            shape = shapes[before[name][0]]
            for source in before[name]:
                if shapes[source] != shape:
                    raise ValueError(
                        f"edge {source!r} → {name!r} of graph: {list(shapes[source])} does not fit {list(shape)}"
                    )
            if name == OUTPUT:
                if flat.output_shape not in (None, shape):
                    says = list(flat.output_shape or ())
                    self.ignored = f"the output of graph is of shape {list(shape)}; {says} of its node is ignored"
                continue
            node = flat.nodes[name]
            try:
                if type(node).__name__ not in EULER:
                    layers[name] = LAYERS[type(node).__name__](node, self.dtype) if node is not None else nn.Identity()
                    shapes[name] = _shape_after(layers[name], shape, self.dtype)
                    continue
                inputs = [flat.nodes.get(source) for source in before[name]]
                layers[name], shapes[name] = self._neuron(name, node, shape, inputs), shape
                if name in weights:
                    layers[name] = self._around(layers[name], weights[name], shape)  # type: ignore[arg-type]
            except (TypeError, ValueError, RuntimeError, IndexError, OverflowError) as error:
                raise ValueError(
                    f"node {name!r} of graph ({type(node).__name__}) with input {list(shape)}: {error}"
                ) from error
        return layers

    def _around(self, neuron: Neuron, node: Any, shape: Shape) -> nn.Module:
        """``neuron`` with the weights of ``node`` to itself."""
        weight = LAYERS[type(node).__name__](node, self.dtype)
        if (after := _shape_after(weight, shape, self.dtype)) != shape:
            raise ValueError(f"its weights to itself must keep its shape {list(shape)}, but they make {list(after)}")
        return (
            one_to_one(neuron, node, self.dtype) if isinstance(weight, Scale) else Recurrent(neuron, connection=weight)
        )

    def _neuron(self, name: str, node: Any, shape: Shape, inputs: list[Any]) -> Neuron:
        kind = type(node).__name__
        numbers: dict[str, np.ndarray | None] = {}
        for key in EULER[kind].names:
            if key == "v_reset" and node.v_reset is None:
                self.open.append(name)
                numbers[key] = None if self.reset == "subtract" else np.zeros(shape)
                continue
            array = np.asarray(getattr(node, key), dtype=np.float64)
            if array.ndim == 0:
                raise ValueError(
                    f"{key} must have one value per neuron, but it is a scalar: use np.full({shape}, {array})"
                )
            if array.shape != shape:
                raise ValueError(f"{key} must have the shape of its input, but its shape is {list(array.shape)}")
            numbers[key] = array
        same = neuron_of(node, kind, numbers, self.dt, self.surrogate)
        if same is not None:
            noted = note_of(node)
            if self.surrogate is None and "surrogate" in noted and surrogate_of(noted) is None:
                self.foreign.append(name)
            return same.to(self.dtype)
        for key, array in numbers.items():
            if array is not None and key.startswith("tau") and not array.min() >= self.dt * (1 - 1e-6):
                raise ValueError(
                    f"{key} must be at least dt, {self.dt:.3g} s, but it is {array.min():.3g} s: take a smaller dt, or "
                    "check the units"
                )
        # The effect of one spike through the largest weight.
        part = reach(kind, numbers, self.dt) * max(map(_largest, inputs))
        if part < 0.01:
            self.far[name] = part
        spike = self.surrogate or surrogate_of(note_of(node)) or ATan()
        return euler_neuron(kind, numbers, self.dt, self.dtype, spike).to(self.dtype)


def _largest(node: Any) -> float:
    """The largest number, in size, by which a node multiplies or which it adds; 1 where it does neither."""
    arrays = [getattr(node, name, None) for name in ("weight", "bias", "scale")]
    return max((float(np.abs(array).max()) for array in arrays if array is not None and np.size(array)), default=1.0)


def _shape_after(layer: nn.Module, shape: Shape, dtype: torch.dtype) -> Shape:
    """The shape of a sample after a layer, computed without its values."""
    parts = {name: part.to("meta") for name, part in layer.named_parameters()}
    with torch.no_grad():
        out = torch.func.functional_call(layer, parts, torch.zeros(1, *shape, dtype=dtype, device="meta"))
    return tuple(out.shape[1:])
