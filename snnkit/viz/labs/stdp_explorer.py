"""The STDP lab: move the spikes of two neurons, and the synapse between them changes."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import plotly.graph_objects as go
import torch

from snnkit.plasticity import PairSTDP

from .. import theme
from ..drawing import SPIKE, add_line, add_marks, times
from .lab import Lab, stacked

STEPS, DT = 100, 1e-3  # of a millisecond each
_LAST = STEPS - 1
_LAGS = np.concatenate([np.arange(-_LAST, 0), [-1e-9, 0, 1e-9], np.arange(1, STEPS)])  # ms; the window jumps at 0

CONTROLS: dict[str, Any] = {
    "pre_1": (0, _LAST),
    "pre_2": (0, _LAST),
    "post_1": (0, _LAST),
    "post_2": (0, _LAST),
    "a_plus": (0.0, 0.5, 0.01),
    "a_minus": (0.0, 0.5, 0.01),
    "tau_plus": (2.0, 60.0, 1.0),
    "tau_minus": (2.0, 60.0, 1.0),
    "bound": ["hard", "soft", "none"],
    "weight": (0.0, 1.0, 0.05),
}


def figure(
    pre_1: Annotated[int, "first presynaptic spike, in ms"] = 20,
    pre_2: Annotated[int, "second presynaptic spike, in ms"] = 60,
    post_1: Annotated[int, "first postsynaptic spike, in ms"] = 30,
    post_2: Annotated[int, "second postsynaptic spike, in ms"] = 55,
    a_plus: Annotated[float, "change by a pair without lag, post after pre"] = 0.2,
    a_minus: Annotated[float, "change by a pair without lag, pre after post"] = 0.21,
    tau_plus: Annotated[float, "time constant of the presynaptic trace, in ms"] = 20.0,
    tau_minus: Annotated[float, "time constant of the postsynaptic trace, in ms"] = 20.0,
    bound: Annotated[str, "hard: cut off at 0 and 1; soft: changes shrink towards 0 and 1"] = "hard",
    weight: Annotated[float, "weight at the start"] = 0.5,
) -> go.Figure:
    """Spikes and traces of both neurons, the weight over time, and all pairs on the STDP window."""
    limits = None if bound == "none" else bound
    rule = PairSTDP(a_plus, a_minus, tau_plus * 1e-3, tau_minus * 1e-3, dt=DT, bound=limits)
    before, after = sorted({pre_1, pre_2}), sorted({post_1, post_2})
    pre_trace, post_trace, weights = _course(rule, before, after, weight)
    axis = times(STEPS, DT)
    page = stacked([0.28, 0.28, 0.44], axis, ends=[-2, STEPS + 1], spacing=0.06)
    _neuron(page, 1, axis.at, "pre", before, pre_trace, {"colour": theme.BLUE})
    _neuron(page, 2, axis.at, "post", after, post_trace, {"colour": theme.VERMILION, "dash": "dash"})
    hover: dict[str, Any] = {"hovertemplate": "weight %{y:.4f} after %{x} ms<extra></extra>", "showlegend": False}
    add_line(page, axis.at, weights, "weight", colour=theme.GREEN, shape="hv", row=3, col=1, **hover)
    ends = [min(0.0, float(weights.min())) - 0.06, max(1.0, float(weights.max())) + 0.06]
    page.update_yaxes(title_text="weight", range=ends, nticks=5, row=3, col=1)
    _window(page, rule, sorted({post - pre for pre in before for post in after}))
    share = "share of the room left" if bound == "soft" else "weight"
    page.update_yaxes(title_text=f"change by one pair ({share})", row=1, col=2)
    end = float(weights[-1])
    title = f"weight {weight:.3f} → {end:.3f}: Δw = {end - weight:+.3f}"
    return page.update_layout(title_text=title, height=470, margin={"t": 60})


def _course(rule: PairSTDP, before: list[int], after: list[int], weight: float) -> np.ndarray:
    """The presynaptic trace, the postsynaptic trace and the weight after each step, [3, STEPS]."""
    spikes = torch.zeros(2, STEPS, 1, 1, dtype=torch.float64)
    spikes[0, before], spikes[1, after] = 1.0, 1.0
    w, state = torch.full((1, 1), weight, dtype=torch.float64), None
    rows = []
    for pre, post in zip(*spikes, strict=True):
        w, state = rule.step(pre, post, w, state)
        rows.append([state.pre.item(), state.post.item(), w.item()])
    return np.array(rows).T


def _neuron(
    page: go.Figure, row: int, at: Any, side: str, spikes: list[int], trace: np.ndarray, look: dict[str, Any]
) -> None:
    """Its trace, and a mark for each spike."""
    place: dict[str, Any] = {"showlegend": False, "row": row, "col": 1}
    hover = f"{side} trace %{{y:.3g}} at %{{x}} ms<extra></extra>"
    add_line(page, at, trace, f"{side} trace", hovertemplate=hover, **look, **place)
    top = 1.25 * float(trace.max())
    marks = {"symbol": SPIKE, "size": 11, "colour": look["colour"], "name": f"{side} spikes"}
    add_marks(page, spikes, top, hovertemplate=f"{side} spike at %{{x}} ms<extra></extra>", **marks, **place)
    page.update_yaxes(title_text=f"{side} trace", range=[0, 1.12 * top], nticks=4, row=row, col=1)


def _window(page: go.Figure, rule: PairSTDP, lags: list[int]) -> None:
    place: dict[str, Any] = {"hovertemplate": "lag %{x:.0f} ms<br>change %{y:.4f}<extra></extra>", "row": 1, "col": 2}
    curve = [rule.window(float(lag) * DT) for lag in _LAGS]
    add_line(page, _LAGS, curve, "window", colour=theme.PURPLE, showlegend=False, **place)
    changes = np.array([rule.window(lag * DT) for lag in lags])
    add_marks(page, lags, changes, symbol="diamond", size=11, colour=theme.GREEN, name="pairs", **place)
    page.update_xaxes(title_text="lag t_post − t_pre (ms)", range=[-STEPS, STEPS], row=1, col=2)
    page.update_yaxes(zeroline=True, zerolinecolor=theme.AXIS, row=1, col=2)


stdp_lab = Lab("stdp_lab", figure, CONTROLS)
