"""For runs that nobody watches: one figure, when they are over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..display import show
from .curves import Curves
from .standing import Standing


class Still:
    draws = extends = False

    def moved(self, standing: Standing) -> None:
        pass

    def epoch(self, series: Mapping[str, Any]) -> None:
        pass

    def draw(self, figure: Any) -> None:
        pass

    def extend(self, curves: Curves) -> None:
        pass

    def end(self, message: str, figure: Any) -> None:
        if figure is not None:
            show(figure)
