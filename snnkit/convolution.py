"""The convolution of spikes on a CPU, from their places (``event_products``), where few enough are counted.

Each window sees some spikes of the input; its outputs are a product of them and the weights, as in a linear layer. Both
the input and the output are channels-last in memory. Where the input is not, where a dense convolution is faster, or
where PyTorch's own operations may be expected (hooks, compilers, transforms, dispatch modes), it is PyTorch's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.grad import conv2d_input, conv2d_weight

from snnkit import event_products, linear
from snnkit.engine.memory_gate import as_stored, is_left_to_pytorch, is_plain, uncompiled
from snnkit.engine.plan import note_product
from snnkit.event_products import Spikes
from snnkit.linear import is_only_itself, observed, saved_for

_LAST = torch.channels_last
_OTHER_LAYOUT = "spikes are listed where the input is channels-last: net.to(memory_format=torch.channels_last)"


def convolution(layer: nn.Conv2d, x: Tensor) -> Tensor | None:
    """``layer(x)`` for spikes x [B, C, H, W]; None where PyTorch should do it. It differs in the last bits only."""
    if torch.compiler.is_compiling() or x.dim() != 4:
        return None
    sizes = _sizes(layer, x)
    if sizes is None:
        return None
    windows, inputs = sizes[0] * sizes[3] * sizes[4], sizes[5] * sizes[6] * sizes[2]
    most = event_products.break_even_of_windows(windows, inputs, layer.out_channels, x.dtype)
    if windows * inputs * layer.out_channels < linear.COUNTED:
        return None
    lines: Spikes | str = "dense_products asks so"
    if linear.counts.get():
        last = x.is_contiguous(memory_format=_LAST)
        lines = event_products.spikes_of(_lines(x), most) if last else _OTHER_LAYOUT
    out = lines if isinstance(lines, str) else _by_events(layer, x, lines, sizes)
    if isinstance(out, str):
        note_product(layer, x.shape, "PyTorch", out)
        return None
    note_product(layer, x.shape, "events", linear.few_spikes(lines.density, most))  # type: ignore[union-attr]
    weight, bias = layer.weight, layer.bias

    def run() -> Tensor:
        if not torch.is_grad_enabled() or not any(t is not None and t.requires_grad for t in (x, weight, bias)):
            return out
        return _Convolution.apply(x, saved_for(weight, x), weight, bias, (lines, out, sizes))  # type: ignore[return-value]

    return observed(layer, x, run)


def _by_events(layer: nn.Conv2d, x: Tensor, lines: Spikes, sizes: tuple[int, ...]) -> Tensor | str:
    """The outputs [B, O, Y, X], channels-last, or why PyTorch must compute them."""
    windows = event_products.unfolded(lines, sizes)
    if windows is None:
        return event_products.TOO_LITTLE
    flat = event_products.product(windows, _flat(layer.weight), layer.bias)
    if flat is None:
        return "a weight is not finite (0 times infinity is NaN), or there was too little memory"
    batch, outputs, (height, width) = sizes[0], layer.out_channels, sizes[3:5]
    strides = (height * width * outputs, 1, width * outputs, outputs)
    # Not a view of flat memory: autograd treats in-place changes of views differently.
    out = torch.empty(0, dtype=x.dtype, device="cpu")
    return out.set_(flat.untyped_storage(), 0, (batch, outputs, height, width), strides)  # type: ignore[arg-type]


def _sizes(layer: nn.Conv2d, x: Tensor) -> tuple[int, ...] | None:
    """Those of ``event_products.unfolded``, if our kernel convolves as a plain call would, given channels-last x."""
    pairs = layer.kernel_size, layer.stride, layer.padding
    plain = (
        is_only_itself(layer, nn.Conv2d)
        and all(type(pair) is tuple and len(pair) == 2 and all(type(n) is int for n in pair) for pair in pairs)
        and (layer.groups, tuple(layer.dilation), layer.padding_mode) == (1, (1, 1), "zeros")
        and is_plain(x)
        and x.device.type == "cpu"
        and x.shape[1] == layer.in_channels > 1
        and _is_parameter(layer.weight, x, (layer.out_channels, layer.in_channels, *layer.kernel_size))
        and (layer.bias is None or (_is_parameter(layer.bias, x, (layer.out_channels,)) and layer.bias.is_contiguous()))
    )
    if not plain:
        return None
    batch, channels, *sides = x.shape
    padding: tuple[int, int] = layer.padding  # type: ignore[assignment]
    counts = [(sides[i] + 2 * padding[i] - layer.kernel_size[i]) // layer.stride[i] + 1 for i in (0, 1)]
    if min(counts) < 1 or min(layer.stride) < 1 or min(padding) < 0:  # PyTorch says what is wrong
        return None
    return batch, sides[0], channels, *counts, *layer.kernel_size, *layer.stride, *padding


def _is_parameter(t: Tensor, x: Tensor, shape: tuple[int, ...]) -> bool:
    return isinstance(t, nn.Parameter) and t.shape == shape and t.dtype == x.dtype and t.is_cpu and is_plain(t)


def _lines(x: Tensor) -> Tensor:
    """[B, C, H, W], channels-last, to [B H, W C]."""
    return x.detach().permute(0, 2, 3, 1).reshape(x.shape[0] * x.shape[2], -1)


def _flat(weight: Tensor) -> Tensor:
    """[O, C, KY, KX] to [O, KY KX C]."""
    return weight.detach().permute(0, 2, 3, 1).reshape(len(weight), -1).contiguous()


class _Convolution(torch.autograd.Function):
    """x [B, C, H, W], weight [O, C, KY, KX], bias [O] or None -> [B, O, Y, X], computed before; as ``_EventLinear``."""

    @staticmethod
    def forward(ctx, x: Tensor, saved: Tensor | None, weight: Tensor, bias: Tensor | None, made: tuple) -> Tensor:
        lines, out, ctx.sizes = made
        lists = (None, None) if saved is x or not ctx.needs_input_grad[2] else (lines.starts, lines.columns)
        ctx.save_for_backward(saved, *lists, weight if ctx.needs_input_grad[0] else None)
        ctx.shape, ctx.weight = x.shape, weight.shape
        return out

    @staticmethod
    @uncompiled
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        x, starts, columns, weight = ctx.saved_tensors
        channels, height, width = ctx.sizes[2], *ctx.sizes[5:7]
        steps: Any = ctx.sizes[7:9], ctx.sizes[9:]
        lines = None if starts is None else Spikes(starts, columns, channels * ctx.shape[3])
        by_pytorch = is_left_to_pytorch(gradient)
        if ctx.needs_input_grad[2] and lines is None and not by_pytorch:
            x = x.to(gradient.dtype).contiguous(memory_format=_LAST)
            listed = event_products.spikes_of(_lines(x), 1.0) if is_plain(x) else ""
            # The gradient of x may then have its memory.
            lines, x = (listed, None) if isinstance(listed, Spikes) else (None, x)
        d_x = None if weight is None else conv2d_input(ctx.shape, weight, gradient, *steps)
        made = None
        if ctx.needs_input_grad[2]:
            windows = None if lines is None or by_pytorch else event_products.unfolded(lines, ctx.sizes)
            if windows is not None:
                flat = as_stored(gradient).permute(0, 2, 3, 1).reshape(-1, gradient.shape[1])
                made = event_products.gradients(windows, flat)
            if made is not None:
                d_weight = made[0].view(-1, height, width, channels).permute(0, 3, 1, 2).contiguous()
                made = d_weight, made[1]
            else:
                if lines is not None:
                    batch, _, rows, _ = ctx.shape
                    places = lines.dense(gradient.dtype).view(batch, rows, -1, channels).permute(0, 3, 1, 2)
                    x = places if x is None else x + places
                made = conv2d_weight(x, ctx.weight, gradient, *steps), None
        d_weight, d_bias = made or (None, None)
        if d_bias is None and ctx.needs_input_grad[3]:
            d_bias = gradient.sum((0, 2, 3))
        return d_x, None, d_weight, d_bias if ctx.needs_input_grad[3] else None, None
