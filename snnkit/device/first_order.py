"""A backward pass that can't be differentiated itself, and says what to do about it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def first_order(backward: Callable[..., tuple]) -> Callable[..., tuple]:
    """Of a ``torch.autograd.Function``: run ``backward`` without a graph; a derivative of its results is an error.

    As PyTorch's ``once_differentiable``, whose message does not tell where it comes from, and which gives no message
    where the incoming gradient is a constant.
    """

    @functools.wraps(backward)
    def run(ctx: Any, *gradients: Tensor | None) -> tuple:
        with torch.no_grad():
            results = backward(ctx, *gradients)
        if not torch.is_grad_enabled():
            return results
        given = [r.detach().requires_grad_() for r in results if r is not None]
        marked = iter(_Last.apply(*given) if given else ())  # type: ignore[arg-type]
        return tuple(None if r is None else next(marked) for r in results)

    return run


class _Last(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *gradients: Tensor) -> tuple[Tensor, ...]:
        return tuple(gradient.clone() for gradient in gradients)

    @staticmethod
    def backward(ctx, *gradients: Tensor) -> tuple[Tensor, ...]:
        raise RuntimeError(
            "second derivatives do not go through a model in optimize_memory_usage, which computes layers again in "
            "backward; call snnkit.device.restore_memory_usage(model) first, or give recompute=False and pool=False"
        )
