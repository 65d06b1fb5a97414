"""What a whole is made of: stacked bars, one for each whole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from . import theme
from .arguments import named, number

_BAR, _ROOM = 34, 118  # pixels: of a bar with the gap after it, and of all else
_LETTER, _PLOT_WIDTH = 7, 520  # pixels, of a total's letters and of the plot in a PNG
_LEGEND_ROW, _LEGEND_LETTER, _LEGEND_WIDTH = 20, 7.5, 620


def shares(
    wholes: Mapping[str, Mapping[str, float]], unit: str = "", title: str = "Shares", digits: int = 3
) -> go.Figure:
    """A bar to the right for each entry of ``wholes``, made of its parts in the order in which they are met.

    Args:
        wholes: name of a bar to {name of a part: value}. Parts of one name have one colour in all bars.
        unit: of the values, such as "ms".
        digits: of the total beside each bar.

    Raises:
        ValueError: no bar, no part, or a value that is negative or not finite.
    """
    wholes = checked_parts(wholes)
    names = list(dict.fromkeys(part for parts in wholes.values() for part in parts))
    bars = list(wholes)
    totals = {bar: sum(parts.values()) for bar, parts in wholes.items()}
    figure = go.Figure()
    for i, part in enumerate(names):
        values = [float(wholes[bar].get(part, 0.0)) for bar in bars]
        told = [f"{value / totals[bar]:.1%}" if totals[bar] else "" for bar, value in zip(bars, values, strict=True)]
        figure.add_bar(
            x=values, y=bars, name=part, orientation="h", marker=theme.bar(i), customdata=told, showlegend=True,
            hovertemplate=f"{part}<br>%{{x:.4g}} {unit}<br>%{{customdata}} of %{{y}}<extra></extra>",
        )  # fmt: skip
    most = max(totals.values())
    told_totals = {bar: f"{totals[bar]:.{digits}g} {unit}".strip() for bar in bars}
    for bar in bars:
        note: dict[str, Any] = {"showarrow": False, "xanchor": "left", "xshift": 4}
        text = told_totals[bar]
        figure.add_annotation(x=totals[bar], y=bar, text=text, font={"color": theme.TEXT, "size": 12}, **note)
    columns = max(1, int(_LEGEND_WIDTH // (50 + _LEGEND_LETTER * max(map(len, names)))))
    below = 66 + _LEGEND_ROW * -(-len(names) // columns)
    plot = _BAR * len(bars) + 10
    legend = theme.LEGEND_BELOW | {"y": -62 / plot, "traceorder": "normal"}
    layout = {"barmode": "stack", "legend": legend, "height": plot + theme.MARGIN["t"] + below}
    figure.update_layout(title={"text": title}, margin={"b": below, "t": theme.MARGIN["t"]}, **layout)
    # The longest bar leaves room for the longest total.
    room = min(0.5, (_LETTER * max(map(len, told_totals.values())) + 14) / _PLOT_WIDTH)
    figure.update_xaxes(title={"text": unit}, range=[0, most / (1 - room) or 1])
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False)
    return figure


def checked_parts(wholes: Any) -> dict[str, dict[str, float]]:
    """Name of a bar to {name of a part: value}; raises as ``shares``."""
    found: dict[str, dict[str, float]] = {}
    for bar, parts in named(wholes, "wholes", "bar to its parts").items():
        found[bar] = {}
        for part, value in named(parts, f"wholes[{bar!r}]", "part to value").items():
            what = "a finite number of at least 0"
            found[bar][part] = number(value, f"{part!r} of {bar!r}", what, above=-math.ulp(0.0))
    if not any(found.values()):
        raise ValueError("wholes must hold at least one bar with at least one part")
    return found
