"""Figures of machines: the roofline, measured beside predicted and published numbers, parallel efficiency."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import plotly.graph_objects as go

from snnkit import checks
from snnkit.lab.hardware.scaling import Measured, Prediction
from snnkit.lab.viz import concepts, theme
from snnkit.lab.viz.drawing import NOTE, RULER, add_marks, finish, legend_below, log_ticks
from snnkit.lab.viz.figures.line_plots import lines

# How each kind of number is drawn: colour, symbol, width of the line from low to high, and its dash.
_LOOKS: dict[str, tuple[str, str, int, str]] = {
    "predicted": (concepts.colour("predicted"), "diamond", 13, "solid"),
    "published": (concepts.colour("published"), "star", 2, "dot"),
    "derived": (concepts.colour("derived"), "star", 2, "dot"),
    "measured": (concepts.colour("measured"), "circle", 3, "solid"),  # last, so that it is on top
}
_LANE = 27  # pixels
_TICKS = 6  # between which labels have room
_LOG_FROM = 32  # times from the fewest to the most ranks, from which on a logarithmic axis shows more


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


@checks.arguments
def roofline(runs: Iterable[Run], bandwidth: float, rate: float, *, title: str = "Roofline") -> go.Figure:
    """Programs under the roof: below its slope they wait for memory, below its flat part for arithmetic.

    The roof is min(bandwidth · intensity, rate) (Williams, Waterman and Patterson 2009, doi:10.1145/1498765.1498785).
    A better implementation can make a program below the roof faster. A program on the roof gets faster only if it moves
    fewer bytes or computes less.

    Args:
        runs: what was measured, or predicted.
        bandwidth: bytes per second of the machine's memory, measured by a copy.
        rate: arithmetic operations per second that it reaches, measured where memory is no limit.
    """
    runs = list(runs)
    if not runs:
        raise ValueError("runs must hold at least one Run, but it is empty")
    for i, run in enumerate(runs):
        checks.instance(f"runs[{i}]", run, Run, "a Run")
        for name in ("operations", "bytes", "seconds"):
            checks.number(f"{name} of {run.name!r}", getattr(run, name), above=0)
    bandwidth, rate = checks.number("bandwidth", bandwidth, above=0), checks.number("rate", rate, above=0)
    ridge = rate / bandwidth
    across = [ridge, *(run.intensity for run in runs)]
    low, high = min(across) / 3, max(across) * 3
    corners = [low, ridge, high]
    series: dict[str, tuple[list[float], list[float]]] = {
        "roof": (corners, [min(bandwidth * x, rate) / 1e9 for x in corners])
    }
    for run in runs:
        x, y = series.setdefault(run.name, ([], []))
        x.append(run.intensity)
        y.append(run.rate / 1e9)
    # The name may be on either side of its line.
    bend = {"left: memory bound, right: compute bound": ridge}
    x_title, y_title = "operations per byte moved", "10⁹ operations per second"
    look = {"x_title": x_title, "y_title": y_title, "labels": False}  # beside their points, names would lie on the roof
    page = lines(series, log="xy", faint=["roof"], marks=bend, title=title, **look)
    ticks = {"tickvals": log_ticks([low, high]), "dtick": 1, "tickformat": "~g"}
    return page.update_xaxes(range=np.log10([low, high]).tolist(), **ticks)


@dataclass(frozen=True)
class Marked:
    """A number with its range and its source.

    Attributes:
        lane: the row of the figure that it is drawn in; several may share one.
        mark: "measured", "predicted", "published" or "derived" (from published figures).
        value: likely value, or median; None if only a range is known.
        low, high: ends of the range; None: ``value`` is exact.
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

    def check(self) -> None:
        """Raise ValueError for an unknown mark, or for numbers that are not positive, finite and in order."""
        checks.choice("mark", self.mark, _LOOKS)
        low, high = self.ends
        value = checks.number(f"value of {self.lane!r}", low if self.value is None else self.value, above=0)
        checks.number(f"low of {self.lane!r}", low, above=0, at_most=value)
        checks.number(f"high of {self.lane!r}", high, at_least=value)

    def note(self, unit: str) -> str:
        """For hovering."""
        low, high = self.ends
        spread = f"{low:,.4g} … {high:,.4g}"
        value = spread if self.value is None else f"{self.value:,.4g}" + (f" ({spread})" if low < high else "")
        return f"{self.lane}<br>{self.mark}: {value} {unit}" + (f"<br>{self.source}" if self.source else "")


@checks.arguments
def marked(numbers: Iterable[Marked], unit: str, *, title: str = "", one: str = "") -> go.Figure:
    """A lane for each name, its numbers over a logarithmic axis: circles measured, bands predicted, stars published.

    Args:
        numbers: positive; lanes are in the order in which they first occur.
        unit: of the numbers.
        one: name of a dashed line at 1, for ratios.
    """
    numbers = list(numbers)
    if not numbers:
        raise ValueError("numbers must hold at least one Marked, but it is empty")
    for number in numbers:
        checks.instance("each of numbers", number, Marked, "a Marked").check()
    lanes = {lane: row for row, lane in enumerate(dict.fromkeys(number.lane for number in numbers))}
    figure = go.Figure()
    for mark, (colour, symbol, width, dash) in _LOOKS.items():
        of_mark = [number for number in numbers if number.mark == mark]
        for number in of_mark:
            look = {"mode": "lines", "hoverinfo": "skip", "showlegend": False}
            band = [(theme.faint(colour, 0.35), width)] if width > 5 else []  # too pale alone: a line runs through it
            for ink, broad in (*band, (colour, min(width, 3))):
                line = {"color": ink, "width": broad, "dash": dash}
                figure.add_scatter(x=list(number.ends), y=[lanes[number.lane]] * 2, line=line, **look)
        points = [(at, n) for n in of_mark for at in ((n.value,) if n.value is not None else dict.fromkeys(n.ends))]
        if points:
            x, y = [at for at, _ in points], [lanes[number.lane] for _, number in points]
            look = {"symbol": symbol, "size": 11 if symbol == "star" else 8, "colour": colour, "showlegend": True}
            notes = [number.note(unit) for _, number in points]
            add_marks(figure, x, y, name=mark, text=notes, hoverinfo="text", **look)
    ends = [end for number in numbers for end in number.ends]
    if one:
        figure.add_vline(x=1, line=RULER)
        at = {"x": 0, "xanchor": "left", "y": 1, "yref": "paper", "yanchor": "bottom", "yshift": 1}
        figure.add_annotation(text=one, **at, **NOTE)
        ends.append(1.0)
    low, high = math.log10(min(ends)), math.log10(max(ends))
    pad = 0.06 * (high - low) or 0.3
    legend_below(figure, _LANE * len(lanes), sorted({number.mark for number in numbers}), above=18 if one else 0)
    ticks = log_ticks(ends)
    if ticks and len(ticks) > _TICKS:  # powers of ten: behind a slider the axis holds all its frames
        tens = [tick for tick in ticks if math.log10(tick).is_integer()]
        ticks = tens if len(tens) > 1 else ticks
    labels = ticks and [_short(tick) for tick in ticks]
    x = {"type": "log", "title_text": unit, "range": [low - pad, high + pad], "tickvals": ticks, "ticktext": labels}
    x["dtick"] = 1  # beyond three decades: powers of ten, without small digits between them
    y = {"tickvals": list(lanes.values()), "ticktext": list(lanes), "range": [len(lanes) - 0.5, -0.5]}
    return finish(figure, title, x, y | {"showgrid": False})


def _short(number: float) -> str:
    """As plotly has it: 20, 50k, 1M."""
    for letter, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= scale:
            return f"{number / scale:g}{letter}"
    return f"{number:g}"


@checks.arguments
def scaling_efficiency(
    measured: Sequence[Measured] = (),
    predicted: Mapping[str, Sequence[Prediction]] | None = None,
    *,
    cores: int | None = None,
    title: str = "Parallel efficiency",
) -> go.Figure:
    """The share of their speed that ranks have when they train together: 100 % means no loss.

    Args:
        measured: weak scaling, one rank alone among it; several of one number of ranks are rounds, and their median is
            drawn.
        predicted: name to predictions, a line each, as of ``hardware.scaling.curve``.
        cores: cores that the ranks share; draws the limit for ranks that take turns. None: no limit.
    """
    predicted = predicted or {}
    cores = None if cores is None else checks.integer("cores", cores, at_least=1)
    rounds: dict[int, list[float]] = {}
    for m in measured:
        rounds.setdefault(m.ranks, []).append(m.step_s)
    if rounds and 1 not in rounds:
        raise ValueError(f"measured must hold one rank alone to compare with, but it holds {sorted(rounds)}")
    every = sorted({*rounds, *(p.ranks for line in predicted.values() for p in line)})
    if not every:
        raise ValueError("measured or predicted must hold something to draw, but both are empty")
    series = {name: ([p.ranks for p in line], [100 * p.efficiency for p in line]) for name, line in predicted.items()}
    if rounds:
        alone, ranks = statistics.median(rounds[1]), sorted(rounds)
        series["measured"] = ranks, [100 * alone / statistics.median(rounds[n]) for n in ranks]
    if cores is not None and every[-1] > cores:
        most = sorted({cores, *(n for n in every if n >= cores)})
        series["limit of the cores"] = most, [100 * cores / n for n in most]
    log: Literal["x", ""] = "x" if every[-1] >= _LOG_FROM * every[0] else ""
    page = lines(series, log=log, x_title="ranks", y_title="efficiency, %", title=title, faint=["limit of the cores"])
    return page.update_layout(showlegend=True) if len(series) == 1 else page
