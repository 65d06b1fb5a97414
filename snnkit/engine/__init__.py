"""Engines run one step of an equation over a whole sequence.

``unroll(step, x, state)`` is the loop over time. Each engine does it in another way and all give one result:

==========  ==================================================================================
``eager``   a Python loop: the reference, to be read and debugged
``block``   K steps at once compiled by ``torch.compile``; forward and backward, CPU and CUDA
``cpp``     all steps in one C++ loop generated from the equation; CPU
``triton``  all steps in one Triton kernel generated from the equation; CUDA
``auto``    one that compiles where that pays (``select.AUTO``), else ``eager``
==========  ==================================================================================

No engine gives way to another in silence: a fallback warns once and says why, ``explain(model, x)`` shows what each
layer takes.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from . import compiled, eager
from .check import (
    check_finite,
    check_out_dtype,
    check_parameters,
    check_sequence,
    check_state,
    check_step_result,
    explain_failure,
    name_of,
    repeated,
    state_dtype,
)
from .explain import explain
from .ops import as_operation
from .select import ENGINES, after_failure, check_engine, choose, inside_functional_transform, warn_of_fallback

__all__ = ["ENGINES", "check_engine", "explain", "state_dtype", "unroll"]


def unroll(
    step: Callable | nn.Module,
    x: Tensor,
    state: Any = None,
    engine: str = "auto",
    out_dtype: torch.dtype | None = None,
    repeat: int | None = None,
) -> tuple[Tensor, Any]:
    """Run an equation over time: ``out[t], state = step(x[t], state)`` for every t.

    Args:
        step: ``step(x_t, state) -> (out_t, state)`` in plain elementwise PyTorch on tensors [B, ...]; a function, or a
            neuron (a module with ``step`` and ``initial_state``). Its state and arithmetic are float32, or float64
            when ``x`` is.
        x: input sequence [T, B, ...], floating point, T >= 1. May be expanded in time (stride 0).
        state: NamedTuple or tuple of tensors [B, ...] to start from. None: the neuron's ``initial_state``.
        engine: "auto", "eager", "block", "cpp" or "triton".
        out_dtype: ``torch.uint8`` for spikes of one byte each, where no gradient is wanted; None: that of ``x``.
        repeat: ``x`` is one step [B, ...] that comes in so many times. As if it were expanded, but its gradient is
            summed over time where it is made, instead of being written T times first.

    Returns:
        out: [T, B, ...] in the dtype of ``x``, or ``out_dtype``.
        state: after the last step; hand it to the next call to go on.

    Raises:
        TypeError, ValueError: a wrong kind, rank, dtype, device or structure of ``x``, ``state`` or what the step
            returns; NaN or infinity in ``x`` (found on a CPU only); gradients through one-byte spikes.
        MemoryError: too little memory; says how much was needed.
    """
    if isinstance(step, MethodType) and isinstance(step.__self__, nn.Module) and step.__name__ == "step":
        step = step.__self__
    who = name_of(step)
    once = None if repeat is None else x
    if once is not None:
        x = repeated(x, repeat, who)
    check_sequence(x, who)
    dtype = state_dtype(x)
    if isinstance(step, nn.Module):
        check_parameters(step, x)
    if state is None:
        state = _initial_state(step, x, dtype, who)
    check_state(state, x, who)
    out_dtype = check_out_dtype(out_dtype, step, x, state, who)
    try:
        out, last = _run(engine, step, x, state, dtype, out_dtype, once)
    except (AttributeError, RuntimeError) as error:
        clearer = None if torch.compiler.is_compiling() else explain_failure(error, step, x, state)
        if clearer is None:
            raise
        try:
            raise clearer from error
        finally:
            del clearer  # it knows this frame: in a cycle, the tensors of a call that ran out of memory would stay
    if x.device.type == "cpu" and not torch.compiler.is_compiling() and not inside_functional_transform():
        check_finite(x, last, who)
    return out, last


def _run(
    engine: str,
    step: Callable | nn.Module,
    x: Tensor,
    state: Any,
    dtype: torch.dtype,
    out_dtype: torch.dtype,
    once: Tensor | None,
) -> tuple[Tensor, Any]:
    if torch.compiler.is_compiling():
        result = as_operation(check_engine(engine), step, x, state, dtype, out_dtype == torch.uint8)
        if result is not None:
            return result
    choice = choose(engine, step, x, state, dtype)
    equation = choice.equation
    while equation is not None:
        try:
            result = compiled.run(choice.engine, equation, step, x, state, out_dtype, once)
        except compiled.CompilationFailed as error:
            # Another compiler may be able to.
            choice = after_failure(choice, error, equation, x.device)
            equation = choice.equation
        else:
            warn_of_fallback(step, choice)
            return result
    warn_of_fallback(step, choice)
    return eager.run(_checked(step, dtype), x, state, dtype, out_dtype)


def _checked(step: Callable | nn.Module, dtype: torch.dtype) -> Callable:
    """The step as a function that looks at what it returns: broadcasting would let a wrong shape or dtype pass."""
    function, who = eager.in_dtype(step, dtype), name_of(step)

    def checked(x: Tensor, state: Any) -> tuple[Tensor, Any]:
        result = function(x, state)
        check_step_result(result, x, state, who)
        return result

    return checked


def _initial_state(step: Callable | nn.Module, x: Tensor, dtype: torch.dtype, who: str) -> Any:
    if not hasattr(step, "initial_state"):
        raise TypeError(f"state must be given, as {who} has no initial_state(x) to make one")
    # One value in memory for all neurons: so a state of zeros is one zero, which engines need not read N times.
    like = torch.empty((), dtype=dtype, device=x.device).expand(x.shape[1:])
    return step.initial_state(like)  # type: ignore[union-attr, operator]
