"""What training a network holds in memory, by formula: ``snnkit.device``'s estimates for networks of any size."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from snnkit import models, nn
from snnkit.device.explain import OPTIMIZERS
from snnkit.device.layers import Layer, is_layer, layer_of, predicted_held
from snnkit.device.plan import Settings
from snnkit.neuron import IF, Neuron
from snnkit.nn import Sequential

INPUTS, CLASSES, _SIDE = 784, 10, 28
_POOLED = 2  # so many convolutions are followed by a pooling
NOTHING, AGAIN, OVER_TIME = "nothing", "recompute and pack", "checkpoints in time"
SAVINGS = (NOTHING, AGAIN, OVER_TIME)
NETWORKS = ("dense", "convolutional")


class Bill(NamedTuple):
    """Bytes that one training step holds between forward and backward.

    Attributes:
        weights, gradients: of all parameters, in float32.
        optimizer: what Adam keeps for them.
        activity: what backward needs of the layers' inputs, for all steps and samples.
    """

    weights: int
    gradients: int
    optimizer: int
    activity: int

    @property
    def model(self) -> int:
        """What does not grow with the batch."""
        return self.weights + self.gradients + self.optimizer


class Setting(NamedTuple):
    """What is trained.

    Attributes:
        network: one of ``NETWORKS``.
        layers, width: hidden layers, and neurons (or channels) of each.
        steps, batch: T and B of the input [T, B, ...], whose steps all differ.
        numbers: "float32", or a dtype for autocast, such as "bfloat16".
        saving: one of ``SAVINGS``; over time in chunks of √T steps, which hold least.
    """

    network: str
    layers: int
    width: int
    steps: int
    batch: int
    numbers: str
    saving: str


@functools.lru_cache(maxsize=64)
def bill(of: Setting) -> Bill:
    """What it takes, from the shapes that one sample meets on its way through the network."""
    net = _network(of.network, of.layers, of.width)
    held = predicted_held(net, _settings(of), layers(of), steps=of.steps)
    weights = sum(p.nbytes for p in net.parameters())
    return Bill(weights, weights, OPTIMIZERS["adam"] * weights, held)


def largest_batch(of: Setting, limit: float) -> int:
    """How many samples ``limit`` bytes hold: 0 where the model alone is too large."""
    one, two = bill(of), bill(of._replace(batch=2 * of.batch))
    each = (two.activity - one.activity) / of.batch
    # What activity any batch needs: under autocast, narrow copies of the weights.
    fixed = one.model + max(one.activity - each * of.batch, 0)
    return max(math.floor((limit - fixed) / each), 0)


def layers(of: Setting) -> list[Layer]:
    """What ``device.layers.layers_of`` says of this input and compiled neurons, for the time of one step of one sample:
    each call is stretched in time, which is a part of the first dimension everywhere in these networks."""
    found = []
    for name, module, x, out in _calls(of.network, of.layers, of.width, of.numbers):
        # Room that nobody writes to takes no memory.
        x, out = (torch.empty(len(t) * of.steps, *t.shape[1:], dtype=t.dtype) for t in (x, out))
        if isinstance(module, Neuron):
            # What any compiled engine keeps: the input, from which backward runs the neuron again.
            plain = layer_of(name, torch.nn.Identity(), x, out, of.batch)
            found.append(replace(plain, module=module, held=plain.x))
        else:
            with _autocast(of.numbers):
                found.append(layer_of(name, module, x, out, of.batch))
    return found


@functools.lru_cache(maxsize=8)
def _calls(network: str, depth: int, width: int, numbers: str) -> list[tuple[str, torch.nn.Module, Tensor, Tensor]]:
    """Each layer of a network in order, with its input and output in a run of one step with one sample."""
    net = _network(network, depth, width)
    x = torch.zeros(1, 1, INPUTS) if network == "dense" else torch.zeros(1, 1, 1, _SIDE, _SIDE)
    calls = []

    def note(name: str):
        def hook(module: torch.nn.Module, args: tuple, out: Any) -> None:
            calls.append((name, module, args[0], out[0] if isinstance(out, tuple) else out))

        return hook

    neurons = [module for module in net.modules() if isinstance(module, Neuron)]
    for one in neurons:
        one.engine = "eager"  # nothing should be compiled for shapes
    handles = [m.register_forward_hook(note(name)) for name, m in net.named_modules() if is_layer(m)]
    try:
        with torch.no_grad(), _autocast(numbers):
            net(x)
    finally:
        for handle in handles:
            handle.remove()
        for one in neurons:
            one.engine = "auto"
    return calls


def _autocast(numbers: str) -> torch.autocast:
    return torch.autocast("cpu", getattr(torch, numbers), enabled=numbers != "float32")


def _settings(of: Setting) -> Settings:
    if of.saving == NOTHING:
        return Settings(recompute=False, pool=False, pack=False)
    return Settings() if of.saving == AGAIN else Settings(steps=math.ceil(math.sqrt(of.steps)))


@functools.lru_cache(maxsize=4)
def _network(network: str, layers: int, width: int) -> Sequential:
    with torch.random.fork_rng([]):  # initial weights are drawn, and nobody's random numbers should change
        if network == "dense":
            return models.mlp((INPUTS, *[width] * layers, CLASSES), flatten=False)
        modules: list[torch.nn.Module] = []
        channels, side = 1, _SIDE
        for i in range(layers):
            modules += [torch.nn.Conv2d(channels, width, 3, padding=1, bias=False), IF()]
            if i < _POOLED:
                modules.append(torch.nn.MaxPool2d(2))
                side //= 2
            channels = width
        return nn.Sequential(*modules, torch.nn.Flatten(), torch.nn.Linear(width * side * side, CLASSES), IF())
