"""The roofline: operations per second against operations per byte, under the two limits of a machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from . import theme
from .arguments import told
from .axes import log_ticks
from .strokes import SYMBOLS, add_line

_BROAD = 7  # pixels; the roof stands behind what is measured


class Run(NamedTuple):
    """One program on one input.

    Attributes:
        name: runs of one name are points of one line.
        operations: arithmetic operations in all.
        bytes: moved in all, from and to memory.
        seconds: how long it took.
    """

    name: str
    operations: float
    bytes: float
    seconds: float

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.operations / self.bytes

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.operations / self.seconds


def roofline(
    runs: Sequence[Run],
    bandwidth: float,
    rate: float,
    *,
    span: tuple[float, float] | None = None,
    title: str = "Roofline",
) -> go.Figure:
    """Where programs sit under the roof: on its slope they wait for memory, on its flat part for arithmetic.

    The roof is min(bandwidth · intensity, rate) (Williams, Waterman and Patterson 2009, doi:10.1145/1498765.1498785).
    A point below it has time to win by being written better, one on it only by moving fewer bytes or computing less.

    Args:
        runs: what was measured, or predicted.
        bandwidth: bytes per second of the machine's memory, measured by a copy.
        rate: arithmetic operations per second that it reaches, measured where memory is no limit.
        span: operations per byte at the left and the right end; without it, as far as the runs reach.

    Raises:
        ValueError: no runs, a number that is not positive and finite, or a span whose ends are not in order.
    """
    runs = list(runs)
    if not runs:
        raise ValueError("runs must hold at least one Run")
    if strangers := [run for run in runs if not isinstance(run, Run)]:
        raise TypeError(f"runs must hold viz.roofline.Run, not {told(strangers[0])}")
    if span is not None and not (isinstance(span, (tuple, list)) and len(span) == 2):
        raise TypeError(f"span must be two numbers (low, high), not {told(span)}")
    for name, value in (("bandwidth", bandwidth), ("rate", rate)):
        _check(name, value)
    for run in runs:
        for name in ("operations", "bytes", "seconds"):
            _check(f"{name} of {run.name!r}", getattr(run, name))
    ridge = rate / bandwidth
    across = [ridge, *(run.intensity for run in runs)]
    low, high = span or (min(across) / 3, max(across) * 3)
    for end in (low, high):
        _check("an end of span", end)
    if not low < high:
        raise ValueError(f"span must go from a smaller to a larger number, but it is {span!r}")
    figure = go.Figure()
    hover = f"roof<br>memory: {bandwidth / 1e9:.4g} GB/s<br>arithmetic: {rate / 1e9:.4g} G/s<extra></extra>"
    corners = [low, *([ridge] if low < ridge < high else []), high]
    roof = [min(bandwidth * at, rate) / 1e9 for at in corners]
    add_line(figure, corners, roof, "roof", colour=theme.PALE, width=_BROAD, hovertemplate=hover)
    for i, name in enumerate(dict.fromkeys(run.name for run in runs)):
        same = [run for run in runs if run.name == name]
        more: dict[str, Any] = {"customdata": [_note(run, bandwidth, rate) for run in same]}
        hover = (
            f"{name}<br>%{{x:.3g}} operations per byte<br>%{{y:.3g}} G operations/s<br>%{{customdata}}<extra></extra>"
        )
        look = {"colour": theme.colour(i), "symbol": SYMBOLS[i % len(SYMBOLS)], "dash": theme.dash(i)}
        more["hovertemplate"] = hover
        add_line(figure, [r.intensity for r in same], [r.rate / 1e9 for r in same], name, **look, **more)
    figure.update_traces(marker_size=10)
    if low < ridge < high:
        _limits(figure, ridge)
    figure.update_layout(title={"text": title})
    figure.update_xaxes(type="log", title={"text": "operations per byte moved"}, range=np.log10([low, high]).tolist())
    ticks = log_ticks([*roof, *(run.rate / 1e9 for run in runs)])
    figure.update_yaxes(type="log", title={"text": "10⁹ operations per second"}, tickvals=ticks)
    return figure


def _limits(figure: go.Figure, ridge: float) -> None:
    """A vertical line where the roof bends, and what limits on each side."""
    figure.add_vline(x=ridge, line={"color": theme.TEXT, "dash": "dot", "width": 1})
    note = {"showarrow": False, "y": 0, "yref": "paper", "yanchor": "bottom", "font": {"size": 12, "color": theme.TEXT}}
    at = math.log10(ridge)
    figure.add_annotation(text="memory bound ", x=at, xanchor="right", **note)
    figure.add_annotation(text=" compute bound", x=at, xanchor="left", **note)


def _note(run: Run, bandwidth: float, rate: float) -> str:
    roof = min(bandwidth * run.intensity, rate)
    return f"{run.seconds * 1e3:.4g} ms, {run.rate / roof:.0%} of the roof"


def _check(name: str, value: Any) -> None:
    if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number, but it is {value!r}")
