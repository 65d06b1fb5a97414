"""Linear layers and pooling between neurons, by faster code than PyTorch's where there is some.

Modules stay PyTorch's own; ``nn.Sequential`` and ``TimeBatched`` run them with ``applied``. Values are the same (of
products up to the last bits), and so are gradients, of any order. Where PyTorch's own operations may be expected
(hooks, compilers, transforms, dispatch modes), a call is plain.

PyTorch multiplies float32 matrices with MKL, which uses vectors of 256 bits on AMD's processors. Where they have 512
bits, oneDNN, which PyTorch uses for convolutions, is up to 2.2 times as fast.

PyTorch's maximum pooling keeps its input and eight bytes for each output until backward, fills the gradient with zeros,
and then adds to it one by one. Here (``max_pool.cpp``) one byte is saved, and the gradient is written once.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from .engine import CompilationFailed, inside_functional_transform, missing_compiler
from .engine.cpp import load, threads_for
from .engine.cpp.cpp_source import PRELUDE
from .engine.page_pool import fresh
from .measure.machine import processor
from .measure.tracker import MemoryTracker

__all__ = ["applied", "is_hooked", "linear", "looking_on", "max_pool", "pooling_kernels"]

# Multiplications and additions of a product from which oneDNN is faster: its calls take 10 to 50 microseconds longer.
_PAYING = 2**22

# Windows for which there is a kernel, the fewest channels that fill its vectors, and the fewest inputs that pay for it.
_WINDOWS = (2, 3, 4)
_CHANNELS = 32
_INPUTS = 2**18

# Results of this size and more are written around the cache.
_STREAMING = 4 * 1024 * 1024


def applied(module: nn.Module, x: Tensor) -> Any:
    """``module(x)`` for x [B, ...]."""
    if isinstance(module, nn.Linear):
        return linear(module, x)
    out = max_pool(module, x) if type(module) is nn.MaxPool2d else None
    return module(x) if out is None else out


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
        and torch.backends.mkldnn.enabled
        and not torch.is_autocast_enabled("cpu")
        and not is_hooked(layer)
        and not torch.nn.modules.module._has_any_global_hook()
        and not _is_watched()
    )


def _is_watched() -> bool:
    """Whether operations are looked at one by one or transformed, by code that knows those of PyTorch."""
    modes = map(torch._C._get_dispatch_stack_at, range(torch._C._len_torch_dispatch_stack()))
    return (
        any(not isinstance(mode, MemoryTracker) for mode in modes)  # who counts bytes should count ours
        or torch._C._len_torch_function_stack() > 0
        or torch._C._get_tracing_state() is not None
        or inside_functional_transform()
        or forward_ad._current_level >= 0
    )


def _is_left_to_pytorch(gradient: Tensor) -> bool:
    """Second derivatives and several gradients at once."""
    batched = torch._C._functorch.is_legacy_batchedtensor(gradient)  # pyright: ignore[reportAttributeAccessIssue]
    return torch.is_grad_enabled() or batched or _is_watched()


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
        product = nn.functional.linear if _is_left_to_pytorch(gradient) else _product
        return (
            None if weight is None else product(gradient, weight.t()),
            None if x is None else product(gradient.t(), x.t()),
            gradient.sum(0) if ctx.needs_input_grad[2] else None,
        )


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def max_pool(pool: nn.MaxPool2d, x: Tensor) -> Tensor | None:
    """``pool(x)`` for x [B, C, H, W], keeping a byte of each output for backward; None where PyTorch should do it."""
    window = _window(pool, x)
    if not window:
        return None
    for hook in pool._forward_pre_hooks.values():
        hook(pool, (x,))
    out = _MaxPool.apply(x, window)
    for hook in pool._forward_hooks.values():
        hook(pool, (x,), out)
    return out  # type: ignore[return-value]


def looking_on(hook: Callable) -> Callable:
    """``hook``, marked as one that returns nothing and asks for no particular operation: it hinders no pooling here."""
    hook.looks_on = True  # type: ignore[attr-defined]
    return hook


def _window(pool: nn.MaxPool2d, x: Tensor) -> int:
    """The side of the windows if the kernel pools as a plain call would, and faster; else 0."""
    sides = [_one(value) for value in (pool.kernel_size, pool.stride, pool.padding, pool.dilation)]
    hooks = (*pool._forward_pre_hooks.values(), *pool._forward_hooks.values())
    pays = (
        not torch.compiler.is_compiling()
        and type(x) is Tensor
        and x.numel() >= _INPUTS
        and x.dim() == 4
        and x.shape[1] >= _CHANNELS
        and sides[0] in _WINDOWS
        and sides[1:] == [sides[0], 0, 1]
        and min(x.shape[2:]) >= sides[0]
        and pool.ceil_mode is False
        and pool.return_indices is False
        and x.dtype in (torch.float32, torch.bfloat16)
        and x.device.type == "cpu"
        and x.layout == torch.strided
        and not x.is_neg()
        and all(hasattr(hook, "looks_on") for hook in hooks)
        and not (pool._backward_hooks or pool._backward_pre_hooks or "forward" in vars(pool))
        and not torch.nn.modules.module._has_any_global_hook()
        and not _is_watched()  # vmap's tensors know no channels-last
        and x.is_contiguous(memory_format=torch.channels_last)
        and pooling_kernels() is not None
    )
    return (sides[0] or 0) if pays else 0


def _one(value: Any) -> int | None:
    """The int for height and width, if it is one: PyTorch refuses other numbers."""
    if isinstance(value, (tuple, list)) and len(value) == 2 and type(value[0]) is type(value[1]) is int:
        return value[0] if value[0] == value[1] else None
    return value if type(value) is int else None


@functools.cache
def pooling_kernels() -> ctypes.CDLL | None:
    """The library of ``max_pool.cpp``; None if nothing can be compiled."""
    if missing_compiler("cpu"):
        return None
    try:
        return load(PRELUDE + files(f"{__package__}.engine.cpp").joinpath("max_pool.cpp").read_text())
    except CompilationFailed:
        return None


class _MaxPool(torch.autograd.Function):
    """x [B, C, H, W] -> [B, C, H / window, W / window], both channels-last."""

    @staticmethod
    def forward(ctx, x: Tensor, window: int) -> Tensor:
        batch, channels, height, width = x.shape
        out = _channels_last((batch, channels, height // window, width // window), x.dtype)
        chosen = torch.empty(batch, height // window, width // window, channels, dtype=torch.uint8, device="cpu")
        _pool("forward", window, (x, out, chosen), x.shape, out)
        ctx.window, ctx.shape = window, x.shape
        ctx.save_for_backward(chosen)
        return out

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        chosen = ctx.saved_tensors[0].to(torch.uint8).contiguous()  # hooks may store it in another form
        if _is_left_to_pytorch(gradient):
            return _unpooled(gradient, chosen, ctx.window, ctx.shape), None
        d_x = _channels_last(ctx.shape, gradient.dtype)
        gradient = gradient.resolve_neg().contiguous(memory_format=torch.channels_last)
        _pool("backward", ctx.window, (gradient, chosen, d_x), ctx.shape, d_x)
        return d_x, None


def _unpooled(gradient: Tensor, chosen: Tensor, window: int, shape: torch.Size) -> Tensor:
    """The gradient of x in PyTorch's operations, so that it has a gradient itself."""
    places = torch.arange(window * window, device=chosen.device).view(window, window)
    here = chosen.permute(0, 3, 1, 2)[..., None, None] == places
    parts = torch.where(here, gradient[..., None, None] + 0.0, 0.0)  # [B, C, rows, columns, window, window]
    height, width = parts.shape[2] * window, parts.shape[3] * window
    pooled = parts.transpose(-3, -2).reshape(*shape[:2], height, width)
    return nn.functional.pad(pooled, (0, shape[3] - width, 0, shape[2] - height))


def _channels_last(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    batch, channels, height, width = shape
    memory = fresh((batch * channels * height * width,), dtype, torch.device("cpu"))
    strides = (channels * height * width, 1, width * channels, channels)
    # Not a view of flat memory: autograd treats in-place changes of views differently.
    return torch.empty(0, dtype=dtype, device="cpu").set_(memory.untyped_storage(), 0, shape, strides)  # type: ignore[arg-type]


def _pool(way: str, window: int, tensors: tuple[Tensor, ...], shape: torch.Size, written: Tensor) -> None:
    batch, channels, height, width = shape
    pointers = (ctypes.c_void_p * 3)(*(t.data_ptr() for t in tensors))
    streaming = written.nbytes >= _STREAMING
    sizes = (ctypes.c_int64 * 5)(batch, height, width, channels, streaming)
    threads = threads_for(written)
    kernel = getattr(pooling_kernels(), f"{way}_{str(written.dtype).removeprefix('torch.')}_{window}")
    kernel(pointers, sizes, ctypes.c_int(threads))
