"""Where the memory of a training step goes: predicted for each layer from its shapes, and measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..tables import html_table, size_of
from .economy import economise, release
from .layers import KEEP_OUTPUT, in_memory, is_layer, layer_of
from .measure import Taken, output_of, training_step, untouched
from .optimize import economical_parts
from .place import check_module, check_together

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
    step: Taken
    optimized: Taken | None = None

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
    if not isinstance(x, Tensor):
        raise TypeError(f"x must be a torch.Tensor [T, B, ...], but it is a {type(x).__name__}")
    check_together(model, x)
    if optimizer is not None and optimizer not in OPTIMIZERS:
        choices = ", ".join(map(repr, OPTIMIZERS))
        raise ValueError(f"optimizer must be one of {choices} or None, but it is {optimizer!r}")
    parts = economical_parts(model)
    now = training_step(model, x) if parts else None
    try:
        for part, _ in parts:
            release(part)
        rows = _rows(model, x, OPTIMIZERS.get(optimizer or "", 0))
        return MemoryTable(tuple(rows), training_step(model, x), now)
    finally:
        for part, settings in parts:
            economise(part, settings)


def _rows(model: nn.Module, x: Tensor, copies: int) -> Iterator[Row]:
    with untouched(model, x.device):
        watch = _Watch(model)
        watch.run(x)
    seen: set[int] = set()
    for name, layer, shape, module in watch.layers:
        fresh = [t for t in module.parameters() if id(t) not in seen]
        own = [t for t in module.buffers() if id(t) not in seen]
        seen.update(map(id, [*fresh, *own]))
        learning = sum(t.nbytes for t in fresh if t.requires_grad)
        weights = sum(t.nbytes for t in [*fresh, *own])
        held = watch.held.get(name, 0)
        yield Row(name, type(module).__name__, shape, weights, learning, learning * copies, layer, held)


class _Watch:
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
                self._result = output_of(self.model(x))  # alive, so that no address stands for two tensors
        finally:
            for handle in handles:
                handle.remove()

    def _note(self, tensor: Tensor) -> Tensor:
        storage, key = tensor.untyped_storage(), _key(tensor)
        if key in self._own:
            return tensor
        parts = self._parts.setdefault(key, (storage, {}))[1]
        if tensor.data_ptr() not in parts:
            # Of steps kept one by one, and of the part of a larger tensor that is the input, each counts for itself.
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
            kept, size = (result, layer.out * layer.size) if isinstance(module, KEEP_OUTPUT) else (x, layer.x)
            if held and _key(kept) in self._inputs:
                held -= size  # another layer keeps it already
            if layer.held:
                self._inputs.add(_key(kept))
            self.layers.append((name, held, tuple(result.shape), module))

        return hook


def _key(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
