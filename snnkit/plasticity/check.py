"""What is handed to a plasticity rule: checked, with the argument's name in the error."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

DTYPES = (torch.float32, torch.float64)


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


def weight_matrix(weight: Any) -> None:
    """Weights [n_post, n_pre] that can hold small changes."""
    if not isinstance(weight, Tensor):
        raise TypeError(f"weight must be a torch.Tensor [n_post, n_pre], not a {type(weight).__name__}")
    if weight.dtype not in DTYPES:
        raise TypeError(
            f"weight must be float32 or float64, not {weight.dtype}: a change below its resolution would be lost"
        )
    if weight.dim() != 2:
        raise ValueError(f"weight must be [n_post, n_pre], but its shape is {list(weight.shape)}")


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
    dims = len(lead.split(",")) + 1
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor [{lead}, n_{name}], not a {type(value).__name__}")
    if value.is_complex():
        raise TypeError(f"{name} must hold real numbers, not {value.dtype}")
    if value.dim() != dims:
        raise ValueError(f"{name} must be [{lead}, n_{name}], but its shape is {list(value.shape)}")
    if value.shape[-1] != neurons:
        raise ValueError(
            f"{name} must have the {neurons} neurons that weight {list(like.shape)} has, but its shape is "
            f"{list(value.shape)}"
        )
    if 0 in value.shape[:-1]:
        raise ValueError(f"{name} must have at least one step and one sample, but its shape is {list(value.shape)}")
    if value.device != like.device:
        raise ValueError(f"{name} is on {value.device} and weight on {like.device}; they must be on one device")


def finite(name: str, value: Tensor) -> None:
    """No NaN or infinity. Looked for on a CPU only: elsewhere the answer would have to be waited for."""
    if value.device.type == "cpu" and value.is_floating_point() and not torch.isfinite(value).all():
        where = torch.nonzero(~torch.isfinite(value))[0].tolist()
        raise ValueError(f"{name} must be finite, but {name}{where} is {value[tuple(where)].item()}")


def connection(pre: Any, post: Any, weight: Any, lead: str) -> None:
    """Weights, and spikes on both sides that fit them and each other."""
    weight_matrix(weight)
    spikes("pre", pre, weight.shape[1], weight, lead)
    spikes("post", post, weight.shape[0], weight, lead)
    if pre.shape[:-1] != post.shape[:-1]:
        raise ValueError(
            f"pre and post must have the same steps and samples, but their shapes are {list(pre.shape)} and "
            f"{list(post.shape)}"
        )


def trace(name: str, value: Any, spikes: Tensor, weight: Tensor) -> None:
    """A trace of a state: of the shape of one step of ``spikes``, in the dtype and on the device of ``weight``."""
    if not isinstance(value, Tensor):
        raise TypeError(f"state must hold tensors, but its {name} is a {type(value).__name__}")
    expected = list(spikes.shape[-2:])
    if list(value.shape) != expected:
        raise ValueError(f"state.{name} must have the shape {expected} of one step, not {list(value.shape)}")
    like(f"state.{name}", value, weight)


def like(name: str, value: Tensor, weight: Tensor) -> None:
    """In the dtype and on the device of ``weight``."""
    if value.dtype != weight.dtype or value.device != weight.device:
        raise ValueError(
            f"{name} must be {weight.dtype} on {weight.device}, as weight is, not {value.dtype} on {value.device}"
        )
