"""A network that learns the handwritten digits as an event camera records them, from recordings to accuracy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from snnkit import loss
from snnkit.data import events
from snnkit.data._batches import check_positive_int
from snnkit.models.event_nets import EventConvNet, EventRecurrentNet
from snnkit.nn import Sequential
from snnkit.train.history import History
from snnkit.train.loop import fit
from snnkit.train.seed import seed_everything

#: Learning rate and epochs with which each network learns in a minute or so on a CPU.
SETTINGS = {"conv": {"lr": 5e-3, "epochs": 10}, "recurrent": {"lr": 3e-3, "epochs": 8}}


def learn_event_digits(
    network: str = "recurrent",
    *,
    steps: int = 16,
    size: int = 16,
    samples: int | None = None,
    camera: dict[str, Any] | None = None,
    seed: int = 0,
    **training: Any,
) -> tuple[Sequential, History]:
    """Record the digits, count the events into frames of spikes, and train a small network on them with Adam.

    Args:
        network: "conv" (``EventConvNet``) or "recurrent" (``EventRecurrentNet``).
        steps: T, windows of equal length in a recording.
        size: height and width of the camera in pixels.
        samples: of the training recordings, from the first on; None: all 1442. All 355 others are the test.
        camera: further arguments of ``events.record_digits``.
        seed: of camera, weights and order.
        training: arguments of ``train.fit`` other than ``encode`` and ``loss``; what is not given is as in
            ``SETTINGS``.

    Returns:
        The trained network, called on frames [T, B, 2, size, size], and the history of its accuracy.

    Raises:
        TypeError, ValueError: an unknown network; what ``record_digits``, ``to_frames`` and ``fit`` refuse.
    """
    if network not in SETTINGS:
        raise ValueError(f"network must be one of {', '.join(map(repr, SETTINGS))}; got {network!r}")
    check_positive_int("steps", steps)
    sets = []
    for split in ("train", "test"):
        some = samples if split == "train" else None
        recordings, labels = events.record_digits(split, some, size=size, seed=seed, **(camera or {}))
        sets.append((events.frames_of(recordings, steps=steps), labels))
    seed_everything(seed)
    net = EventConvNet(2, size) if network == "conv" else EventRecurrentNet(2 * size * size)
    training = {**SETTINGS[network], "seed": seed, **training}
    return net, fit(net, *sets, encode=_time_first, loss=loss.count_cross_entropy, **training)


def _time_first(frames: Tensor) -> Tensor:
    """[B, T, ...] as [T, B, ...]."""
    return torch.transpose(frames, 0, 1)
