"""What the engines take that run all steps of a layer at once."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .counting import count_layer
from .curves import Curve
from .machine import Fused
from .probes import Probe, Recipe
from .ranges import Range
from .timings import Timed, both_of, less, scatter
from .work import Operation

_SIZES = (2**6, 2**10, 2**13, 2**16)  # neurons
_STEPS = 16
_LONG = 8 * _STEPS
_LIGHT, _HEAVY, _COSTLY = Recipe(spikes=1), Recipe(spikes=1, products=16), Recipe(spikes=1, costly=2)
_RECIPES = {"light": _LIGHT, "heavy": _HEAVY, "costly": _COSTLY}


def engine_costs(engine: str, device: torch.device, timed: Timed) -> dict[str, Fused]:
    """Of one engine, forward and backward."""
    contestants: dict[str, Callable[[], object]] = {}
    for steps in (_STEPS, _LONG):
        both_of(contestants, f"tiny {steps}", Probe(_LIGHT, engine), torch.rand(steps, 1, device=device))
    for neurons in _SIZES:
        x = torch.rand(_STEPS, neurons, device=device)
        for name, recipe in _RECIPES.items():
            both_of(contestants, f"{name} {neurons}", Probe(recipe, engine), x)
        both_of(contestants, f"static {neurons}", Probe(_LIGHT, engine), x[0], _STEPS)
    took = timed(contestants)
    forward = {name.removeprefix("forward "): r for name, r in took.items() if name.startswith("forward ")}
    backward = {name: less(took[f"both {name}"], seconds) for name, seconds in forward.items()}
    return {"forward": _one_way("forward", forward), "backward": _one_way("backward", backward)}


def _one_way(way: str, took: dict[str, Range]) -> Fused:
    short, long = took[f"tiny {_STEPS}"], took[f"tiny {_LONG}"]
    step = scatter([short, long]) * (max(long.value - short.value, 0.0) / (_LONG - _STEPS))
    call = less(short, step * _STEPS)
    fixed = call.value + step.value * _STEPS
    points: dict[str, list[tuple[float, Range]]] = {"base": [], "static": [], "simple": [], "costly": []}
    for neurons in _SIZES:
        size = neurons * _STEPS
        light, heavy, costly = (_kernel(recipe, way, neurons) for recipe in _RECIPES.values())
        at = {name: took[f"{name} {neurons}"] for name in (*_RECIPES, "static")}
        # Three unknowns, three probes: what each operation adds, and what is left.
        simple = max(at["heavy"].value - at["light"].value, 0.0) / (heavy.simple - light.simple)
        more = at["costly"].value - at["light"].value - (costly.simple - light.simple) * simple
        dear = max(more, 0.0) / (costly.costly - light.costly)
        own = fixed + light.simple * simple
        noise = scatter(list(at.values()))
        found = {"base": at["light"].value - own, "static": at["static"].value - own}
        found |= {"simple": simple * size, "costly": dear * size}
        for name, seconds in found.items():
            points[name].append((size, noise * max(seconds, 1e-9)))
    return Fused(call, step, **{name: Curve.through(curve) for name, curve in points.items()})


def _kernel(recipe: Recipe, way: str, neurons: int) -> Operation:
    work = count_layer(Probe(recipe), _STEPS, neurons).fused()
    return next(op for op in work.of("fused") if op.phase == way)
