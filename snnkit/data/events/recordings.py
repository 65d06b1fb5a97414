"""The output of an event camera: for each event its time, its pixel and its polarity (address-event representation)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from snnkit import checks

_LONGEST = 2**62  # microseconds, so that int64 holds the end of the last window, too
_LARGEST = 2**15  # pixels in a direction: places are int16
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


@checks.arguments
@dataclass(frozen=True, eq=False)
class Events:
    """The events of one recording, ordered by time, on the CPU.

    Attributes:
        t: microseconds since the start of the recording, int64 [n], never falling.
        x, y: column and row of the pixel, int16 [n] (given as any kind of integers).
        p: polarity, bool [n]: True where it became brighter (ON). It is the channel of frames: OFF in 0, ON in 1.
        size: (height, width) in pixels.
        duration: microseconds from the start to the end of the recording; 0, the default: until just after the last
            event.
        polarities: 2, or 1 for a sensor without OFF events, such as an artificial cochlea; ``p`` is then always True.

    Raises ValueError for columns that are empty or of different lengths, for times that fall or are outside the
    recording, and for pixels outside the sensor.
    """

    t: Tensor
    x: Tensor
    y: Tensor
    p: Tensor
    size: tuple[int, int]
    duration: int = 0
    polarities: Literal[1, 2] = 2

    def __post_init__(self) -> None:
        _check_columns({name: getattr(self, name) for name in ("t", "x", "y", "p")})
        for name, pixels in zip(("height", "width"), self.size, strict=True):
            checks.integer(name, pixels, at_least=1, at_most=_LARGEST)
        object.__setattr__(self, "size", tuple(map(int, self.size)))
        if not len(self.t):
            raise ValueError("a recording must hold at least one event, but t is empty")
        if (falls := self.t.diff() < 0).any():
            i = int(falls.nonzero()[0])
            raise ValueError(
                f"t must not fall (sort with events.in_order), but event {i + 1} is at {int(self.t[i + 1])} µs and the "
                f"one before at {int(self.t[i])} µs"
            )
        first, last = int(self.t[0]), int(self.t[-1])
        if first < 0:
            raise ValueError(f"t must be at least 0, the start of the recording, but it is {first}")
        duration = checks.integer("duration", checks.integer("duration", self.duration) or last + 1, at_most=_LONGEST)
        if duration <= last:
            raise ValueError(f"duration must be greater than {last}, the time of the last event, but it is {duration}")
        object.__setattr__(self, "duration", duration)
        for name, limit in (("y", self.size[0]), ("x", self.size[1])):
            value = getattr(self, name)
            low, high = (int(end) for end in value.aminmax())
            if low < 0 or high >= limit:
                raise ValueError(
                    f"{name} must be in 0 .. {limit - 1}, the pixels of the sensor, but it goes from {low} to {high}"
                )
            object.__setattr__(self, name, value.to(torch.int16))
        if self.polarities == 1 and not self.p.all():
            raise ValueError("p must be True everywhere where polarities is 1, but there is a False")

    def __len__(self) -> int:
        """Number of events."""
        return len(self.t)

    def __repr__(self) -> str:
        height, width = self.size
        return f"Events({len(self)} in {self.duration / 1e6:g} s, {height} × {width} pixels)"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one frame: (polarities, height, width)."""
        return self.polarities, *self.size

    @checks.arguments
    def where(self, mask: Tensor) -> Events:
        """The events where a mask, bool [n], is True; the duration does not change."""
        if mask.dtype != torch.bool or mask.shape != self.t.shape or not mask.any():
            raise ValueError(
                f"mask must be bool [{len(self)}] and True somewhere, but it is {mask.dtype} {list(mask.shape)}"
            )
        return replace(self, t=self.t[mask], x=self.x[mask], y=self.y[mask], p=self.p[mask])

    def numpy(self) -> np.ndarray:
        """As a structured array [n] with the fields x, y, t, p, as ``tonic`` and its transforms use them."""
        array = np.empty(len(self), dtype=[("x", np.int16), ("y", np.int16), ("t", np.int64), ("p", bool)])
        for name in ("x", "y", "t", "p"):
            array[name] = getattr(self, name).numpy()
        return array


@checks.arguments
def in_order(
    t: Tensor, x: Tensor, y: Tensor, p: Tensor, size: tuple[int, int], duration: int = 0, polarities: Literal[1, 2] = 2
) -> Events:
    """Events from unordered columns: sorted by time; events of the same time stay in their order.

    Arguments and errors as of ``Events``.
    """
    _check_columns({"t": t, "x": x, "y": y, "p": p})
    if (t.diff() < 0).any():
        order = t.argsort(stable=True)
        t, x, y, p = t[order], x[order], y[order], p[order]
    return Events(t, x, y, p, size, duration, polarities)


def from_numpy(array: Any, size: tuple[int, int], duration: int = 0, polarities: Literal[1, 2] = 2) -> Events:
    """Events from a structured array [n] with the fields t (µs), x, y and p, as ``tonic`` reads data sets.

    Without a field y all events are in row 0; without p all are ON. ``p`` may be bool or 0 and 1. Events that are not
    ordered by time are sorted. Other arguments and errors as of ``Events``; of tonic's ``sensor_size``, which begins
    with the width, size is ``sensor_size[1::-1]``.
    """
    names = getattr(getattr(array, "dtype", None), "names", None)
    if not isinstance(array, np.ndarray) or names is None or not {"t", "x"} <= set(names):
        raise TypeError("array must be a structured NumPy array with the fields t, x, y and p")
    p = array["p"] if "p" in names else np.ones(len(array), dtype=bool)
    if p.dtype != bool and not np.isin(p, (0, 1)).all():
        other = p[~np.isin(p, (0, 1))][0]
        raise ValueError(f"p must hold bools, or 0 and 1, but there is a {other} (array['p'] > 0 makes bools)")
    y = array["y"] if "y" in names else np.zeros(len(array), dtype=np.int16)
    for name, value in (("t", array["t"]), ("x", array["x"]), ("y", y)):
        if not np.issubdtype(value.dtype, np.integer):
            raise TypeError(f"{name} must be integers, but it is {value.dtype}")
    t, x, y = (torch.from_numpy(value.astype(np.int64)) for value in (array["t"], array["x"], y))
    return in_order(t, x, y, torch.from_numpy(p.astype(bool)), size, duration, polarities)


def _check_columns(columns: dict[str, Tensor]) -> None:
    for name, kinds, what in (
        ("t", (torch.int64,), "int64 microseconds"),
        ("x", _INTEGERS, "integers"),
        ("y", _INTEGERS, "integers"),
        ("p", (torch.bool,), "bool"),
    ):
        value = columns[name]
        if value.dtype not in kinds:
            raise TypeError(f"{name} must be a tensor of {what} [n], but it is {value.dtype}")
        if value.ndim != 1 or len(value) != len(columns["t"]):
            raise ValueError(f"t, x, y and p must be [n] of one length, but the shape of {name} is {list(value.shape)}")
        if value.device.type != "cpu":
            raise ValueError(f"{name} must be on the CPU (only frames move to a device), but it is on {value.device}")
