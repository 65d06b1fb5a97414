"""What one training step of a model takes: bytes held between forward and backward, and at the peak."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..measure.tracker import MemoryTracker


class Taken(NamedTuple):
    """Bytes, beyond weights and input.

    Attributes:
        held: alive between forward and backward, the output included.
        peak: most at a time; gradients of the weights are a part of it.
    """

    held: int
    peak: int


def training_step(model: nn.Module, x: Tensor) -> Taken:
    """Run ``model(x)`` and its backward pass and count; the model is left as it was: weights, ``.grad``, buffers and
    random numbers."""
    with untouched(model, x.device):
        _step(model, x, [])  # whatever is traced, compiled or benchmarked at first
        held: list[int] = []
        if x.device.type == "cuda":
            torch.cuda.synchronize(x.device)
            torch.cuda.reset_peak_memory_stats(x.device)
            before = torch.cuda.memory_allocated(x.device)
            _step(model, x, held, lambda: torch.cuda.memory_allocated(x.device) - before)
            torch.cuda.synchronize(x.device)
            return Taken(held[0], torch.cuda.max_memory_allocated(x.device) - before)
        with MemoryTracker() as tracker:
            _step(model, x, held, lambda: tracker.live)
        return Taken(held[0], tracker.peak)


def _step(model: nn.Module, x: Tensor, held: list[int], count: Any = None) -> None:
    with torch.enable_grad():
        result = model(x)  # alive to the end, as in ``out, state = model(x)``
        out = output_of(result)
        if count is not None:
            held.append(count())
        leaves = [p for p in model.parameters() if p.requires_grad]
        if not out.requires_grad:
            raise ValueError(
                "model gave an output without a gradient, so it holds nothing for backward: is every parameter frozen?"
            )
        torch.autograd.grad(out.float().mean(), leaves, allow_unused=True)


def output_of(result: Any) -> Tensor:
    """The tensor that a model gives: its result, or the first part of (out, state)."""
    if isinstance(result, tuple) and result:
        result = result[0]
    if not isinstance(result, Tensor):
        raise TypeError(f"model must return a tensor or (out, state), but it returned a {type(result).__name__}")
    return result


@contextlib.contextmanager
def untouched(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Afterwards the buffers of ``model`` and the state of the random generators are what they were."""
    buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        try:
            yield
        finally:
            with torch.no_grad():
                for name, buffer in model.named_buffers():
                    buffer.copy_(buffers[name])
