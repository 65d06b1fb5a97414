"""Recurrent: a layer of neurons that hear each other's last spikes."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..engine import state_dtype
from ..engine.check import check_sequence
from .base import Neuron


class RecurrentState(NamedTuple):
    """State of a ``Recurrent`` layer.

    Attributes:
        neuron: state of the neurons.
        out: what they gave out last [B, N], which comes back through the recurrent weights in the next step.
    """

    neuron: Any
    out: Tensor


class Recurrent(nn.Module):
    """``out[t], state = neuron(x[t] + W out[t-1], state)``: all-to-all recurrent weights around any neuron.

    The weights mix neurons, so time goes step by step whatever the engine; the neuron's own engine serves each step.

    Args:
        neuron: the neurons; called on [1, B, N].
        features: N, their number.
        bias: whether the recurrent connection has one.
        device, dtype: of the weights, as in ``torch.nn.Linear``.
    """

    def __init__(self, neuron: Neuron, features: int, *, bias: bool = False, device=None, dtype=None) -> None:
        super().__init__()
        if not isinstance(neuron, Neuron):
            raise TypeError(f"neuron of Recurrent must be a Neuron such as LIF(), but it is a {type(neuron).__name__}")
        if isinstance(features, bool) or not isinstance(features, int):
            raise TypeError(f"features of Recurrent must be a whole number, but it is a {type(features).__name__}")
        if features < 1:
            raise ValueError(f"features of Recurrent must be at least 1, but it is {features}")
        self.neuron = neuron
        self.weight = nn.Linear(features, features, bias=bias, device=device, dtype=dtype)

    def forward(self, x: Tensor, state: RecurrentState | None = None) -> tuple[Tensor, RecurrentState]:
        """x [T, B, N] to out [T, B, N] and the state after the last step; ``state=None`` starts at rest."""
        check_sequence(x, "Recurrent")
        features = self.weight.in_features
        if x.dim() != 3 or x.shape[2] != features:
            raise ValueError(f"x of Recurrent must be [T, B, {features}], but its shape is {list(x.shape)}")
        if state is None:
            inner, out = None, torch.zeros(x.shape[1:], dtype=state_dtype(x), device=x.device)
        elif isinstance(state, RecurrentState):
            inner, out = state
        else:
            raise TypeError(f"state of Recurrent must be a RecurrentState or None, but it is a {type(state).__name__}")
        outputs = []
        for x_t in x.unbind(0):
            current = x_t + self.weight(out.to(x.dtype))
            spikes, inner = self.neuron(current.unsqueeze(0), inner)
            out = spikes.squeeze(0)
            outputs.append(out)
        return torch.stack(outputs), RecurrentState(inner, out)
