"""``unroll``: an equation over a whole sequence, in the engine that was chosen; its checks and its errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from snnkit import checks
from snnkit.engine import eager, warm
from snnkit.engine.autograd import CompilationFailed, Pooling
from snnkit.engine.memory_gate import (
    inside_functional_transform,
    is_watched,
    parameters_and_buffers,
    shows_values,
    untraced,
)
from snnkit.engine.observe import (
    Seen,
    _thread,
    all_changes,
    all_observers,
    changes,
    observers_of,
    repeat_under_these_conditions,
    with_changes,
)
from snnkit.engine.ops import as_operation
from snnkit.engine.plan import Planned, after_failure, check_engine, planned, state_dtype, warn_of_fallback
from snnkit.engine.trace import field_names, name_of, thread
from snnkit.tables import size_of


def unroll(
    step: Callable | nn.Module,
    x: Tensor,
    state: Any = None,
    engine: str = "auto",
    out_dtype: torch.dtype | None = None,
    repeat: int | None = None,
    window: int = 0,
) -> tuple[Tensor, Any]:
    """Run an equation over time: ``out[t], state = step(x[t], state)`` for every t.

    Compiled engines call the step only to record its operations. So it must depend on its arguments and on what it
    holds alone. One that reads anything else (the time, random numbers, whether gradients are needed), or that changes
    what it holds, runs in the eager engine, with a warning that says why. Two differences to the eager engine remain:
    an ``autograd.Function`` in a step computes all gradients (``ctx.needs_input_grad``), and a hook on a tensor of
    the last state does not see what reaches it through ``out``.

    Args:
        step: ``step(x_t, state) -> (out_t, state)`` in plain elementwise PyTorch on tensors [B, ...]; a function, or a
            neuron (a module with ``step`` and ``initial_state``). Its state and arithmetic are float32, or float64
            when ``x`` is.
        x: input sequence [T, B, ...], floating point, T >= 1. May be expanded in time (stride 0).
        state: NamedTuple or tuple of tensors [B, ...] to start from. None: the neuron's ``initial_state``.
        engine: "auto", "eager", "block", "cpp" or "triton".
        out_dtype: ``torch.uint8`` for spikes of one byte each, if no gradient is needed; None: that of ``x``.
        repeat: ``x`` is one step [B, ...], repeated so many times. The result is the same as with an expanded ``x``,
            but its gradient is summed over time at once, and not first written T times.
        window: pool the outputs of x [T, B, C, H, W] as ``torch.nn.MaxPool2d(window)`` does, or 0. The C++ engine does
            it at once, if ``x`` is channels-last and H a multiple of it, and no outputs of full size take memory.

    Returns:
        out: [T, B, ...] in the dtype of ``x``, or ``out_dtype``; [T, B, C, H // window, W // window] if pooled.
        state: the state after the last step; pass it to the next call to continue.

    Raises:
        TypeError, ValueError: a wrong kind, rank, dtype, device or structure of ``x``, of ``state`` or of the step's
            result; NaN or infinity in ``x``, or an output too large for float16 (detected on a CPU only); gradients
            through one-byte spikes.
        MemoryError: too little memory; the message says how much was needed.
    """
    if isinstance(step, MethodType) and isinstance(step.__self__, nn.Module) and step.__name__ == "step":
        step = step.__self__
    once = None if repeat is None else x
    if repeat is not None:
        x = _repeated(x, repeat, step)
    check_sequence(x, step)
    if window != 0:
        _check_window(window, x, step)
    dtype = state_dtype(x)
    if isinstance(step, nn.Module) and (step._parameters or step._buffers or step._modules):
        check_parameters(step, x)
    compiling = torch.compiler.is_compiling()
    # As ``observe.anyone`` says, without its code: each module whose code a warm call runs takes time.
    looked_at = not compiling and (all_observers or all_changes or _thread.changes is not None)
    observers = observers_of(step) if looked_at else ()
    try:
        from_rest = state is None and not (compiling or thread.tracing or observers or is_watched())
        plan_at_rest = planned(engine, step, x, None, False) if from_rest else None
        if plan_at_rest is None:
            state = initial_state(step, x, dtype) if state is None else state
            check_state(state, x, dtype, step)
        out_dtype = x.dtype if out_dtype is None else _checked_out_dtype(out_dtype, step, x, state or ())
        if compiling or thread.tracing:
            (out, last), states = _recorded(engine, step, x, state, dtype, out_dtype), None
            out = _pooled(out, window) if window else out
        else:
            every = bool(observers) and any(one.states for one in observers)
            out, last, states = _run(engine, step, x, state, plan_at_rest, dtype, out_dtype, once, every, window)
    except (AttributeError, RuntimeError) as error:
        clearer = None if compiling else explained(error, step, x, state)
        if clearer is None:
            raise
        try:
            raise clearer from error
        finally:
            del clearer  # it refers to this frame: the cycle would hold the tensors of a call that ran out of memory
    if looked_at:
        out = with_changes(step, out)
        if observers or changes():
            repeat_under_these_conditions()
    for one in observers:
        if one.looks():
            one.observer(Seen(step, out, state, last, states))
    return out, last


def _recorded(
    engine: str, step: Callable | nn.Module, x: Tensor, state: Any, dtype: torch.dtype, out_dtype: torch.dtype
) -> tuple[Tensor, Any]:
    """What a compiler or a trace records."""
    if not thread.tracing:
        result = as_operation(check_engine(engine), step, x, state, dtype, out_dtype == torch.uint8)
        if result is not None:
            return result
    # Inlined, the loop fuses with its neighbours.
    return eager.run(eager.checked(step, dtype), x, state, dtype, out_dtype)


def _run(
    engine: str,
    step: Callable | nn.Module,
    x: Tensor,
    state: Any,
    plan_at_rest: Planned | None,
    dtype: torch.dtype,
    out_dtype: torch.dtype,
    once: Tensor | None,
    every: bool,
    window: int,
) -> tuple[Tensor, Any, Any]:
    """(out, last state, the states after ``every`` step or None). ``plan_at_rest``: that from a shared state."""
    many = every and len(x) > 1  # the last state is that after a single step
    plan, layout, rest, known = plan_at_rest or planned(engine, step, x, state, many)  # type: ignore[misc]
    start, result, pooling = state if rest is None else rest, None, None
    while result is None and plan.equation is not None:
        if window:
            is_able = plan.engine == "cpp" and out_dtype == x.dtype and not (many or inside_functional_transform())
            pooling = Pooling.of(window, layout) if is_able else None  # type: ignore[arg-type]
        try:
            how = (layout, once, many, pooling)
            result = warm.run(known, rest is not None, plan.engine, plan.equation, step, x, start, out_dtype, *how)  # type: ignore[arg-type]
        except CompilationFailed as error:
            # Another compiler may be able to.
            pooling = None
            plan = after_failure(plan, error, x.device)
    if plan.fallback:
        warn_of_fallback(step, plan)
    if result is None:
        if rest is not None:  # a step may return what it got, and that is the user's then
            state = initial_state(step, x, dtype)
            check_state(state, x, dtype, step)
        after: list[Any] | None = [] if many else None
        out, last = eager.run(eager.checked(step, dtype), x, state, dtype, out_dtype, after)
        result = out, last, after and eager.stacked(after), False
    out, last, states, is_finite = result
    if window and not pooling:
        out = _pooled(out, window)
    if every and not many:
        states = eager.stacked([last])
    if not is_finite and x.device.type == "cpu" and shows_values(x, *last):
        _check_finite(x, last, step)
    if out.dtype == torch.float16 and shows_values(out):
        _check_float16(out, step)
    return out, last, states


def _check_window(window: Any, x: Tensor, step: Any) -> None:
    owner = name_of(step)
    if x.dim() != 5:
        raise ValueError(f"x of {owner} must be [T, B, C, H, W] to be pooled, but its shape is {list(x.shape)}")
    if not torch.compiler.is_compiling():  # where sides may be symbols
        checks.integer(f"window of {owner}", window, at_least=1, at_most=min(x.shape[3:]))


def _pooled(out: Tensor, window: int) -> Tensor:
    return nn.functional.max_pool2d(out.flatten(0, 1), window).unflatten(0, out.shape[:2])


def initial_state(step: Callable | nn.Module, x: Tensor, dtype: torch.dtype) -> Any:
    if not hasattr(step, "initial_state"):
        raise TypeError(f"state must be given, as {name_of(step)} has no initial_state(x) to make one")
    # One value in memory for all neurons: a state of zeros is one zero, and engines do not read it N times.
    if not torch.compiler.is_compiling() and torch._C._get_tracing_state() is not None:  # ONNX has no strides
        like = torch.empty((), dtype=dtype, device=x.device).expand(x.shape[1:])
    else:
        like = torch.empty_strided(x.shape[1:], (0,) * (x.dim() - 1), dtype=dtype, device=x.device)
    return step.initial_state(like)  # type: ignore[union-attr, operator]


def check_sequence(x: Any, owner: Any) -> None:
    """``x`` of ``owner`` (a step, or a name) must be a floating-point sequence [T, B, ...] with T >= 1."""
    if not isinstance(x, Tensor) or x.layout is not torch.strided or x.is_nested:
        kind = f"a {type(x).__name__}"
        if isinstance(x, Tensor):
            kind = "nested" if x.is_nested else "sparse" if x.is_sparse else f"stored as {x.layout}"
        hint = checks.proxy_hint(x)
        raise TypeError(f"x of {name_of(owner)} must be a torch.Tensor [T, B, ...], but it is {kind}{hint}")
    if x.dtype not in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        raise TypeError(
            f"x of {name_of(owner)} must be floating point (float32, bfloat16, float16 or float64), but its dtype is "
            f"{x.dtype}; use x.float()"
        )
    if x.dim() < 2:
        raise ValueError(
            f"x of {name_of(owner)} must be a sequence [T, B, ...] with at least 2 dimensions, but its shape is "
            f"{list(x.shape)}; a single neuron over time is [T, 1], a single step of a batch is [1, B]"
        )
    if x.shape[0] == 0:
        raise ValueError(f"x of {name_of(owner)} must have at least one time step, but its shape is {list(x.shape)}")


def _repeated(x: Any, repeat: Any, step: Any) -> Tensor:
    """One step [B, ...] seen ``repeat`` times: [T, B, ...], an expanded view."""
    if (type(repeat) is not int or repeat < 1) and not torch.compiler.is_compiling():  # where it may be a symbol
        repeat = checks.integer(f"repeat of {name_of(step)}", repeat, at_least=1)
    if not isinstance(x, Tensor):
        owner = name_of(step)
        raise TypeError(f"x of {owner} must be a torch.Tensor [B, ...] to be repeated, but it is a {type(x).__name__}")
    return x.unsqueeze(0).expand(repeat, *x.shape)


def check_state(state: Any, x: Tensor, dtype: torch.dtype, step: Any) -> None:
    """Each tensor of ``state`` must fit one step of ``x``: shape, dtype and device."""
    if not isinstance(state, tuple) or not all(isinstance(part, Tensor) for part in state):
        raise TypeError(
            f"state of {name_of(step)} must be a NamedTuple (or tuple) of tensors, as an earlier call returned it, or "
            f"None, but it is a {type(state).__name__}"
        )
    for i, part in enumerate(state):
        if part.shape == x.shape[1:] and part.dtype == dtype and part.device == x.device:
            continue
        name, owner = field_names(state)[i], name_of(step)
        if part.shape != x.shape[1:]:
            raise ValueError(
                f"state.{name} of {owner} has shape {list(part.shape)}, but a step of x has shape {list(x.shape[1:])}"
            )
        if part.dtype != dtype:
            raise TypeError(f"state.{name} of {owner} is {part.dtype}, but it must be {dtype} for x of dtype {x.dtype}")
        if part.device != x.device:
            raise ValueError(f"state.{name} of {owner} is on {part.device}, but x is on {x.device}; move one of them")


def _checked_out_dtype(out_dtype: torch.dtype | None, step: Any, x: Tensor, state: Sequence[Tensor]) -> torch.dtype:
    """The dtype of the output: that of ``x``, or uint8 if it holds only spikes and no gradient is needed."""
    if out_dtype is None or out_dtype == x.dtype:
        return x.dtype
    owner = name_of(step)
    if out_dtype != torch.uint8:
        raise TypeError(f"out_dtype of {owner} must be None or torch.uint8, but it is {out_dtype}")
    if not getattr(step, "spiking", True):
        raise TypeError(f"out_dtype of {owner} can't be torch.uint8: its output is a potential, not spikes of 0 and 1")
    tensors = (x, *state, *(step.parameters() if isinstance(step, nn.Module) else ()))
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        raise ValueError(
            f"out_dtype of {owner} can't be torch.uint8 where a gradient is needed, as bytes carry none; "
            "use torch.no_grad(), or out_dtype=None"
        )
    return out_dtype


def check_parameters(module: nn.Module, x: Tensor) -> None:
    """Parameters and buffers must be on the device of ``x``, and not have higher precision than ``x``."""
    for name, tensor in parameters_and_buffers(module):
        if tensor is None:
            continue
        if tensor.device != x.device and tensor.dim() > 0:
            raise ValueError(
                f"{name} of {name_of(module)} is on {tensor.device}, but x is on {x.device}; use .to({str(x.device)!r})"
            )
        if tensor.dtype == torch.float64 and x.dtype != torch.float64:
            raise TypeError(
                f"{name} of {name_of(module)} is float64, but x is {x.dtype}; use x.double() or the neuron's .float()"
            )


def _check_finite(x: Tensor, state: Any, step: Any) -> None:
    """NaN in a state stays there: so a check of the last state checks the whole sequence, at 1/T of the cost.

    Only on a CPU: on CUDA the check would make the host wait for the device.
    """
    for i, part in enumerate(state):
        # A sum is cheaper, and finite only if all values are; it may also overflow, so look closer.
        values = part.detach() if part.requires_grad else part
        if math.isfinite(values.sum()) or torch.isfinite(values).all():
            continue
        owner = name_of(step)
        bad = torch.nonzero(~torch.isfinite(x.detach()))
        if len(bad):
            at = bad[0].tolist()
            raise ValueError(
                f"x of {owner} must be finite, but x{at} is {x.detach()[tuple(at)].item()} ({len(bad)} such values)"
            )
        raise ValueError(
            f"state.{field_names(state)[i]} of {owner} is not finite though x is: a parameter or the initial state is "
            "not, or the equation diverges at this step size"
        )


def _check_float16(out: Tensor, step: Any) -> None:
    """An output that is no spike may be too large for float16, though the state, which is float32, is finite."""
    if not torch.isfinite(out.detach()).all():
        raise ValueError(
            f"the output of {name_of(step)} must be within ±65,504, the largest numbers of float16, but it is larger; "
            "use bfloat16 or float32, or smaller weights"
        )


def out_of_memory(error: Exception, step: Callable | nn.Module, x: Tensor) -> MemoryError | None:
    """A clearer error, where too little memory caused this one. Triton, which loads code, has no class of its own."""
    words = ("can't allocate memory", "out of memory")
    if not (isinstance(error, torch.OutOfMemoryError) or any(known in str(error) for known in words)):
        return None
    return MemoryError(
        f"{name_of(step)} ran out of memory on {x.device} over x of shape {list(x.shape)}: its output alone needs "
        f"{size_of(x.numel() * x.element_size())}, and the eager engine several times that for gradients; use fewer "
        f"steps at once (truncated backpropagation), a smaller batch, or torch.no_grad() ({str(error).splitlines()[0]})"
    )


def explained(error: Exception, step: Callable | nn.Module, x: Tensor, state: Any) -> Exception | None:
    """A clearer error, where the step, a parameter's shape, the kind of state or too little memory caused this one."""
    if (clearer := out_of_memory(error, step, x)) is not None:
        return clearer
    owner = name_of(step)
    if isinstance(error, AttributeError) and hasattr(step, "initial_state") and state is not None:
        wanted = type(step.initial_state(torch.empty(x.shape[1:], dtype=state_dtype(x), device=x.device)))  # type: ignore
        if not isinstance(state, wanted):
            return TypeError(f"state of {owner} must be a {wanted.__name__}, but it is a {type(state).__name__}")
    if "Boolean value of Tensor" in str(error):
        return TypeError(
            f"step of {owner} must decide with torch.where: `if`, `and` and `while` take one value only ({error})"
        )
    if "written-to tensor" in str(error) or "a leaf Variable that requires grad" in str(error):
        return TypeError(f"step of {owner} must return new tensors, and not change x or the state in place ({error})")
    if isinstance(error, RuntimeError) and isinstance(step, nn.Module):
        for name, tensor in (*step.named_parameters(), *step.named_buffers()):
            try:
                torch.broadcast_shapes(tensor.shape, x.shape[1:])
            except RuntimeError:
                return ValueError(
                    f"{name} of {owner} has shape {list(tensor.shape)}, "
                    f"which does not broadcast against a step of x, {list(x.shape[1:])}"
                )
    return None


untraced(_run)
