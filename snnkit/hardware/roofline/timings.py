"""Medians and their scatter: what is left when a part is taken away, and how much measurements vary."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor

from . import probes
from .probes import Probe
from .ranges import Range

# Contestants of a race to their seconds.
Timed = Callable[[dict[str, Callable[[], object]]], dict[str, Range]]


def scatter(found: Sequence[Range]) -> Range:
    """By which factor measurements scatter, as their median does."""
    low = float(np.median([r.low / r.value for r in found]))
    return Range(min(low, 1.0), 1.0, max(float(np.median([r.high / r.value for r in found])), 1.0))


def less(whole: Range, part: Range) -> Range:
    """What is left of the median, with the scatter of the whole."""
    left = max(whole.value - part.value, whole.value * 0.05)
    return Range(left * (whole.low / whole.value), left, left * (whole.high / whole.value))


def both_of(
    found: dict[str, Callable[[], object]], name: str, layer: Probe, x: Tensor, repeat: int | None = None
) -> None:
    """Add to ``found`` the layer's forward pass, and forward with backward."""
    found[f"forward {name}"] = probes.forward_only(layer, x, repeat)
    found[f"both {name}"] = probes.both_ways(layer, x, repeat)
