"""The eager engine: a Python loop over time. It is the reference that every other engine must equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


def in_dtype(step: Callable | nn.Module, dtype: torch.dtype) -> Callable[[Tensor, Any], tuple[Tensor, Any]]:
    """The step as a function whose parameters and buffers are of the dtype of the state, as its arithmetic is."""
    if not isinstance(step, nn.Module):
        return step
    tensors = {**dict(step.named_parameters()), **dict(step.named_buffers())}
    cast = {name: t.to(dtype) for name, t in tensors.items() if t.is_floating_point() and t.dtype != dtype}
    if not cast:
        return step.step  # type: ignore[return-value]
    wrapper = Stepping(step)
    exchanged = {f"owner.{name}": tensor for name, tensor in cast.items()}
    return lambda x, state: torch.func.functional_call(wrapper, exchanged, (x, state))


class Stepping(nn.Module):
    """Gives a neuron's ``step`` the name ``forward``, which ``functional_call`` needs."""

    def __init__(self, owner: nn.Module) -> None:
        super().__init__()
        self.owner = owner

    def forward(self, x: Tensor, state: Any) -> Any:
        return self.owner.step(x, state)  # type: ignore[operator]


def run(
    step: Callable[[Tensor, Any], tuple[Tensor, Any]],
    x: Tensor,
    state: Any,
    dtype: torch.dtype,
    out_dtype: torch.dtype | None = None,
) -> tuple[Tensor, Any]:
    """Apply ``step`` to x[0], x[1], … in turn, carrying the state along.

    Args:
        step: ``step(x_t, state) -> (out_t, state)``.
        x: [T, B, ...]; each step is handed over in ``dtype``.
        state: what the first step starts from.
        dtype: of state and arithmetic.
        out_dtype: of the outputs; None: that of ``x``.

    Returns:
        out [T, B, ...], and the state after the last step.
    """
    outputs = []
    for x_t in x.unbind(0):
        out, state = step(x_t.to(dtype), state)
        outputs.append(out.to(out_dtype or x.dtype))
    return torch.stack(outputs), state
