"""Measurements that a notebook makes on its own machine: one piece of work, and each layer of a network alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from snnkit import checks, records
from snnkit.device import Precision
from snnkit.measure import clock_for, first_call, race
from snnkit.nn import Sequential, is_static

_NAMES = {"cpu": "CPU", "cuda": "GPU"}


@checks.arguments
def places(
    work: Callable[[torch.device], Callable[[], object]], kind: str, *, repeats: int = 5, **wanted: Any
) -> dict[str, dict[str, float]]:
    """Milliseconds of ``work`` here and as recorded, for ``viz.figures.shares``; empty if there is no such device.

    Args:
        work: called with a device, it returns a function without arguments that does the work there.
        kind: of the records to use, such as "training".
        repeats: how often the work is timed, at least 3; the median counts.
        wanted: uses rows with these values only, such as ``net="mlp"``; from each record the fastest.
    """
    bars: dict[str, dict[str, float]] = {}
    for kind_of, name in _NAMES.items():
        if kind_of == "cuda" and not torch.cuda.is_available():
            bars[f"this {name}: there is none"] = {}
            continue
        device = torch.device(kind_of)
        run = work(device)
        first_call(run, device)
        bars[f"this {name}"] = {"time": 1e3 * race({"": run}, repeats, clock=clock_for(device))[""].median}
    for kind_of, name in _NAMES.items():
        loaded = [record for record in map(records.load, records.names(kind)) if _where(record)["type"] == kind_of]
        for record in loaded:
            rows = [row for row in record["rows"] if all(row.get(key) == value for key, value in wanted.items())]
            if rows:
                label = f"recorded: {_where(record)['name']}"
                bars[label] = {"time": 1e3 * min(row["median_s"] for row in rows)}
        if not loaded:
            bars[f"recorded {name}: none comes with the kit"] = {}
    return bars


def _where(record: Any) -> dict[str, Any]:
    return record["provenance"]["device"]


@checks.arguments
def layer_times(net: Sequential, x: Tensor, *, amp: bool = False, repeats: int = 9) -> dict[str, float]:
    """Median seconds of each kind of layer ("Conv2d"), forward and backward, by the name of its class.

    Each layer runs on its input in the network, and the layers take turns. A static result is computed once, as in
    the network. For a layer inside another (``nn.Once``), the name is that of the inner one.

    Args:
        net: on the device of ``x``; in training mode its running statistics change.
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
    took = race(runs, repeats, clock=clock_for(x.device))
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
