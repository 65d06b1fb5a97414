"""Backpropagation through time in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from snnkit.nn import detach

from .place import check_module


def truncated(model: nn.Module, x: Tensor, steps: int, state: Any = None) -> Iterator[tuple[Tensor, Any]]:
    """Truncated backpropagation through time: run ``model`` on a few steps after the other, each cut from the graph of
    those before it, so that memory holds one chunk, however long the sequence::

        for out, state in device.truncated(net, x, steps=10):
            loss(out, y).backward()
        optimizer.step()

    The state carries on, gradients don't: what happened more than ``steps`` steps ago is not blamed. Batch norm that
    learns sees each chunk by itself.

    Args:
        model: called ``out, state = model(x, state)``.
        x: [T, B, ...]; T need not be a multiple of ``steps``.
        steps: of a chunk, at least 1.
        state: to start from; None: at rest.

    Yields:
        out [steps, B, ...] of a chunk, and the state after it, detached.

    Raises:
        TypeError, ValueError: when called: no module, no sequence, ``steps`` that is no int of at least 1.
    """
    check_module(model)
    if not isinstance(x, Tensor):
        raise TypeError(f"x must be a torch.Tensor [T, B, ...], but it is a {type(x).__name__}")
    if isinstance(steps, bool) or not isinstance(steps, int):
        raise TypeError(f"steps must be an int of at least 1, but it is {steps!r}")
    if steps < 1:
        raise ValueError(f"steps must be at least 1, but it is {steps}")
    if x.dim() < 2 or not len(x):
        raise ValueError(f"x must be a sequence [T, B, ...], but its shape is {list(x.shape)}")

    def walk(state: Any) -> Iterator[tuple[Tensor, Any]]:
        for chunk in x.split(steps):
            out, state = model(chunk, state)
            state = detach(state)
            yield out, state

    return walk(state)
