"""What the panel draws on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from .curves import Curves
from .standing import Standing


class Face(Protocol):
    """One form of the panel, for one run.

    Attributes:
        draws: whether it has a figure that ``draw`` replaces.
        extends: whether ``extend`` can be had in place of ``draw``, for less.
    """

    draws: bool
    extends: bool

    def moved(self, standing: Standing) -> None:
        """Some updates further; a few times a second."""

    def epoch(self, series: Mapping[str, Any]) -> None:
        """An epoch is over. ``series``: as ``training_curves`` takes them, with at least one epoch."""

    def draw(self, figure: Any) -> None:
        """The curves so far."""

    def extend(self, curves: Curves) -> None:
        """The lines of the figure drawn last, as far as they are among these, and its title."""

    def end(self, message: str, figure: Any) -> None:
        """The run is over; ``figure`` is None if nothing is known of it."""
