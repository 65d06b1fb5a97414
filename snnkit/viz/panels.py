"""Several panels in one figure, with titles as small as the other text."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from . import theme


def panels(rows: int, cols: int, titles: Any = None, **layout: Any) -> go.Figure:
    """An empty figure of rows × cols panels. ``layout`` is for plotly's ``make_subplots``."""
    figure = make_subplots(rows=rows, cols=cols, subplot_titles=titles and list(titles), **layout)
    figure.update_annotations(font={"size": theme.FONT_SIZE, "color": theme.TEXT}, yshift=3)
    return figure
