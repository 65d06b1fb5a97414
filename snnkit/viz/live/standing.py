"""Where a run stands: how far it is, how fast it goes, how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Standing:
    """A run between two updates; epochs and updates count from 1 here, as people do.

    Attributes:
        update: of this epoch, the last that was made.
        updates: per epoch.
        loss, accuracy: of that update; accuracy as a fraction. None where they are not known.
        samples_per_second: of this epoch's training; None until it can be told.
        seconds_left: to the end of the run, tests between epochs included; None until it can be told.
    """

    epoch: int
    epochs: int
    update: int
    updates: int
    loss: float | None = None
    accuracy: float | None = None
    samples_per_second: float | None = None
    seconds_left: float | None = None

    @property
    def share(self) -> float:
        """Of all updates of the run, those that were made, in [0, 1]."""
        return min(1.0, ((self.epoch - 1) * self.updates + self.update) / (self.epochs * self.updates))

    def words(self) -> list[str]:
        """What a reader wants to know, most important first."""
        told = [f"epoch {self.epoch} of {self.epochs}", f"update {self.update} of {self.updates}"]
        if self.loss is not None:
            told.append(f"loss {self.loss:.3f}")
        if self.accuracy is not None:
            told.append(f"accuracy {self.accuracy:.1%}".replace("%", " %"))
        if self.samples_per_second is not None:
            told.append(f"{self.samples_per_second:,.0f} samples/s")
        if self.seconds_left is not None:
            told.append(f"{duration(self.seconds_left)} left")
        return told


class Stopwatch:
    """Follows the updates of a run of ``epochs`` epochs and tells its speed.

    Speed is that since the first update of the epoch, and time left extrapolates from the first update of the run, so
    that neither counts a compilation, which happens in it.
    """

    def __init__(self, epochs: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self.epochs, self.clock = epochs, clock
        self.done = 0  # updates of all epochs, as if the run had begun with the first
        self._updates = 1
        self._samples = 0
        self._epoch = clock()  # when its first update was made
        self._run = (self._epoch, 0)  # the same of the run, and at which update it was

    def note(self, update: Any, *, begins: bool = False) -> bool:
        """Count an update (a ``BatchInfo``); with ``begins``, one before which nothing was going on.

        Returns:
            Whether it comes before those counted so far: training has started from the beginning.
        """
        place = update.epoch * update.batches + update.batch + 1
        anew = place <= self.done
        if anew or begins or update.batch == 0:
            self._epoch, self._samples = self.clock(), 0
            if anew or begins:
                self._run = (self._epoch, place)
        else:
            self._samples += update.samples
        self.done, self._updates = place, update.batches
        return anew

    def standing(self, loss: float | None = None, accuracy: float | None = None) -> Standing:
        """After the update noted last."""
        epoch, update = divmod(max(self.done - 1, 0), self._updates)
        speed = left = None
        seconds = self.clock() - self._epoch
        if self._samples and seconds > 0:
            speed = self._samples / seconds
        began, first = self._run
        if self.done > first:
            left = (self.clock() - began) / (self.done - first) * max(self.epochs * self._updates - self.done, 0)
        return Standing(epoch + 1, self.epochs, update + 1, self._updates, loss, accuracy, speed, left)


def duration(seconds: float) -> str:
    """Such as "8 s", "2 min 05 s", "1 h 20 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"
