"""Dense layouts: read [T, B, ...] as [T, N] without a copy wherever memory allows it.

An elementwise equation does not care in which order neurons lie in memory, only that input, state and output agree. A
sequence whose steps are dense in some order of dimensions (contiguous, channels-last, a transposed batch) is viewed as
[T, N] in that order. Only time may have any stride, 0 included: a static input stays one step in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """How the steps [B, ...] of a sequence lie in memory: shape, and order of dimensions from outer to inner."""

    shape: torch.Size
    order: tuple[int, ...]

    @staticmethod
    def of(x: Tensor) -> Layout:
        """The layout of the steps of ``x`` [T, B, ...]."""
        strides = x.stride()[1:]
        # Stable, so dimensions of size one and equal strides keep the usual order. By hand, as torch.compile can
        # compare symbolic strides but not sort them.
        order: list[int] = []
        for d in range(len(strides)):
            at = len(order)
            while at > 0 and strides[order[at - 1]] < strides[d]:
                at -= 1
            order.insert(at, d)
        return Layout(x.shape[1:], tuple(order))

    @property
    def usual(self) -> bool:
        """Whether the dimensions lie in order: then there is nothing to permute, which saves a third of the calls."""
        return self.order == tuple(range(len(self.order)))

    def flatten_sequence(self, x: Tensor) -> Tensor:
        """[T, B, ...] -> [T, N] with neurons side by side; a view if the layout is dense, else a copy."""
        if not self.usual:
            x = x.permute(0, *(d + 1 for d in self.order))
        flat = x.reshape(x.shape[0], -1)
        return flat if flat.shape[1] <= 1 or flat.stride(1) == 1 else flat.contiguous()

    def flatten_step(self, v: Tensor) -> Tensor:
        """[B, ...] -> [N], in the same order of neurons; a view if it lies so in memory, else a copy.

        One value for all, such as a state at rest, stays one: its stride is 0.
        """
        flat = (v if self.usual else v.permute(self.order)).reshape(-1)
        return flat if is_one_for_all(flat) else flat.contiguous()

    def restore_sequence(self, x: Tensor) -> Tensor:
        """[T, N] -> [T, B, ...], a view."""
        if self.usual:
            return x.reshape(x.shape[0], *self.shape)
        sizes = [self.shape[d] for d in self.order]
        return x.reshape(x.shape[0], *sizes).permute(0, *(d + 1 for d in self._inverse()))

    def restore_step(self, v: Tensor) -> Tensor:
        """[N] -> [B, ...], a view."""
        if self.usual:
            return v.reshape(self.shape)
        return v.reshape([self.shape[d] for d in self.order]).permute(self._inverse())

    def flatten_parameter(self, p: Tensor) -> Tensor:
        """A parameter that broadcasts against [B, ...] -> [N], or 0-dimensional if it is one number for all."""
        if p.numel() == 1:
            return p.reshape(())
        return self.flatten_step(p.expand(self.shape))

    def _inverse(self) -> list[int]:
        inverse = [0] * len(self.order)
        for position, d in enumerate(self.order):
            inverse[d] = position
        return inverse


def is_one_for_all(v: Tensor) -> bool:
    """Whether [N] is one value in memory, an expanded view."""
    return v.shape[0] > 1 and v.stride(0) == 0


def side_by_side(gradient: Tensor) -> Tensor:
    """A gradient [T, N] with neurons side by side in memory; any stride in time."""
    if gradient.shape[1] <= 1 or gradient.stride(1) == 1:
        return gradient
    # That of a sum is one number in all places; one step of it is enough.
    return gradient[0].contiguous().expand_as(gradient) if gradient.stride(0) == 0 else gradient.contiguous()
