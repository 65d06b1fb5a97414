"""The eager engine: a Python loop over time. It is the reference that every other engine must equal.

It also gives compiled engines their second derivatives. A compiled backward pass is one operation without a derivative.
So for ``create_graph=True`` (gradient penalties, Hessians) the sequence runs again step by step in PyTorch, which
records everything (``recorded_backward``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from snnkit.engine.memory_gate import FREED, foreign
from snnkit.engine.trace import check_step_result


def in_dtype(step: Callable | nn.Module, dtype: torch.dtype) -> Callable[[Tensor, Any], tuple[Tensor, Any]]:
    """The step as a function whose parameters and buffers have the dtype of the state and of the arithmetic."""
    if not isinstance(step, nn.Module):
        return step
    tensors = {**dict(step.named_parameters()), **dict(step.named_buffers())}
    cast = {name: t.to(dtype) for name, t in tensors.items() if t.is_floating_point() and t.dtype != dtype}
    return _with(step, cast) if cast else step.step  # type: ignore[return-value]


class _Stepping(nn.Module):
    """Gives a neuron's ``step`` the name ``forward``, which ``functional_call`` needs."""

    def __init__(self, owner: nn.Module) -> None:
        super().__init__()
        self.owner = owner

    def forward(self, x: Tensor, state: Any) -> Any:
        return self.owner.step(x, state)  # type: ignore[operator]


def _with(step: nn.Module, tensors: dict[str, Tensor]) -> Callable[[Tensor, Any], tuple[Tensor, Any]]:
    """The step with these tensors instead of its parameters and buffers of the same names."""
    stepping = _Stepping(step)
    named = {f"owner.{name}": tensor for name, tensor in tensors.items()}
    return lambda x, state: torch.func.functional_call(stepping, named, (x, state))


def run(
    step: Callable[[Tensor, Any], tuple[Tensor, Any]],
    x: Tensor,
    state: Any,
    dtype: torch.dtype,
    out_dtype: torch.dtype | None = None,
    states: list[Any] | None = None,
) -> tuple[Tensor, Any]:
    """Apply ``step`` to x[0], x[1], … of [T, B, ...] and pass the state on: out [T, B, ...] and last state.

    ``dtype`` is that of state and arithmetic; outputs get ``out_dtype``, by default that of ``x``. The state after
    every step is appended to ``states``, if given.
    """
    outputs = []
    for x_t in x.unbind(0):
        out, state = step(x_t.to(dtype), state)
        outputs.append(out.to(out_dtype or x.dtype))
        if states is not None:
            states.append(state)
    return torch.stack(outputs), state


def stacked(states: Sequence[Any]) -> Any:
    """States of T steps, each part [B, ...], as one with parts [T, B, ...]."""
    return getattr(type(states[0]), "_make", tuple)(map(torch.stack, zip(*states, strict=True)))


def checked(step: Callable | nn.Module, dtype: torch.dtype) -> Callable:
    """``in_dtype``, with a check of the step's result: broadcasting would hide a wrong shape or dtype."""
    function = in_dtype(step, dtype)

    def call(x: Tensor, state: Any) -> tuple[Tensor, Any]:
        result = function(x, state)
        check_step_result(result, x, state, step)
        return result

    return call


class Origin(NamedTuple):
    """The source of an equation: its step, and a function from a sequence of tensors to the step's state."""

    step: Callable | nn.Module
    rebuild: Callable[[Iterable[Tensor]], Any]


def recorded_backward(
    origin: Origin,
    names: Sequence[str],
    dtype: torch.dtype,
    out_dtype: torch.dtype,
    repeat: int,
    tensors: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    needs: Sequence[bool],
) -> list[Tensor | None]:
    """The gradients of ``tensors`` (x, *state, *parameters) according to ``needs``, as functions of everything.

    x is one step [N], repeated ``repeat`` times, or [T, N] if that is 0. ``names`` are the parameters' names.
    ``gradients`` are those of out, of the last state and, if the states after every step were requested, of these; None
    if a loss does not depend on one.
    """
    if any(t is not None and foreign(t) == FREED for t in (*tensors, *gradients)):
        raise RuntimeError("backward needs x, the first state and the parameters, but the memory of one was freed")
    higher = torch.is_grad_enabled()
    with torch.enable_grad():
        # Views: if a state was computed from x, only its use in this layer is differentiated here.
        x, *rest = inputs = [t.view_as(t) if need else t for t, need in zip(tensors, needs, strict=True)]
        sequence = x.expand(repeat, *x.shape) if repeat else x
        states = len(rest) - len(names)
        step = origin.step
        if isinstance(step, nn.Module):
            step = _with(step, dict(zip(names, rest[states:], strict=True)))
        after: list[Any] | None = [] if len(gradients) > 1 + states else None
        out, last = run(step, sequence, origin.rebuild(rest[:states]), dtype, out_dtype, after)
        outputs = (out, *last, *(stacked(after) if after else ()))
        pairs = [(o, g) for o, g in zip(outputs, gradients, strict=True) if g is not None and o.requires_grad]
        results = torch.autograd.grad(
            [o for o, _ in pairs],
            [t for t, need in zip(inputs, needs, strict=True) if need],
            [g for _, g in pairs],
            create_graph=higher,
            allow_unused=True,
        )
    every = iter(results)
    return [next(every) if need else None for need in needs]
