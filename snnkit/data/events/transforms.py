"""Random changes to a recording, event by event and before it becomes frames.

```python
frames = events.to_frames(events.transforms.Shift(2)(recording), steps=16)
```

Each takes ``Events`` and returns ``Events`` of the same sensor. Random numbers come from ``generator``, a generator on
the CPU; None is PyTorch's global one. All raise TypeError and ValueError for arguments of another kind or outside their
range. If a draw would remove every event, the recording does not change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from snnkit import checks
from snnkit.data.events.recordings import Events, in_order


@dataclass(frozen=True)
class Flip:
    """Mirror the recording left to right with probability ``p``."""

    p: float = 0.5
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        checks.number("p", self.p, at_least=0, at_most=1)

    @checks.arguments
    def __call__(self, events: Events) -> Events:
        if float(torch.rand((), generator=self.generator)) >= self.p:
            return events
        return replace(events, x=events.size[1] - 1 - events.x)


@dataclass(frozen=True)
class Shift:
    """Move all events by a whole number of pixels from -``pixels`` to ``pixels``, drawn for each direction.

    Events that move out of the sensor are lost.
    """

    pixels: int = 2
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        checks.integer("pixels", self.pixels, at_least=0, at_most=2**15 - 1)

    @checks.arguments
    def __call__(self, events: Events) -> Events:
        height, width = events.size
        dx, dy = (int(torch.randint(-self.pixels, self.pixels + 1, (), generator=self.generator)) for _ in range(2))
        # As int32: a place at the edge of the largest sensor and a shift are more than int16 holds.
        x, y = events.x.int() + dx, events.y.int() + dy
        inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
        if not inside.any():
            return events
        return replace(events, t=events.t[inside], x=x[inside], y=y[inside], p=events.p[inside])


@dataclass(frozen=True)
class Drop:
    """Lose each event with probability ``p``."""

    p: float = 0.1
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        checks.number("p", self.p, at_least=0, at_most=1)

    @checks.arguments
    def __call__(self, events: Events) -> Events:
        remaining = torch.rand(len(events), generator=self.generator) >= self.p
        return events.where(remaining) if remaining.any() else events


@dataclass(frozen=True)
class Jitter:
    """Move each event in time by a normally distributed number of microseconds, of standard deviation ``std``.

    Events that would leave the recording stay at its start or end. The result is ordered by the new times.
    """

    std: float = 1000.0
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        checks.number("std", self.std, at_least=0)

    @checks.arguments
    def __call__(self, events: Events) -> Events:
        drawn = torch.randn(len(events), generator=self.generator, dtype=torch.float64)
        t = (events.t + (drawn * self.std).round()).clamp(0, events.duration - 1).long()
        return in_order(t, events.x, events.y, events.p, events.size, events.duration, events.polarities)
