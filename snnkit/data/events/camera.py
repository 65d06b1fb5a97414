"""A synthetic event camera: its pixels report changes of brightness as events of two polarities.

A pixel remembers the logarithm of the intensity at its last event. When the logarithm has risen (or fallen) by a
threshold since then, the pixel emits an event of polarity ON (or OFF) and changes its memory by the threshold. Between
two places of the gaze the logarithm changes linearly, and the event has the time at which it crosses the next
threshold. So ``record`` gives every event its own time, for every sampling of the path, while ``events_of`` reports for
each step which pixels sent an event.

Source of the model: Rebecq, Gehrig and Scaramuzza, ESIM (CoRL 2018, PMLR 87:969-982); of the motion, three saccades
along a triangle in front of a still image: Orchard et al., N-MNIST (2015, doi:10.3389/fnins.2015.00437).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from snnkit import checks
from snnkit.data import datasets
from snnkit.data.events.frames import edges
from snnkit.data.events.recordings import Events
from snnkit.data.tensors import seeded, to_unit

_DARK = 0.1  # added to the intensity before the logarithm is taken: the light below which the camera is blind
_FARTHEST = 64  # pixels; images are no larger than half of that
_LONGEST = 2**31 - 1  # microseconds, 35 minutes
_WIDEST = 128  # pixels of the camera that looks at digits; those are of 8 × 8
_FINEST = 0.01  # threshold: finer than that of any camera
_EVENT = 100  # bytes that an event takes while recordings are made


def saccades(steps: int, amplitude: float = 2.0) -> Tensor:
    """The path of the gaze, [steps + 1, 2] in pixels (x, y): once round a triangle of that height.

    It has three straight saccades of equal duration, and ends where it begins.
    """
    checks.integer("steps", steps, at_least=1)
    checks.number("amplitude", amplitude, above=0, at_most=_FARTHEST)
    checks.fits("steps", steps, 64)
    corners = torch.tensor([[0.0, 0.0], [0.5, 1.0], [1.0, 0.0], [0.0, 0.0]]) * amplitude
    place = torch.linspace(0, 3, steps + 1)
    side = place.floor().clamp(max=2).long()
    part = (place - side)[:, None]
    return corners[side] * (1 - part) + corners[side + 1] * part


@checks.arguments
def events_of(
    images: Tensor,
    path: Tensor,
    *,
    threshold: float = 0.2,
    mismatch: float = 0.0,
    noise: float = 0.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """The events of still images while the camera's gaze moves along a path, as spikes step by step.

    Args:
        images: [N, 1, H, W] in [0, 1], surrounded by 0.
        path: path of the gaze in pixels (x, y), [T + 1, 2]: the images are shifted by its negative, with bilinear
            interpolation. Step t reports what changes from place t to place t + 1.
        threshold: change of the logarithm of intensity per event, at least 0.01.
        mismatch: standard deviation of the thresholds of pixels, as a share of ``threshold``. Thresholds are drawn once
            for the camera, per pixel and polarity, and are at least a fifth of ``threshold``.
        noise: probability of an event without a reason, per pixel, step and polarity.
        generator: draws ``mismatch`` and ``noise``, on the CPU; None: PyTorch's global one.

    Returns:
        Spikes float32 [N, T, 2, H, W], 0 or 1: whether there was an event of polarity OFF (channel 0) and ON
        (channel 1). Several events within a step count as one.
    """
    _check_scene(images, path, threshold, mismatch)
    checks.number("noise", noise, at_least=0, below=1)
    checks.fits("the number of steps", len(path) - 1, 16 * images.numel())
    moves = _moves(images.float(), path, _thresholds(images, threshold, mismatch, generator))
    events = torch.stack([torch.stack([m.falls, m.rises], dim=1).clamp(max=1) for m in moves], dim=1)
    if noise:
        events = torch.maximum(events, (torch.rand(events.shape, generator=generator) < noise).to(events))
    return events


@checks.arguments
def record(
    images: Tensor,
    path: Tensor,
    *,
    duration: int = 300_000,
    threshold: float = 0.2,
    mismatch: float = 0.0,
    noise: float = 0.0,
    refractory: int = 0,
    generator: torch.Generator | None = None,
) -> list[Events]:
    """Record still images while the gaze moves along a path: one recording for each.

    With ``noise`` and ``refractory`` 0, ``to_frames(recording, steps=T).clamp(max=1)`` equals ``events_of`` of the same
    arguments.

    Args:
        images, path, threshold, mismatch: as of ``events_of``; on the CPU.
        duration: microseconds of the whole path; each of its T steps takes the same time.
        noise: events without a reason per second, pixel and polarity, at random times (a Poisson process).
        refractory: microseconds after an event in which a pixel sends none. Its events are lost, but its memory still
            changes.
        generator: draws ``mismatch`` and ``noise``; None: PyTorch's global one.
    """
    _check_scene(images, path, threshold, mismatch)
    checks.integer("duration", duration, at_least=len(path) - 1, at_most=_LONGEST)  # at least a microsecond per step
    checks.number("noise", noise, at_least=0, at_most=1e6)
    checks.integer("refractory", refractory, at_least=0, at_most=_LONGEST)
    limits = _thresholds(images, threshold, mismatch, generator)
    t, cell = _crossings(images.float(), path, limits, duration)
    if noise:
        cells = 2 * images.numel()
        expected = cells * noise * duration / 1e6
        checks.fits("the number of events by noise", int(expected), _EVENT)
        many = int(torch.poisson(torch.tensor(expected, dtype=torch.float64), generator=generator))
        t = torch.cat([t, torch.randint(duration, (many,), generator=generator)])
        cell = torch.cat([cell, torch.randint(cells, (many,), generator=generator)])
    if refractory:
        t, cell = _alive(t, cell, refractory, duration, images[0].numel())
    return _recordings(t, cell, images, duration)


def record_digits(
    split: str = "train",
    samples: int | None = None,
    *,
    size: int = 16,
    amplitude: float = 2.0,
    seed: int = 0,
    **camera: Any,
) -> tuple[list[Events], Tensor]:
    """Record the handwritten digits (``data.load("digits")``) in three saccades, as N-MNIST was; with labels int64 [N].

    Args:
        split: "train" (1442) or "test" (355).
        samples: number of digits, from the first on; None: all.
        size: height and width of the camera in pixels, from 8 to 128; the digits are enlarged to it.
        amplitude: height of the saccades, in pixels of the camera.
        seed: seed of mismatch and noise. The thresholds of the pixels are the same in both splits.
        camera: ``duration``, ``threshold``, ``mismatch``, ``noise`` and ``refractory`` of ``record``; the last three
            are 0.03, 0.1 and 1000 by default.
    """
    generator = seeded(seed)
    checks.integer("size", size, at_least=8, at_most=_WIDEST)
    images, labels = datasets.load("digits", split)
    if samples is not None:
        checks.integer("samples", samples, at_least=1, at_most=len(labels))
    enlarged = F.interpolate(to_unit(images[:samples]), size=(size, size), mode="bilinear", align_corners=False)
    enlarged = enlarged.clamp(max=1.0)  # its weights may add to a little more
    path = saccades(48, amplitude)  # between two places the picture moves by a tenth of a pixel or so
    camera = {"mismatch": 0.03, "noise": 0.1, "refractory": 1000} | camera
    return record(enlarged, path, generator=generator, **camera), labels[:samples]


class _Move(NamedTuple):
    """One step of the gaze; logarithms of intensity and numbers of events, each [N, H, W]."""

    before: Tensor
    now: Tensor
    memory: Tensor  # before the events of this step
    rises: Tensor
    falls: Tensor


def _moves(images: Tensor, path: Tensor, limits: Tensor) -> Iterator[_Move]:
    """What the pixels notice in each step of the path, without noise; ``limits`` are their thresholds."""
    now = memory = torch.log(_looked_at(images, path[0].tolist()) + _DARK)
    for place in path[1:].tolist():
        before, now = now, torch.log(_looked_at(images, place) + _DARK)
        change = now - memory
        # How often the change holds the threshold, towards 0: a change of 2.5 thresholds is two events.
        rises = (change / limits[0]).floor().clamp(min=0)
        falls = (-change / limits[1]).floor().clamp(min=0)
        yield _Move(before, now, memory, rises, falls)
        memory = memory + rises * limits[0] - falls * limits[1]


def _looked_at(images: Tensor, place: Sequence[float]) -> Tensor:
    """Images [N, 1, H, W] seen with the gaze at (x, y): [N, H, W]; bilinear, 0 outside."""
    reach = max(images.shape[-2:]) + 1  # from there on, all is 0
    x, y = (min(max(part, -reach), reach) for part in place)
    whole_x, whole_y = math.floor(x), math.floor(y)
    part_x, part_y = x - whole_x, y - whole_y
    height, width = images.shape[-2:]
    far = max(abs(whole_x), abs(whole_y)) + 1
    padded = F.pad(images[:, 0], (far, far, far, far))

    def moved(dx: int, dy: int) -> Tensor:
        top, left = far + whole_y + dy, far + whole_x + dx
        return padded[:, top : top + height, left : left + width]

    upper = moved(0, 0) * (1 - part_x) + moved(1, 0) * part_x
    lower = moved(0, 1) * (1 - part_x) + moved(1, 1) * part_x
    return upper * (1 - part_y) + lower * part_y


def _thresholds(images: Tensor, threshold: float, mismatch: float, generator: torch.Generator | None) -> Tensor:
    """Of each pixel and polarity of one camera, [2, H, W], ON before OFF."""
    height, width = images.shape[-2:]
    drawn = torch.randn(2, height, width, generator=generator) if mismatch else torch.zeros(2, height, width)
    return (threshold * (1 + mismatch * drawn)).clamp(min=threshold / 5)


def _crossings(images: Tensor, path: Tensor, limits: Tensor, duration: int) -> tuple[Tensor, Tensor]:
    """Moments [n] and cells [n] at which a threshold is crossed; cells count through [N, 2, H, W], ON before OFF."""
    count, _, height, width = images.shape
    cells = torch.arange(count * 2 * height * width).view(count, 2, height, width)
    ends = edges(duration, len(path) - 1).tolist()
    moments, places = [torch.empty(0, dtype=torch.int64)], [torch.empty(0, dtype=torch.int64)]
    total = 0
    for move, start, end in zip(_moves(images, path, limits), ends, ends[1:], strict=False):
        total += int((move.rises + move.falls).sum(dtype=torch.float64))
        checks.fits("the number of events", total, _EVENT)
        for channel, (many, step) in enumerate(((move.rises, limits[0]), (move.falls, -limits[1]))):
            # One round for each further threshold within the step; most pixels have none, the edges a few.
            for further in range(1, int(many.max()) + 1):
                there = many >= further
                level = move.memory + further * step
                # A crossing is in (start, end]; it belongs to the last microsecond before it has happened.
                share = ((level - move.before) / (move.now - move.before))[there].double()
                at = (share * (end - start)).ceil().nan_to_num(0.0).clamp(1, end - start).long() - 1
                moments.append(at + start)
                places.append(cells[:, channel][there])
    return torch.cat(moments), torch.cat(places)


def _alive(t: Tensor, cell: Tensor, dead: int, duration: int, pixels: int) -> tuple[Tensor, Tensor]:
    """The events at least ``dead`` µs after the last that their pixel (both polarities together) sent.

    In rounds: the first event of each pixel, the second, and so on, all pixels at once.
    """
    pixel = cell // (2 * pixels) * pixels + cell % pixels
    order = (pixel * duration + t).argsort(stable=True)
    t, cell, pixel = t[order], cell[order], pixel[order]
    _, many = torch.unique_consecutive(pixel, return_counts=True)
    first = many.cumsum(0) - many
    last = torch.full_like(first, -dead)
    sent = torch.zeros(len(t), dtype=torch.bool)
    for nth in range(int(many.max()) if len(many) else 0):
        some = many > nth
        at = first[some] + nth
        alive = t[at] - last[some] >= dead
        sent[at] = alive
        last[some] = torch.where(alive, t[at], last[some])
    return t[sent], cell[sent]


def _recordings(t: Tensor, cell: Tensor, images: Tensor, duration: int) -> list[Events]:
    """Sorted by image and moment, and at one moment by cell."""
    count, _, height, width = images.shape
    cells = 2 * height * width
    order = cell.argsort(stable=True)
    order = order[((cell[order] // cells) * duration + t[order]).argsort(stable=True)]
    t, cell = t[order], cell[order]
    many = torch.bincount(cell // cells, minlength=count)
    if (many == 0).any():
        blind = int((many == 0).nonzero()[0])
        raise ValueError(
            f"the camera sees nothing of image {blind}: no change reaches the threshold; "
            "lower threshold, move further, or add noise"
        )
    on = cell % cells < height * width
    y, x = (cell % (height * width) // width).short(), (cell % width).short()
    ends = many.cumsum(0).tolist()
    return [
        Events(*(part[start:end].clone() for part in (t, x, y, on)), size=(height, width), duration=duration)
        for start, end in zip([0, *ends], ends, strict=False)
    ]


def _check_scene(images: Tensor, path: Tensor, threshold: float, mismatch: float) -> None:
    if not images.is_floating_point():
        raise TypeError(f"images must be floating-point (scale uint8 with data.to_unit), but they are {images.dtype}")
    if images.ndim != 4 or images.shape[1] != 1 or images.numel() == 0:
        raise ValueError(f"images must be [N, 1, H, W] and not empty, but their shape is {list(images.shape)}")
    low, high = float(images.min()), float(images.max())
    if not (low >= 0 and high <= 1):
        raise ValueError(f"images must be in [0, 1], but their values go from {low:g} to {high:g}")
    if path.ndim != 2 or path.shape[1] != 2 or len(path) < 2 or path.is_complex():
        raise ValueError(
            f"path must be a tensor [T + 1, 2] of places in pixels (x, y), T at least 1, but it is {checks.shown(path)}"
        )
    if not path.isfinite().all():
        raise ValueError("path must be finite, but holds a NaN or an infinity")
    checks.number("threshold", threshold, at_least=_FINEST)
    checks.number("mismatch", mismatch, at_least=0, below=1)
