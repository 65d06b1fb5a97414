"""Linear layers by the faster of two libraries.

PyTorch multiplies float32 matrices with MKL, which uses vectors of 256 bits on AMD's processors. Where they have 512
bits, oneDNN, which PyTorch uses for convolutions, is up to 2.2 times as fast.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from .engine import inside_functional_transform
from .measure.machine import processor

# Multiplications and additions of a product from which oneDNN, whose calls take some 40 microseconds longer, is faster.
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
        and type(x) is Tensor
        and x.numel() * layer.out_features >= _PAYING
        and x.shape[1:] == (layer.in_features,)
        and _is_dense(x)
        and _is_parameter(layer.weight, layer.out_features, layer.in_features)
        and (layer.bias is None or _is_parameter(layer.bias, layer.out_features))
        and not is_hooked(layer)
        and not torch.nn.modules.module._has_any_global_hook()
        and torch.backends.mkldnn.enabled
        and not torch.is_autocast_enabled("cpu")
        and not _is_watched()
    )


def _is_watched() -> bool:
    """Whether operations are looked at one by one, or transformed: by somebody who knows those of PyTorch."""
    return (
        torch._C._len_torch_dispatch_stack() > 0
        or torch._C._len_torch_function_stack() > 0
        or torch._C._get_tracing_state() is not None
        or inside_functional_transform()
        or forward_ad._current_level >= 0
    )


def _is_dense(t: Tensor) -> bool:
    return t.dtype == torch.float32 and t.device.type == "cpu" and t.layout == torch.strided and t.is_contiguous()


def _is_parameter(t: Tensor, *shape: int) -> bool:
    """Whether it is one that ``nn.Linear`` makes: oneDNN reads it by its size alone, whatever its shape and strides."""
    return type(t) is nn.Parameter and t.shape == shape and _is_dense(t)


class _Linear(torch.autograd.Function):
    """x [B, I], weight [O, I], bias [O] or None -> [B, O]."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight if ctx.needs_input_grad[0] else None)
        return _product(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        x, weight = ctx.saved_tensors
        batched = torch._C._functorch.is_legacy_batchedtensor(gradient)  # pyright: ignore[reportAttributeAccessIssue]
        # Second derivatives and several gradients at once are left to PyTorch.
        product = nn.functional.linear if torch.is_grad_enabled() or batched or _is_watched() else _product
        return (
            None if weight is None else product(gradient, weight.t()),
            None if x is None else product(gradient.t(), x.t()),
            gradient.sum(0) if ctx.needs_input_grad[2] else None,
        )


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
