"""What an engine may be given, and what a step must give back; every error names the argument."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn


def state_dtype(x: Tensor) -> torch.dtype:
    """The dtype of state and arithmetic: float64 for float64 input, float32 for every other."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def name_of(step: Callable | nn.Module) -> str:
    """What to call a step in a message: its class, or its function's name."""
    return type(step).__name__ if isinstance(step, nn.Module) else getattr(step, "__name__", type(step).__name__)


def check_sequence(x: Any, who: str) -> None:
    """``x`` must be a floating-point sequence [T, B, ...] with T >= 1."""
    if not isinstance(x, Tensor):
        raise TypeError(f"x of {who} must be a torch.Tensor [T, B, ...], but it is a {type(x).__name__}")
    if x.dtype not in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        raise TypeError(
            f"x of {who} must be floating point (float32, bfloat16, float16 or float64), but its dtype is {x.dtype}; "
            "use x.float()"
        )
    if x.dim() < 2:
        raise ValueError(
            f"x of {who} must be a sequence [T, B, ...] with at least 2 dimensions, but its shape is {list(x.shape)}; "
            "a single neuron over time is [T, 1], a single step of a batch is [1, B]"
        )
    if x.shape[0] == 0:
        raise ValueError(f"x of {who} has no time steps: its shape is {list(x.shape)}, but T must be at least 1")


def repeated(x: Any, repeat: Any, who: str) -> Tensor:
    """One step [B, ...] seen ``repeat`` times: [T, B, ...], an expanded view."""
    if isinstance(repeat, bool) or not isinstance(repeat, int):
        raise TypeError(f"repeat of {who} must be an int of at least 1, or None, but it is {repeat!r}")
    if repeat < 1:
        raise ValueError(f"repeat of {who} must be at least 1, but it is {repeat}")
    if not isinstance(x, Tensor):
        raise TypeError(f"x of {who} must be a torch.Tensor [B, ...] to be repeated, but it is a {type(x).__name__}")
    return x.unsqueeze(0).expand(repeat, *x.shape)


def check_state(state: Any, x: Tensor, who: str) -> None:
    """Each tensor of ``state`` must fit one step of ``x``: shape, dtype and device."""
    if not isinstance(state, tuple) or not all(isinstance(part, Tensor) for part in state):
        raise TypeError(
            f"state of {who} must be a NamedTuple (or tuple) of tensors, as an earlier call returned it, or None; "
            f"but it is a {type(state).__name__}"
        )
    dtype = state_dtype(x)
    for name, part in zip(_field_names(state), state, strict=True):
        if part.shape != x.shape[1:]:
            raise ValueError(
                f"state.{name} of {who} has shape {list(part.shape)}, but a step of x has shape {list(x.shape[1:])}"
            )
        if part.dtype != dtype:
            raise TypeError(f"state.{name} of {who} is {part.dtype}, but it must be {dtype} for x of dtype {x.dtype}")
        if part.device != x.device:
            raise ValueError(f"state.{name} of {who} is on {part.device}, but x is on {x.device}; move one of them")


def check_out_dtype(
    out_dtype: torch.dtype | None, step: Any, x: Tensor, state: Sequence[Tensor], who: str
) -> torch.dtype:
    """The dtype of the output: that of ``x``, or uint8 where spikes are all it holds and no gradient is wanted."""
    if out_dtype is None or out_dtype == x.dtype:
        return x.dtype
    if out_dtype != torch.uint8:
        raise TypeError(f"out_dtype of {who} must be None or torch.uint8, but it is {out_dtype}")
    if not getattr(step, "spiking", True):
        raise TypeError(f"out_dtype of {who} can't be torch.uint8: its output is a potential, not spikes of 0 and 1")
    tensors = (x, *state, *(step.parameters() if isinstance(step, nn.Module) else ()))
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        raise ValueError(
            f"out_dtype of {who} can't be torch.uint8 where a gradient is wanted, as bytes carry none; "
            "use torch.no_grad(), or out_dtype=None"
        )
    return out_dtype


def check_parameters(module: nn.Module, x: Tensor) -> None:
    """Parameters and buffers must lie where ``x`` lies, and not be of higher precision than it."""
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.device != x.device and tensor.dim() > 0:
            raise ValueError(
                f"{name} of {name_of(module)} is on {tensor.device}, but x is on {x.device}; use .to({str(x.device)!r})"
            )
        if tensor.dtype == torch.float64 and x.dtype != torch.float64:
            raise TypeError(
                f"{name} of {name_of(module)} is float64, but x is {x.dtype}; use x.double() or the neuron's .float()"
            )


def check_step_result(result: Any, x: Tensor, state: Any, who: str) -> None:
    """A step must return ``(out, state)``: out of the shape of ``x``, state of its own structure, shapes and dtypes."""
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Tensor)):
        raise TypeError(f"the step of {who} must return (out, state), but it returned a {type(result).__name__}")
    if result[0].shape != x.shape:
        raise ValueError(
            f"the step of {who} must return out of the shape of its input, {list(x.shape)}, "
            f"but it returned {list(result[0].shape)}"
        )
    new = result[1]
    if not isinstance(new, type(state)) or len(new) != len(state):
        raise TypeError(
            f"the step of {who} must return a state like the one it was given, {type(state).__name__} of {len(state)} "
            f"tensors, but it returned a {type(new).__name__}"
        )
    for name, before, after in zip(_field_names(state), state, new, strict=True):
        if not isinstance(after, Tensor):
            raise TypeError(f"the step of {who} returned state.{name} as a {type(after).__name__}, not a tensor")
        if after.shape != before.shape:
            raise ValueError(
                f"the step of {who} changed the shape of state.{name} from {list(before.shape)} to {list(after.shape)}"
            )
        if after.dtype != before.dtype:
            raise TypeError(f"the step of {who} changed the dtype of state.{name} from {before.dtype} to {after.dtype}")


def check_finite(x: Tensor, state: Any, who: str) -> None:
    """NaN, once in the state, stays there: the last state tells of the whole sequence for 1/T of its price.

    Only on a CPU: on CUDA the question would make the host wait for the device.
    """
    for name, part in zip(_field_names(state), state, strict=True):
        # A sum is finite only if all is, and cheaper; where it overflowed, look closer.
        if math.isfinite(part.detach().sum()) or torch.isfinite(part.detach()).all():
            continue
        bad = torch.nonzero(~torch.isfinite(x.detach()))
        if len(bad):
            at = bad[0].tolist()
            raise ValueError(
                f"x of {who} must be finite, but x{at} is {x.detach()[tuple(at)].item()} ({len(bad)} such values)"
            )
        raise ValueError(
            f"state.{name} of {who} is not finite though x is: a parameter or the initial state is not, "
            "or the equation diverges at this step size"
        )


def explain_failure(error: Exception, step: Callable | nn.Module, x: Tensor, state: Any) -> Exception | None:
    """What an error comes from, if a parameter's shape, the kind of state or too little memory is to blame."""
    who = name_of(step)
    if isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error):
        need = x.numel() * x.element_size() / 2**30
        return MemoryError(
            f"{who} ran out of memory on {x.device} over x of shape {list(x.shape)}: its output alone needs "
            f"{need:.2f} GiB, and the eager engine several times that for gradients; use fewer steps at once "
            f"(truncated backpropagation), a smaller batch, or torch.no_grad() ({str(error).splitlines()[0]})"
        )
    if isinstance(error, AttributeError) and hasattr(step, "initial_state"):
        wanted = type(step.initial_state(torch.empty(x.shape[1:], dtype=state_dtype(x), device=x.device)))  # type: ignore
        if not isinstance(state, wanted):
            return TypeError(f"state of {who} must be a {wanted.__name__}, but it is a {type(state).__name__}")
    if isinstance(error, RuntimeError) and isinstance(step, nn.Module):
        for name, tensor in (*step.named_parameters(), *step.named_buffers()):
            try:
                torch.broadcast_shapes(tensor.shape, x.shape[1:])
            except RuntimeError:
                return ValueError(
                    f"{name} of {who} has shape {list(tensor.shape)}, "
                    f"which does not broadcast against a step of x, {list(x.shape[1:])}"
                )
    return None


def _field_names(state: Any) -> Sequence[str]:
    return getattr(state, "_fields", tuple(str(i) for i in range(len(state))))
