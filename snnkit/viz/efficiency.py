"""The figure of the scaling model: parallel efficiency against ranks, measured and predicted."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from ..hardware.scaling import Measured, Prediction
from . import theme
from .arguments import named, told, whole
from .strokes import SYMBOLS, add_line, add_marks

_LOG_FROM = 32  # times from the fewest to the most ranks, from which on a logarithmic axis shows more


def scaling_efficiency(
    measured: Sequence[Measured] = (),
    predicted: Mapping[str, Sequence[Prediction]] | None = None,
    *,
    cores: int | None = None,
    title: str = "Parallel efficiency",
) -> go.Figure:
    """How much of their speed ranks keep that train together: 100 % where nothing is lost.

    Args:
        measured: weak scaling as ``hardware.scaling.fit`` takes it, one rank alone among it; several of one number of
            ranks are rounds: their median is the mark, and hovering shows the spread.
        predicted: name to predictions, a line each, as of ``hardware.scaling.curve``.
        cores: that ranks share; draws the limit that ranks meet which take turns. None: there is none.

    Raises:
        ValueError: nothing to draw, or ranks measured together without one alone to compare them with.
    """
    predicted = named({} if predicted is None else predicted, "predicted", "name to predictions")
    measured = tuple(measured)
    for kind, given in ((Measured, measured), (Prediction, [p for line in predicted.values() for p in line])):
        for one in given:
            if not isinstance(one, kind):
                raise TypeError(f"{kind.__name__.lower()} must be of hardware.scaling.{kind.__name__}, not {told(one)}")
    cores = None if cores is None else whole(cores, "cores")
    if not measured and not any(predicted.values()):
        raise ValueError("measured or predicted must hold something to draw, but both are empty")
    rounds: dict[int, list[float]] = {}
    for m in measured:
        rounds.setdefault(m.ranks, []).append(m.step_s)
    if rounds and 1 not in rounds:
        raise ValueError(f"measured must hold one rank alone to compare with, but it holds {sorted(rounds)}")
    figure = go.Figure()
    every = {*rounds, *(p.ranks for line in predicted.values() for p in line)}
    if cores is not None and max(every) > cores:
        most = [n for n in sorted({*every, cores}) if n >= cores]
        look: dict[str, Any] = {"colour": theme.PALE, "width": 5.0}
        hover = f"limit of {cores} cores<br>%{{x}} ranks: %{{y:.1f}} %<extra></extra>"
        add_line(figure, most, [100 * cores / n for n in most], "limit of the cores", hovertemplate=hover, **look)
    for i, (name, line) in enumerate(predicted.items()):
        notes = [_note(p) for p in line]
        hover = f"{name}<br>%{{x}} ranks: %{{y:.1f}} %<br>%{{customdata}}<extra></extra>"
        look = {"colour": theme.colour(i + 1), "dash": theme.dash(i), "hovertemplate": hover, "customdata": notes}
        add_line(figure, [p.ranks for p in line], [100 * p.efficiency for p in line], name, **look)
    if rounds:
        base, ranks = statistics.median(rounds[1]), sorted(rounds)
        notes = [_spread(rounds[n], base) for n in ranks]
        marks = {"symbol": SYMBOLS[0], "size": 11, "colour": theme.colour(0), "name": "measured", "showlegend": True}
        hover = "measured<br>%{x} ranks: %{y:.1f} %<br>%{customdata}<extra></extra>"
        heights = [100 * base / statistics.median(rounds[n]) for n in ranks]
        add_marks(figure, ranks, heights, hovertemplate=hover, customdata=notes, **marks)
    figure.update_layout(title={"text": title})
    log = max(every) >= _LOG_FROM * min(every)
    ticks: dict[str, Any] = {"tickvals": sorted(every)} if len(every) <= 8 else {}
    figure.update_xaxes(title={"text": "ranks"}, type="log" if log else "linear", **ticks)
    figure.update_yaxes(title={"text": "efficiency, %"}, range=[0, 108])
    return figure


def _note(p: Prediction) -> str:
    update = f"{p.step_s * 1e3:.4g} ms an update, {p.exposed_s * 1e3:.3g} ms of it waiting"
    return f"{update}<br>{p.samples_per_s:,.0f} samples/s"


def _spread(times: Sequence[float], base: float) -> str:
    if len(times) == 1:
        return f"{times[0] * 1e3:.4g} ms an update"
    return f"{len(times)} rounds: {base / max(times):.1%} to {base / min(times):.1%}"
