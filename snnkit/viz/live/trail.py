"""What happens within epochs: some of the updates, never too many."""

from __future__ import annotations

from collections.abc import Mapping

MOST = 400  # points; a screen has about two pixels for each


class Trail:
    """Points of a run whose length nobody knows: when there are too many, every other one goes, and half as many come.

    Attributes:
        at: where the points are, in epochs.
        values: name to one number per point, None where it is not known.
    """

    def __init__(self, names: tuple[str, ...], most: int = MOST) -> None:
        self.at: list[float] = []
        self.values: dict[str, list[float | None]] = {name: [] for name in names}
        self.most = most
        self._every, self._seen = 1, 0

    def __len__(self) -> int:
        return len(self.at)

    def add(self, at: float, values: Mapping[str, float | None]) -> None:
        self._seen += 1
        if (self._seen - 1) % self._every:
            return
        self.at.append(at)
        for name, series in self.values.items():
            series.append(values.get(name))
        if len(self.at) > self.most:
            for series in (self.at, *self.values.values()):
                del series[1::2]
            self._every *= 2

    def clear(self) -> None:
        for series in (self.at, *self.values.values()):
            series.clear()
        self._every, self._seen = 1, 0
