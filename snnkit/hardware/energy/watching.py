"""Run a network and see what its layers and neurons do: through hooks, in eval mode, leaving it as it was."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ...device.measure import untouched
from ...engine import state_dtype
from ...engine.eager import in_dtype
from ...neuron import Neuron
from .operations import WEIGHTED, Operations, Tally

# What NeuroBench takes for an activation beside spiking neurons.
ACTIVATIONS = (nn.ReLU, nn.Sigmoid)


@dataclass
class Activity:
    """What the calls of one layer of neurons add up to.

    Attributes:
        spiking: whether its output is handed on as spikes or activations; a readout's potential is not.
        outputs: values that it gave.
        active: those that were not zero.
        updates: membrane potentials that a step changed, and all of a sequence's first step.
        steps: neuron-steps: how many updates there could have been.
    """

    spiking: bool
    outputs: int = 0
    active: int = 0
    updates: int = 0
    steps: int = 0

    def add(self, out: Tensor) -> None:
        """Count what came out."""
        self.outputs += out.numel()
        self.active += int(torch.count_nonzero(out.detach()))

    def merge(self, other: Activity) -> None:
        """Count what another one saw."""
        for name in ("outputs", "active", "updates", "steps"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass
class Seen:
    """What a run showed, by the names of the modules."""

    layers: dict[str, Tally] = field(default_factory=dict)
    neurons: dict[str, Activity] = field(default_factory=dict)

    @property
    def operations(self) -> Operations:
        """Of all layers."""
        return sum((tally.operations for tally in self.layers.values()), Operations())

    def add(self, other: Seen) -> None:
        """Count what another run of the same network showed."""
        for name, tally in other.layers.items():
            self.layers.setdefault(name, Tally()).merge(tally)
        for name, activity in other.neurons.items():
            self.neurons.setdefault(name, Activity(activity.spiking)).merge(activity)


@contextlib.contextmanager
def watched(net: nn.Module, device: torch.device) -> Iterator[Seen]:
    """While this is open, ``net`` is in eval mode and its calls are counted, without gradients."""
    seen, handles = Seen(), []
    modes = {module: module.training for module in net.modules()}
    with untouched(net, device), torch.no_grad():
        net.eval()
        try:
            for name, module in net.named_modules():
                if isinstance(module, WEIGHTED):
                    tally = seen.layers[name] = Tally()
                    handles.append(module.register_forward_pre_hook(_layer_hook(tally), with_kwargs=True))
                elif isinstance(module, Neuron):
                    activity = seen.neurons[name] = Activity(module.spiking)
                    handles.append(module.register_forward_hook(_neuron_hook(activity), with_kwargs=True))
                elif isinstance(module, ACTIVATIONS):
                    activity = seen.neurons[name] = Activity(True)
                    handles.append(module.register_forward_hook(_activation_hook(activity)))
            yield seen
        finally:
            for handle in handles:
                handle.remove()
            for module, training in modes.items():
                module.training = training


def _layer_hook(tally: Tally) -> Any:
    def hook(layer: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        tally.add(layer, args[0] if args else kwargs["input"])

    return hook


def _activation_hook(activity: Activity) -> Any:
    def hook(layer: nn.Module, args: tuple, out: Tensor) -> None:
        activity.add(out)

    return hook


def _neuron_hook(activity: Activity) -> Any:
    def hook(neuron: Neuron, args: tuple, kwargs: dict[str, Any], result: tuple[Tensor, Any]) -> None:
        x = args[0] if args else kwargs["x"]
        state = args[1] if len(args) > 1 else kwargs.get("state")
        if (repeat := kwargs.get("repeat")) is not None:
            x = x.expand(repeat, *x.shape)
        activity.add(result[0])
        changed, steps = membrane_updates(neuron, x, state)
        activity.updates += changed
        activity.steps += steps

    return hook


def membrane_updates(neuron: Neuron, x: Tensor, state: Any = None) -> tuple[int, int]:
    """(membrane potentials that changed, neuron-steps) over x [T, B, ...].

    As NeuroBench counts it: each step's potential against that of the step before, bit by bit; where there is none
    before, at the start from rest, all count as changed. The membrane is the first part of the neuron's state.
    """
    dtype = state_dtype(x)
    fresh = state is None
    if state is None:
        state = neuron.initial_state(torch.zeros_like(x[0], dtype=dtype))
    if not state:  # a neuron without memory
        return 0, 0
    step = in_dtype(neuron, dtype)
    changed = 0
    for i, x_t in enumerate(x.unbind(0)):
        before = state[0]
        _, state = step(x_t.to(dtype), state)
        changed += state[0].numel() if fresh and i == 0 else int(torch.count_nonzero(state[0] != before))
    return changed, x.shape[0] * state[0].numel()
