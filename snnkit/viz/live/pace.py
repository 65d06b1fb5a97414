"""How often something may be done beside the training, so that it costs next to nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Pace:
    """Says when something is due again: after ``seconds``, or later where it takes long itself.

        if pace.due():
            with pace.timed():
                draw()

    Args:
        seconds: at least from one time to the next.
        share: of the time it may take in the long run, in (0, 1].
        clock: seconds that never go backwards.
    """

    def __init__(self, seconds: float, share: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds, self.share, self.clock = seconds, share, clock
        self._last_cost: float | None = None
        self._next = clock()

    def wait(self, seconds: float) -> None:
        """Not due before that many seconds from now."""
        self._next = self.clock() + seconds

    def due(self) -> bool:
        return self.clock() >= self._next

    @contextmanager
    def timed(self) -> Iterator[None]:
        began = self.clock()
        try:
            yield
        finally:
            ended = self.clock()
            cost = ended - began
            # The smaller of the last two, so that one slow time (the first, or a busy machine) means no long gap.
            usual = min(cost, cost if self._last_cost is None else self._last_cost)
            self._last_cost = cost
            self._next = ended + max(self.seconds, usual / self.share)
