"""Several panels in one figure, with titles as small as the other text."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from . import theme

# Empty figures by what they were made from: plotly takes 14 ms to lay one out and 4 to copy it, and explorers ask for
# the same one at every move of a slider.
_laid_out: dict[str, go.Figure] = {}
_MOST = 64


def panels(rows: int, cols: int, titles: Any = None, **layout: Any) -> go.Figure:
    """An empty figure of rows × cols panels. ``layout`` is for plotly's ``make_subplots``."""
    named = titles and list(titles)
    key = repr((rows, cols, named, sorted(layout.items())))
    if key not in _laid_out:
        figure = make_subplots(rows=rows, cols=cols, subplot_titles=named, **layout)
        figure.update_annotations(font={"size": theme.FONT_SIZE, "color": theme.TEXT}, yshift=3)
        if len(_laid_out) >= _MOST:
            del _laid_out[next(iter(_laid_out))]
        _laid_out[key] = figure
    return go.Figure(_laid_out[key])
