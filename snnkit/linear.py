"""The product of a linear layer, by the faster of two libraries.

PyTorch multiplies float32 matrices with MKL, which uses vectors of 256 bits on AMD's processors. Where they have 512
bits, oneDNN, which PyTorch uses for convolutions, is up to 2.2 times as fast.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

from snnkit.engine.memory_gate import is_left_to_pytorch, is_plain, is_watched
from snnkit.measure.machine import processor

# Multiplications and additions of a product from which oneDNN is faster: its calls take 10 to 50 microseconds longer.
_PAYING = 2**22


def linear(layer: nn.Linear, x: Tensor) -> Tensor:
    """``layer(x)`` for x [B, I], by oneDNN where that is faster. Values and gradients differ in the last bits only.

    ``torch.backends.mkldnn.enabled = False`` forbids it, as it does for convolutions.
    """
    if _onednn_pays(layer, x):
        return _Linear.apply(x, layer.weight, layer.bias)  # type: ignore[return-value]
    return layer(x)


def is_hooked(module: nn.Module) -> bool:
    """Whether a call of it also runs code that is not in its class."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks) or "forward" in vars(module)


@functools.cache
def _onednn_is_faster() -> bool:
    has_both = torch.backends.mkldnn.is_available() and torch.backends.mkl.is_available()
    wide = has_both and torch.backends.cpu.get_cpu_capability() == "AVX512"
    return wide and "AMD" in processor() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def _onednn_pays(layer: nn.Linear, x: Tensor) -> bool:
    """Whether oneDNN runs the layer as a plain call would, and faster."""
    return (
        not torch.compiler.is_compiling()
        and _onednn_is_faster()
        and type(layer) is nn.Linear
        and x.numel() * layer.out_features >= _PAYING
        and x.shape[1:] == (layer.in_features,)
        and _is_dense(x)
        and _is_parameter(layer.weight, layer.out_features, layer.in_features)
        and (layer.bias is None or _is_parameter(layer.bias, layer.out_features))
        and torch.backends.mkldnn.enabled
        and not torch.is_autocast_enabled("cpu")
        and not is_hooked(layer)
        and not torch.nn.modules.module._has_any_global_hook()
        and not is_watched()
    )


def _is_dense(t: Tensor) -> bool:
    return is_plain(t) and t.dtype == torch.float32 and t.device.type == "cpu" and t.is_contiguous()


def _is_parameter(t: Tensor, *shape: int) -> bool:
    """Whether it is one that ``nn.Linear`` makes: oneDNN reads it by its size alone, whatever its shape and strides."""
    return isinstance(t, nn.Parameter) and t.shape == shape and _is_dense(t)


class _Linear(torch.autograd.Function):
    """x [B, I], weight [O, I], bias [O] or None -> [B, O]."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight if ctx.needs_input_grad[0] else None)
        return _product(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        x, weight = ctx.saved_tensors
        product = nn.functional.linear if is_left_to_pytorch(gradient) else _product
        return (
            None if weight is None else product(gradient, weight.t()),
            None if x is None else product(gradient.t(), x.t()),
            gradient.sum(0) if ctx.needs_input_grad[2] else None,
        )


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
