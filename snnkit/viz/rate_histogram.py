"""How often neurons fire, with those apart that learn nothing: the silent ones and those that fire all the time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from . import theme
from .arguments import number, whole
from .arrays import as_array, axes, compact
from .axes import times, whole_ticks
from .panels import panels

_BARS = {"silent": 1, "active": 0, "saturated": 3}  # each kind's colour and pattern among the theme's bars
_PANEL = 170  # pixels


def rate_histogram(
    spikes: Any, dt: float | None = None, *, saturated: float = 0.9, bins: int = 20, title: str = "Firing rates"
) -> go.Figure:
    """How many neurons fire how often, a panel for each layer: silent, active, and saturated ones told apart.

    A neuron that never fires has no spikes to learn from, and one that fires in nearly every step says the same
    whatever comes in: both waste their place in the network.

    Args:
        spikes: [T, N], non-zero where a neuron spiked, or known rates in spikes per step, [N] in [0, 1]; or a dict of
            layer to either. (Of a batch [T, B, N] take ``spikes.flatten(0, 1)``.)
        dt: seconds per step: rates are then in Hz, else in spikes per step.
        saturated: share of the steps from which on a neuron counts as saturated, above 0 and at most 1.
        bins: between 0 and a spike in every step.

    Raises:
        TypeError: spikes holds no numbers.
        ValueError: spikes is of another shape, a known rate lies outside [0, 1], or a number is out of its range.
    """
    times(1, dt)  # refuses a dt that is not positive
    if not 0 < number(saturated, "saturated") <= 1:
        raise ValueError(f"saturated must be above 0 and at most 1, not {saturated!r}")
    bins = whole(bins, "bins")
    layers = _layers(spikes)
    unit, scale = ("Hz", 1 / dt) if dt else ("spikes per step", 1.0)
    names = list(layers)
    heads = [_head(name, rates, saturated, alone=len(names) == 1) for name, rates in layers.items()]
    figure = panels(len(names), 1, heads, shared_xaxes=True, vertical_spacing=0.34 / len(names))
    top = max(float(rates.max()) for rates in layers.values()) or 1.0
    edges = np.linspace(0.0, top, bins + 1)
    for row, rates in enumerate(layers.values(), start=1):
        highest = _bars(figure, rates, saturated, edges, unit, scale, row)
        up = {"range": [0, 1.18 * highest], "tickvals": whole_ticks([0, highest])}
        figure.update_yaxes(title={"text": "neurons"}, row=row, col=1, **up)
    figure.update_xaxes(range=[-2 * top / bins * scale, 1.03 * top * scale])
    figure.update_xaxes(title={"text": f"firing rate ({unit})"}, row=len(names), col=1)
    plot = _PANEL * len(names)
    margin, legend = {"t": 80, "b": 92}, theme.LEGEND_BELOW | {"y": -56 / plot}
    figure.update_layout(title={"text": title}, barmode="stack", height=plot + 172, legend=legend, margin=margin)
    return figure


def _layers(spikes: Any) -> dict[str, np.ndarray]:
    """Spikes per step of the neurons of each layer, [N]."""
    if not isinstance(spikes, Mapping):
        return {"neurons": _rates(spikes, "spikes")}
    if not spikes:
        raise ValueError("spikes must hold at least one layer")
    return {str(name): _rates(array, f"spikes[{name!r}]") for name, array in spikes.items()}


def _rates(spikes: Any, name: str) -> np.ndarray:
    if axes(spikes) != 1:
        return (as_array(spikes, name, "[T, N]") != 0).mean(axis=0)
    rates = as_array(spikes, name, "[N]").astype(float)
    if not ((rates >= 0) & (rates <= 1)).all():
        raise ValueError(
            f"{name} must hold rates in [0, 1] spikes per step, but reaches {rates.min()} to {rates.max()}"
        )
    return rates


def _head(name: str, rates: np.ndarray, saturated: float, *, alone: bool) -> str:
    silent, full = int((rates == 0).sum()), int(_full(rates, saturated).sum())
    told = f"{rates.size:,} neurons, {silent:,} silent, {full:,} saturated"
    return told if alone else f"{name}: {told}"


def _full(rates: np.ndarray, saturated: float) -> np.ndarray:
    """Which neurons are saturated, [N]; a share that float32 has rounded down is not less for it."""
    return rates >= saturated - 1e-6


def _bars(
    figure: go.Figure, rates: np.ndarray, saturated: float, edges: np.ndarray, unit: str, scale: float, row: int
) -> int:
    """The bars of one panel; the height of the highest. That of silent neurons stands apart, to the left of 0."""
    width = float(edges[1] - edges[0])
    silent, full = rates == 0, _full(rates, saturated)
    middles = (edges[:-1] + edges[1:]) / 2
    kinds = {
        "silent": (np.array([-width]), np.array([silent.sum()])),
        "active": (middles, np.histogram(rates[~silent & ~full], bins=edges)[0]),
        "saturated": (middles, np.histogram(rates[full], bins=edges)[0]),
    }
    for kind, (places, counts) in kinds.items():
        some = counts > 0  # a bar of height 0 has no label
        at = f"%{{x:.3g}} {unit}<br>" if kind != "silent" else ""
        told = [f"{count:,}" for count in counts[some]] if kind != "active" else None
        figure.add_bar(
            x=compact(places[some] * scale), y=compact(counts[some]), width=[0.92 * width * scale] * int(some.sum()),
            name=kind, legendgroup=kind, showlegend=row == 1, marker=theme.bar(_BARS[kind]), text=told,
            textposition="outside", hovertemplate=f"{at}%{{y}} {kind}<extra></extra>", row=row, col=1,
        )  # fmt: skip
    stacked = kinds["active"][1] + kinds["saturated"][1]
    return max(int(stacked.max()), int(silent.sum()))
