"""Recordings as tensors: counts per window of time, time surfaces, grids over space and time, and batches of frames.

Frames are the input of a network; all results are float32 on the CPU. The events of a window are counted pixel by
pixel, window after window. With one index for the whole recording, the memory that is written at random would not fit
into the caches.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from snnkit import checks, lazy
from snnkit.data.events.recordings import Events
from snnkit.event_lists import EventList

_SECOND, _HOUR = 1_000_000, 3_600_000_000  # µs


@lazy.explains(
    **dict.fromkeys(("frames_number", "n_time_bins"), "so many windows of equal length are steps"),
    **dict.fromkeys(("number", "event_count"), "so many events at a time are count"),
    **dict.fromkeys(("duration", "time_window"), "windows of so many µs are window"),
    split_by='steps=T is split_by="time", and count=n is frames of n events each, as by split_by="number"',
)
@checks.arguments
def to_frames(
    events: Events, *, steps: int | None = None, window: int | None = None, count: int | None = None
) -> Tensor:
    """Count events in windows of time, or so many events at a time; ``.clamp(max=1)`` makes spikes of the counts.

    Args:
        steps: number of windows of equal length (to a microsecond) over the duration; at most its microseconds.
        window: microseconds of a window. The last window may reach beyond the end of the recording.
        count: events of a frame, at most all. Those left over at the end, fewer than that, are in no frame.

    Exactly one of the three is given. Windows count from time 0, so times that do not (that count from 1970, say) are a
    ValueError, and a warning where the first event comes after a second and after nine tenths of the duration.

    Returns:
        Counts float32 [T, polarities, height, width], OFF in channel 0 and ON in channel 1, as in SpikingJelly and
        tonic.
    """
    given = [name for name, n in (("steps", steps), ("window", window), ("count", count)) if n is not None]
    if len(given) != 1:
        shown = " and ".join(given) or "none"
        raise ValueError(f"exactly one of steps, window (µs) and count must be given, but it is {shown}")
    if count is not None:
        checks.integer("count", count, at_least=1, at_most=len(events))
        checks.fits("the number of frames", len(events) // count, 4 * math.prod(events.shape) + 64)
        cuts = list(range(0, len(events) + 1, count))
    else:
        cuts = _cuts(events, _checked_edges(events, steps, window, 4))
    pixels, cells = _pixels(events), math.prod(events.shape)
    frames = torch.empty(len(cuts) - 1, cells)
    for frame, start, end in zip(frames, cuts, cuts[1:], strict=False):
        frame.copy_(torch.bincount(pixels[start:end], minlength=cells))
    return frames.view(-1, *events.shape)


@checks.arguments
def time_surface(events: Events, *, tau: float, steps: int) -> Tensor:
    """How recently each pixel fired: exp(-(now - last event) / tau), and 0 before its first event.

    Source: Lagorce et al., HOTS (IEEE TPAMI 39, 2017, doi:10.1109/TPAMI.2016.2574707), here for all pixels at once, at
        the end of each window of time.

    Args:
        tau: time constant, microseconds.
        steps: as of ``to_frames``.

    Returns:
        float32 in [0, 1], [T, polarities, height, width]; OFF in channel 0 and ON in channel 1.
    """
    checks.number("tau", tau, above=0)
    ends = _checked_edges(events, steps, None, 8)
    cuts = _cuts(events, ends)
    pixels = _pixels(events).long()
    last = torch.full((math.prod(events.shape),), -1)
    surfaces = []
    for now, start, end in zip(ends[1:].tolist(), cuts, cuts[1:], strict=False):
        # The largest time, not the last one written: the order of writes to one pixel is not promised.
        last.scatter_reduce_(0, pixels[start:end], events.t[start:end], "amax")
        surfaces.append(torch.where(last >= 0, torch.exp((last - now).double() / tau), 0.0).float())
    return torch.stack(surfaces).view(-1, *events.shape)


@checks.arguments
def voxel_grid(events: Events, bins: int) -> Tensor:
    """Signed events in a grid of space and time; each event is shared between the two bins nearest in time.

    The first event is at the first bin and the last event at the last bin. ON adds and OFF subtracts, the more the
    nearer the bin. Source: Zhu et al. (CVPR 2019, arXiv:1812.08156), section 3.1.

    Args:
        bins: T, from 1 to the microseconds of the recording. With one bin, or if all events have the same time, all are
            in the first bin.

    Returns:
        float32 [bins, height, width].
    """
    checks.integer("bins", bins, at_least=1, at_most=events.duration)
    checks.fits("bins", bins, 12 * math.prod(events.shape) + 64)
    height, width = events.size
    first, last = int(events.t[0]), int(events.t[-1])
    place = (events.t - first).double() * ((bins - 1) / max(last - first, 1))
    cuts = torch.searchsorted(place, torch.arange(bins, dtype=torch.float64)).tolist()
    cuts[-1] = len(events)  # the last event of all, which is on the last bin, counts to the gap before it
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


@checks.arguments
def collate(
    samples: Iterable[Any], *, steps: int | None = None, window: int | None = None, count: int | None = None
) -> tuple[Tensor, Tensor]:
    """Count the events of several recordings in frames, as one batch. Shorter recordings end with empty frames.

    As the ``collate_fn`` of a PyTorch loader::

        loader = DataLoader(recordings, batch_size=32, collate_fn=partial(events.collate, window=10_000))

    Args:
        samples: pairs of a recording and its label; all recordings of one sensor.
        steps, window, count: as of ``to_frames``, exactly one. With ``steps`` all are equally long.

    Returns:
        Counts float32 [T, B, polarities, height, width] with T of the longest, OFF in channel 0 and ON in channel 1,
        and labels int64 [B].
    """
    recordings, labels = _pairs([tuple(row) if isinstance(row, list) else row for row in samples])
    for i, events in enumerate(recordings):
        _check_sensor(events, recordings[0].shape, i)
    frames = [to_frames(events, steps=steps, window=window, count=count) for events in recordings]
    batch = torch.zeros(max(map(len, frames)), len(frames), *recordings[0].shape)
    for i, frame in enumerate(frames):
        batch[: len(frame), i] = frame
    return batch, torch.tensor(labels, dtype=torch.int64)


@checks.arguments
def to_list(recordings: Iterable[Events], *, steps: int | None = None, window: int | None = None) -> EventList:
    """The events of several recordings as a batch [T, B, polarities, height, width] that is never made dense.

    It holds the counts of ``collate``, which ``dense()`` makes of it, in the memory of the events. ``nn.Sequential``
    takes it as it is if its first module is a ``Conv2d``, or a ``Linear`` after a ``Flatten``. ``train.fit`` encodes
    recordings by ``encode=functools.partial(events.to_list, window=10_000)``.

    Args:
        recordings: all of one sensor. Shorter ones end with empty steps.
        steps, window: as of ``to_frames``, one of them.
    """
    recordings = [checks.instance(f"recording {i}", events, Events, "Events") for i, events in enumerate(recordings)]
    if not recordings:
        raise ValueError("recordings must hold at least one recording, but it is empty")
    if (steps is None) == (window is None):
        raise ValueError(
            f"exactly one of steps and window (µs) must be given, but it is {'none' if steps is None else 'both'}"
        )
    shape, cuts = recordings[0].shape, []
    for i, events in enumerate(recordings):
        _check_sensor(events, shape, i)
        cuts.append(torch.searchsorted(events.t, _checked_edges(events, steps, window, 0)))
    counts = torch.zeros(max(len(cut) for cut in cuts) - 1, len(recordings), dtype=torch.int64)
    for b, cut in enumerate(cuts):
        counts[: len(cut) - 1, b] = cut.diff()
    starts = torch.cat([counts.new_zeros(1), counts.flatten().cumsum(0)])
    places = torch.empty(int(starts[-1]), dtype=torch.int32)
    for b, (events, cut) in enumerate(zip(recordings, cuts, strict=True)):
        # Events stand in the order of time, so each moves by as much as the first of its step.
        moved = starts[:-1].view_as(counts)[: len(cut) - 1, b] - cut[:-1]
        begin, end = int(cut[0]), int(cut[-1])
        places[torch.arange(begin, end) + moved.repeat_interleave(cut.diff())] = _pixels(events)[begin:end]
    return EventList(starts, places, (*counts.shape, *shape))


@checks.arguments
def frames_of(recordings: Iterable[Events], *, steps: int) -> Tensor:
    """Spikes float32 [N, steps, polarities, height, width], 0 or 1, of recordings of one sensor: for data modules.

    A value is 1 if the pixel had an event in the window; OFF in channel 0 and ON in channel 1. Errors as of
    ``collate``.
    """
    batch, _ = collate(((events, 0) for events in recordings), steps=steps)
    return batch.clamp_(max=1).transpose(0, 1).contiguous()


@checks.arguments
def cochleagrams(samples: Iterable[Any], *, window: int, duration: int, pool: int = 1) -> tuple[Tensor, Tensor]:
    """Count the spikes of a cochlea's recordings in windows of time and groups of channels: a data set as tensors.

    Give it all recordings, one by one, for ``train.fit`` or your own loop (``x.float().transpose(0, 1)`` is
    [T, B, channels]); or make it the ``collate_fn`` of a loader, with ``functools.partial``.

    Args:
        samples: pairs of a recording and its label: ``events.load("shd")``, or ``zip(recordings, labels)``. All of one
            sensor, with one row and without OFF events.
        window: microseconds of a window.
        duration: microseconds of every result. Later spikes are cut off; shorter recordings end with empty windows.
        pool: so many neighbouring channels are counted together. It divides their number: 5 makes 140 of 700.

    Returns:
        Counts uint8 [N, ceil(duration / window), channels / pool], at most 255 each, and labels int64 [N].
    """
    checks.counts(window=window, duration=duration, pool=pool)
    steps = -(-duration // window)
    counts, labels, shape = [], [], None
    for i, row in enumerate(samples):
        if not isinstance(row, (tuple, list)) or len(row) != 2:
            raise TypeError(
                f"samples must be pairs of a recording and its label, but sample {i} is {checks.shown(row)}"
            )
        events = checks.instance(f"the recording of sample {i}", row[0], Events, "Events")
        labels.append(checks.integer(f"the label of sample {i}", row[1]))
        if shape is None:
            shape, groups = events.shape, events.size[1] // pool
            if shape[:2] != (1, 1) or shape[2] % pool:
                raise ValueError(
                    "samples must be of a cochlea, with (polarities, height, width) of (1, 1, a multiple of pool), but "
                    f"it is {shape} and pool is {pool}"
                )
            checks.fits("the number of windows", steps, 9 * groups)
        _check_sensor(events, shape, i)
        within = int(torch.searchsorted(events.t, duration))
        cell = events.t[:within] // window * groups + events.x[:within] // pool
        count = torch.bincount(cell, minlength=steps * groups).clamp(max=255)
        counts.append(count.to(torch.uint8).view(steps, groups))
    if not labels:
        raise ValueError("samples must hold at least one recording and its label, but it is empty")
    return torch.stack(counts), torch.tensor(labels, dtype=torch.int64)


def edges(duration: int, steps: int | None = None, window: int | None = None) -> Tensor:
    """The ends of windows, int64 microseconds [T + 1]: so many windows, or windows of one length."""
    if window is not None:
        return torch.arange(-(-duration // window) + 1) * window
    assert steps is not None
    return torch.tensor([k * duration // steps for k in range(steps + 1)])  # Python's integers have no limit


def _checked_edges(events: Events, steps: int | None, window: int | None, size: int) -> Tensor:
    """``edges`` of a recording whose windows memory holds at ``size`` bytes a cell."""
    if window is None:  # of a microsecond, the unit of time, or longer
        name, count = "steps", checks.integer("steps", steps, at_least=1, at_most=events.duration)
    else:
        name, count = "the number of windows", -(-events.duration // checks.integer("window", window, at_least=1))
    _check_start(events, count)
    checks.fits(name, count, size * math.prod(events.shape) + 64)
    return edges(events.duration, steps, window)


def _check_sensor(events: Events, shape: tuple[int, int, int], i: int) -> None:
    if events.shape != shape:
        raise ValueError(
            "samples must be of one sensor, but (polarities, height, width) is "
            f"{shape} of recording 0 and {events.shape} of recording {i}"
        )


def _check_start(events: Events, frames: int) -> None:
    """The events must not all be in the last frames because their clock began long before the recording."""
    first, last = int(events.t[0]), int(events.t[-1])
    times = (
        f"the first event is at {first} µs and the last {last - first} µs later; if they count from another time than "
        "the start of the recording, use dataclasses.replace(events, t=events.t - events.t[0], duration=0)"
    )
    if frames > 1 and first >= max(_HOUR, last - first):
        raise ValueError(f"t must be microseconds since the start of the recording, but {times}")
    if frames > 1 and first >= max(_SECOND, 9 * events.duration // 10):
        warnings.warn(f"the first nine tenths of the frames are empty: {times}", stacklevel=5)


def _cuts(events: Events, ends: Tensor) -> list[int]:
    """The first event of each window, and one past the last [T + 1]."""
    return torch.searchsorted(events.t, ends).tolist()


def _pixels(events: Events) -> Tensor:
    """Of each event the cell of a frame, int32 [n]; half the bytes of int64, and nearly twice as fast."""
    height, width = events.size
    cell = events.y.to(torch.int32)
    cell.mul_(width).add_(events.x)
    if events.polarities == 2:
        cell.add_(events.p.to(torch.int32), alpha=height * width)  # OFF before ON
    return cell


@checks.arguments
def _pairs(samples: list[tuple[Events, int | Tensor]]) -> tuple[list[Events], list[int]]:
    if not samples:
        raise ValueError("samples must hold at least one recording and its label, but it is empty")
    labels = [checks.integer(f"the label of sample {i}", label) for i, (_, label) in enumerate(samples)]
    return [events for events, _ in samples], labels
