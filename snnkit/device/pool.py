"""Max-pooling that keeps a byte per output value for backward.

PyTorch's keeps its input and, for each output value, the place of the maximum as a 64-bit number. The input is needed
only for its shape, and the place lies within a window: an offset from the window's first value that fits into a byte
(two, four bytes for large images or windows).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.utils import _pair


def pool(module: nn.MaxPool2d, x: Tensor) -> tuple[Tensor, Tensor]:
    """``module(x)`` of x [N, C, H, W] without a graph, and the offsets that ``gradient`` needs, [N, C, H', W']."""
    out, places = F.max_pool2d(x, *_arguments(module), return_indices=True)  # type: ignore[misc]
    furthest = _furthest(module, x.shape[-1])
    small = torch.uint8 if furthest < 2**8 else torch.int16 if furthest < 2**15 else torch.int32
    return out, places.sub_(_first(module, x.shape[-1], places)).to(small)


class Pooled(torch.autograd.Function):
    """(x, offsets, module) -> a tensor of the shape of the output and of no other use: its gradient is that of the
    pooling, which does not need to be computed again."""

    @staticmethod
    def forward(ctx, x: Tensor, offsets: Tensor, module: nn.MaxPool2d) -> Tensor:
        ctx.save_for_backward(x, offsets)
        ctx.module = module
        return x.new_zeros(()).expand(offsets.shape)

    @staticmethod
    def backward(ctx, *gradients: Tensor) -> tuple[Any, ...]:
        x, offsets = ctx.saved_tensors
        module, places = ctx.module, offsets.to(torch.int64)
        places.add_(_first(module, x.shape[-1], places))
        d_x = torch.ops.aten.max_pool2d_with_indices_backward(gradients[0], x, *_arguments(module), places)
        return d_x, None, None


def _arguments(module: nn.MaxPool2d) -> tuple[Any, ...]:
    """(kernel, stride, padding, dilation, ceil_mode)."""
    pairs = (module.kernel_size, module.stride, module.padding, module.dilation)
    return (*(list(_pair(value)) for value in pairs), module.ceil_mode)


def _furthest(module: nn.MaxPool2d, width: int) -> int:
    kernel, dilation = _pair(module.kernel_size), _pair(module.dilation)
    return (kernel[0] - 1) * dilation[0] * width + (kernel[1] - 1) * dilation[1]


def _first(module: nn.MaxPool2d, width: int, places: Tensor) -> Tensor:
    """The place where each window begins, [H', W']; below 0 in the padding."""
    stride, padding = _pair(module.stride), _pair(module.padding)
    rows = torch.arange(places.shape[-2], device=places.device) * stride[0] - padding[0]
    columns = torch.arange(places.shape[-1], device=places.device) * stride[1] - padding[1]
    return rows[:, None] * width + columns
