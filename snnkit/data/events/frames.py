"""Recordings as pictures: counts per window of time, how long ago each pixel fired, and a grid over space and time.

Frames are what a network takes in; all results are float32 on the CPU. Events of a window are counted pixel by pixel
without touching the rest of the recording: with the whole of it as one index, memory that is written at random would
not fit into the caches (``snnkit.bench.events`` times both ways).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from snnkit.data._batches import check_positive_int, check_real
from snnkit.data.events.recording import Events, check_events


def to_frames(
    events: Events, *, steps: int | None = None, window: int | None = None, count: int | None = None
) -> Tensor:
    """Count events, in windows of time or so many at a time; ``.clamp(max=1)`` makes spikes of the counts.

    Args:
        steps: so many windows of equal length (to a microsecond) over the duration.
        window: windows of so many microseconds; the last may be longer than what is left of the recording.
        count: so many events per frame; those left over at the end, fewer than that, are in no frame.

    Exactly one of the three is given.

    Returns:
        Counts float32 [T, polarities, height, width], ON in channel 0 and OFF in channel 1.

    Raises:
        TypeError, ValueError: no recording; none or several of the three, or one below 1; fewer events than ``count``.
    """
    check_events(events)
    given = {
        name: value for name, value in (("steps", steps), ("window", window), ("count", count)) if value is not None
    }
    if len(given) != 1:
        raise ValueError(f"give one of steps, window (µs) and count; got {', '.join(given) or 'none'}")
    ((name, value),) = given.items()
    check_positive_int(name, value)
    if count is not None:
        if count > len(events):
            raise ValueError(f"count must be at most {len(events)}, all events of the recording; got {count}")
        cuts = list(range(0, len(events) + 1, count))
    else:
        cuts = _cuts(events, edges(events.duration, steps, window))
    pixels, cells = _pixels(events), math.prod(events.shape)
    frames = torch.empty(len(cuts) - 1, cells)
    for frame, start, end in zip(frames, cuts, cuts[1:], strict=False):
        frame.copy_(torch.bincount(pixels[start:end], minlength=cells))
    return frames.view(-1, *events.shape)


def time_surface(events: Events, *, tau: float, steps: int | None = None, window: int | None = None) -> Tensor:
    """How recently each pixel fired: exp(-(now - last event) / tau), and 0 where there was none yet.

    Source: Lagorce et al., HOTS (IEEE TPAMI 39, 2017, doi:10.1109/TPAMI.2016.2574707), here of all pixels at once and
    at the end of each window of time.

    Args:
        tau: time constant, microseconds.
        steps, window: as for ``to_frames``; one of them.

    Returns:
        float32 in [0, 1], [T, polarities, height, width].

    Raises:
        TypeError, ValueError: as ``to_frames``; a ``tau`` that is no finite number above 0.
    """
    check_events(events)
    check_real("tau", tau)
    if not 0 < tau < math.inf:
        raise ValueError(f"tau must be a finite number of microseconds above 0; got {tau!r}")
    if (steps is None) == (window is None):
        raise ValueError("give one of steps and window (µs)")
    check_positive_int(*(("steps", steps) if steps is not None else ("window", window)))  # type: ignore[arg-type]
    ends = edges(events.duration, steps, window)
    cuts = _cuts(events, ends)
    pixels = _pixels(events).long()
    last = torch.full((math.prod(events.shape),), -1)
    surfaces = []
    for now, start, end in zip(ends[1:].tolist(), cuts, cuts[1:], strict=False):
        # The largest time, not the last one written: the order of writes to one pixel is not promised.
        last.scatter_reduce_(0, pixels[start:end], events.t[start:end], "amax")
        surfaces.append(torch.where(last >= 0, torch.exp((last - now).double() / tau), 0.0).float())
    return torch.stack(surfaces).view(-1, *events.shape)


def voxel_grid(events: Events, bins: int) -> Tensor:
    """Signed events in a grid of space and time, each shared between the two bins on both sides of its moment.

    The first event falls on the first bin and the last on the last one; ON adds, OFF subtracts, in proportion to how
    near the bin is. Source: Zhu et al. (CVPR 2019, arXiv:1812.08156), section 3.1.

    Args:
        bins: T, at least 1. With one bin, or where all events are of one moment, all fall into the first.

    Returns:
        float32 [bins, height, width].

    Raises:
        TypeError, ValueError: no recording; ``bins`` is no int of at least 1.
    """
    check_events(events)
    check_positive_int("bins", bins)
    height, width = events.size
    first, last = int(events.t[0]), int(events.t[-1])
    place = (events.t - first).double() * ((bins - 1) / max(last - first, 1))
    cuts = torch.searchsorted(place, torch.arange(bins, dtype=torch.float64)).tolist()
    cuts[-1] = len(events)  # the last event of all, which lies on the last bin, counts to the gap before it
    pixels = events.y.to(torch.int32).mul_(width).add_(events.x)
    sign = events.p.double().mul_(2).sub_(1)
    grid = torch.zeros(bins, height * width, dtype=torch.float64)
    if bins == 1:
        grid[0] = torch.bincount(pixels, sign, height * width)
    for b, start, end in zip(range(bins - 1), cuts, cuts[1:], strict=False):
        all_of_it = torch.bincount(pixels[start:end], sign[start:end], height * width)
        later = torch.bincount(pixels[start:end], sign[start:end] * (place[start:end] - b), height * width)
        grid[b] += all_of_it - later
        grid[b + 1] += later
    return grid.view(bins, height, width).float()


def edges(duration: int, steps: int | None, window: int | None) -> Tensor:
    """Where windows start and end, int64 microseconds [T + 1]: of equal number or of equal length."""
    if window is not None:
        return torch.arange(-(-duration // window) + 1) * window
    assert steps is not None
    if steps * duration >= 2**63:  # times since 1970 in nanoseconds, say; Python's numbers have no end
        return torch.tensor([k * duration // steps for k in range(steps + 1)])
    return torch.arange(steps + 1) * duration // steps


def _cuts(events: Events, ends: Tensor) -> list[int]:
    """The first event of each window, and one past the last [T + 1]."""
    return torch.searchsorted(events.t, ends).tolist()


def _pixels(events: Events) -> Tensor:
    """Of each event the cell of a frame, int32 [n]; half the bytes of int64, and nearly twice as fast."""
    height, width = events.size
    cell = events.y.to(torch.int32)
    cell.mul_(width).add_(events.x)
    if events.polarities == 2:
        cell.add_((~events.p).to(torch.int32), alpha=height * width)
    return cell
