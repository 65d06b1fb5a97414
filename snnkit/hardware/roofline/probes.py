"""Micro-benchmarks: single operations and single layers of neurons that exist for this only, never a network."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...measure.timing import Clock, race
from ...neuron import Neuron
from ...neuron.base import MembraneState
from ...surrogate import ATan
from .ranges import Range

_DECAY = 0.99


class Processor:
    """A clock of the seconds that this process computes, so that what else runs on the machine does not count."""

    name = "processor"

    def seconds(self, function: Callable[[], object], calls: int = 1) -> tuple[float, float]:
        start = time.process_time()
        for _ in range(calls):
            function()
        mean = (time.process_time() - start) / calls
        return mean, mean


def clock_of(device: torch.device) -> Clock:
    """For one thread on a CPU the processor's; for several its seconds would add up, so the host's."""
    from ...measure.timing import ThroughputClock

    return Processor() if device.type == "cpu" and torch.get_num_threads() == 1 else ThroughputClock(device)


def times(contestants: Mapping[str, Callable[[], object]], clock: Clock, repeats: int) -> dict[str, Range]:
    """Median, 10th and 90th percentile of seconds."""
    found = race(contestants, repeats, warmup=2, clock=clock)
    return {name: Range(min(t.spread[0], t.median), t.median, max(t.spread[1], t.median)) for name, t in found.items()}


class Recipe(NamedTuple):
    """What a ``Probe`` does in each step, besides a decay and an addition.

    Attributes:
        products: multiplications by a number; each has one in backward, too.
        differences: subtractions of a number, which have none.
        spikes: each subtracts, compares, casts, and is a function of Python in backward.
        costly: exponentials, of squares.
    """

    products: int = 0
    differences: int = 0
    spikes: int = 0
    costly: int = 0


class Probe(Neuron):
    """A neuron that is none: as many operations as one wants to time."""

    products: int
    differences: int
    spikes: int
    costly: int

    def __init__(self, recipe: Recipe, engine: str = "eager") -> None:
        super().__init__(surrogate=ATan(), engine=engine)
        self.products, self.differences, self.spikes, self.costly = recipe

    def step(self, x: Tensor, state: MembraneState) -> tuple[Tensor, MembraneState]:
        v = _DECAY * state.v + x
        for _ in range(self.products):
            v = v * _DECAY
        for _ in range(self.differences):
            v = v - 0.01
        for _ in range(self.costly):
            v = torch.exp(-v * v)
        out = v
        for _ in range(self.spikes):
            out = self.spike(out - 0.5)
        return out, MembraneState(v)


def both_ways(layer: Neuron, x: Tensor, repeat: int | None = None) -> Callable[[], object]:
    """Forward and backward of one layer on x [T, N], or on one step [N] that comes in ``repeat`` times."""
    leaf = x.detach().clone().requires_grad_()
    steps = repeat or len(x)
    gradient = torch.rand(steps, *(x.shape if repeat else x.shape[1:]), device=x.device)

    def run() -> None:
        out, _ = layer(leaf, repeat=repeat)
        torch.autograd.grad(out, leaf, gradient)

    return run


def forward_only(layer: Neuron, x: Tensor, repeat: int | None = None) -> Callable[[], object]:
    """Forward with a graph for backward, which is thrown away."""
    leaf = x.detach().clone().requires_grad_()
    return lambda: layer(leaf, repeat=repeat)


def elementwise(numel: int, calls: int, device: torch.device) -> dict[str, Callable[[], object]]:
    """Of each class, ``calls`` operations whose results are kept, and as many whose results are not.

    Those that are kept read what others have just written, as the steps of a neuron do.
    """
    xs = [torch.rand(numel, device=device) for _ in range(calls)]
    x, y = xs[0], torch.rand(numel, device=device)
    masks = [t > 0.5 for t in xs]

    def chain(operation: Callable[[Tensor], Tensor]) -> Callable[[], object]:
        def run() -> list[Tensor]:
            made = [x]
            for _ in range(calls):
                made.append(operation(made[-1]))
            return made

        return run

    def kept(operation: Callable[[Tensor], Tensor], given: list[Tensor]) -> Callable[[], object]:
        return lambda: [operation(t) for t in given]

    def recycled(operation: Callable[[Tensor], Tensor], given: Tensor) -> Callable[[], object]:
        def run() -> None:
            for _ in range(calls):
                operation(given)

        return run

    chained: dict[str, Callable[[Tensor], Tensor]] = {
        "product": lambda v: v * _DECAY,
        "sum": lambda v: v + y,
        "divide": torch.reciprocal,
    }
    single: dict[str, tuple[Callable[[Tensor], Tensor], list[Tensor]]] = {
        "compare": (lambda v: v > 0.5, xs),
        "cast": (lambda m: m.to(y.dtype), masks),
        "select": (lambda m: torch.where(m, x, y), masks),
        "costly": (torch.exp, xs),
    }
    every = {f"{name} kept": chain(op) for name, op in chained.items()}
    every |= {f"{name} kept": kept(op, given) for name, (op, given) in single.items()}
    every |= {f"{name} recycled": recycled(op, x) for name, op in chained.items()}
    return every | {f"{name} recycled": recycled(op, given[0]) for name, (op, given) in single.items()}


def streams(values: int, device: torch.device) -> dict[str, tuple[Callable[[], object], Callable[[], object] | None]]:
    """Operations that are no arithmetic, on so many values: forward, and forward with backward."""
    side = 8
    images = torch.rand(max(1, values // (16 * side * side)), 16, side, side, device=device)
    rows = torch.rand(max(1, values // 16), 16, device=device)
    parts = list(torch.rand(8, max(1, values // 8), device=device).unbind(0))
    weight, bias = (torch.rand(16, device=device) for _ in range(2))
    mean, var = torch.zeros(16, device=device), torch.ones(16, device=device)
    labels = torch.zeros(len(rows), dtype=torch.long, device=device)

    def norm(x: Tensor) -> Tensor:
        return F.batch_norm(x, mean, var, weight, bias, training=True)

    def pool(x: Tensor) -> Tensor:
        return F.max_pool2d(x, 2)

    def other(x: Tensor) -> Tensor:
        return F.cross_entropy(x, labels)

    def graph(function: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Callable[[], Any], Callable[[], Any]]:
        leaf = x.requires_grad_()
        out = function(leaf)
        gradient = torch.rand_like(out)
        return lambda: function(leaf), lambda: torch.autograd.grad(function(leaf), leaf, gradient)

    return {
        "copy": (lambda: torch.stack(parts), None),
        "reduction": (lambda: rows.detach().sum(0), None),
        "norm": graph(norm, images.clone()),
        # Spikes, which is what networks pool: a maximum of random numbers takes longer.
        "pool": graph(pool, (images < 0.2).float()),
        "other": graph(other, rows.clone()),
    }


def product(m: int, n: int, k: int, device: torch.device) -> Callable[[], object]:
    """[m, k] × [k, n], the second one transposed as in a linear layer."""
    a, b = torch.rand(m, k, device=device), torch.rand(n, k, device=device)
    return lambda: a @ b.t()


def convolution(
    samples: int, inputs: int, outputs: int, side: int, device: torch.device
) -> tuple[Callable[[], object], Callable[[], object]]:
    """3 × 3 on so many images: forward, and forward with the gradients of image and weight."""
    x = torch.rand(samples, inputs, side, side, device=device, requires_grad=True)
    layer = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False).to(device)
    gradient = torch.rand_like(layer(x))
    return lambda: layer(x), lambda: torch.autograd.grad(layer(x), (x, layer.weight), gradient)


def update(numel: int, optimizer: Callable, device: torch.device) -> Callable[[], object]:
    """A step of an optimizer on one parameter."""
    parameter = nn.Parameter(torch.rand(numel, device=device))
    parameter.grad = torch.rand_like(parameter)
    return optimizer([parameter]).step
