"""Where the time of a training step goes: each layer of a network by itself, forward and backward."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..device.precision import Precision
from ..measure.timing import Clock, clock_for, race
from ..nn import Sequential, is_static


def layer_times(
    net: Sequential,
    x: Tensor,
    *,
    precision: Precision | None = None,
    repeats: int = 5,
    clock: Clock | None = None,
) -> list[float]:
    """Seconds of the forward and backward pass of each layer of ``net``, medians, in order.

    Each layer gets the input that it has in ``net`` and a random gradient, and computes the gradients of its weights
    and, but for the first, of its input. What is between layers (the loss, the optimizer, additions of gradients) is
    not in it, nor what a compiler would gain by merging neighbours.

    Args:
        net: on the device of ``x``, in training mode or not.
        x: [T, B, ...]; a static one stays static.
        precision: autocast, as in ``train.fit``; None: none.
        repeats: rounds, in which the layers take turns, at least 3.
        clock: of the device of ``x`` where none is given.

    Raises:
        TypeError: ``net`` is no ``snnkit.nn.Sequential``.
        ValueError: fewer than 3 rounds.
    """
    if not isinstance(net, Sequential):
        raise TypeError(f"net must be a snnkit.nn.Sequential, but it is a {type(net).__name__}")
    precision = precision or Precision(x.device, None)
    before = {key: value.clone() for key, value in net.state_dict().items()}
    try:
        with torch.no_grad(), precision.autocast():
            outputs = net.record(x).layers
        contestants = {}
        for i, (given, out) in enumerate(zip([x, *outputs], outputs, strict=False)):
            # What stays static is computed for one step only.
            given = given[:1] if is_static(given) and is_static(out) else given
            contestants[str(i)] = _both_ways(net[i : i + 1], given, precision, first=i == 0)
        timings = race(contestants, repeats, clock=clock or clock_for(x.device))
    finally:
        net.load_state_dict(before)  # a batch norm in training has seen the same input many times
    return [timings[str(i)].median for i in range(len(outputs))]


def _both_ways(layer: nn.Module, x: Tensor, precision: Precision, *, first: bool) -> Callable[[], object]:
    steps = x.shape[0]
    leaf = (x[0] if is_static(x) else x).detach().requires_grad_(not first)
    wanted = [p for p in layer.parameters() if p.requires_grad] + ([] if first else [leaf])

    def forward() -> Tensor:
        given = leaf.expand(steps, *leaf.shape) if is_static(x) else leaf
        with precision.autocast():
            return layer(given)[0]

    out = forward()
    gradient = torch.rand_like(out)

    def run() -> None:
        out = forward()
        if out.requires_grad:
            torch.autograd.grad(out, wanted, gradient, allow_unused=True)

    return run
