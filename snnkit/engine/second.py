"""Gradients that can be differentiated again, for ``create_graph=True``.

A compiled backward pass is one operation without a derivative of its own. Where somebody asks for one (gradient
penalties, Hessians), the sequence is run again step by step in PyTorch, which records everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from . import eager
from .equations import tensors_of
from .trace import Equation


class Origin(NamedTuple):
    """What an equation was traced from: its step, and what makes the step's state of a sequence of tensors."""

    step: Callable | nn.Module
    rebuild: Callable[[Iterable[Tensor]], Any]


def differentiable_backward(
    origin: Origin,
    equation: Equation,
    out_dtype: torch.dtype,
    repeat: int,
    tensors: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    needs: Sequence[bool],
) -> list[Tensor | None]:
    """The gradients of ``tensors`` (x, *state, *parameters) where ``needs`` says so, as functions of everything.

    Args:
        origin: what ``equation`` was traced from.
        out_dtype: of the outputs.
        repeat: x is one step [N] that came in so many times; 0: it is [T, N].
        tensors: x, state [N], parameters [N] or 0-dimensional, as autograd saved them.
        gradients: of out and of the last state; None where nobody looked at one.
        needs: whether each of ``tensors`` wants a gradient.
    """
    with torch.enable_grad():
        # Views: of a state that was computed from x, only what goes into this layer is differentiated here.
        x, *rest = inputs = [t.view_as(t) if need else t for t, need in zip(tensors, needs, strict=True)]
        sequence = x.expand(repeat, *x.shape) if repeat else x
        state, parameters = rest[: equation.states], rest[equation.states :]
        out, last = eager.run(_with(origin, parameters), sequence, origin.rebuild(state), equation.dtype, out_dtype)
        pairs = [(o, g) for o, g in zip((out, *last), gradients, strict=False) if g is not None and o.requires_grad]
        wanted = [t for t, need in zip(inputs, needs, strict=True) if need]
        found = torch.autograd.grad(
            [o for o, _ in pairs], wanted, [g for _, g in pairs], create_graph=True, allow_unused=True
        )
    every = iter(found)
    return [next(every) if need else None for need in needs]


def _with(origin: Origin, parameters: Sequence[Tensor]) -> Callable[[Tensor, tuple], tuple[Tensor, Any]]:
    """The step with these in place of its parameters and buffers."""
    if not isinstance(origin.step, nn.Module):
        return origin.step
    stepping = eager.Stepping(origin.step)
    named = {f"owner.{name}": p for name, p in zip(tensors_of(origin.step), parameters, strict=True)}
    return lambda x, state: torch.func.functional_call(stepping, named, (x, state))
