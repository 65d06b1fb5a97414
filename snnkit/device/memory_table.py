"""Where the memory of a training step goes: predicted for each layer from its shapes, and measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from .. import checks
from ..engine import BLOCKS, plan_for, state_dtype
from ..neuron import Neuron
from ..nn import Sequential
from ..tables import html_table, size_of
from .memory_saving import (
    MAX_POOLS,
    MEAN_POOLS,
    SHAPES,
    WEIGHTED,
    MemorySaving,
    disable,
    enable,
    enabled_parts,
    is_neuron,
    place_type,
    saved_as_bits,
    saves_places,
    stages,
)
from .placement import check_module, check_together
from .usage import StepMemory, output_of, training_step, untouched

# What an optimizer keeps, in times the weights.
OPTIMIZERS = {"sgd": 0, "momentum": 1, "rmsprop": 1, "adagrad": 1, "adam": 2, "adamw": 2}

_HEAD = ("layer", "output", "weights", "gradients", "held, predicted", "held, measured")


@dataclass(frozen=True)
class Row:
    """One layer of the model; all sizes in bytes.

    Attributes:
        layer: its name.
        kind: its class.
        shape: of its output, time and batch folded for stateless layers.
        weights, gradients: of its parameters; buffers count as weights.
        optimizer: what the optimizer keeps for them.
        predicted: held for backward, by formula; None where none is known.
        measured: held for backward, as autograd's hooks saw it: each storage once, with the layer that keeps it first.
    """

    layer: str
    kind: str
    shape: tuple[int, ...]
    weights: int
    gradients: int
    optimizer: int
    predicted: int | None
    measured: int


@dataclass(frozen=True)
class MemoryTable(Sequence[Row]):
    """A sequence of rows that prints as a table.

    Attributes:
        rows: a layer each, in order of execution.
        step: bytes of a training step of the plain model, beyond weights and input, as counted.
        optimized: the same as the model is now, if ``optimize_memory_usage`` changed it, else None.
    """

    rows: tuple[Row, ...]
    step: StepMemory
    optimized: StepMemory | None = None

    def __getitem__(self, index):
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def predicted(self) -> int:
        """Bytes held for backward by all layers with a formula."""
        return sum(row.predicted or 0 for row in self.rows)

    @property
    def measured(self) -> int:
        """Bytes held for backward by all layers."""
        return sum(row.measured for row in self.rows)

    @property
    def weights(self) -> int:
        return sum(row.weights for row in self.rows)

    @property
    def gradients(self) -> int:
        return sum(row.gradients for row in self.rows)

    @property
    def optimizer(self) -> int:
        return sum(row.optimizer for row in self.rows)

    def _cells(self) -> Iterator[tuple[str, ...]]:
        for row in self.rows:
            guess = "?" if row.predicted is None else size_of(row.predicted)
            shape = "×".join(map(str, row.shape))
            sizes = (size_of(row.weights), size_of(row.gradients), guess, size_of(row.measured))
            yield (f"{row.layer} {row.kind}", shape, *sizes)
        sums = (self.weights, self.gradients, self.predicted, self.measured)
        yield ("all layers", "", *map(size_of, sums))

    def _notes(self) -> list[str]:
        held, peak = map(size_of, self.step)
        notes = [f"training step beyond the weights: {held} held, {peak} at the peak"]
        if self.optimizer:
            notes.insert(0, f"the optimizer keeps {size_of(self.optimizer)}")
        unknown = {row.kind for row in self.rows if row.predicted is None}
        if unknown:
            notes.append(f"no formula is known for {', '.join(sorted(unknown))}")
        if self.optimized is not None:
            held, peak = map(size_of, self.optimized)
            notes.append(f"with optimize_memory_usage: {held} held, {peak} at the peak")
        return notes

    def __repr__(self) -> str:
        rows = [_HEAD, *self._cells()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
        return "\n".join([*lines, *self._notes()])

    def _repr_html_(self) -> str:
        return html_table(_HEAD, self._cells(), self._notes())


def explain_memory(model: nn.Module, x: Tensor, *, optimizer: str | None = None) -> MemoryTable:
    """Run one training step of ``model`` on ``x`` and tell where its memory goes. The model is left as it was.

    What a layer holds for backward follows from shapes: a convolution, linear or pooling layer its input (a pooling
    also a 64-bit place per output), batch norm its input, a neuron its input and what its engine says. Two layers that
    keep the same tensor hold it once. Of a model that ``optimize_memory_usage`` has changed, rows show the plain layers
    and the last line what it takes now.

    Args:
        model: called ``model(x)``; it gives a tensor or (out, state).
        x: [T, B, ...], on the device of the model.
        optimizer: "sgd", "momentum", "rmsprop", "adagrad", "adam" or "adamw": count what it would keep, too.

    Raises:
        TypeError, ValueError: no module, no tensor, mixed devices, an unknown optimizer, an output without a gradient.
    """
    check_module(model)
    checks.instance("x", x, Tensor, "a torch.Tensor [T, B, ...]")
    check_together(model, x)
    if optimizer is not None:
        checks.choice("optimizer", optimizer, OPTIMIZERS)
    parts = enabled_parts(model)
    now = training_step(model, x) if parts else None
    try:
        for part, _ in parts:
            disable(part)
        rows = _rows(model, x, OPTIMIZERS.get(optimizer or "", 0))
        return MemoryTable(tuple(rows), training_step(model, x), now)
    finally:
        for part, settings in parts:
            enable(part, settings)


def _rows(model: nn.Module, x: Tensor, copies: int) -> Iterator[Row]:
    with untouched(model, x.device):
        watcher = _Watcher(model)
        watcher.run(x)
    seen: set[int] = set()
    for name, layer, shape, module in watcher.layers:
        fresh = [t for t in module.parameters() if id(t) not in seen]
        own = [t for t in module.buffers() if id(t) not in seen]
        seen.update(map(id, [*fresh, *own]))
        learning = sum(t.nbytes for t in fresh if t.requires_grad)
        weights = sum(t.nbytes for t in [*fresh, *own])
        held = watcher.held.get(name, 0)
        yield Row(name, type(module).__name__, shape, weights, learning, learning * copies, layer, held)


class _Watcher:
    """Which layer keeps what: by hooks on layers and on what autograd saves."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.layers: list[tuple[str, int | None, tuple[int, ...], nn.Module]] = []
        self.held: dict[str, int] = {}
        self._inside: list[str] = []
        self._own = {_key(t) for t in (*model.parameters(), *model.buffers())}
        self._parts: dict[int, tuple[Any, dict[int, int]]] = {}  # storage, and bytes by address
        self._inputs: set[int] = set()

    def run(self, x: Tensor) -> None:
        handles = []
        for name, module in self.model.named_modules():
            if is_layer(module):
                name = name or "(model)"
                handles.append(module.register_forward_pre_hook(self._enter(name)))
                handles.append(module.register_forward_hook(self._leave(name), with_kwargs=True, always_call=True))
        try:
            with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(self._note, lambda t: t):
                self._result = output_of(self.model(x))  # alive, so that no address is used twice
        finally:
            for handle in handles:
                handle.remove()

    def _note(self, tensor: Tensor) -> Tensor:
        storage, key = tensor.untyped_storage(), _key(tensor)
        if key in self._own:
            return tensor
        parts = self._parts.setdefault(key, (storage, {}))[1]
        if tensor.data_ptr() not in parts:
            # Of steps saved one by one, and of the part of a larger tensor that is the input, each counts for itself.
            before = min(sum(parts.values()), storage.nbytes())
            parts[tensor.data_ptr()] = in_memory(tensor) * tensor.element_size()
            grown = min(sum(parts.values()), storage.nbytes()) - before
            where = self._inside[-1] if self._inside else "(between layers)"
            self.held[where] = self.held.get(where, 0) + grown
        return tensor

    def _enter(self, name: str):
        return lambda module, args: self._inside.append(name)

    def _leave(self, name: str):
        def hook(module: nn.Module, args: tuple, kwargs: dict, out: Any) -> None:
            self._inside.pop()
            result = out[0] if isinstance(out, tuple) else out
            if not isinstance(result, Tensor):
                return
            x = args[0] if args else next(iter(kwargs.values()))
            layer = layer_of(name, module, x, result)
            held = layer.held
            saved, size = (result, layer.out * layer.size) if isinstance(module, SAVE_OUTPUT) else (x, layer.x)
            if held and _key(saved) in self._inputs:
                held -= size  # another layer keeps it already
            if layer.held:
                self._inputs.add(_key(saved))
            self.layers.append((name, held, tuple(result.shape), module))

        return hook


def _key(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


# -- what each layer saves, from its shapes

# What saves its output, not its input.
SAVE_OUTPUT = (nn.ReLU, nn.Sigmoid, nn.Tanh)

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
        held: bytes saved for backward; None where no formula is known.
        place: bytes of a place in an image of the input, which max-pooling may save.
    """

    name: str
    module: nn.Module
    x: int
    out: int
    size: int
    values: int
    held: int | None
    place: int = 0


def is_layer(module: nn.Module) -> bool:
    """A neuron, or a module without others inside."""
    return isinstance(module, Neuron) or next(module.children(), None) is None


def layer_of(name: str, module: nn.Module, x: Tensor, out: Tensor, times: int = 1) -> Layer:
    """From a call that was seen, for ``times`` as many samples."""
    size = x.element_size()
    held = _held(module, x, out, times)
    place = place_type(module, x.shape[-1]).itemsize if type(module) is nn.MaxPool2d else 0
    return Layer(
        name, module, in_memory(x) * size * times, in_memory(out) * times, size, x.numel() * times, held, place
    )


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
    if isinstance(module, SAVE_OUTPUT):
        return in_memory(out) * times * size
    return None


def held_by_neuron(neuron: Any, x: Tensor, times: int = 1) -> int:
    """By the engine that would run it on ``times`` as many samples as ``x`` [T, B, ...] has."""
    dtype = state_dtype(x)
    width, steps = torch.finfo(dtype).bits // 8, len(x)
    shape = (x.shape[1] * times, *x.shape[2:])
    neurons = prod(shape)
    rest = neuron.initial_state(torch.empty((), dtype=dtype, device=x.device).expand(shape))
    # Of one number a step, so that it takes no memory, and static if x is.
    like = x.new_empty(steps).as_strided((steps, *shape), (min(x.stride(0), 1), *(0 for _ in shape)))
    engine = plan_for(neuron.engine, neuron, like, rest).engine
    own = in_memory(x) * times * x.element_size() + sum(in_memory(part) for part in rest) * width
    if engine == "cpp":
        return own
    if engine == "block":
        blocks, left = 0, steps
        for size in BLOCKS[x.device.type]:
            blocks, left = blocks + left // size, left % size
        return own + (blocks - 1) * len(rest) * neurons * width
    if engine == "triton":
        from snnkit.engine.triton.triton_source import BLOCK_STEPS

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
        saved: list[Tensor] = []  # the tensors themselves, so that no address is used twice

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
    layers: list[Layer] = []

    def note(name: str):
        def hook(module: nn.Module, args: tuple, kwargs: dict, out: Any) -> None:
            result = out[0] if isinstance(out, tuple) else out
            given = args[0] if args else next(iter(kwargs.values()))
            layers.append(layer_of(name, module, given, result, shape[1]))

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
    return layers


def predicted_held(model: nn.Module, settings: MemorySaving, layers: list[Layer], *, steps: int) -> int:
    """Bytes held for backward under ``settings``."""
    held = {id(layer.module): layer.held or 0 for layer in layers}
    if settings.steps is not None:
        return int(sum(held.values()) * min(settings.steps / steps, 1.0)) + (layers[0].x if layers else 0)
    by_module = {id(layer.module): layer for layer in layers}
    for net in model.modules():
        if not isinstance(net, Sequential):
            continue
        with torch.enable_grad():
            for stage in stages(net, settings):
                inside = [by_module[id(m)] for module in stage.modules for m in module.modules() if id(m) in by_module]
                if inside and stage.again:
                    held.update({id(layer.module): 0 for layer in inside})
                    held[id(inside[0].module)] = inside[0].x
                    if saves_places([layer.module for layer in inside[1:]]):
                        pools = [layer for layer in inside if type(layer.module) is nn.MaxPool2d]
                        held[id(inside[0].module)] += sum(layer.out * layer.place for layer in pools)
                elif inside and saved_as_bits(stage, settings):
                    held[id(inside[0].module)] = inside[0].values // 8
    return sum(held.values())
