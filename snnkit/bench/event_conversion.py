"""How fast recordings of events become frames, surfaces and grids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ..data.events import Events, time_surface, to_frames, voxel_grid
from ..measure import Timing, race


@dataclass(frozen=True)
class Pace:
    """What one conversion took.

    Attributes:
        name: of the conversion.
        events: events per call.
        timing: seconds per call.
    """

    name: str
    events: int
    timing: Timing

    @property
    def rate(self) -> float:
        """Million events per second, by the median."""
        return self.events / self.timing.median / 1e6


def random_recording(count: int, size: tuple[int, int], seed: int = 0) -> Events:
    """Events evenly spread over a second, all pixels and both polarities: the worst case for the caches."""
    draw = torch.Generator().manual_seed(seed)
    t = torch.randint(1_000_000, (count,), generator=draw).sort().values
    y, x = (torch.randint(limit, (count,), generator=draw, dtype=torch.int16) for limit in size)
    return Events(t, x, y, torch.rand(count, generator=draw) < 0.5, size, 1_000_000)


def paces(count: int, size: tuple[int, int], steps: int, repeats: int) -> list[Pace]:
    """Time each conversion of the same random recording; both ways to frames are compared first.

    Args:
        count: events of the recording, a second long.
        size: height and width of its sensor.
        steps: windows.
        repeats: rounds of ``measure.race``.
    """
    recording = random_recording(count, size)
    if not torch.equal(to_frames(recording, steps=steps), by_bincount(recording, steps)):
        raise AssertionError("to_frames and one bincount over the whole recording disagree")
    conversions: dict[str, Callable[[], object]] = {
        "to_frames, windows of time": lambda: to_frames(recording, steps=steps),
        "one bincount of everything": lambda: by_bincount(recording, steps),
        "time_surface": lambda: time_surface(recording, tau=5e4, steps=steps),
        "voxel_grid": lambda: voxel_grid(recording, steps),
    }
    return [Pace(name, count, timing) for name, timing in race(conversions, repeats).items()]


def by_bincount(recording: Events, steps: int) -> torch.Tensor:
    """The frames of ``to_frames(recording, steps=steps)`` by one index over windows, polarities and pixels at once."""
    height, width = recording.size
    ends = torch.arange(steps + 1) * recording.duration // steps
    step = torch.searchsorted(ends, recording.t, right=True) - 1
    cell = ((step * 2 + (~recording.p).long()) * height + recording.y.long()) * width + recording.x
    return torch.bincount(cell, minlength=steps * 2 * height * width).view(steps, 2, height, width).float()


def table(measured: list[Pace]) -> str:
    """As Markdown: million events per second, the median in ms, and the 10th and 90th percentile."""
    rows = ["| conversion | million events/s | ms per call | 10th to 90th percentile |", "|---|---:|---:|---:|"]
    for pace in measured:
        low, high = (1e3 * seconds for seconds in pace.timing.spread)
        rows.append(f"| {pace.name} | {pace.rate:.1f} | {pace.timing.median * 1e3:.2f} | {low:.2f} to {high:.2f} |")
    return "\n".join(rows)
