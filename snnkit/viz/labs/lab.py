"""What a ready-made explorer is, and what several of them draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from ..drawing import NOTE, Times, panels
from ..explorer import explore


class Lab(NamedTuple):
    """One ready-made explorer. Calling it shows it: ``neuron_lab()``.

    Attributes:
        name: under which ``viz.labs`` has it, such as "neuron_lab".
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


def stacked(heights: Sequence[float], axis: Times, *, ends: Sequence[float], spacing: float) -> go.Figure:
    """Three panels over one time axis, with shares ``heights`` of the plot, and to their right one as high as all."""
    page = panels(
        3, 2, specs=[[{}, {"rowspan": 3}], [{}, None], [{}, None]], row_heights=list(heights),
        column_widths=[0.6, 0.4], vertical_spacing=spacing, horizontal_spacing=0.14,
    )  # fmt: skip
    for row in (1, 2, 3):
        page.update_xaxes(range=list(ends), matches="x", showticklabels=row == 3, row=row, col=1)
    page.update_xaxes(title_text=axis.title, row=3, col=1)
    return page


def add_note(page: go.Figure, text: str) -> None:
    """Small print between title and plot."""
    place = {"x": 0, "xref": "paper", "xanchor": "left", "y": 1, "yref": "paper", "yanchor": "bottom", "yshift": 5}
    page.add_annotation(text=text, align="left", **place, **NOTE)
