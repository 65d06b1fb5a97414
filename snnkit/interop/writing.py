"""A network of ours as a NIR graph."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..engine.check import check_sequence
from ..neuron import IF, LIF, PLIF, Neuron, Recurrent
from ..nn import Once, Sequential, TimeBatched, time_batched
from . import graph as graphs
from .layers import TRANSPARENT, node_of
from .notes import KEY, note_on
from .numbers import described
from .package import InexactWarning, checked_dt, nir_package


def to_nir(model: nn.Module, example: Tensor, dt: float) -> Any:
    """Write a network as a graph of NIR, as it is in evaluation mode.

    Args:
        model: a ``Sequential`` (or ``Graph``) of neurons and of layers that NIR knows, in any depth; or one of these.
            It stays as it is.
        example: x [T, B, ...]; only the shape of a sample matters, as NIR wants every number once per neuron.
        dt: the time step in s, which turns time constants in steps into seconds. That of ``CubaLIF`` and ``LI`` must be
            the same.

    Returns:
        A ``nir.NIRGraph``, ready for ``nir.write``. Node names are those of the modules.

    Raises:
        TypeError, ValueError: something that NIR can't say; the message begins with the module's name in the model.
        ImportError: without the package nir.

    Warns:
        InexactWarning: the network fires at its threshold where others' readers will fire above it only.
    """
    nir = nir_package()
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, but it is a {type(model).__name__}")
    dt = checked_dt(dt)
    check_sequence(example, "to_nir")
    # In evaluation mode, and without a mark on the model.
    net = copy.deepcopy(model).eval()
    start = torch.zeros((1, 1, *example.shape[2:]), dtype=example.dtype, device=example.device)
    writer = _Writer(nir, dt, tuple(start.shape[2:]))
    with torch.no_grad():
        sources, end = writer.write(net, "", start, [graphs.INPUT])
    writer.end(sources, tuple(end.shape[2:]))
    if writer.at_threshold:
        warnings.warn(
            f"{', '.join(writer.at_threshold)} fire at exactly the threshold, as SpikingJelly's neurons do, and NIR's "
            "only above it: spikes may differ elsewhere where a membrane meets it exactly. from_nir reads a note about "
            "it in the graph, and agrees.",
            InexactWarning,
            stacklevel=2,
        )
    return _checked(nir, writer, dt)


def _checked(nir: Any, writer: _Writer, dt: float) -> Any:
    metadata = {KEY: "dt is a hint", "dt": dt}
    try:
        return nir.NIRGraph(writer.nodes, writer.edges, metadata=metadata)
    except ValueError as error:
        # Up to 1.0.8 it takes kernels for square and convolutions for ungrouped when it works out shapes.
        warnings.warn(
            f"the package nir finds other shapes in this graph than it has ({error}); "
            "read its file with type_check=False",
            stacklevel=3,
        )
        return nir.NIRGraph(writer.nodes, writer.edges, metadata=metadata, type_check=False)


class _Writer:
    """Nodes and edges so far. ``sources`` are the nodes whose outputs, added up, are the signal at hand."""

    def __init__(self, nir: Any, dt: float, shape: tuple[int, ...]) -> None:
        self.nir = nir
        self.dt = dt
        self.nodes: dict[str, Any] = {graphs.INPUT: nir.Input(input_type={"input": np.array(shape)})}
        self.edges: list[tuple[str, str]] = []
        self.at_threshold: list[str] = []

    def write(self, module: nn.Module, name: str, x: Tensor, sources: list[str]) -> tuple[list[str], Tensor]:
        """Append a module that gets x [1, 1, ...]; returns the same for what comes after it."""
        if type(module) in (Sequential, nn.Sequential):
            for part, layer in module._modules.items():
                if layer is not None:
                    x_before, sources_before = x, sources
                    sources, x = self.write(layer, f"{name}_{part}" if name else part, x_before, sources_before)
            return sources, x
        if type(module) in (TimeBatched, Once):
            return self.write(module.module, name, x, sources)  # type: ignore[arg-type]
        if type(module) in TRANSPARENT:
            return sources, x
        if type(module) is graphs.Graph:
            return self._graph(module, name, x, sources)
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

    def _graph(self, graph: graphs.Graph, name: str, x: Tensor, sources: list[str]) -> tuple[list[str], Tensor]:
        """A graph within the graph, without a wall around it."""
        ends: dict[str, str] = {}
        for part, layer in graph.named_children():
            if type(layer) in (Sequential, nn.Sequential, TimeBatched, Once, graphs.Graph, *TRANSPARENT):
                raise TypeError(
                    f"{part} of Graph must be a neuron or a layer to be written, but it is a {type(layer).__name__}"
                )
            (before, *_) = (a for a, b in graph.edges if b == part)
            shape = tuple(x.shape[2:]) if before == graphs.INPUT else graph.shapes[before]
            # Its edges come from the graph's own list.
            (end, *_), _ = self.write(layer, f"{name}_{part}" if name else part, x.new_zeros(1, 1, *shape), [])
            ends[part] = end
        last = [ends[a] for a, b in graph.edges if b == graphs.OUTPUT and a != graphs.INPUT]
        for a, b in graph.edges:
            if b != graphs.OUTPUT:
                self.edges += [(s, ends[b]) for s in (sources if a == graphs.INPUT else [ends[a]])]
            elif a == graphs.INPUT:
                last += sources
        (first, *_) = (a for a, b in graph.edges if b == graphs.OUTPUT)
        shape = tuple(x.shape[2:]) if first == graphs.INPUT else graph.shapes[first]
        return last, x.new_zeros(1, 1, *shape)

    def end(self, sources: list[str], shape: tuple[int, ...]) -> None:
        """The output."""
        self.nodes[graphs.OUTPUT] = self.nir.Output(output_type={"output": np.array(shape)})
        self.edges += [(source, graphs.OUTPUT) for source in sources]

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
        while name in self.nodes or name == graphs.OUTPUT:
            name += "_"
        return name
