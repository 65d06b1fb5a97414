"""A neuron's layer as the engine takes it: [T, N], numbers only."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from snnkit.engine import equation_of
from snnkit.engine.memory_gate import tensors_of
from snnkit.engine.trace import Equation
from tests.engine.zoo import FEATURES, ZOO, drive

BATCH = 3


class Layer(NamedTuple):
    """A neuron of the zoo over [T, BATCH, FEATURES], and what the engine is given for it."""

    neuron: nn.Module
    equation: Equation
    x: Tensor
    state: tuple[Tensor, ...]
    flat_x: Tensor
    flat_state: list[Tensor]
    parameters: list[Tensor]


def equation_named(name: str, dtype: torch.dtype = torch.float32) -> tuple[Equation, tuple[int, ...]]:
    """The equation of a neuron of the zoo, and for each parameter 0 or 1: shared, or one per neuron."""
    neuron = ZOO[name]().to(dtype)
    state = neuron.initial_state(torch.zeros(1, FEATURES, dtype=dtype))
    dims = tuple(int(p.numel() > 1) for p in tensors_of(neuron).values())
    return equation_of(neuron, state, dtype, torch.device("cpu")), dims


def layer(name: str, steps: int, dtype: torch.dtype, io: torch.dtype | None = None) -> Layer:
    """``dtype`` is that of state and arithmetic, ``io`` (by default the same) that of x."""
    neuron = ZOO[name]().to(dtype)
    neuron.engine = "eager"
    x = drive(neuron, steps, BATCH, FEATURES, dtype=io or dtype)
    state = neuron.initial_state(torch.zeros(BATCH, FEATURES, dtype=dtype))
    state = type(state)(*(part + 0.1 for part in state))
    parameters = [
        p.detach().reshape(()) if p.numel() == 1 else p.detach().expand(BATCH, FEATURES).flatten()
        for p in tensors_of(neuron).values()
    ]
    equation = equation_of(neuron, state, dtype, torch.device("cpu"))
    return Layer(neuron, equation, x, state, x.flatten(1), [part.flatten() for part in state], parameters)
