"""The synthetic event camera as a sensor: every event with its own moment, noise and dead time included.

Between two places of the gaze the logarithm of the intensity goes in a straight line, and an event is sent at the
moment in which it crosses the pixel's next threshold. So the events do not depend on a time step, and a change of many
thresholds is as many events. Source: Rebecq, Gehrig and Scaramuzza, ESIM (CoRL 2018, PMLR 87:969-982).
"""

from __future__ import annotations

import torch
from torch import Tensor

from snnkit.data._batches import check_positive_int, check_real, seeded
from snnkit.data.events.camera import check_scene, enlarged_digits, looked_at, saccades, thresholds
from snnkit.data.events.frames import edges
from snnkit.data.events.recording import Events

_LONGEST = 2**31 - 1  # microseconds, 35 minutes
_MOST_PLACES = 2**62  # pixels times microseconds that one sorted int64 can hold


def record(
    images: Tensor,
    path: Tensor,
    *,
    duration: int = 300_000,
    threshold: float = 0.2,
    mismatch: float = 0.0,
    noise: float = 0.0,
    refractory: int = 0,
    dark: float = 0.1,
    generator: torch.Generator | None = None,
) -> list[Events]:
    """Record still images while the gaze moves along a path: one recording for each.

    With ``noise`` and ``refractory`` 0, ``to_frames(recording, steps=T).clamp(max=1)`` is what ``events_of`` gives of
    the same arguments.

    Args:
        images, path, threshold, mismatch, dark: as of ``events_of``; on the CPU.
        duration: of the whole path, microseconds; each of its T steps takes the same time.
        noise: events per second, pixel and polarity without a reason, at random moments (a Poisson process).
        refractory: microseconds for which a pixel is dead after an event; what it would report is lost, but its memory
            moves all the same.
        generator: draws ``mismatch`` and ``noise``; None: PyTorch's global one.

    Raises:
        TypeError, ValueError: as ``events_of``; a duration shorter than T microseconds; a number out of its range; an
            image of which the camera sees nothing.
    """
    check_scene(images, path, threshold, mismatch, dark, generator)
    if images.device.type != "cpu":
        raise ValueError(f"images must be on the CPU; got {images.device}")
    check_positive_int("duration", duration)
    if not len(path) - 1 <= duration <= _LONGEST:
        raise ValueError(f"duration must lie in {len(path) - 1} (a µs per step) .. {_LONGEST} µs; got {duration}")
    if images[:, 0].numel() * 2 * duration > _MOST_PLACES:
        raise ValueError("images and duration are too much for one recording; record fewer images at a time")
    check_real("noise", noise)
    if not 0 <= noise <= 1e6:
        raise ValueError(f"noise must lie in 0 .. 1e6 events per second; got {noise!r}")
    if isinstance(refractory, bool) or not isinstance(refractory, int):
        raise TypeError(f"refractory must be an int of microseconds; got {refractory!r}")
    if not 0 <= refractory <= _LONGEST:
        raise ValueError(f"refractory must lie in 0 .. {_LONGEST} µs; got {refractory}")
    limits = thresholds(images, threshold, mismatch, generator)
    t, cell = _crossings(images.float(), path, limits, dark, duration)
    if noise:
        more_t, more_cell = _noise(images, noise, duration, generator)
        t, cell = torch.cat([t, more_t]), torch.cat([cell, more_cell])
    if refractory:
        t, cell = _alive(t, cell, refractory, duration, images[0].numel())
    return _recordings(t, cell, images, duration)


def record_digits(
    split: str = "train",
    samples: int | None = None,
    *,
    size: int = 16,
    amplitude: float = 2.0,
    duration: int = 300_000,
    threshold: float = 0.2,
    mismatch: float = 0.03,
    noise: float = 0.1,
    refractory: int = 1000,
    seed: int = 0,
) -> tuple[list[Events], Tensor]:
    """Record the handwritten digits (``data.load("digits")``) in three saccades, as N-MNIST was recorded.

    Args:
        split: "train" (1442) or "test" (355).
        samples: so many of them, from the first on; None: all.
        size, amplitude: as of ``event_digits``.
        duration, threshold, mismatch, noise, refractory: as of ``record``.
        seed: of mismatch and noise; the thresholds of the pixels are the same in both splits.

    Returns:
        Recordings of ``size`` × ``size`` pixels, and labels int64 [N].

    Raises:
        TypeError, ValueError: as ``event_digits`` and ``record``; more ``samples`` than there are.
    """
    generator = seeded(seed)
    images, labels = enlarged_digits(split, size)
    if samples is not None:
        check_positive_int("samples", samples)
        if samples > len(labels):
            raise ValueError(f"samples must be at most {len(labels)}, all of {split!r}; got {samples}")
    recordings = record(
        images[:samples],
        saccades(48, amplitude),  # enough that between two places the picture moves by a tenth of a pixel or so
        duration=duration,
        threshold=threshold,
        mismatch=mismatch,
        noise=noise,
        refractory=refractory,
        generator=generator,
    )
    return recordings, labels[:samples]


def _crossings(images: Tensor, path: Tensor, limits: Tensor, dark: float, duration: int) -> tuple[Tensor, Tensor]:
    """Moments [n] and cells [n] at which a threshold is crossed; cells count through [N, 2, H, W]."""
    count, _, height, width = images.shape
    cells = torch.arange(count * 2 * height * width).view(count, 2, height, width)
    ends = edges(duration, len(path) - 1, None).tolist()
    now = torch.log(looked_at(images, path[0].tolist()) + dark)
    memory = now
    moments, places = [], []
    for place, start, end in zip(path[1:].tolist(), ends, ends[1:], strict=False):
        before, now = now, torch.log(looked_at(images, place) + dark)
        change = now - memory
        rises = (change / limits[0]).floor().clamp(min=0)
        falls = (-change / limits[1]).floor().clamp(min=0)
        for channel, (many, step) in enumerate(((rises, limits[0]), (falls, -limits[1]))):
            # One round for each further threshold within the step; most pixels have none, the edges a few.
            for further in range(1, int(many.max()) + 1):
                there = many >= further
                level = memory + further * step
                # A crossing lies in (start, end]; it belongs to the last microsecond before it has happened.
                share = ((level - before) / (now - before))[there].double()
                at = (share * (end - start)).ceil().nan_to_num(0.0).clamp(1, end - start).long() - 1
                moments.append(at + start)
                places.append(cells[:, channel][there])
        memory = memory + rises * limits[0] - falls * limits[1]
    empty = torch.empty(0, dtype=torch.int64)
    return torch.cat([empty, *moments]), torch.cat([empty, *places])


def _noise(images: Tensor, rate: float, duration: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """Moments and cells of events without a reason."""
    cells = 2 * images.numel()
    expected = torch.tensor(cells * rate * duration / 1e6, dtype=torch.float64)
    many = int(torch.poisson(expected, generator=generator))
    t = torch.randint(duration, (many,), generator=generator)
    return t, torch.randint(cells, (many,), generator=generator)


def _alive(t: Tensor, cell: Tensor, dead: int, duration: int, pixels: int) -> tuple[Tensor, Tensor]:
    """The events of pixels that were not dead: at least ``dead`` µs after the last that the pixel sent.

    Both polarities are of one pixel. In rounds: the first event of each
    pixel, the second, and so on, all pixels at once.
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
