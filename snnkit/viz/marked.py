"""Numbers of different standing in one figure: measured, predicted and published, told apart at a glance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from . import theme
from .axes import log_ticks

# How each kind is drawn: colour, symbol, width of the line from low to high, and its dash.
_LOOKS: dict[str, tuple[str, str, int, str]] = {
    "predicted": (theme.ORANGE, "diamond", 13, "solid"),
    "published": (theme.GREEN, "star", 2, "dot"),
    "derived": (theme.PURPLE, "star", 2, "dot"),
    "measured": (theme.BLUE, "circle", 3, "solid"),  # last, so that it lies on top
}
_TICKS = 6  # between which labels have room
_LANE, _BELOW, _NOTE = 27, 92, 18  # pixels: of a lane, under the plot, of the note above the line at 1


@dataclass(frozen=True)
class Marked:
    """A number, how far it may be off, and where it comes from.

    Attributes:
        lane: the row of the figure that it is drawn in; several may share one.
        mark: "measured", "predicted", "published" or "derived" (from published figures).
        value: likely, or median; None where only a range is known.
        low, high: of the range; None: ``value`` is exact.
        source: shown on hovering.
    """

    lane: str
    mark: str
    value: float | None
    low: float | None = None
    high: float | None = None
    source: str = ""

    @property
    def ends(self) -> tuple[float, float]:
        """Low and high."""
        low = self.value if self.low is None else self.low
        high = self.value if self.high is None else self.high
        if low is None or high is None:
            raise ValueError(f"{self.lane!r} must have a value, or low and high, but they are {self}")
        return low, high


def marked(numbers: Sequence[Marked], unit: str, *, title: str = "", one: str = "") -> go.Figure:
    """A lane for each name, its numbers over a logarithmic axis: circles measured, bands predicted, stars published.

    Args:
        numbers: positive; lanes are in the order in which they are met.
        one: what a dashed line at 1 is, for ratios.

    Raises:
        ValueError: no number, an unknown mark, or a number that is not positive and finite.
    """
    if not numbers:
        raise ValueError("numbers must hold at least one Marked")
    for number in numbers:
        if number.mark not in _LOOKS:
            raise ValueError(f"mark must be one of {', '.join(map(repr, _LOOKS))}, but it is {number.mark!r}")
        low, high = number.ends
        value = low if number.value is None else number.value
        if not all(math.isfinite(end) and end > 0 for end in (low, value, high)):
            raise ValueError(f"{number.lane!r} must be positive and finite, but it is {low}, {value}, {high}")
        if not low <= value <= high:
            raise ValueError(f"{number.lane!r} must have low <= value <= high, but they are {low}, {value}, {high}")
    lanes = {lane: row for row, lane in enumerate(dict.fromkeys(number.lane for number in numbers))}
    figure = go.Figure()
    for mark, (colour, symbol, width, dash) in _LOOKS.items():
        of_mark = [number for number in numbers if number.mark == mark]
        for number in of_mark:
            ink = theme.faint(colour, 0.35) if width > 5 else colour
            figure.add_scatter(
                x=list(number.ends), y=[lanes[number.lane]] * 2, mode="lines", hoverinfo="skip", showlegend=False,
                line={"color": ink, "width": width, "dash": dash},
            )  # fmt: skip
        if of_mark:
            points = [(at, number) for number in of_mark for at in _points(number)]
            figure.add_scatter(
                x=[at for at, _ in points], y=[lanes[number.lane] for _, number in points], name=mark, mode="markers",
                marker={"symbol": symbol, "size": 11 if symbol == "star" else 8, "color": colour}, showlegend=True,
                text=[_told(number, unit) for _, number in points], hoverinfo="text",
            )  # fmt: skip
    ends = [end for number in numbers for end in number.ends]
    if one:
        figure.add_vline(x=1, line={"color": theme.TEXT, "dash": "dash", "width": 1.2})
        note: dict[str, Any] = {"showarrow": False, "font": {"color": theme.TEXT, "size": 12}}
        figure.add_annotation(text=one, x=0, y=1, yref="paper", yanchor="bottom", yshift=1, xanchor="left", **note)
        ends.append(1.0)
    low, high = math.log10(min(ends)), math.log10(max(ends))
    pad = 0.06 * (high - low) or 0.3
    plot = _LANE * len(lanes)
    margin = {"t": theme.MARGIN["t"] + (_NOTE if one else 0), "b": _BELOW}
    legend = theme.LEGEND_BELOW | {"y": -60 / plot}
    figure.update_layout(title={"text": title}, height=plot + margin["t"] + _BELOW, legend=legend, margin=margin)
    ticks = _ticks(ends)
    labels = None if ticks is None else [_short(tick) for tick in ticks]
    figure.update_xaxes(
        type="log", title={"text": unit}, range=[low - pad, high + pad], tickvals=ticks, ticktext=labels
    )
    figure.update_yaxes(
        tickvals=list(lanes.values()), ticktext=list(lanes), range=[len(lanes) - 0.5, -0.5], showgrid=False
    )
    return figure


def _ticks(ends: Sequence[float]) -> list[float] | None:
    """As ``log_ticks``, or powers of ten where those are many: behind a slider the axis holds all its frames."""
    ticks = log_ticks(ends)
    if ticks is None or len(ticks) <= _TICKS:
        return ticks
    tens = [tick for tick in ticks if math.log10(tick).is_integer()]
    return tens if len(tens) > 1 else ticks


def _short(number: float) -> str:
    """As plotly has it: 20, 50k, 1M."""
    for letter, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= scale:
            return f"{number / scale:g}{letter}"
    return f"{number:g}"


def _points(number: Marked) -> Sequence[float]:
    return tuple(dict.fromkeys(number.ends)) if number.value is None else (number.value,)


def _told(number: Marked, unit: str) -> str:
    low, high = number.ends
    spread = f"{low:,.4g} … {high:,.4g}"
    value = spread if number.value is None else f"{number.value:,.4g}" + (f" ({spread})" if low < high else "")
    return f"{number.lane}<br>{number.mark}: {value} {unit}" + (f"<br>{number.source}" if number.source else "")
