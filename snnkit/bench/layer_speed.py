"""Where the time of a training step goes: each layer of a network alone, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from snnkit import checks
from snnkit.device import Precision
from snnkit.measure import clock_for, race
from snnkit.nn import Sequential, is_static


@checks.arguments
def layer_times(net: Sequential, x: Tensor, *, amp: bool = False, repeats: int = 9) -> dict[str, float]:
    """Median seconds of each kind of layer ("Conv2d"), forward and backward, by the name of its class.

    Each layer runs on the input that it has in the network, and the layers take turns. What stays static is computed
    once, as in the network. A layer inside another (``nn.Once``) goes by the name of the inner one.

    Args:
        net: on the device of ``x``, as it is: in training mode its running statistics change.
        x: [T, B, ...].
        amp: in mixed precision, as ``train.fit`` does.
        repeats: of each layer, at least 3.
    """
    repeats = checks.integer("repeats", repeats, at_least=3)
    precision = Precision.choose(x.device, amp)
    with torch.no_grad(), precision.autocast():
        outputs = net.record(x).layers
    runs = {}
    for i, (given, out) in enumerate(zip([x, *outputs], outputs, strict=False)):
        one_step = is_static(given) and is_static(out)
        runs[i] = _both_ways(net[i : i + 1], given[:1] if one_step else given, precision, first=i == 0)
    took = race({str(i): run for i, run in runs.items()}, repeats, clock=clock_for(x.device))
    times: dict[str, float] = {}
    for layer, timing in zip(net, took.values(), strict=True):
        kind = type(getattr(layer, "module", layer)).__name__
        times[kind] = times.get(kind, 0.0) + timing.median
    return times


def _both_ways(layer: nn.Module, given: Tensor, precision: Precision, *, first: bool) -> Callable[[], Any]:
    """Forward and backward through one layer. The input of the first needs no gradient."""
    once = is_static(given)
    leaf = (given[0] if once else given).detach().requires_grad_(not first)
    wanted = [leaf] * (not first) + list(layer.parameters())

    def forward() -> Tensor:
        with precision.autocast():
            return layer(leaf.expand(given.shape) if once else leaf)[0]

    gradient = torch.rand_like(forward())

    def run() -> None:
        out = forward()
        if out.requires_grad:
            torch.autograd.grad(out, wanted, gradient, allow_unused=True)

    return run
