"""What is handed to a plasticity rule: checked, with the argument's name in the error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

DTYPES = (torch.float32, torch.float64)

# What has passed: the checks depend on nothing else, and for a small layer they take longer than its arithmetic.
_passed: set[tuple[Any, ...]] = set()
_MOST = 4096


def once(checks: Callable[[], None], by: tuple[Any, ...], tensors: Iterable[Any]) -> None:
    """Run checks that depend on nothing but ``by`` and the kinds, shapes, dtypes and devices of tensors, unless they
    have been passed before."""
    if torch.compiler.is_compiling():
        return checks()
    try:
        key = (by, *[(type(x), x.shape, x.dtype, x.device) for x in tensors])
        if key in _passed:
            return
    except (AttributeError, TypeError):  # not tensors; the checks will say so
        return checks()
    checks()
    if len(_passed) >= _MOST:
        _passed.clear()
    _passed.add(key)


def number(name: str, value: Any, *, above: float | None = None, at_least: float | None = None) -> float:
    """A finite number within its bounds, as a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number, not {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, not {value!r}")
    if above is not None and not value > above:
        raise ValueError(f"{name} must be above {above:g}, not {value!r}")
    if at_least is not None and not value >= at_least:
        raise ValueError(f"{name} must be at least {at_least:g}, not {value!r}")
    return float(value)


def choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """One of a few words."""
    if not any(value is one or (isinstance(value, str) and value == one) for one in choices):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")


def whole(name: str, value: Any, at_least: int) -> None:
    """A whole number that is not too small."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if value < at_least:
        raise ValueError(f"{name} must be at least {at_least}, not {value}")


def both_axes(name: str, value: Any, at_least: int) -> None:
    """A whole number, or one for each of two axes."""
    if isinstance(value, tuple):
        if len(value) != 2:
            raise ValueError(f"{name} must be one number or a tuple of two, not {value!r}")
        for i, one in enumerate(value):
            whole(f"{name}[{i}]", one, at_least)
    else:
        whole(name, value, at_least)


def weight_matrix(weight: Any) -> None:
    """Weights [n_post, n_pre] that can hold small changes."""
    _weight(weight, "[n_post, n_pre]")
    if weight.dim() != 2:
        raise ValueError(f"weight must be [n_post, n_pre], but its shape is {list(weight.shape)}")


def _weight(weight: Any, shape: str) -> None:
    if not isinstance(weight, Tensor):
        raise TypeError(f"weight must be a torch.Tensor {shape}, not a {type(weight).__name__}")
    if weight.dtype not in DTYPES:
        raise TypeError(
            f"weight must be float32 or float64, not {weight.dtype}: a change below its resolution would be lost"
        )


def place(name: str, value: Any, weight: Tensor) -> None:
    """A tensor that can take the new weight."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, not a {type(value).__name__}")
    if (value.shape, value.dtype, value.device) != (weight.shape, weight.dtype, weight.device):
        raise ValueError(
            f"{name} must be {weight.dtype} {list(weight.shape)} on {weight.device}, as weight is, not {value.dtype} "
            f"{list(value.shape)} on {value.device}"
        )


def spikes(name: str, value: Any, neurons: int, like: Tensor, lead: str) -> None:
    """Spikes [``lead``, ``neurons``] on the device of ``like``, the weights. ``lead`` is "B" or "T, B"."""
    _spikes(name, value, f"{lead}, n_{name}")
    if value.shape[-1] != neurons:
        raise ValueError(
            f"{name} must have the {neurons} neurons that weight {list(like.shape)} has, but its shape is "
            f"{list(value.shape)}"
        )
    _one_or_more(name, value, like)


def _spikes(name: str, value: Any, shape: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor [{shape}], not a {type(value).__name__}")
    if value.is_complex():
        raise TypeError(f"{name} must hold real numbers, not {value.dtype}")
    if value.dim() != len(shape.split(",")):
        raise ValueError(f"{name} must be [{shape}], but its shape is {list(value.shape)}")


def _one_or_more(name: str, value: Tensor, like: Tensor) -> None:
    if 0 in value.shape[:-1]:
        raise ValueError(f"{name} must have at least one step and one sample, but its shape is {list(value.shape)}")
    if value.device != like.device:
        raise ValueError(f"{name} is on {value.device} and weight on {like.device}; they must be on one device")


def finite(name: str, value: Tensor) -> None:
    """No NaN or infinity. Looked for on a CPU only: elsewhere the answer would have to be waited for."""
    if value.device.type != "cpu" or not value.is_floating_point():
        return
    # A sum is finite only if all are, and quick; it may overflow nevertheless.
    if not torch.isfinite(value.sum()) and not torch.isfinite(value).all():
        where = torch.nonzero(~torch.isfinite(value))[0].tolist()
        raise ValueError(f"{name} must be finite, but {name}{where} is {value[tuple(where)].item()}")


def same_lead(pre: Tensor, post: Tensor, lead: str) -> None:
    """As many steps and samples on both sides."""
    leading = len(lead.split(","))
    if pre.shape[:leading] != post.shape[:leading]:
        raise ValueError(
            f"pre and post must have the same steps and samples, but their shapes are {list(pre.shape)} and "
            f"{list(post.shape)}"
        )


def weight_kernel(weight: Any, groups: int) -> None:
    """Weights of a convolution that can hold small changes."""
    _weight(weight, "[O, C / groups, kH, kW]")
    if weight.dim() != 4:
        raise ValueError(f"weight must be [O, C / groups, kH, kW], but its shape is {list(weight.shape)}")
    if 0 in weight.shape:
        raise ValueError(f"weight must hold at least one weight, but its shape is {list(weight.shape)}")
    if weight.shape[0] % groups:
        raise ValueError(f"weight must have output channels that {groups} groups can share, not {weight.shape[0]}")


def images(name: str, value: Any, channels: int, like: Tensor, lead: str, neurons: str) -> None:
    """Spikes [``lead``, ``neurons``] in so many channels, on the device of ``like``, the weights."""
    _spikes(name, value, f"{lead}, {neurons}")
    if value.shape[-3] != channels:
        raise ValueError(
            f"{name} must have the {channels} channels that weight {list(like.shape)} asks for, but its shape is "
            f"{list(value.shape)}"
        )
    if value.shape[-1] == 0:
        raise ValueError(f"{name} must have at least one neuron, but its shape is {list(value.shape)}")
    _one_or_more(name, value, like)


def trace(name: str, value: Any, spikes: Tensor, weight: Tensor, dims: int = 1) -> None:
    """A trace of a state: of the shape of one step of ``spikes``, in the dtype and on the device of ``weight``."""
    if not isinstance(value, Tensor):
        raise TypeError(f"state must hold tensors, but its {name} is a {type(value).__name__}")
    expected = list(spikes.shape[-1 - dims :])
    if list(value.shape) != expected:
        raise ValueError(f"state.{name} must have the shape {expected} of one step, not {list(value.shape)}")
    like(f"state.{name}", value, weight)


def like(name: str, value: Tensor, weight: Tensor) -> None:
    """In the dtype and on the device of ``weight``."""
    if value.dtype != weight.dtype or value.device != weight.device:
        raise ValueError(
            f"{name} must be {weight.dtype} on {weight.device}, as weight is, not {value.dtype} on {value.device}"
        )
