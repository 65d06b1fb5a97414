"""From recordings of any length to one batch, time first."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from snnkit.data.events.frames import to_frames
from snnkit.data.events.recording import Events, check_events


def collate(
    samples: Iterable[tuple[Events, int | Tensor]],
    *,
    steps: int | None = None,
    window: int | None = None,
    count: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Count the events of some recordings in frames and put these side by side; shorter ones end in silence.

    As the ``collate_fn`` of a PyTorch loader::

        loader = DataLoader(recordings, batch_size=32, collate_fn=partial(events.collate, window=10_000))

    Args:
        samples: pairs of a recording and its label; all recordings of one sensor.
        steps, window, count: as of ``to_frames``, exactly one. With ``steps`` all are equally long.

    Returns:
        Counts float32 [T, B, polarities, height, width] with T of the longest, and labels int64 [B].

    Raises:
        TypeError, ValueError: as ``to_frames``; no samples; samples that are no such pairs; recordings of sensors that
            differ.
    """
    recordings, labels = _pairs(samples)
    for i, events in enumerate(recordings):
        if events.shape != recordings[0].shape:
            raise ValueError(
                f"samples must be of one sensor; recording 0 is of {recordings[0].shape} (polarities, height, width), "
                f"recording {i} of {events.shape}"
            )
    frames = [to_frames(events, steps=steps, window=window, count=count) for events in recordings]
    batch = torch.zeros(max(map(len, frames)), len(frames), *recordings[0].shape)
    for i, frame in enumerate(frames):
        batch[: len(frame), i] = frame
    return batch, torch.tensor(labels, dtype=torch.int64)


def frames_of(recordings: Iterable[Events], *, steps: int) -> Tensor:
    """Spikes float32 [N, steps, polarities, height, width], 0 or 1, of recordings of one sensor: for data modules.

    Whether there was an event in the window of the pixel; errors as ``collate``.
    """
    batch, _ = collate(((events, 0) for events in recordings), steps=steps)
    return batch.clamp_(max=1).transpose(0, 1).contiguous()


def _pairs(samples: Any) -> tuple[list[Events], list[int]]:
    try:
        rows = list(samples)
    except TypeError as error:
        raise TypeError(f"samples must be pairs of a recording and its label; got {type(samples).__name__}") from error
    if not rows:
        raise ValueError("samples must hold at least one recording and its label; got none")
    recordings, labels = [], []
    for i, row in enumerate(rows):
        if not isinstance(row, (tuple, list)) or len(row) != 2:
            raise TypeError(f"samples must be pairs of a recording and its label; sample {i} is {type(row).__name__}")
        check_events(row[0], f"the recording of sample {i}")
        label = row[1].item() if isinstance(row[1], Tensor) and math.prod(row[1].shape) == 1 else row[1]
        if isinstance(label, bool) or not hasattr(label, "__index__"):
            raise TypeError(f"the label of sample {i} must be an int; got {label!r}")
        recordings.append(row[0])
        labels.append(int(label))
    return recordings, labels
