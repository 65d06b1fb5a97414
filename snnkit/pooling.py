"""Maximum pooling between layers of neurons on a CPU, faster than PyTorch's and in less memory.

PyTorch's keeps its input and eight bytes for each output until backward, fills the gradient with zeros, and then adds
to it one by one. Here (``max_pool.cpp``) one byte is saved, and the gradient is written once. Values are the same, and
so are gradients, of any order. Where PyTorch's own operations may be expected (hooks, compilers, transforms, dispatch
modes), pooling is PyTorch's. Neurons before it may even pool their own outputs (``window_after``).
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor, nn

from snnkit.engine import CompilationFailed, missing_compiler
from snnkit.engine.cpp import STREAMING, load, threads_for
from snnkit.engine.cpp.cpp_source import POOL_ROWS, PRELUDE
from snnkit.engine.memory_gate import check_shape, is_left_to_pytorch, is_plain, is_watched, uncompiled
from snnkit.engine.observe import anyone, changes, observers_of
from snnkit.engine.page_pool import fresh

__all__ = ["kernels", "max_pool", "observer", "window_after"]

# Windows for which there is a kernel, the fewest channels that fill its vectors where these are last, and the fewest
# inputs that pay for it.
_WINDOWS = (2, 3, 4)
_CHANNELS = 32
_INPUTS = 2**18

# Neuron-steps of a row of windows that a neuron's kernel may have in the cache at once.
_MOST_OF_A_ROW = 2**18


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


def window_after(neuron: nn.Module, pool: nn.MaxPool2d, x: Tensor, steps: int) -> int:
    """The side of the windows if the kernel of the neuron before ``pool`` may do its work (``engine.unroll``), and no
    spikes of full size are stored; 0 where it may not, or where that is not faster. x: one of ``steps``, [B, C, H, W].
    """
    if pool._forward_pre_hooks or pool._forward_hooks or (anyone() and (changes() or observers_of(neuron))):
        return 0
    window = _window(pool, x)
    fits = (
        window
        and not x.is_contiguous()
        and x.shape[2] % window == 0
        and steps * window * x[0, :, 0].numel() <= _MOST_OF_A_ROW
    )
    return window if fits else 0


def observer(hook: Callable) -> Callable:
    """Mark a forward hook that returns nothing and expects no particular operation, so that pooling and linear layers
    may stay fast; or a hook that returns saved tensors as they are."""
    hook.observes = True  # type: ignore[attr-defined]
    return hook


def _window(pool: nn.MaxPool2d, x: Tensor) -> int:
    """The side of the windows if the kernel pools as a plain call would, and faster; else 0."""
    sides = [_one(value) for value in (pool.kernel_size, pool.stride, pool.padding, pool.dilation)]
    hooks = (*pool._forward_pre_hooks.values(), *pool._forward_hooks.values())
    pays = (
        not torch.compiler.is_compiling()
        and is_plain(x)
        and x.numel() >= _INPUTS
        and x.dim() == 4
        and sides[0] in _WINDOWS
        and sides[1:] == [sides[0], 0, 1]
        and min(x.shape[2:]) >= sides[0]
        and pool.ceil_mode is False
        and pool.return_indices is False
        and x.dtype in (torch.float32, torch.bfloat16)
        and x.device.type == "cpu"
        and all(hasattr(hook, "observes") for hook in hooks)
        and not (pool._backward_hooks or pool._backward_pre_hooks or "forward" in vars(pool))
        and not torch.nn.modules.module._has_any_global_hook()
        and not is_watched()  # vmap's tensors know no channels-last
        and (x.is_contiguous() or (x.is_contiguous(memory_format=torch.channels_last) and x.shape[1] >= _CHANNELS))
        and kernels() is not None
    )
    return (sides[0] or 0) if pays else 0


def _one(value: Any) -> int | None:
    """The int for height and width, if it is one: PyTorch refuses other numbers."""
    if isinstance(value, (tuple, list)) and len(value) == 2 and type(value[0]) is type(value[1]) is int:
        return value[0] if value[0] == value[1] else None
    return value if type(value) is int else None


@functools.cache
def kernels() -> ctypes.CDLL | None:
    """The library of ``max_pool.cpp``; None if nothing can be compiled."""
    if missing_compiler("cpu"):
        return None
    try:
        source = files(f"{__package__}.engine.cpp").joinpath("max_pool.cpp").read_text(encoding="utf-8")
        return load(PRELUDE + POOL_ROWS + source)
    except CompilationFailed:
        return None


class _MaxPool(torch.autograd.Function):
    """x [B, C, H, W] -> [B, C, H / window, W / window], both channels-last or both contiguous."""

    @staticmethod
    def forward(ctx, x: Tensor, window: int) -> Tensor:
        batch, channels, height, width = x.shape
        ctx.window, ctx.shape, ctx.last = window, x.shape, not x.is_contiguous()
        rows, columns = height // window, width // window
        out = _empty((batch, channels, rows, columns), x.dtype, ctx.last)
        ctx.stored = (batch, rows, columns, channels) if ctx.last else out.shape
        chosen = torch.empty(ctx.stored, dtype=torch.uint8, device="cpu")
        _pool("forward", ctx, (x, out, chosen), out)
        ctx.save_for_backward(chosen)
        return out

    @staticmethod
    @uncompiled
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        chosen = ctx.saved_tensors[0]
        check_shape(chosen, ctx.stored)
        chosen = chosen.to(torch.uint8).contiguous()  # hooks may store it in another form
        if is_left_to_pytorch(gradient) or not is_plain(chosen):
            places = chosen.permute(0, 3, 1, 2) if ctx.last else chosen
            return _unpooled(gradient, places, ctx.window, ctx.shape), None
        d_x = _empty(ctx.shape, gradient.dtype, ctx.last)
        kind = torch.channels_last if ctx.last else torch.contiguous_format
        gradient = gradient.resolve_neg().contiguous(memory_format=kind)
        _pool("backward", ctx, (gradient, chosen, d_x), d_x)
        return d_x, None


def _unpooled(gradient: Tensor, chosen: Tensor, window: int, shape: torch.Size) -> Tensor:
    """The gradient of x in PyTorch's operations, so that it has a gradient itself."""
    places = torch.arange(window * window, device=chosen.device).view(window, window)
    here = chosen[..., None, None] == places
    parts = torch.where(here, gradient[..., None, None] + 0.0, 0.0)  # [B, C, rows, columns, window, window]
    height, width = parts.shape[2] * window, parts.shape[3] * window
    pooled = parts.transpose(-3, -2).reshape(*shape[:2], height, width)
    return nn.functional.pad(pooled, (0, shape[3] - width, 0, shape[2] - height))


def _empty(shape: tuple[int, ...], dtype: torch.dtype, last: bool) -> Tensor:
    """Memory for images, channels-last or contiguous."""
    memory = fresh((math.prod(shape),), dtype, torch.device("cpu"))
    _, channels, height, width = shape
    within = (1, width * channels, channels) if last else (height * width, width, 1)
    strides = (channels * height * width, *within)
    # Not a view of flat memory: autograd treats in-place changes of views differently.
    return torch.empty(0, dtype=dtype, device="cpu").set_(memory.untyped_storage(), 0, shape, strides)  # type: ignore[arg-type]


def _pool(way: str, ctx, tensors: tuple[Tensor, ...], written: Tensor) -> None:
    batch, channels, height, width = ctx.shape
    pointers = (ctypes.c_void_p * 3)(*(t.data_ptr() for t in tensors))
    images, depth = (batch, channels) if ctx.last else (batch * channels, 1)
    sizes = (ctypes.c_int64 * 5)(images, height, width, depth, written.nbytes >= STREAMING)
    kind = f"{way}{'' if ctx.last else '_plain'}_{str(written.dtype).removeprefix('torch.')}_{ctx.window}"
    getattr(kernels(), kind)(pointers, sizes, ctypes.c_int(threads_for(written)))
