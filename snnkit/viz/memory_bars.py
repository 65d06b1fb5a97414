"""Memory by part, against what a device has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from . import theme
from .arguments import named, number
from .shares import checked_parts, shares
from .strokes import add_mark

_UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))
_LETTER, _WIDE = 7, 560  # pixels: of a letter, of the plot
_FAR = 5  # times the longest bar: a limit beyond would leave the bars no room, and is written at the edge


def memory_bars(
    wholes: Mapping[str, Mapping[str, float]],
    limits: Mapping[str, float] | None = None,
    *,
    title: str = "Memory",
) -> go.Figure:
    """A bar for each whole, made of its parts, and a dashed line for each limit: what stops before it fits.

    The unit (kB, MB, GB, powers of 1000) is that of the longest bar. What each bar fits in stands beside it.

    Args:
        wholes: name of a bar to {name of a part: bytes}, for example {"training": {"weights": 4e6, "activity": 9e8}}.
        limits: name to bytes that there are, for example {"a T4": 16e9}.

    Raises:
        ValueError: no bar, no part, a part that is negative or not finite, or a limit that is not positive and finite.
    """
    room = named({} if limits is None else limits, "limits", "name to bytes")
    limits = {
        name: number(limit, f"limits[{name!r}]", "a positive number of bytes", above=0) for name, limit in room.items()
    }
    wholes = checked_parts(wholes)
    totals = {bar: sum(parts.values()) for bar, parts in wholes.items()}
    longest = max(totals.values(), default=0.0)
    unit, scale = next(((unit, scale) for unit, scale in _UNITS if longest >= scale), _UNITS[-1])
    scaled = {bar: {part: value / scale for part, value in parts.items()} for bar, parts in wholes.items()}
    figure: Any = shares(scaled, unit, title)
    near = {name: limit for name, limit in limits.items() if limit <= _FAR * longest}
    end = max([longest, *near.values()], default=1.0) / scale or 1.0
    reach = 1.05 * end
    for note, total in zip(figure.layout.annotations, totals.values(), strict=True):
        note.text += _verdict(total, limits)
        # What stands beside the bar keeps its size when the axis grows.
        share = min((_LETTER * len(note.text) + 8) / _WIDE, 0.7)
        reach = max(reach, total / scale / (1 - share))
    for name, limit in near.items():
        add_mark(figure, f"{name}: {_said(limit)}", limit / scale, [0, end])
    far = [f"{name}: {_said(limit)}" for name, limit in limits.items() if name not in near]
    if far:
        note = {"x": 1, "xref": "paper", "xanchor": "right", "y": 1, "yref": "paper", "yanchor": "bottom"}
        font = {"size": 12, "color": theme.TEXT}
        figure.add_annotation(text=f"{', '.join(far)} →", yshift=2, showarrow=False, font=font, **note)
    figure.update_xaxes(title={"text": f"memory ({unit})"}, range=[0, reach])
    figure.update_layout(margin={"t": theme.MARGIN["t"] + 20}, height=figure.layout.height + 20)
    return figure


def _verdict(total: float, limits: Mapping[str, float]) -> str:
    """What of the limits a bar is too long for, in words."""
    over = [name for name, limit in limits.items() if total > limit]
    if over:
        return f", too much for {', '.join(over)}"
    return ", fits" if limits else ""


def _said(count: float) -> str:
    unit, scale = next(((unit, scale) for unit, scale in _UNITS if count >= scale), _UNITS[-1])
    return f"{count / scale:.3g} {unit}"
