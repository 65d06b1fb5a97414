"""A wish to stop, from a button, that the running training finds."""

from __future__ import annotations

import threading
import time
from typing import Any

from .messages import WaitingMessages

SECONDS = 0.25  # between looks at what waits for the kernel; a press is answered within that and an update


class StopRequest:
    """Whether somebody has asked the run to stop.

    A press reaches it on one of two ways: through the button's callback, where the kernel runs that in another thread,
    or by a look at the messages that wait for this one. Either may come late, when the run is over; then it is nothing.
    """

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._running = False
        self._waiting: WaitingMessages | None = None
        self._next = 0.0

    def begin(self) -> None:
        """A run begins; what was asked before does not count."""
        self._asked.clear()
        self._running = True

    def end(self) -> None:
        self._running = False

    def listen(self, button: Any) -> None:
        """To an ipywidgets Button."""
        button.on_click(lambda _: self.ask())
        self._waiting = WaitingMessages(button.model_id, self._told)

    def ask(self) -> None:
        if self._running:
            self._asked.set()

    def asked(self) -> bool:
        """Quick enough to be called after each update."""
        if self._waiting is not None and not self._asked.is_set() and (now := time.perf_counter()) >= self._next:
            self._waiting.look()
            self._next = now + SECONDS
        return self._asked.is_set()

    def _told(self, data: Any) -> None:
        if data.get("method") == "custom" and data.get("content", {}).get("event") == "click":
            self.ask()
