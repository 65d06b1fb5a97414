"""Who does what when: lanes one under the other, over a common time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from . import theme
from .arguments import named, number, told

Span = tuple[str, float, float]
_LANE, _ROOM = 34, 132  # pixels: of a lane with the gap after it, and of all else


def spans(lanes: Mapping[str, Sequence[Span]], unit: str = "ms", title: str = "Who does what when") -> go.Figure:
    """A lane to the right for each entry of ``lanes``, the first on top, with a bar from start to end of each span.

    Args:
        lanes: name to (what, start, end) of each span. What has one name has one colour in all lanes.
        unit: of the times, which all lanes count from the same moment.

    Raises:
        ValueError: no span, or one that is not finite or ends before it begins.
    """
    for lane, parts in named(lanes, "lanes", "name to its spans").items():
        for part in parts if isinstance(parts, (list, tuple)) else [parts]:
            if not isinstance(part, (tuple, list)) or len(part) != 3:
                raise TypeError(f"lanes[{lane!r}] must hold (what, start, end), not {told(part)}")
    names = list(dict.fromkeys(what for lane in lanes.values() for what, _, _ in lane))
    if not names:
        raise ValueError("lanes must hold at least one lane with at least one span")
    for lane, parts in lanes.items():
        for what, start, end in parts:
            where = f"{what!r} of {lane!r}"
            if not number(start, f"the start of {where}") <= number(end, f"the end of {where}"):
                raise ValueError(f"{where} must end after it begins, but it is {start!r} to {end!r}")
    figure = go.Figure()
    for i, name in enumerate(names):
        parts = enumerate(lanes.values())
        found = [(row, start, end) for row, lane in parts for what, start, end in lane if what == name]
        hover = f"{name}<br>%{{x:.4g}} {unit} long, from %{{base:.4g}}<extra></extra>"
        figure.add_bar(
            x=[end - start for _, start, end in found], y=[row for row, _, _ in found], name=name, orientation="h",
            base=[start for _, start, _ in found], width=[0.72] * len(found), marker=theme.bar(i),
            showlegend=True, hovertemplate=hover,
        )  # fmt: skip
    height = _LANE * len(lanes) + _ROOM
    plot = height - theme.MARGIN["t"] - 88
    legend: dict[str, Any] = theme.LEGEND_BELOW | {"y": -58 / plot, "traceorder": "normal"}
    figure.update_layout(title={"text": title}, barmode="overlay", height=height, margin={"b": 88}, legend=legend)
    ends = [at for lane in lanes.values() for _, start, end in lane for at in (start, end)]
    figure.update_xaxes(title={"text": unit}, range=[min(ends), max(ends)])
    figure.update_yaxes(
        tickvals=list(range(len(lanes))), ticktext=list(lanes), range=[len(lanes) - 0.5, -0.5], showgrid=False
    )
    return figure
