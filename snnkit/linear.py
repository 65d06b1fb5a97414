"""The product of a linear layer, by the fastest of three ways.

PyTorch multiplies float32 matrices with MKL, which uses vectors of 256 bits on AMD's processors. Where they have 512
bits, oneDNN, which PyTorch uses for convolutions, is up to 2.2 times as fast. And where the input is spikes, few enough
by count, the product is computed from their places alone (``event_products``), forward and backward.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar

import torch
from torch import Tensor, nn

from snnkit import event_products
from snnkit.engine.memory_gate import as_stored, is_left_to_pytorch, is_plain, is_watched, uncompiled
from snnkit.engine.plan import note_product
from snnkit.event_products import Spikes
from snnkit.measure.machine import processor

# Multiplications and additions of a product from which oneDNN is faster: its calls take 10 to 50 microseconds longer.
_PAYING = 2**22

# Those of a product from which spikes are looked for: a look at dense inputs takes 10 microseconds, this product 600.
COUNTED = 2**26
_SMALL = f"fewer than {COUNTED:,} multiplications are not worth a look at the input"

counts: ContextVar[bool] = ContextVar("counts", default=True)


def linear(layer: nn.Linear, x: Tensor) -> Tensor:
    """``layer(x)`` for x [B, I], by spikes or by oneDNN where that is faster. Values and gradients differ in the last
    bits only.

    ``torch.backends.mkldnn.enabled = False`` forbids oneDNN, as it does for convolutions, and ``dense_products`` lists
    of spikes.
    """
    if torch.compiler.is_compiling():
        return layer(x)
    work = x.numel() * layer.out_features
    if work < _PAYING:
        note_product(layer, x.shape, "PyTorch", _SMALL)
        return layer(x)
    if not _is_plain_call(layer, x):
        why = "its hooks, tensors, or who watches them expect PyTorch's operations"
        note_product(layer, x.shape, "PyTorch", why if x.device.type == "cpu" else "the other ways are for CPUs")
        return layer(x)
    return observed(layer, x, lambda: _multiplied(layer, x, work))


def observed(layer: nn.Module, x: Tensor, run: Callable[[], Tensor]) -> Tensor:
    """``run()``, with the forward hooks of the layer around it."""
    before, after = _forward_hooks(layer)
    for hook in before.values():
        hook(layer, (x,))
    out = run()
    for hook in after.values():
        hook(layer, (x,), out)
    return out


def _forward_hooks(layer: nn.Module) -> tuple[dict, dict]:
    return layer._forward_pre_hooks, layer._forward_hooks


def _multiplied(layer: nn.Linear, x: Tensor, work: int) -> Tensor:
    reason = _SMALL
    if work >= COUNTED:
        most = event_products.break_even(len(x), layer.in_features, layer.out_features, x.dtype)
        spikes = event_products.spikes_of(x, most) if counts.get() else "dense_products asks so"
        out = spikes if isinstance(spikes, str) else _by_events(layer, x, spikes, most)
        if isinstance(out, Tensor):
            return out
        reason = out
    by_onednn = _onednn_pays(x)
    note_product(layer, x.shape, "oneDNN" if by_onednn else "PyTorch", reason)
    if by_onednn:
        return _Linear.apply(x, layer.weight, layer.bias)  # type: ignore[return-value]
    return nn.functional.linear(x, layer.weight, layer.bias)


def compressed(x: Tensor, outputs: int) -> tuple[Tensor, ...]:
    """Plain spikes x [B, I] as the gradient of weights [O, I] needs them later: lists where these pay, or bytes."""
    spikes = None if _may_change_saved() else _listed(x, outputs)
    return (x.to(torch.uint8),) if spikes is None else spikes[:2]


def decompressed(tensors: Sequence[Tensor], rows: int, inputs: int, dtype: torch.dtype) -> Tensor | Spikes:
    """The first ``rows`` of spikes [B, inputs] that were ``compressed`` to ``tensors``."""
    if len(tensors) == 1:
        return tensors[0][:rows].to(dtype)
    starts, columns = tensors
    return Spikes(starts[: rows + 1], columns[: int(starts[rows])], inputs)


def weight_gradient(gradient: Tensor, x: Tensor | Spikes) -> Tensor:
    """The gradient of weights [O, I] by that of their product [B, O] with plain x [B, I]."""
    spikes = _listed(x, gradient.shape[1]) if isinstance(x, Tensor) else x
    made = None if spikes is None else event_products.gradients(spikes, gradient)
    if made is not None:
        return made[0]
    x = x.dense(gradient.dtype) if isinstance(x, Spikes) else x
    product = _product if x.device.type == "cpu" and _onednn_pays(x) else nn.functional.linear
    return product(gradient.t(), x.t())


def _listed(x: Tensor, outputs: int) -> Spikes | None:
    """The spikes of plain x [B, I], where their lists pay for a product with weights [O, I]."""
    if x.device.type != "cpu" or not counts.get() or x.numel() * outputs < COUNTED:
        return None
    spikes = event_products.spikes_of(x.contiguous(), event_products.break_even(len(x), x.shape[1], outputs, x.dtype))
    return spikes if isinstance(spikes, Spikes) else None


@contextlib.contextmanager
def dense_products() -> Iterator[None]:
    """Within it, linear layers and convolutions multiply spikes as any other numbers: a reference to compare with."""
    token = counts.set(False)
    try:
        yield
    finally:
        counts.reset(token)


def is_hooked(module: nn.Module) -> bool:
    """Whether a call of it also runs code that is not in its class."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks) or "forward" in vars(module)


@functools.cache
def _onednn_is_faster() -> bool:
    has_both = torch.backends.mkldnn.is_available() and torch.backends.mkl.is_available()
    wide = has_both and torch.backends.cpu.get_cpu_capability() == "AVX512"
    return wide and "AMD" in processor() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def _onednn_pays(x: Tensor) -> bool:
    """Nor does oneDNN take a matrix without numbers."""
    return x.dtype == torch.float32 and x.numel() > 0 and torch.backends.mkldnn.enabled and _onednn_is_faster()


def _is_plain_call(layer: nn.Linear, x: Tensor) -> bool:
    """Whether the layer does nothing but multiply, and a kernel may read its tensors as they are stored."""
    return (
        is_only_itself(layer, nn.Linear)
        and x.shape[1:] == (layer.in_features,)
        and _is_dense(x)
        and _is_parameter(layer.weight, x.dtype, layer.out_features, layer.in_features)
        and (layer.bias is None or _is_parameter(layer.bias, x.dtype, layer.out_features))
    )


def is_only_itself(layer: nn.Module, kind: type) -> bool:
    """Whether a call of it computes what ``kind`` does and nothing more; hooks may observe it."""
    return (
        type(layer) is kind
        and not is_watched()
        and not torch.is_autocast_enabled("cpu")
        and all(hasattr(hook, "observes") for hooks in _forward_hooks(layer) for hook in hooks.values())
        and not (layer._backward_hooks or layer._backward_pre_hooks or "forward" in vars(layer))
        and not torch.nn.modules.module._has_any_global_hook()
    )


def _is_dense(t: Tensor) -> bool:
    return is_plain(t) and t.device.type == "cpu" and t.is_contiguous()


def _is_parameter(t: Tensor, dtype: torch.dtype, *shape: int) -> bool:
    """Whether it is one that ``nn.Linear`` makes: oneDNN reads it by its size alone, whatever its shape and strides."""
    return isinstance(t, nn.Parameter) and t.shape == shape and t.dtype == dtype and _is_dense(t)


class _Linear(torch.autograd.Function):
    """x [B, I], weight [O, I], bias [O] or None -> [B, O]."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight if ctx.needs_input_grad[0] else None)
        return _product(x, weight, bias)

    @staticmethod
    @uncompiled
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


def few_spikes(density: float, most: float) -> str:
    """Why a product goes from spike to spike."""
    return f"{density:.1%} of the inputs are spikes, and up to {most:.1%} it pays to skip the zeros"


def _by_events(layer: nn.Linear, x: Tensor, spikes: Spikes, most: float) -> Tensor | str:
    """The product from the places of spikes, or why it must be dense."""
    weight, bias = layer.weight, layer.bias
    out = event_products.product(spikes, weight, bias)
    if out is None:
        return "a weight is not finite (0 times infinity is NaN), or there was too little memory"
    note_product(layer, x.shape, "events", few_spikes(spikes.density, most))
    if not torch.is_grad_enabled() or not any(t is not None and t.requires_grad for t in (x, weight, bias)):
        return out
    return _EventLinear.apply(x, saved_for(weight, x), weight, bias, (spikes, out))  # type: ignore[return-value]


def saved_for(weight: Tensor, x: Tensor) -> Tensor | None:
    """What is saved of spikes x, besides the lists, for the gradient of weights: x itself, its place, or nothing."""
    if not weight.requires_grad:
        return None
    if _may_change_saved():
        return x
    return _Place.apply(x) if x.requires_grad else None  # type: ignore[return-value]


def _may_change_saved() -> bool:
    """Whether hooks get what is saved for backward: lists would not survive what they may do, spikes do, at any
    precision."""
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)  # pyright: ignore[reportAttributeAccessIssue]
    return bool(hooks) and not hasattr(hooks[0], "observes")


class _Place(torch.autograd.Function):
    """Zeros of the shape of x in the memory of one, with the gradient of x: in its place for second derivatives."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.new_zeros(()).expand(x.shape)

    @staticmethod
    @uncompiled
    def backward(ctx, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient


class _EventLinear(torch.autograd.Function):
    """x [B, I], weight [O, I], bias [O] or None -> [B, O], computed before from the spikes of x.

    For backward, the lists of spikes are saved and, if x has a gradient, its ``_Place``; or x itself in place of both.
    """

    @staticmethod
    def forward(ctx, x: Tensor, saved: Tensor | None, weight: Tensor, bias: Tensor | None, made: tuple) -> Tensor:
        spikes, out = made
        lists = (None, None) if saved is x or not ctx.needs_input_grad[2] else (spikes.starts, spikes.columns)
        ctx.save_for_backward(saved, *lists, weight if ctx.needs_input_grad[0] else None)
        ctx.inputs = spikes.inputs
        return out

    @staticmethod
    @uncompiled
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        x, starts, columns, weight = ctx.saved_tensors
        spikes = None if starts is None else Spikes(starts, columns, ctx.inputs)
        by_pytorch = is_left_to_pytorch(gradient)
        if ctx.needs_input_grad[2] and spikes is None and not by_pytorch:
            x = x.to(gradient.dtype)
            listed = event_products.spikes_of(x, 1.0) if is_plain(x) and x.is_contiguous() else ""
            # The gradient of x may then have its memory.
            spikes, x = (listed, None) if isinstance(listed, Spikes) else (None, x)
        product = _product if not by_pytorch and _onednn_pays(gradient) else nn.functional.linear
        d_x = None if weight is None else product(gradient, weight.t())
        made = None
        if ctx.needs_input_grad[2]:
            if spikes is not None and not by_pytorch:
                made = event_products.gradients(spikes, as_stored(gradient))
            if made is None:
                if spikes is not None:
                    places = spikes.dense(gradient.dtype)
                    x = places if x is None else x + places
                made = product(gradient.t(), x.t()), None  # type: ignore[union-attr]
        d_weight, d_bias = made or (None, None)
        if d_bias is None and ctx.needs_input_grad[3]:
            d_bias = gradient.sum(0)
        return d_x, None, d_weight, d_bias if ctx.needs_input_grad[3] else None, None
