"""The class of ready-made explorers that need Python, and the parts that several of them draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import plotly.graph_objects as go

from ..drawing import NOTE
from ..explorer import explore


class Lab(NamedTuple):
    """One ready-made explorer. Calling it shows it: ``engine_race()``.

    Attributes:
        name: its name in ``viz.labs``, such as "engine_race".
        figure: ``figure(**settings) -> go.Figure``: pure, every setting with a default, no globals of a notebook.
        controls: name of a setting to its control, as ``viz.explore`` takes them: (min, max[, step]), a list, a bool.
    """

    name: str
    figure: Callable[..., go.Figure]
    controls: Mapping[str, Any]

    def __call__(self) -> None:
        """Show it; where there is one choice only, there is nothing to choose."""
        several = {k: c for k, c in self.controls.items() if not isinstance(c, list) or len(c) > 1}
        explore(self.figure, **several)


def add_note(page: go.Figure, text: str) -> None:
    """Small print between title and plot."""
    place = {"x": 0, "xref": "paper", "xanchor": "left", "y": 1, "yref": "paper", "yanchor": "bottom", "yshift": 5}
    page.add_annotation(text=text, align="left", **place, **NOTE)
