"""The memory of a training step: the bytes that each layer holds for backward, counted by autograd's hooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from snnkit import checks
from snnkit.device.optimize import restore_memory_usage, saving_parts
from snnkit.device.placement import check_together
from snnkit.device.usage import StepMemory, output_of, training_step, untouched
from snnkit.engine.page_pool import POOL
from snnkit.neuron import Neuron
from snnkit.pooling import observer
from snnkit.tables import html_table, size_of, text_table

# What an optimizer keeps, in times the weights.
OPTIMIZERS = {"sgd": 0, "momentum": 1, "rmsprop": 1, "adagrad": 1, "adam": 2, "adamw": 2}

_HEAD = ("layer", "output", "weights", "gradients", "held")


@dataclass(frozen=True)
class Row:
    """One layer of the model; all sizes in bytes."""

    layer: str  # its name
    kind: str  # its class
    shape: tuple[int, ...]  # of its output, time and batch folded for stateless layers
    weights: int  # of its parameters and buffers
    gradients: int
    optimizer: int  # what the optimizer keeps for them
    measured: int  # held for backward: each storage once, with the layer that keeps it first


@dataclass(frozen=True)
class MemoryTable(Sequence[Row]):
    """A sequence of rows that prints as a table."""

    rows: tuple[Row, ...]  #: a layer each, in order of execution
    step: StepMemory  #: of a training step of the plain model, as counted
    reserved: int  #: free blocks of the CPU engines for later calls, which ``empty_cache`` returns
    optimized: StepMemory | None = None  #: the same as the model is now, if ``optimize_memory_usage`` changed it

    def __getitem__(self, index):
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def measured(self) -> int:
        """Bytes held for backward by all layers."""
        return sum(row.measured for row in self.rows)

    @property
    def optimizer(self) -> int:
        """Bytes that the optimizer keeps."""
        return sum(row.optimizer for row in self.rows)

    def _cells(self) -> list[tuple[str, ...]]:
        rows = [(f"{r.layer} {r.kind}", r.shape, (r.weights, r.gradients, r.measured)) for r in self.rows]
        sizes = sum(row.weights for row in self.rows), sum(row.gradients for row in self.rows), self.measured
        rows.append(("all layers", (), sizes))
        return [(name, "×".join(map(str, shape)), *map(size_of, sizes)) for name, shape, sizes in rows]

    def _notes(self) -> list[str]:
        held, peak = map(size_of, self.step)
        notes = [f"training step beyond the weights: {held} held, {peak} at the peak"]
        if self.optimizer:
            notes.insert(0, f"the optimizer keeps {size_of(self.optimizer)}")
        if self.optimized is not None:
            held, peak = map(size_of, self.optimized)
            notes.append(f"with optimize_memory_usage: {held} held, {peak} at the peak")
        if self.reserved:
            notes.append(f"free memory reserved for later calls: {size_of(self.reserved)}")
        return notes

    def __repr__(self) -> str:
        return "\n".join([*text_table(_HEAD, self._cells()), *self._notes()])

    def _repr_html_(self) -> str:
        return html_table(_HEAD, self._cells(), self._notes())


@checks.arguments
def explain_memory(model: nn.Module, x: Tensor, *, optimizer: str | None = None) -> MemoryTable:
    """Run one training step of ``model`` on ``x`` and show which layers hold its memory. The model does not change.

    A tensor that two layers hold counts once. If ``optimize_memory_usage`` has changed the model, the rows show the
    plain layers, and the last line shows what the model takes now.

    Args:
        model: called ``model(x)``; it gives a tensor or (out, state).
        x: [T, B, ...], on the device of the model.
        optimizer: "sgd", "momentum", "rmsprop", "adagrad", "adam" or "adamw": also count the bytes that this optimizer
            would hold.
    """
    check_together(model, x)
    if optimizer is not None:
        checks.choice("optimizer", optimizer, OPTIMIZERS)
    parts = saving_parts(model)
    now = training_step(model, x) if parts else None
    try:
        restore_memory_usage(model)
        rows = _rows(model, x, OPTIMIZERS.get(optimizer or "", 0))
        step = training_step(model, x)
        return MemoryTable(tuple(rows), step, POOL.free_bytes(), now)
    finally:
        for part in parts:
            part.runner = parts[part]


def _rows(model: nn.Module, x: Tensor, copies: int) -> Iterator[Row]:
    with untouched(model, x.device):
        watcher = _Watcher(model)
        watcher.run(x)
    seen: set[int] = set()
    for name, shape, module in watcher.layers:
        fresh = [t for t in module.parameters() if id(t) not in seen]
        own = [t for t in module.buffers() if id(t) not in seen]
        seen.update(map(id, [*fresh, *own]))
        learning = sum(t.nbytes for t in fresh if t.requires_grad)
        weights = sum(t.nbytes for t in [*fresh, *own])
        held = watcher.held.get(name, 0)
        yield Row(name, type(module).__name__, shape, weights, learning, learning * copies, held)


class _Watcher:
    """Which layer keeps what: by hooks on layers and on what autograd saves."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.layers: list[tuple[str, tuple[int, ...], nn.Module]] = []
        self.held: dict[str, int] = {}
        self._inside: list[str] = []
        self._own = {_key(t) for t in (*model.parameters(), *model.buffers())}
        self._parts: dict[int, tuple[Any, dict[int, int]]] = {}  # storage, and bytes by address

    def run(self, x: Tensor) -> None:
        handles = []
        for name, module in self.model.named_modules():
            if isinstance(module, Neuron) or next(module.children(), None) is None:
                name = name or "(model)"
                handles.append(module.register_forward_pre_hook(observer(self._enter(name))))
                handles.append(module.register_forward_hook(observer(self._leave(name)), always_call=True))
        try:
            with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(self._note, lambda t: t):
                self._result = output_of(self.model(x))  # alive, so that no address is used twice
        finally:
            for handle in handles:
                handle.remove()

    @observer
    def _note(self, tensor: Tensor) -> Tensor:
        storage, key = tensor.untyped_storage(), _key(tensor)
        if key in self._own:
            return tensor
        parts = self._parts.setdefault(key, (storage, {}))[1]
        if tensor.data_ptr() not in parts:
            # Of steps saved one by one, and of the part of a larger tensor that is the input, each counts for itself.
            before = min(sum(parts.values()), storage.nbytes())
            parts[tensor.data_ptr()] = _values_of(tensor) * tensor.element_size()
            grown = min(sum(parts.values()), storage.nbytes()) - before
            where = self._inside[-1] if self._inside else "(between layers)"
            self.held[where] = self.held.get(where, 0) + grown
        return tensor

    def _enter(self, name: str):
        def hook(module: nn.Module, args: tuple) -> None:
            self._inside.append(name)

        return hook

    def _leave(self, name: str):
        def hook(module: nn.Module, args: tuple, out: Any) -> None:
            self._inside.pop()
            result = out[0] if isinstance(out, tuple) else out
            if isinstance(result, Tensor):
                self.layers.append((name, tuple(result.shape), module))

        return hook


def _key(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _values_of(x: Tensor) -> int:
    """Values of ``x`` in memory: those seen several times (stride 0) count once."""
    return prod(n for n, stride in zip(x.shape, x.stride(), strict=True) if stride or n == 1)
