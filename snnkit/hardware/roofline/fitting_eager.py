"""What operations take by themselves, and what they take longer inside a layer that the eager engine runs.

Fixed costs come from layers of one neuron, where nothing else takes time, solved for by least squares of the relative
error under the condition that nothing takes less than none (Lawson and Hanson 1974). Everything else is a curve over
a few sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy.optimize import nnls

from . import probes
from .counting import count_layer
from .curves import Curve
from .machine import key_of
from .probes import Probe, Recipe
from .ranges import Range
from .timings import Timed, both_of, less, scatter
from .work import Operation

_SIZES = (1, 2**10, 2**13, 2**16, 2**18, 2**21)
_LARGEST_KEPT = 2**24  # values that are kept at once
_LAYERS = (Recipe(products=6), Recipe(differences=6), Recipe(spikes=2))
_LAYER_SIZES, _LAYER_STEPS = (2**10, 2**13, 2**16, 2**18), 16
_TINY = (
    *(Recipe(products=2), Recipe(products=12), Recipe(differences=12)),
    *(Recipe(spikes=1), Recipe(spikes=4), Recipe(products=6, spikes=2)),
)


def elementwise_curves(device: torch.device, timed: Timed) -> dict[str, Curve]:
    """Of each class of operation by itself, by the number of values."""
    points: dict[str, list[tuple[float, Range]]] = {}
    # Beyond the cache of a large GPU, or its rate would be taken for that of the memory.
    for numel in (*_SIZES, 2**24, 2**26) if device.type == "cuda" else _SIZES:
        calls = max(4, min(16, _LARGEST_KEPT // numel))
        for name, took in timed(probes.elementwise(numel, calls, device)).items():
            points.setdefault(name, []).append((numel, took * (1 / calls)))
    return {name: Curve.through(found) for name, found in points.items()}


def fixed_costs(device: torch.device, timed: Timed, elementwise: dict[str, Curve]) -> dict[str, Range]:
    """Of a call, a step, an operation forward and backward, a Python function; of a view and a module."""
    contestants = {}
    for steps in (2, 32):
        for i, recipe in enumerate(_TINY):
            contestants[f"{steps} {i}"] = probes.both_ways(Probe(recipe), torch.rand(steps, 1, device=device))
    took = timed(contestants)
    names = ("call", "step", "forward", "backward", "function")
    counts, seconds, scale = [], [], []
    for name in contestants:
        steps, i = map(int, name.split())
        forward, backward = (_inside(Probe(_TINY[i]), steps, 1, way) for way in ("forward", "backward"))
        bare = _bare(forward, elementwise) + _bare(backward, elementwise)
        functions = sum(op.function for op in backward)
        counts.append((1, steps, len(forward), len(backward), functions))
        seconds.append(max(took[name].value - bare, 0.0))
        scale.append(1 / took[name].value)
    weights = np.array(scale)
    values = nnls(np.array(counts, dtype=float) * weights[:, None], np.array(seconds) * weights)[0]
    noise = scatter(list(took.values()))
    x = torch.rand(4, 4, device=device, requires_grad=True)
    extra = timed({"view": lambda: [x.t() for _ in range(64)], "module": _modules(device)})
    module = max(extra["module"].value / 16 - elementwise["product recycled"].at(1).value, 0.0)
    found = {name: noise * float(value) for name, value in zip(names, values, strict=True)}
    return found | {"view": extra["view"] * (1 / 64), "module": noise * module}


def _inside(layer: Probe, steps: int, neurons: int, way: str) -> list[Operation]:
    """The elementwise operations of a layer in one direction."""
    work = count_layer(layer, steps, neurons)
    return [op for op in work.operations if op.phase == way and (op.kind == "elementwise" or op.name == "_to_copy")]


def _bare(operations: Sequence[Operation], elementwise: dict[str, Curve]) -> float:
    """Seconds of these operations if nothing else were in the cache."""
    return sum(elementwise[key_of(op)].at(op.numel).value for op in operations)


def surcharges(
    device: torch.device, timed: Timed, elementwise: dict[str, Curve], overhead: dict[str, Range]
) -> dict[str, Curve]:
    """What an operation takes longer inside a layer, where many tensors are alive at once, by its number of values."""
    points = {way: [(1.0, overhead[way])] for way in ("forward", "backward")}
    for neurons in _LAYER_SIZES:
        x = torch.rand(_LAYER_STEPS, neurons, device=device)
        contestants: dict[str, Callable[[], object]] = {}
        for i, recipe in enumerate(_LAYERS):
            both_of(contestants, str(i), Probe(recipe), x)
        took = timed(contestants)
        noise = scatter(list(took.values()))
        for way, found in points.items():
            extra, count = 0.0, 0
            for i, recipe in enumerate(_LAYERS):
                inside = _inside(Probe(recipe), _LAYER_STEPS, neurons, way)
                forward, both = took[f"forward {i}"], took[f"both {i}"]
                whole = forward if way == "forward" else less(both, forward)
                functions = sum(op.function for op in inside) * overhead["function"].value
                extra += whole.value - _bare(inside, elementwise) - functions
                count += len(inside)
            extra -= len(_LAYERS) * (overhead["call"].value + overhead["step"].value * _LAYER_STEPS) / 2
            found_now = max(extra / count, overhead[way].value)
            found.append((neurons, noise * found_now))
    return {way: Curve.through(found) for way, found in points.items()}


def _modules(device: torch.device) -> Callable[[], object]:
    """Sixteen modules that do next to nothing, forward and backward, in our ``Sequential``."""
    from ...nn import Sequential

    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 0.99

    net, x = Sequential(*(Scaled() for _ in range(16))), torch.rand(1, 1, 1, device=device, requires_grad=True)
    gradient = torch.ones(1, 1, 1, device=device)
    return lambda: torch.autograd.grad(net(x)[0], x, gradient)
