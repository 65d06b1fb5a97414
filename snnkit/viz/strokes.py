"""What every figure is drawn with: a line, and marks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go

from . import theme
from .arrays import compact

# Lines with markers differ in these as well as in colour.
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
SPIKES = ("triangle-down", "diamond", "square", "circle", "cross", "x")  # of several neurons over one panel
TICK, SPIKE = "line-ns-open", "triangle-down"
_RULER = {"color": theme.TEXT, "dash": "dash", "width": 1.2}
_NOTE = {"showarrow": False, "font": {"color": theme.TEXT, "size": 12}}
_MANY = 5000  # from here on WebGL draws markers faster than SVG


def add_line(
    figure: go.Figure,
    x: Any,
    y: Any,
    name: str,
    *,
    colour: str,
    dash: str = "solid",
    width: float = 2.0,
    shape: str = "linear",
    symbol: str = "",
    **more: Any,
) -> None:
    """A line through x [P] and y [P].

    Args:
        shape: "hv" for a value that holds until the next one.
        symbol: of a marker at each point; without it there are none.
        more: for plotly's ``add_scatter``: ``hovertemplate``, ``showlegend``, ``row``, ``col``, …
    """
    line = {"color": colour, "width": width} | ({"dash": dash} if dash != "solid" else {})
    if shape != "linear":
        line["shape"] = shape
    if symbol:
        more["marker"] = {"symbol": symbol, "size": 8 if symbol.endswith("-open") else 6, "color": colour}
    mode = "lines+markers" if symbol else "lines"
    figure.add_scatter(x=compact(np.asarray(x)), y=compact(np.asarray(y)), name=name, mode=mode, line=line, **more)


def published_look(index: int) -> dict[str, Any]:
    """For ``add_line``: what others have published, beside what was measured: hollow markers on a dotted line."""
    return {"colour": theme.colour(index), "symbol": f"{SYMBOLS[index % len(SYMBOLS)]}-open", "dash": "dot"}


def add_marks(
    figure: go.Figure,
    x: Any,
    y: Any,
    *,
    symbol: str,
    size: float,
    colour: str,
    row: int | None = None,
    col: int | None = None,
    **more: Any,
) -> None:
    """A mark at each point of x [P] and y [P], or at one height y. No legend entry unless ``showlegend=True``."""
    places = np.broadcast_to(np.asarray(y), np.shape(x))
    kind = go.Scattergl if len(places) > _MANY else go.Scatter
    marker = {"symbol": symbol, "size": size, "color": colour}
    look = {"showlegend": False} | more
    figure.add_trace(kind(x=x, y=compact(places), mode="markers", marker=marker, **look), row=row, col=col)


def add_threshold(figure: go.Figure, ends: Any, height: float, **place: Any) -> None:
    """A dashed horizontal line between the two ``ends``, with its entry in the legend."""
    look = {"colour": theme.TEXT, "dash": "dash", "width": 1.5}
    hover = "threshold %{y:.4g}<extra></extra>"
    add_line(figure, ends, [height, height], "threshold", hovertemplate=hover, **look, **place)


def add_level(figure: go.Figure, name: str, height: float, *, log: bool = False) -> None:
    """A dashed line across the whole plot, with its name at the right end. ``log``: on a logarithmic axis."""
    figure.add_hline(y=height, line=_RULER)
    at = {"x": 1, "xref": "paper", "xanchor": "right", "yanchor": "bottom", "yshift": 5}
    figure.add_annotation(text=name, y=_note_at(height, log), **at, **_NOTE)


def add_mark(figure: go.Figure, name: str, place: float, values: Any, *, log: bool = False) -> None:
    """A dashed line from bottom to top, its name above; ``values`` are the axis's, to keep the name on the page."""
    figure.add_vline(x=place, line=_RULER)
    low, high, at = (_note_at(float(value), log) for value in (np.min(values), np.max(values), place))
    share = (at - low) / (high - low) if high > low else 0.5
    anchor = "left" if share < 1 / 3 else "right" if share > 2 / 3 else "center"
    above = {"y": 1, "yref": "paper", "yanchor": "bottom", "yshift": 2}
    figure.add_annotation(text=name, x=at, xanchor=anchor, **above, **_NOTE)


def _note_at(value: float, log: bool) -> float:
    """Plotly wants annotations on a logarithmic axis as exponents of ten, unlike shapes and traces."""
    return math.log10(value) if log else value


def tick_size(rows: int, pixels: float) -> float:
    """How tall a raster's tick is when ``rows`` neurons share ``pixels``."""
    return max(3.0, min(14.0, pixels / rows))
