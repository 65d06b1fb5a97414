"""What each layer keeps for backward, from its shapes and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from snnkit.engine import state_dtype
from snnkit.engine.block import BLOCKS
from snnkit.engine.select import choose
from snnkit.neuron import Neuron
from snnkit.nn import Sequential

from .measure import untouched
from .plan import MAX_POOLS, MEAN_POOLS, SHAPES, WEIGHTED, Settings, is_neuron, kept_as_bits, stages

# What keeps its output, not its input.
KEEP_OUTPUT = (nn.ReLU, nn.Sigmoid, nn.Tanh)

_INDEX = 8  # bytes of a place in a pooling


@dataclass(frozen=True)
class Layer:
    """One call of a layer.

    Attributes:
        name: in the model.
        module: the layer.
        x: bytes of the input in memory (a static one counts one step).
        out: values of the output in memory.
        size: bytes of a value.
        values: of the input, all steps counted.
        held: bytes kept for backward; None where no formula is known.
    """

    name: str
    module: nn.Module
    x: int
    out: int
    size: int
    values: int
    held: int | None


def is_layer(module: nn.Module) -> bool:
    """A neuron, or a module without others inside."""
    return isinstance(module, Neuron) or next(module.children(), None) is None


def layer_of(name: str, module: nn.Module, x: Tensor, out: Tensor, times: int = 1) -> Layer:
    """From a call that was seen, for ``times`` as many samples."""
    size = x.element_size()
    held = _held(module, x, out, times)
    return Layer(name, module, in_memory(x) * size * times, in_memory(out) * times, size, x.numel() * times, held)


def in_memory(x: Tensor) -> int:
    """Values of ``x``, those seen several times (stride 0) counted once."""
    return prod(n for n, stride in zip(x.shape, x.stride(), strict=True) if stride or n == 1)


def _held(module: nn.Module, x: Tensor, out: Tensor, times: int) -> int | None:
    size, values = x.element_size(), in_memory(x) * times
    if isinstance(module, WEIGHTED):
        return values * _cast_size(x) + _cast_weights(module, x)
    if isinstance(module, _BatchNorm):
        return values * size + (2 * 4 * module.num_features if module.training else 0)
    if is_neuron(module):
        return held_by_neuron(module, x, times)
    if type(module) in MAX_POOLS:
        return values * size + in_memory(out) * times * _INDEX
    if type(module) in MEAN_POOLS:
        return values * size
    if type(module) in SHAPES or (isinstance(module, _DropoutNd) and not module.training):
        return 0
    if isinstance(module, _DropoutNd):
        return values * (size if x.device.type == "cpu" else 1)  # the mask
    if isinstance(module, KEEP_OUTPUT):
        return in_memory(out) * times * size
    return None


def held_by_neuron(neuron: Any, x: Tensor, times: int = 1) -> int:
    """By the engine that would run it on ``times`` as many samples as ``x`` [T, B, ...] has."""
    dtype = state_dtype(x)
    width, steps = torch.finfo(dtype).bits // 8, len(x)
    shape = (x.shape[1] * times, *x.shape[2:])
    neurons = prod(shape)
    rest = neuron.initial_state(torch.empty((), dtype=dtype, device=x.device).expand(shape))
    like = torch.empty((), dtype=x.dtype, device=x.device).expand(steps, *shape)  # takes no memory
    engine = choose(neuron.engine, neuron, like, rest, dtype).engine
    own = in_memory(x) * times * x.element_size() + sum(in_memory(part) for part in rest) * width
    if engine == "cpp":
        return own
    if engine == "block":
        blocks, left = 0, steps
        for size in BLOCKS[x.device.type]:
            blocks, left = blocks + left // size, left % size
        return own + (blocks - 1) * len(rest) * neurons * width
    if engine == "triton":
        from snnkit.engine.triton.source import BLOCK_STEPS

        return own + -(-steps // BLOCK_STEPS) * len(rest) * neurons * width
    return _held_by_a_step(neuron, dtype, x.device) * steps * neurons


def _held_by_a_step(neuron: Any, dtype: torch.dtype, device: torch.device) -> int:
    """Bytes per neuron and step that the loop keeps: those of the second of two steps of many neurons, each storage
    counted once. (The first starts from a state without a gradient.)"""
    own = {t.shape for t in (*neuron.parameters(), *neuron.buffers()) if t.dim()}
    shape = next(iter(own), torch.Size())
    many = (64, *shape)
    counts = []
    for steps in (2, 3):
        saved: list[Tensor] = []  # the tensors themselves, so that none is freed and its place taken by another

        def note(t: Tensor, saved: list[Tensor] = saved) -> Tensor:
            saved.append(t)
            return t

        x = torch.zeros((steps, *many), dtype=dtype, device=device, requires_grad=True)
        state = neuron.initial_state(torch.zeros(many, dtype=dtype, device=device))
        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
            for x_t in x.unbind(0):
                _, state = neuron.step(x_t, state)
        counts.append(sum({s.data_ptr(): s.nbytes() for s in (t.untyped_storage() for t in saved)}.values()))
    return (counts[1] - counts[0]) // prod(many)


def _cast_size(x: Tensor) -> int:
    kind = x.device.type
    cast = torch.is_autocast_enabled(kind) and x.dtype != torch.float64
    return torch.finfo(torch.get_autocast_dtype(kind)).bits // 8 if cast else x.element_size()


def _cast_weights(module: nn.Module, x: Tensor) -> int:
    """Under autocast, the copy of the weights in the lower precision."""
    weight = module.weight
    size = _cast_size(x)
    return weight.numel() * size if size < weight.element_size() else 0  # type: ignore[union-attr, operator]


def layers_of(model: nn.Module, shape: tuple[int, ...]) -> list[Layer]:
    """The layers that an input of this ``shape`` [T, B, ...] goes through, in order, from a run with one sample: what
    they would keep is scaled up."""
    parameter = next((p for p in model.parameters() if p.is_floating_point()), None)
    device = torch.device("cpu") if parameter is None else parameter.device
    dtype = torch.float32 if parameter is None else parameter.dtype
    x = torch.zeros((shape[0], 1, *shape[2:]), dtype=dtype, device=device)
    found: list[Layer] = []

    def note(name: str):
        def hook(module: nn.Module, args: tuple, kwargs: dict, out: Any) -> None:
            result = out[0] if isinstance(out, tuple) else out
            given = args[0] if args else next(iter(kwargs.values()))
            found.append(layer_of(name, module, given, result, shape[1]))

        return hook

    handles = [
        module.register_forward_hook(note(name), with_kwargs=True)
        for name, module in model.named_modules()
        if is_layer(module)
    ]
    try:
        with torch.no_grad(), untouched(model, device):
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found


def predicted_held(model: nn.Module, settings: Settings, layers: list[Layer], *, steps: int) -> int:
    """Bytes held for backward under ``settings``."""
    share = min(settings.steps / steps, 1.0) if settings.steps is not None else None
    held = {id(layer.module): layer.held or 0 for layer in layers}
    if share is not None:
        return int(sum(held.values()) * share) + (layers[0].x if layers else 0)
    by_module = {id(layer.module): layer for layer in layers}
    for net in model.modules():
        if not isinstance(net, Sequential):
            continue
        with torch.enable_grad():
            for stage in stages(net, settings):
                parts = [m for name in stage.names for m in net._modules[name].modules()]  # type: ignore[union-attr]
                inside = [by_module[id(m)] for m in parts if id(m) in by_module]
                if not inside:
                    continue
                first = inside[0]
                if stage.plain is None:
                    places = sum(layer.out for layer in inside if type(layer.module) is nn.MaxPool2d)
                    held.update({id(layer.module): 0 for layer in inside})
                    held[id(first.module)] = places + (first.x if stage.neuron is not None else 0)
                elif kept_as_bits(stage, settings):
                    held[id(first.module)] = first.values // 8
    return sum(held.values())
