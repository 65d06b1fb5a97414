"""What an answer prints while it is checked: the first lines are kept, the rest is counted, and no memory filled."""

from __future__ import annotations

import io

LINES = 8
CHARACTERS = 800


class Prints(io.TextIOBase):
    """Stands in for ``sys.stdout`` and ``sys.stderr``."""

    def __init__(self) -> None:
        self._start = ""
        self._ends = 0
        self._open = False

    def write(self, text: str, /) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if text:
            self._start += text[: CHARACTERS - len(self._start)]
            self._ends += text.count("\n")
            self._open = not text.endswith("\n")
        return len(text)

    def writable(self) -> bool:
        return True

    @property
    def lines(self) -> int:
        """How many lines were printed in all."""
        return self._ends + self._open

    def text(self) -> str:
        """The first lines, and how many more there were; "" if nothing was printed."""
        shown = self._start.splitlines()[:LINES]
        more = self.lines - len(shown)
        if more:
            shown.append(f"… and {more:,} more line{'s' * (more > 1)}")
        elif len(self._start) == CHARACTERS:
            shown.append("…")
        return "\n".join(shown).rstrip("\n")
