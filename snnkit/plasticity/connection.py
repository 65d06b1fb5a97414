"""Connections of two layers: every neuron with every other, or as in a convolution, with shared weights.

Here the spikes and traces of two layers become the rows of two matrices: a weight [n_post, n] changes by the sum of the
outer products of their rows (``changed``). A convolution has a row for each of its positions. This file uses PyTorch,
is easy to read, and runs on every device. On a CPU ``cpp_kernels`` does the same in one pass over the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from snnkit import checks

DTYPES = (torch.float32, torch.float64)


@dataclass(frozen=True)
class Dense:
    """Every neuron with every one of the other side: weight [n_post, n_pre], pre [B, n_pre], post [B, n_post]."""

    dims: ClassVar[int] = 1  # of one side's neurons

    def check(self, pre: Any, post: Any, weight: Any, lead: str) -> None:
        """TypeError or ValueError unless the three fit each other. ``lead`` is "B" or "T, B"."""
        check_weight(weight)
        check_spikes("pre", pre, f"{lead}, n_pre", weight, weight.shape[1])
        check_spikes("post", post, f"{lead}, n_post", weight, weight.shape[0])
        _check_lead(pre, post, lead)

    def rows(self, post: Tensor) -> Tensor:
        """Of the postsynaptic side [..., B, n_post]."""
        return post

    def columns(self, pre: Tensor, weight: Tensor) -> Tensor:
        """Of the presynaptic side [..., B, n_pre]."""
        return pre


@dataclass(frozen=True)
class Convolution:
    """As in ``torch.nn.Conv2d``: weight [O, C, kH, kW], pre [B, C, H, W], post [B, O, H', W'].

    Every neuron has its own trace. A weight is shared by a synapse at each position, and its change is the sum over all
    of them, as in Norse; for the mean, divide the amplitudes of the rule by H' W'. There are no spikes beyond the
    edges.

    Args:
        stride, padding: of both axes.
    """

    stride: int = 1
    padding: int = 0

    dims: ClassVar[int] = 3

    def __post_init__(self) -> None:
        checks.integer("stride", self.stride, at_least=1)
        checks.integer("padding", self.padding, at_least=0)

    def outputs(self, pre: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, int]:
        """(H', W') of pre [..., H, W] and weight [..., kH, kW]; 0 or less where the kernel is larger than the image."""
        height, width = (
            (size + 2 * self.padding - width) // self.stride + 1
            for size, width in zip(pre[-2:], kernel[-2:], strict=True)
        )
        return height, width

    def check(self, pre: Any, post: Any, weight: Any, lead: str) -> None:
        """TypeError or ValueError unless the three fit each other. ``lead`` is "B" or "T, B"."""
        check_weight(weight, "[O, C, kH, kW]")
        if 0 in weight.shape:
            raise ValueError(f"weight must hold at least one weight, but its shape is {list(weight.shape)}")
        check_spikes("pre", pre, f"{lead}, C, H, W", weight, weight.shape[1], axis=-3)
        check_spikes("post", post, f"{lead}, O, H', W'", weight, weight.shape[0], axis=-3)
        _check_lead(pre, post, lead)
        expected = self.outputs(pre.shape, weight.shape)
        if tuple(post.shape[-2:]) != expected:
            raise ValueError(
                f"post must have {expected[0]} × {expected[1]} neurons per channel, as the convolution of pre "
                f"{list(pre.shape)} by weight {list(weight.shape)} has, but its shape is {list(post.shape)}"
            )

    def rows(self, post: Tensor) -> Tensor:
        """[..., B, O, H', W'] → [..., B H' W', O]."""
        return post.movedim(-3, -1).flatten(-4, -2)

    def columns(self, pre: Tensor, weight: Tensor) -> Tensor:
        """The input of each position: [..., B, C, H, W] → [..., B H' W', C kH kW]."""
        images = pre.flatten(0, -4)
        seen = nn.functional.unfold(images, weight.shape[-2:], padding=self.padding, stride=self.stride)
        return seen.mT.unflatten(0, pre.shape[:-3]).flatten(-3, -2)


Connection = Dense | Convolution
EVERY_PAIR = Dense()


def as_state(kind: Any, state: Any) -> Any:
    """``state`` as a NamedTuple of this kind, or None; TypeError unless it is None or as many values as that has."""
    if state is None or type(state) is kind:
        return state
    if not (isinstance(state, tuple) and len(state) == len(kind._fields)):
        raise TypeError(f"state must be a {kind.__name__} or None, but it is a {type(state).__name__}")
    return kind._make(state)


def check_weight(weight: Any, shape: str = "[n_post, n_pre]") -> None:
    """TypeError or ValueError unless these are weights of such a shape that can hold small changes."""
    checks.instance("weight", weight, Tensor, f"a torch.Tensor {shape}")
    if weight.dtype not in DTYPES:
        raise TypeError(f"weight must be float32 or float64, or small changes would be lost, but it is {weight.dtype}")
    if weight.dim() != shape.count(",") + 1:
        raise ValueError(f"weight must be {shape}, but its shape is {list(weight.shape)}")


def check_spikes(name: str, value: Any, shape: str, weight: Tensor, count: int, axis: int = -1) -> None:
    """TypeError or ValueError unless these are spikes of such a ``shape`` with ``count`` neurons or channels."""
    checks.instance(name, value, Tensor, f"a torch.Tensor [{shape}]")
    if value.dim() != shape.count(",") + 1 or value.is_complex():
        raise ValueError(f"{name} must be real [{shape}], but it is {value.dtype} {list(value.shape)}")
    if value.shape[axis] != count:
        raise ValueError(
            f"{name} must have {count} {'neurons' if axis == -1 else 'channels'} for weight {list(weight.shape)}, "
            f"but its shape is {list(value.shape)}"
        )
    if 0 in (value.shape[:-1] if axis == -1 else value.shape):
        raise ValueError(f"{name} must have at least one step and one sample, but its shape is {list(value.shape)}")
    if value.device != weight.device:
        raise ValueError(f"{name} must be on {weight.device}, as weight is, but it is on {value.device}")


def check_like(name: str, value: Any, shape: Sequence[int], other: Tensor, whose: str = "weight") -> None:
    """TypeError or ValueError unless ``value`` is a tensor of this shape, with dtype and device of ``other``."""
    checks.instance(name, value, Tensor, "a torch.Tensor")
    if (value.shape, value.dtype, value.device) != (tuple(shape), other.dtype, other.device):
        raise ValueError(
            f"{name} must be {other.dtype} {list(shape)} on {other.device} for {whose} {list(other.shape)}, "
            f"but it is {value.dtype} {list(value.shape)} on {value.device}"
        )


def _check_lead(pre: Tensor, post: Tensor, lead: str) -> None:
    leading = len(lead.split(","))
    if pre.shape[:leading] != post.shape[:leading]:
        raise ValueError(
            f"pre and post must have the same steps and samples, but their shapes are {list(pre.shape)} and "
            f"{list(post.shape)}"
        )


class Pairings(NamedTuple):
    """The factors of changes: ``up`` up_postᵀ up_pre is the gain of the weights, ``down`` down_postᵀ down_pre the loss.

    Tensors are [..., S, neurons]; before ``flat``, in the connection's shape. ``up`` and ``down`` are 0 or more.
    """

    up_post: Tensor
    up_pre: Tensor
    down_post: Tensor
    down_pre: Tensor
    up: float
    down: float

    def flat(self, connection: Connection, weight: Tensor) -> Pairings:
        """As rows of matrices, one for each sample and position."""
        return self._replace(
            up_post=connection.rows(self.up_post),
            up_pre=connection.columns(self.up_pre, weight),
            down_post=connection.rows(self.down_post),
            down_pre=connection.columns(self.down_pre, weight),
        )


class Limits(NamedTuple):
    """The range of the weights: ``bound`` ("hard", "soft" or None) between ``low`` and ``high``."""

    bound: str | None
    low: float
    high: float


def changed(weight: Tensor, by: Pairings, limits: Limits, out: Tensor | None = None) -> Tensor:
    """The weights [n_post, n] after one step, in ``out``, which may be ``weight``, or in a new tensor."""
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
