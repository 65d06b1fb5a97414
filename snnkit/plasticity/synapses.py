"""Synapses from every neuron of one layer to every neuron of another: what they must be, and how they change.

A weight [n_post, n_pre] changes by sums of outer products of spikes and traces (``changed``). This is in PyTorch, to be
read, and for every device; on a CPU ``cpp_kernels`` does the same in one pass over the weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from snnkit import checks

DTYPES = (torch.float32, torch.float64)


def check_synapses(pre: Any, post: Any, weight: Any, lead: str) -> None:
    """TypeError or ValueError unless the three fit each other. ``lead`` is "B" or "T, B"."""
    check_weight(weight)
    check_spikes("pre", pre, f"{lead}, n_pre", weight, weight.shape[1])
    check_spikes("post", post, f"{lead}, n_post", weight, weight.shape[0])
    if pre.shape[:-1] != post.shape[:-1]:
        raise ValueError(
            f"pre and post must have the same steps and samples, but their shapes are {list(pre.shape)} and "
            f"{list(post.shape)}"
        )


def check_weight(weight: Any) -> None:
    """TypeError or ValueError unless these are weights [n_post, n_pre] that can hold small changes."""
    checks.instance("weight", weight, Tensor, "a torch.Tensor [n_post, n_pre]")
    if weight.dtype not in DTYPES:
        raise TypeError(f"weight must be float32 or float64, or small changes would be lost, but it is {weight.dtype}")
    if weight.dim() != 2:
        raise ValueError(f"weight must be [n_post, n_pre], but its shape is {list(weight.shape)}")


def check_spikes(name: str, value: Any, shape: str, weight: Tensor, neurons: int) -> None:
    """TypeError or ValueError unless these are spikes of such a ``shape`` with so many neurons."""
    checks.instance(name, value, Tensor, f"a torch.Tensor [{shape}]")
    if value.dim() != shape.count(",") + 1 or value.is_complex():
        raise ValueError(f"{name} must be real [{shape}], but it is {value.dtype} {list(value.shape)}")
    if value.shape[-1] != neurons:
        raise ValueError(
            f"{name} must have {neurons} neurons for weight {list(weight.shape)}, but its shape is {list(value.shape)}"
        )
    if 0 in value.shape[:-1]:
        raise ValueError(f"{name} must have at least one step and one sample, but its shape is {list(value.shape)}")
    if value.device != weight.device:
        raise ValueError(f"{name} must be on {weight.device}, as weight is, but it is on {value.device}")


def check_like(name: str, value: Tensor, weight: Tensor) -> None:
    """ValueError unless ``value`` has the dtype and the device of ``weight``."""
    if value.dtype != weight.dtype or value.device != weight.device:
        raise ValueError(
            f"{name} must be {weight.dtype} on {weight.device}, as weight is, but it is {value.dtype} on {value.device}"
        )


class Pairings(NamedTuple):
    """The factors of changes: ``up`` up_postᵀ up_pre is the gain of the weights, ``down`` down_postᵀ down_pre the loss.

    Tensors are [..., B, neurons]; ``up`` and ``down`` are 0 or more.
    """

    up_post: Tensor
    up_pre: Tensor
    down_post: Tensor
    down_pre: Tensor
    up: float
    down: float


class Limits(NamedTuple):
    """The range of the weights: ``bound`` ("hard", "soft" or None) between ``low`` and ``high``."""

    bound: str | None
    low: float
    high: float


def changed(weight: Tensor, by: Pairings, limits: Limits, out: Tensor | None = None) -> Tensor:
    """The weights [n_post, n_pre] after one step, in ``out``, which may be ``weight``, or in a new tensor."""
    if limits.bound == "soft":
        increase = by.up * (by.up_post.T @ by.up_pre) * (limits.high - weight)
        decrease = by.down * (by.down_post.T @ by.down_pre) * (weight - limits.low)
        new = torch.add(weight, increase.sub_(decrease), out=out)
    else:
        # Both in one product, for it reads and writes every weight.
        left = torch.cat([by.up_post * by.up, by.down_post * -by.down])
        right = torch.cat([by.up_pre, by.down_pre])
        new = torch.addmm(weight, left.T, right, out=out)
    return new if limits.bound is None else new.clamp_(limits.low, limits.high)
