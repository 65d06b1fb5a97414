"""What is wrong in a page of the workshop, with the place to look at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Problem:
    """One mistake: the page, its line (from 1; 0 for the page as a whole), and what is wrong with it."""

    page: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}" if self.line else f"{self.page}: {self.text}"


class WorkshopError(ValueError):
    """The workshop's pages can't be used as asked."""
