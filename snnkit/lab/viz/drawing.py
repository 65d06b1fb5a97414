"""The parts of every figure: checked arrays, axes, lines and marks, panels, and a legend below the plot."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from snnkit import checks
from snnkit.lab.viz import concepts, theme

# Lines with markers differ in these as well as in colour.
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
SPIKES = ("triangle-down", "diamond", "square", "circle", "cross", "x")  # of several neurons over one panel
TICK, SPIKE = "line-ns-open", "triangle-down"
NOTE = {"showarrow": False, "font": {"color": theme.TEXT, "size": 12}}
RULER = {"color": theme.TEXT, "dash": "dash", "width": 1.2}
_MANY = 5000  # from here on WebGL draws markers faster than SVG
_LEGEND_WIDTH, _LEGEND_ROW, _LETTER = 620, 20, 7  # pixels
_LABEL_ROW, _LABEL_WIDTH = 16, 24  # pixels from line to line of a label, and letters on one
_NARROW = 480  # pixels that a plot is wide at least

# Empty figures by what they were made from: plotly takes 14 ms to lay one out and 4 to copy it, and explorers need the
# same one at every move of a slider.
_laid_out: dict[str, go.Figure] = {}
_MOST = 64


# ---- arrays


def as_array(value: Any, name: str, shape: str) -> np.ndarray:
    """``value`` (a tensor, an array or nested lists) as a NumPy array with the axes that ``shape`` names: "[T, N]"."""
    if getattr(getattr(value, "device", None), "type", "") == "meta":
        raise ValueError(f"{name} must hold numbers, but it is a tensor on the meta device")
    try:
        if hasattr(value, "detach"):  # a torch tensor, without importing torch
            value = value.detach().cpu()
            # NumPy has no bfloat16 and no float8.
            value = value.float() if value.is_floating_point() and value.dtype.itemsize < 4 else value
            value = value.numpy()
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} must hold numbers in {shape}: {error}") from None
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold numbers, but it is {checks.shown(value)}")
    more = array.ndim - shape.count(",") - 1  # axes than there should be
    if more or array.size == 0:
        rule = shape if more else f"{shape} with no empty axis"
        advice = " (pick one sample, for example x[:, 0])" if more == 1 else ""
        raise ValueError(f"{name} must be {rule}, but its shape is {list(array.shape)}{advice}")
    return array


def as_arrays(given: Mapping[str, tuple[Any, str]]) -> list[np.ndarray]:
    """The array of each argument, name to (value, shape). Raises ValueError unless axes of one name are equally
    long."""
    arrays: list[np.ndarray] = []
    sizes: dict[str, tuple[int, str]] = {}
    for name, (value, shape) in given.items():
        array = as_array(value, name, shape)
        for axis, length in zip(shape.strip("[]").split(", "), array.shape, strict=True):
            expected, where = sizes.setdefault(axis, (length, name))
            if length != expected:
                rule = f"{shape} with {axis} = {expected}, as {where} has it"
                raise ValueError(f"{name} must be {rule}, but its shape is {list(array.shape)}")
        arrays.append(array)
    return arrays


def by_name(value: Any, name: str, alone: str, shape: str) -> dict[str, tuple[Any, str]]:
    """For ``as_arrays``: the entries of a dict, or a single value, which is called ``alone``."""
    if not isinstance(value, Mapping):
        return {alone: (value, shape)}
    if not value:
        raise ValueError(f"{name} must hold at least one {shape} array, but it is empty")
    return {str(key): (one, shape) for key, one in value.items()}


def class_names(names: Any, count: int, argument: str) -> list[str]:
    """``count`` names as texts: those given, or the numbers from 0. ValueError if there are more or fewer."""
    texts = [str(i) for i in range(count)] if names is None else [str(name) for name in names]
    if len(texts) != count:
        raise ValueError(f"{argument} must hold {count} names, but it holds {len(texts)}")
    return texts


def compact(array: np.ndarray) -> np.ndarray:
    """``array`` in the smallest type that shows the same picture, so that notebooks stay small."""
    if array.dtype.kind == "f":
        return array.astype(np.float32)
    if array.dtype.kind == "b":
        return array.astype(np.uint8)
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    for kind in (np.uint8, np.int16, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return array.astype(kind)
    return array.astype(np.float64)


# ---- axes


@dataclass(frozen=True)
class Times:
    """A time axis: the places of its steps and its title."""

    at: np.ndarray
    title: str

    @property
    def ends(self) -> list[float]:
        """Half a step before the first and half a step after the last."""
        half = 0.5 * float(self.at[1] - self.at[0]) if len(self.at) > 1 else 0.5
        return [float(self.at[0]) - half, float(self.at[-1]) + half]

    def look(self, most: int = 12) -> dict[str, Any]:
        """For ``update_xaxes``: title, range and (for a few whole steps) ticks."""
        return {"title_text": self.title, "range": self.ends, "tickvals": whole_ticks(self.at, most)}


def times(steps: int, dt: float | None) -> Times:
    """The time axis of ``steps`` steps: step numbers, or milliseconds if ``dt`` (seconds, greater than 0) is given."""
    if dt is None:
        return Times(compact(np.arange(steps)), "time step")
    return Times(compact(np.arange(steps) * checks.number("dt", dt, above=0) * 1e3), "time (ms)")


def whole_ticks(values: Any, most: int = 12) -> list[int] | None:
    """Places for at most ``most`` ticks on an axis of whole numbers (steps, epochs, counts), so that none says 2.5.

    None if the values are not whole, or if their range is so large that plotly's own ticks are whole. Those are better,
    because they follow a zoom.
    """
    array = np.asarray(values, dtype=float)
    low, high = float(array.min()), float(array.max())
    if (array % 1).any() or high - low > 12:
        return None
    ticks = (list(range(math.ceil(low / step) * step, int(high) + 1, step)) for step in (1, 2, 5, 10, 20))
    return next(places for places in ticks if len(places) <= most)


def log_ticks(values: Any) -> list[float] | None:
    """Ticks at 1, 2, 5, 10, 20, … for a logarithmic axis over at most three decades; None beyond (powers of ten).

    Closer where only one of those is between the values.
    """
    array = np.asarray(values, dtype=float)
    array = array[np.isfinite(array) & (array > 0)]
    if array.size == 0:
        return None
    low, high = math.log10(array.min()), math.log10(array.max())
    if high - low > 3:
        return None
    decades = range(math.floor(low) - 1, math.ceil(high) + 1)
    ticks = [float(f"{digit}e{decade}") for decade in decades for digit in (1, 2, 5)]
    if high - low > 1e-3 and sum(low <= math.log10(tick) <= high for tick in ticks) < 2:
        least, most = float(array.min()), float(array.max())
        steps = (float(f"{digit}e{math.floor(math.log10(most - least)) - 1}") for digit in (2, 5, 10, 20, 50))
        step = next(step for step in steps if step >= (most - least) / 4)
        return [float(f"{i * step:.12g}") for i in range(math.ceil(least / step), math.floor(most / step) + 1)]
    return [tick for tick in ticks if low - 0.2 <= math.log10(tick) <= high + 0.2]


def scale_of(letter: str, log: str, values: Any) -> dict[str, Any]:
    """For ``update_xaxes`` or ``update_yaxes``: a logarithmic axis over ``values`` if ``letter`` is in ``log``."""
    if letter not in log:
        return {}
    array = np.asarray(values, dtype=float)
    array = np.log10(array[np.isfinite(array) & (array > 0)])
    span, least = (float(np.ptp(array)), float(array.min())) if array.size else (0.0, 0.0)
    # Plotly would write 500µ, 10k and 1B. Powers of ten are for numbers with many zeros.
    form = "power" if least < -3 or least + span > 5 else "none"
    step = math.ceil(span / 8) if span > 3 else None
    return {"type": "log", "tickvals": log_ticks(values), "dtick": step, "exponentformat": form}


def ends_of(values: Any, log: bool = False, include: Iterable[float] = (), zero: bool = True) -> list[float]:
    """A range that holds ``values`` with some room: exponents of ten on a logarithmic axis, else with 0 if ``zero``."""
    array = np.append(np.asarray(values, dtype=float).ravel(), list(include))
    array = array[np.isfinite(array) & ((array > 0) | (not log))]
    if array.size == 0:
        return [0.0, 1.0]
    if log or not zero:
        low, high = (math.log10(end) if log else float(end) for end in (array.min(), array.max()))
        room = 0.04 * (high - low) or 0.4
        return [low - room, high + room]
    low, high = min(float(array.min()), 0.0), max(float(array.max()), 0.0)
    room = 0.05 * (high - low) or 0.05
    touches = low < 0 or float(array.min()) < room / 2  # a mark on the axis would be cut in half
    return [low - room if touches else 0.0, high + room]


# ---- lines and marks


def line_looks(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """For ``add_line``: the look of each line with markers. Lines of one colour differ in dash and symbol."""
    looks: dict[str, dict[str, Any]] = {}
    for i, (name, ink) in enumerate(zip(names := list(names), concepts.colours(names), strict=True)):
        alike = sum(look["colour"] == ink for look in looks.values())
        looks[name] = {"colour": ink, "symbol": SYMBOLS[i % len(SYMBOLS)], "dash": theme.dash(alike)}
    return looks


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
    """A line through x [P] and y [P], with a marker at each point if it has a ``symbol``; ``more`` is plotly's."""
    line = {"color": colour, "width": width} | ({"dash": dash} if dash != "solid" else {})
    if shape != "linear":
        line["shape"] = shape
    if symbol:
        more["marker"] = {"symbol": symbol, "size": 8 if symbol.endswith("-open") else 6, "color": colour}
    mode = "lines+markers" if symbol else "lines"
    figure.add_scatter(x=compact(np.asarray(x)), y=compact(np.asarray(y)), name=name, mode=mode, line=line, **more)


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
    marker: dict[str, Any] = {"symbol": symbol, "size": size, "color": colour}
    if symbol.endswith("-open"):
        marker["line"] = {"width": 1.6}
    look = {"showlegend": False} | more
    figure.add_trace(kind(x=x, y=compact(places), mode="markers", marker=marker, **look), row=row, col=col)


def add_level(
    figure: go.Figure,
    name: str,
    height: float,
    curves: Sequence[tuple[np.ndarray, np.ndarray]],
    x_ends: Sequence[float],
    y_ends: Sequence[float],
    *,
    plot: float,
    log: str = "",
) -> None:
    """A dashed line across the whole plot, with its name at an end of it, where it hides least of the curves.

    Args:
        curves: x and y of each.
        x_ends, y_ends: ends of the axes: exponents of ten on a logarithmic one.
        plot: height of the plot in pixels.
        log: which axes are logarithmic.
    """
    figure.add_hline(y=height, line=RULER)
    across = [(_scaled(x, x_ends, "x" in log), _scaled(y, y_ends, "y" in log)) for x, y in curves]
    level, wide = float(_scaled(np.array([height]), y_ends, "y" in log)[0]), _LETTER * len(name) / _NARROW
    tall = (_LABEL_ROW + 5) / plot
    places = [(x, y) for x in ("right", "left") for y in ("bottom", "top")]  # the first is usual

    def hidden(place: tuple[str, str]) -> float:
        left, right = (1 - wide, 1.0) if place[0] == "right" else (0.0, wide)
        low, high = (0.0, tall) if place[1] == "bottom" else (-tall, 0.0)
        if level + low < 0:
            return math.inf  # among the numbers of the x axis; above the plot there is room
        points = 0
        for x, y in across:
            if (np.diff(x) >= 0).all() and len(x):  # a line, not marks or a curve that comes back
                u = np.linspace(left, right, 50)
                x, y = u, np.interp(u, x, y, left=math.nan, right=math.nan)
            points += int(((x >= left) & (x <= right) & (y > level + low) & (y < level + high)).sum())
        return points

    side, edge = min(places, key=hidden)
    at = {"x": 1 if side == "right" else 0, "xref": "paper", "xanchor": side}
    at |= {"yanchor": edge, "yshift": 5 if edge == "bottom" else -5}
    figure.add_annotation(text=name, y=_note_at(height, "y" in log), **at, **NOTE)


def _scaled(values: np.ndarray, ends: Sequence[float], log: bool) -> np.ndarray:
    """Where ``values`` are between the ends of their axis, 0 to 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.log10(values) if log else np.asarray(values, dtype=float)
    return (values - ends[0]) / ((ends[1] - ends[0]) or 1.0)


def add_mark(figure: go.Figure, name: str, place: float, values: Any, *, log: bool = False) -> None:
    """A dashed line from bottom to top, its name above; ``values`` are the axis's, to keep the name on the page."""
    figure.add_vline(x=place, line=RULER)
    low, high, at = (_note_at(float(value), log) for value in (np.min(values), np.max(values), place))
    share = (at - low) / (high - low) if high > low else 0.5
    anchor = "left" if share < 1 / 3 else "right" if share > 2 / 3 else "center"
    above = {"y": 1, "yref": "paper", "yanchor": "bottom", "yshift": 2}
    figure.add_annotation(text=name, x=at, xanchor=anchor, **above, **NOTE)


def label_lines(
    figure: go.Figure,
    ends: Mapping[str, tuple[float, float, str]],
    x_ends: Sequence[float],
    y_ends: Sequence[float],
    *,
    plot: float,
    log: str = "",
    axis: str = "",
    alone: Container[str] = (),
) -> bool:
    """Names beside the ends of their lines, in place of a legend. False, and nothing is drawn, if they have no room.

    Args:
        ends: name to x and y of the last point, and the colour of the line.
        x_ends, y_ends: the ranges of the axes; exponents of ten where they are logarithmic.
        plot: height in pixels.
        log: which axes are logarithmic: "", "x", "y" or "xy".
        axis: number of the panel's axes as plotly counts them: "", "2", …
        alone: those that have room to the right of an end within the plot; the names of others stand above it.
    """
    texts = {name: textwrap.wrap(name, _LABEL_WIDTH) or [""] for name in ends}
    tall = {name: _LABEL_ROW * len(lines) for name, lines in texts.items()}
    if sum(tall.values()) > plot + _LABEL_ROW or not ends:
        return False
    low, high = y_ends
    scale = plot / ((high - low) or 1.0)
    heights = {name: _note_at(y, "y" in log) for name, (_, y, _) in ends.items()}
    wanted = {name: (min(max(at, low), high) - low) * scale for name, at in heights.items()}  # pixels from below
    centres: dict[str, float] = {}
    floor = -_LABEL_ROW / 2  # labels from below, each above the one before; then from above, where they have left
    for name in sorted(wanted, key=lambda name: wanted[name]):
        centres[name] = max(wanted[name], floor + tall[name] / 2)
        floor = centres[name] + tall[name] / 2
    roof = plot + _LABEL_ROW / 2
    for name in reversed(centres):
        centres[name] = min(centres[name], roof - tall[name] / 2)
        roof = centres[name] - tall[name] / 2
    across = (x_ends[1] - x_ends[0]) or 1.0
    shares = {name: (_note_at(x, "x" in log) - x_ends[0]) / across for name, (x, *_) in ends.items()}
    inside = sorted((name for name in ends if shares[name] < 0.85), key=lambda name: wanted[name])
    lifts: dict[str, float] = {}
    boxes: list[tuple[float, float, float, float]] = []
    for name in inside:  # above its own end, as other lines go on to the right of it
        wide = 26 + _LETTER * max(map(len, texts[name]))
        if name in alone and _NARROW * (1 - shares[name]) > wide:
            lifts[name] = 0.0
            continue
        left = _NARROW * shares[name] - (0 if shares[name] < 0.3 else wide / 2)
        bottom = wanted[name] + 7
        for x0, x1, y0, y1 in sorted(boxes, key=lambda box: box[2]):  # and above those that it would cover
            if left < x1 and left + wide > x0 and bottom < y1 and bottom + tall[name] > y0:
                bottom = y1
        if bottom + tall[name] > plot + 2 * _LABEL_ROW:  # in the title
            return False
        lifts[name] = bottom - wanted[name]
        boxes.append((left, left + wide, bottom, bottom + tall[name]))
    for name, (x, _, ink) in ends.items():
        text = "<br>".join(texts[name])
        if name in lifts:
            place = {"x": _note_at(x, "x" in log), "xref": f"x{axis}", "yshift": lifts[name], "yanchor": "bottom"}
            place["xanchor"] = "left" if shares[name] < 0.3 else "center"
            place |= {} if lifts[name] else {"xanchor": "left", "xshift": 8, "yanchor": "middle"}
        else:
            place = {"x": 1, "xref": f"x{axis} domain", "xshift": 8, "xanchor": "left"}
            place |= {"yshift": centres[name] - wanted[name], "yanchor": "middle"}
        place |= {"y": min(max(heights[name], low), high), "yref": f"y{axis}"}
        text = f'<span style="color:{ink}">●</span> {text}'
        figure.add_annotation(text=text, align="left", **place, **NOTE)
    width = 26 + _LETTER * max(len(line) for lines in texts.values() for line in lines)
    figure.update_layout(showlegend=False, margin_r=max(width, theme.MARGIN["r"]))
    return True


def _note_at(value: float, log: bool) -> float:
    """Plotly expects annotations on a logarithmic axis as exponents of ten, unlike shapes and traces."""
    return math.log10(value) if log else value


def tick_size(rows: int, pixels: float) -> float:
    """How tall a raster's tick is when ``rows`` neurons share ``pixels``."""
    return max(3.0, min(14.0, pixels / rows))


def frame(left: float, top: float, width: float, height: float, paper: str = "") -> dict[str, Any]:
    """The border of a picture whose first pixel is at (left, top), and its paper, for ``add_shape``."""
    box = {"x0": left - 0.5, "x1": left + width - 0.5, "y0": top - 0.5, "y1": top + height - 0.5}
    fill = {"fillcolor": paper, "layer": "below"} if paper else {}
    return {"type": "rect", "line": {"color": theme.AXIS, "width": 1}} | fill | box


# ---- the page


@checks.arguments
def panels(rows: int, cols: int, titles: Any = None, **layout: Any) -> go.Figure:
    """An empty figure of rows × cols panels, their titles as small as other text. ``layout``: for ``make_subplots``."""
    named = titles and list(titles)
    key = repr((rows, cols, named, sorted(layout.items())))
    if key not in _laid_out:
        figure = make_subplots(rows=rows, cols=cols, subplot_titles=named, **layout)
        _laid_out[key] = figure.update_annotations(font={"size": theme.FONT_SIZE, "color": theme.TEXT}, yshift=3)
        if len(_laid_out) > _MOST:
            del _laid_out[next(iter(_laid_out))]
    return go.Figure(_laid_out[key])


def finish(figure: go.Figure, title: str, x: Any = "", y: Any = "", **layout: Any) -> go.Figure:
    """The figure with its title, what all its axes share (a title, or a dict for ``update_xaxes``), and its layout."""
    figure.update_layout(title_text=title, **layout)
    if x:
        figure.update_xaxes({"title_text": x} if isinstance(x, str) else x)
    if y:
        figure.update_yaxes({"title_text": y} if isinstance(y, str) else y)
    return figure


def legend_below(figure: go.Figure, plot: float, names: Sequence[str], above: float = 0, **margin: float) -> None:
    """Put the legend under a plot of ``plot`` pixels; the page grows with the rows that ``names`` need.

    ``above``: pixels between title and plot, more than usual; ``margin``: others of the page.
    """
    columns = max(1, int(_LEGEND_WIDTH // (60 + _LETTER * max(map(len, names), default=0))))
    plot = max(plot, 40)  # plotly accepts no legend that is more than two plots below
    below = 72 + _LEGEND_ROW * -(-len(names) // columns)
    top = theme.MARGIN["t"] + above
    legend = theme.LEGEND_BELOW | {"y": -62 / plot}
    figure.update_layout(legend=legend, height=plot + top + below, margin={"t": top, "b": below} | margin)
