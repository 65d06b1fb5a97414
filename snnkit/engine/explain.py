"""Which engine does each layer of a model take, and why?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .check import name_of, state_dtype
from .select import choose


@dataclass(frozen=True)
class Row:
    """One neuron layer: its name in the model, class, shape of input [T, B, ...], engine, and the reason."""

    layer: str
    neuron: str
    shape: tuple[int, ...]
    engine: str
    reason: str


class Explanation(list[Row]):
    """A list of rows that prints as a table."""

    def __str__(self) -> str:
        if not self:
            return "no neurons in this model"
        head = ("layer", "neuron", "input [T, B, ...]", "engine", "why")
        cells = [head, *((r.layer, r.neuron, "x".join(map(str, r.shape)), r.engine, r.reason) for r in self)]
        widths = [max(len(row[i]) for row in cells) for i in range(4)]
        lines = ["  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[4]]) for row in cells]
        return "\n".join(lines)

    __repr__ = __str__


def explain(model: nn.Module, x: Tensor, state: Any = None) -> Explanation:
    """Run ``model`` once on ``x`` [T, B, ...] without gradients and tell which engine each layer took, and why.

    A neuron is any module with ``step``, ``initial_state`` and ``engine``. The order is that of execution.
    """
    rows = Explanation()
    handles = []

    def hook(name: str):
        def note(module: nn.Module, args: tuple, kwargs: dict) -> None:
            if any(row.layer == name for row in rows):
                return  # a neuron inside Recurrent is called once per time step
            sequence = args[0] if args else kwargs["x"]
            dtype = state_dtype(sequence)
            rest = module.initial_state(torch.empty(sequence.shape[1:], dtype=dtype, device=sequence.device))  # type: ignore[operator]
            choice = choose(module.engine, module, sequence, rest, dtype)  # type: ignore[arg-type]
            rows.append(Row(name, name_of(module), tuple(sequence.shape), choice.engine, choice.reason))

        return note

    try:
        for name, module in model.named_modules():
            if all(hasattr(module, attribute) for attribute in ("step", "initial_state", "engine")):
                handles.append(module.register_forward_pre_hook(hook(name or "(model)"), with_kwargs=True))
        with torch.no_grad():
            model(x) if state is None else model(x, state)
    finally:
        for handle in handles:
            handle.remove()
    return rows
