"""Engines run one step of an equation over a whole sequence.

``unroll(step, x, state)`` is the loop over time. Each engine does it in another way and all give one result:

=========  ==================================================================================
``eager``  a Python loop: the reference, to be read and debugged
``block``  K steps at once compiled by ``torch.compile``; forward and backward, CPU and CUDA
``auto``   ``block`` where compiling pays, else ``eager``
=========  ==================================================================================

No engine gives way to another in silence: a fallback warns once and says why, ``explain(model, x)`` shows what each
layer takes.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from . import block, eager
from .check import (
    check_no_nan,
    check_parameters,
    check_sequence,
    check_state,
    check_step_result,
    name_of,
    state_dtype,
)
from .explain import explain
from .select import ENGINES, check_engine, choose, inside_functional_transform, warn_of_fallback

__all__ = ["ENGINES", "check_engine", "explain", "state_dtype", "unroll"]


def unroll(step: Callable | nn.Module, x: Tensor, state: Any = None, engine: str = "auto") -> tuple[Tensor, Any]:
    """Run an equation over time: ``out[t], state = step(x[t], state)`` for every t.

    Args:
        step: ``step(x_t, state) -> (out_t, state)`` in plain elementwise PyTorch on tensors [B, ...]; a function, or a
            neuron (a module with ``step`` and ``initial_state``). Its state and arithmetic are float32, or float64
            when ``x`` is.
        x: input sequence [T, B, ...], floating point, T >= 1. May be expanded in time (stride 0).
        state: NamedTuple or tuple of tensors [B, ...] to start from. None: the neuron's ``initial_state``.
        engine: "auto", "eager" or "block".

    Returns:
        out: [T, B, ...] in the dtype of ``x``.
        state: after the last step; hand it to the next call to go on.

    Raises:
        TypeError, ValueError: a wrong kind, rank, dtype, device or structure of ``x``, ``state`` or what the step
            returns; NaN or infinity in ``x`` (found on a CPU only).
    """
    if isinstance(step, MethodType) and isinstance(step.__self__, nn.Module) and step.__name__ == "step":
        step = step.__self__
    who = name_of(step)
    check_sequence(x, who)
    dtype = state_dtype(x)
    if isinstance(step, nn.Module):
        check_parameters(step, x)
    if state is None:
        state = _initial_state(step, x, dtype, who)
    check_state(state, x, who)
    choice = choose(engine, step, x, state, dtype)
    warn_of_fallback(step, choice)
    if choice.engine == "block":
        out, last = block.run(step, x, state, dtype)
    else:
        out, last = eager.run(_checked(_callable(step), who), x, state, dtype)
    if x.device.type == "cpu" and not torch.compiler.is_compiling() and not inside_functional_transform():
        check_no_nan(x, last, who)
    return out, last


def _callable(step: Callable | nn.Module) -> Callable:
    return step.step if isinstance(step, nn.Module) else step  # type: ignore[return-value]


def _checked(step: Callable, who: str) -> Callable:
    """``step`` that looks at what it returns: a state of another shape or dtype would go unnoticed by broadcasting."""

    def checked(x: Tensor, state: Any) -> tuple[Tensor, Any]:
        result = step(x, state)
        check_step_result(result, state, who)
        return result

    return checked


def _initial_state(step: Callable | nn.Module, x: Tensor, dtype: torch.dtype, who: str) -> Any:
    if not hasattr(step, "initial_state"):
        raise TypeError(f"state must be given, as {who} has no initial_state(x) to make one")
    like = torch.empty(x.shape[1:], dtype=dtype, device=x.device)
    return step.initial_state(like)  # type: ignore[union-attr, operator]
