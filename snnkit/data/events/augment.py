"""Random changes to a recording, event by event and before it becomes frames.

```python
change = events.augment.Compose(events.augment.Shift(2), events.augment.Drop(0.1))
frames = events.to_frames(change(recording), steps=16)
```

Each takes ``Events`` and gives others of the same sensor. What it draws comes from ``generator``, a generator on the
CPU; None is PyTorch's global one. All raise TypeError and ValueError for arguments that are not what is stated. A draw
that would leave not a single event leaves the recording as it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch

from snnkit.data._batches import check_generator, check_real
from snnkit.data.events.recording import Events, check_events, in_order

__all__ = ["Compose", "Drop", "Flip", "Jitter", "Shift"]


@dataclass(frozen=True)
class _Augmentation:
    generator: torch.Generator | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        check_generator(self.generator)

    def __call__(self, events: Events) -> Events:
        check_events(events)
        return self.change(events)

    def change(self, events: Events) -> Events:
        raise NotImplementedError

    def whole(self, limit: int) -> int:
        """A whole number from -limit to limit."""
        return int(torch.randint(-limit, limit + 1, (), generator=self.generator))


@dataclass(frozen=True)
class Flip(_Augmentation):
    """Mirror the recording left to right with probability ``p``."""

    p: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_probability("p", self.p)

    def change(self, events: Events) -> Events:
        if float(torch.rand((), generator=self.generator)) >= self.p:
            return events
        return replace(events, x=events.size[1] - 1 - events.x)


@dataclass(frozen=True)
class Shift(_Augmentation):
    """Move all events by a whole number of pixels from -``pixels`` to ``pixels``, drawn for each direction.

    What moves out of the sensor is lost.
    """

    pixels: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_whole("pixels", self.pixels)

    def change(self, events: Events) -> Events:
        height, width = events.size
        # As int32: a place at the edge of the largest sensor and a shift are more than int16 holds.
        x, y = events.x.int() + self.whole(self.pixels), events.y.int() + self.whole(self.pixels)
        inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
        if not inside.any():
            return events
        return replace(events, t=events.t[inside], x=x[inside], y=y[inside], p=events.p[inside])


@dataclass(frozen=True)
class Drop(_Augmentation):
    """Lose each event with probability ``p``."""

    p: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_probability("p", self.p)

    def change(self, events: Events) -> Events:
        kept = torch.rand(len(events), generator=self.generator) >= self.p
        return events.where(kept) if kept.any() else events


@dataclass(frozen=True)
class Jitter(_Augmentation):
    """Move each event in time by a normally distributed number of microseconds, of standard deviation ``std``.

    What would leave the recording stays at its start or end. The events are in the order of their new times.
    """

    std: float = 1000.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_real("std", self.std)
        if not 0 <= self.std < math.inf:
            raise ValueError(f"std must be a finite number of microseconds of at least 0; got {self.std!r}")

    def change(self, events: Events) -> Events:
        drawn = torch.randn(len(events), generator=self.generator, dtype=torch.float64)
        t = (events.t + (drawn * self.std).round()).clamp(0, events.duration - 1).long()
        return in_order(t, events.x, events.y, events.p, events.size, events.duration, events.polarities)


class Compose:
    """One augmentation after the other."""

    def __init__(self, *steps: Callable[[Events], Events]) -> None:
        for i, step in enumerate(steps):
            if not callable(step):
                raise TypeError(f"step {i} of Compose must be a function of events; got {step!r}")
        self.steps = steps

    def __call__(self, events: Events) -> Events:
        for step in self.steps:
            events = step(events)
        return events

    def __repr__(self) -> str:
        return f"Compose({', '.join(map(repr, self.steps))})"


def _check_whole(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int of at least 0; got {value!r} ({type(value).__name__})")
    if not 0 <= value < 2**15:
        raise ValueError(f"{name} must lie in 0 .. {2**15 - 1}; got {value}")


def _check_probability(name: str, value: float) -> None:
    check_real(name, value)
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must lie in [0, 1]; got {value!r}")
