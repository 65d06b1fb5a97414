"""Lines over a common axis: any named series, f-I curves, surrogate gradients, and the course of a training run."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from ... import checks
from .. import theme
from ..drawing import (
    SYMBOLS,
    add_level,
    add_line,
    add_mark,
    as_array,
    check_length,
    check_log,
    finish,
    panels,
    scale_of,
    whole_ticks,
)

_MARKED = 40  # up to so many points, each gets a marker
# Panels of the training figure: title, and the series of a history that belong there with their names.
_PANELS = (
    ("Loss", {"train_loss": "train", "test_loss": "test"}),
    ("Accuracy (%)", {"train_accuracy": "train", "test_accuracy": "test"}),
    ("Spikes per step", {"output_rate": "output", "rates": ""}),
)


def lines(
    series: Mapping[str, Any],
    *,
    x: Any = None,
    x_title: str = "",
    y_title: str = "",
    title: str = "",
    log: str = "",
    shape: str = "linear",
    faint: Sequence[str] = (),
    levels: Mapping[str, float] | None = None,
    marks: Mapping[str, float] | None = None,
) -> go.Figure:
    """One line for each entry of ``series``, with a marker at each point where there are at most 40.

    Args:
        series: name to y [P], or to a tuple of its own x [P] and y [P].
        x: [P], common to all that have none of their own; without it 1, 2, 3, …
        log: which axes are logarithmic: "", "x", "y" or "xy". On a logarithmic y axis zeros are left out.
        shape: "linear", or "hv" for values that hold until the next one.
        faint: names drawn as a broad pale line without markers (theory, a reference).
        levels: name to height of a dashed horizontal line, for example an expected value.
        marks: name to position of a dashed vertical line.
    """
    if not checks.mapping("series", series, "name to values [P]"):
        raise ValueError("series must hold at least one name and its values [P], but it is empty")
    check_log(log)
    checks.choice("shape", shape, ("linear", "hv"))
    faint = tuple(faint)
    figure, points = go.Figure(), {}
    index = itertools.count()
    for name, values in series.items():
        across, up = points[name] = _points(name, values, x)
        up = np.where(up > 0, up, math.nan) if "y" in log else up
        look: dict[str, Any] = {"colour": theme.PALE, "width": 9}
        if name not in faint:
            i = next(index)
            mark = {"symbol": SYMBOLS[i % len(SYMBOLS)]} if len(up) <= _MARKED else {"dash": theme.dash(i)}
            look = {"colour": theme.colour(i)} | mark
        hover = f"{name}<br>{x_title} %{{x:.4g}}<br>{y_title} %{{y:.4g}}<extra></extra>"
        add_line(figure, across, up, str(name), shape=shape, hovertemplate=hover, **look)
    every_x, every_y = (np.concatenate([pair[k] for pair in points.values()]) for k in (0, 1))
    for name, height in _rulers(levels, "levels", log="y" in log).items():
        add_level(figure, name, height, log="y" in log)
    for name, place in _rulers(marks, "marks", log="x" in log).items():
        add_mark(figure, name, place, every_x[every_x > 0] if "x" in log else every_x, log="x" in log)
    across_look = scale_of("x", log, every_x) or {"tickvals": whole_ticks(every_x)}
    up_look = scale_of("y", log, every_y) or {"rangemode": "tozero"}
    across_look, up_look = {"title_text": x_title} | across_look, {"title_text": y_title} | up_look
    return finish(figure, title, across_look, up_look, height=360, showlegend=len(series) > 1)


def _rulers(given: Any, argument: str, *, log: bool) -> dict[str, float]:
    """Name to place of dashed lines; on a logarithmic axis there is nothing at 0 and below."""
    places = checks.mapping(argument, {} if given is None else given, "name to number")
    above = 0 if log else None
    return {name: checks.number(f"{argument}[{name!r}]", at, above=above) for name, at in places.items()}


def _points(name: str, values: Any, x: Any) -> tuple[np.ndarray, np.ndarray]:
    """The coordinates of one line."""
    own = isinstance(values, tuple) and len(values) == 2 and all(np.ndim(v) for v in values)
    across, up = values if own else (x, values)
    up = as_array(up, f"series[{name!r}]", "[P]").astype(float)
    across = np.arange(1, len(up) + 1) if across is None else as_array(across, f"x of {name!r}", "[P]")
    check_length(up, f"series[{name!r}]", len(across), "values, one per x")
    return across, up


def f_i_curve(
    currents: Any,
    rates: Mapping[str, Any] | Any,
    unit: str = "spikes per step",
    faint: Sequence[str] = (),
    title: str = "f-I curve: firing rate against input",
) -> go.Figure:
    """Firing rate against a constant input current.

    Args:
        currents: [I].
        rates: [I], or a dict of name to [I] to compare several neurons.
        unit: of the rates.
        faint: names of rates drawn as a broad pale line (a formula to compare with).
    """
    several = rates if isinstance(rates, Mapping) else {"neuron": rates}
    y_title = f"firing rate ({unit})"
    return lines(several, x=currents, x_title="input current", y_title=y_title, faint=faint, title=title)


def surrogate_curves(surrogates: Sequence[Any] | Mapping[str, Any], limit: float = 2.0) -> go.Figure:
    """The step a spike makes forward, the smooth functions that replace it, and their derivatives.

    Args:
        surrogates: surrogates of ``snnkit.surrogate`` (anything with ``primitive(u)`` and ``derivative(u)``), or a
            dict of label to surrogate.
        limit: the curves run from -limit to limit.
    """
    import torch

    limit = checks.number("limit", limit, above=0)
    if not isinstance(surrogates, Mapping):
        surrogates = {repr(s): s for s in surrogates}
    if not surrogates:
        raise ValueError("surrogates must hold at least one surrogate, but it is empty")
    u = torch.linspace(-limit, limit, 201, dtype=torch.float64)
    titles = ("Forward: step and primitive", "Backward: derivative")
    figure = panels(1, 2, titles, horizontal_spacing=0.1)
    step = {"colour": theme.TEXT, "width": 1.5, "hoverinfo": "skip"}
    add_line(figure, [-limit, 0, 0, limit], [0, 0, 1, 1], "step", row=1, col=1, **step)
    for i, (label, surrogate) in enumerate(surrogates.items()):
        if not callable(getattr(surrogate, "derivative", None)):
            raise TypeError(f"surrogates[{label!r}] must have derivative(u), but it is {checks.shown(surrogate)}")
        curves = {2: surrogate.derivative(u)}
        with contextlib.suppress(TypeError, NotImplementedError, AttributeError):  # not every surrogate defines one
            curves[1] = surrogate.primitive(u)
        look: dict[str, Any] = {"colour": theme.colour(i), "dash": theme.dash(i), "legendgroup": label}
        look |= {"hovertemplate": f"{label}<br>u %{{x:.3g}}<br>%{{y:.4g}}<extra></extra>"}
        for col, curve in sorted(curves.items()):
            y = as_array(curve, label, "[points]")
            add_line(figure, u.numpy(), y, label, showlegend=col == 2, row=1, col=col, **look)
    for col, name in ((1, "spike"), (2, "slope")):
        figure.update_yaxes(title_text=name, row=1, col=col)
    below = {"legend": theme.LEGEND_BELOW, "margin": {"b": 96}}
    return finish(figure, "Surrogate gradients", "u = potential − threshold", height=400, **below)


def training_curves(history: Any, epochs: int | None = None, title: str = "Training") -> go.Figure:
    """Loss, accuracy and firing rate of each layer over the epochs.

    Args:
        history: the ``History`` that ``train.fit`` returns, or a dict of series with its names ("train_loss",
            "test_loss", "train_accuracy", "test_accuracy", "output_rate"): one number per epoch, accuracies in
            [0, 1]. A dict may also hold "rates": layer name to one firing rate per epoch. Missing and empty series
            are left out.
        epochs: how many epochs there will be; the axis then runs to the end from the start.
    """
    drawn = epoch_curves(history)
    if not drawn:
        known = ", ".join(key for _, keys in _PANELS for key in keys)
        raise ValueError(f"history must hold at least one series of {known} with at least one epoch, but it has none")
    epochs = 0 if epochs is None else checks.integer("epochs", epochs, at_least=1)
    figure = panels(1, len(drawn), list(drawn), horizontal_spacing=0.08)
    in_legend: set[str] = set()
    length = 0
    for col, (panel, series) in enumerate(drawn.items(), start=1):
        for name, y in series.items():
            length = max(length, len(y))
            index = ("train", "test").index(name) if name in ("train", "test") else 2 + list(series).index(name)
            look: dict[str, Any] = {"colour": theme.colour(index), "dash": theme.dash(index), "symbol": "circle"}
            look["legendgroup"] = name
            look |= {"hovertemplate": f"{name}<br>epoch %{{x}}<br>%{{y:.4g}}<extra></extra>"}
            look |= {"showlegend": name not in in_legend, "meta": f"{panel}: {name}"}
            add_line(figure, np.arange(1, len(y) + 1), y, name, row=1, col=col, **look)
            in_legend.add(name)
    end = max(epochs, length, 2)
    across = {"title_text": "epoch", "range": [0.8, end + 0.2], "tickvals": whole_ticks([1, end], 6)}
    below = {"legend": theme.LEGEND_BELOW, "margin": {"b": 96}}
    return finish(figure, title, across, {"rangemode": "tozero"}, height=360, **below)


def epoch_curves(history: Any) -> dict[str, dict[str, np.ndarray]]:
    """What ``training_curves`` draws: panel to the name of a line to a number per epoch, NaN where it is not known.

    A line's trace has "panel: name" as ``meta``.
    """
    curves: dict[str, dict[str, np.ndarray]] = {}
    for panel, keys in _PANELS:
        for key, name in keys.items():
            values = history.get(key) if isinstance(history, Mapping) else getattr(history, key, None)
            series = (values or {}) if key == "rates" else {name: () if values is None else values}
            for line, numbers in series.items():
                if len(numbers):
                    known = (math.nan if value is None else float(value) for value in numbers)
                    array = np.fromiter(known, float, count=len(numbers)) * (100 if "%" in panel else 1)
                    curves.setdefault(panel, {})[str(line)] = array
    return curves
