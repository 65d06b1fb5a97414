"""The STDP lab: move the spikes of two neurons, and the synapse between them changes."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import plotly.graph_objects as go
import torch

from snnkit.plasticity import PairSTDP

from .. import theme
from ..drawing import SPIKE, add_line, add_marks, times
from ..figures import panels
from .lab import Lab

STEPS, DT = 100, 1e-3  # of a millisecond each
_LAST = STEPS - 1
_LAGS = np.concatenate([np.arange(-_LAST, 0), [-1e-9, 0, 1e-9], np.arange(1, STEPS)])  # ms; the window jumps at 0
_TOP = 1.25  # how far above the highest trace the lines of the spikes reach

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
    before, after = {"pre_1": pre_1, "pre_2": pre_2}, {"post_1": post_1, "post_2": post_2}
    traces, weights = _course(rule, sorted({*before.values()}), sorted({*after.values()}), weight)
    page = panels(
        3, 2, specs=[[{}, {"rowspan": 3}], [{}, None], [{}, None]], row_heights=[0.28, 0.28, 0.44],
        column_widths=[0.6, 0.4], vertical_spacing=0.06, horizontal_spacing=0.14,
    )  # fmt: skip
    _neuron(page, 1, "pre", before, traces[0], theme.BLUE, "solid")
    _neuron(page, 2, "post", after, traces[1], theme.VERMILION, "dash")
    _weight(page, weights, bound != "none")
    _window(page, rule, sorted({post - pre for pre in before.values() for post in after.values()}))
    _dress(page, weight, float(weights[-1]), soft=bound == "soft")
    return page


def _course(rule: PairSTDP, before: list[int], after: list[int], weight: float) -> tuple[np.ndarray, np.ndarray]:
    """The pre- and postsynaptic trace [2, STEPS] and the weight after each step [STEPS]."""
    spikes = torch.zeros(2, STEPS, 1, 1, dtype=torch.float64)
    spikes[0, before], spikes[1, after] = 1.0, 1.0
    w, state = torch.full((1, 1), weight, dtype=torch.float64), None
    rows = []
    for pre, post in zip(*spikes, strict=True):
        w, state = rule.step(pre, post, w, state)
        rows.append([state.pre.item(), state.post.item(), w.item()])
    pre_trace, post_trace, weights = np.array(rows).T
    return np.stack([pre_trace, post_trace]), weights


def _neuron(
    page: go.Figure, row: int, side: str, spikes: dict[str, int], trace: np.ndarray, colour: str, dash: str
) -> None:
    """Its trace, and for each spike a mark on a line, which is named like its control."""
    place: dict[str, Any] = {"row": row, "col": 1}
    hover = f"{side} trace %{{y:.3g}} at %{{x}} ms<extra></extra>"
    look = {"colour": colour, "dash": dash, "showlegend": False}
    add_line(page, times(STEPS, DT).at, trace, f"{side} trace", hovertemplate=hover, **look, **place)
    top = _TOP * float(trace.max())
    when = sorted({*spikes.values()})
    hover = f"{side} spike at %{{x}} ms<extra></extra>"
    look = {"symbol": SPIKE, "size": 11, "colour": colour, "name": f"{side} spikes", "hovertemplate": hover}
    add_marks(page, when, top, **look, **place)
    for name, at in spikes.items():
        page.add_shape(type="line", name=name, x0=at, x1=at, y0=0, y1=top, line={"color": colour, "width": 3}, **place)
    page.update_yaxes(title={"text": f"{side} trace"}, range=[0, 1.12 * top], nticks=4, **place)


def _weight(page: go.Figure, weights: np.ndarray, bounded: bool) -> None:
    at = times(STEPS, DT).at
    place: dict[str, Any] = {"row": 3, "col": 1, "showlegend": False}
    for name, level in (("w_max", 1.0), ("w_min", 0.0)):
        y = np.full(2, level if bounded else np.nan)
        look = {
            "colour": theme.TEXT,
            "dash": "dot",
            "width": 1.5,
            "hovertemplate": f"{name} = {level:g}<extra></extra>",
        }
        add_line(page, at[[0, -1]], y, name, **look, **place)
    hover = "weight %{y:.4f} after %{x} ms<extra></extra>"
    add_line(page, at, weights, "weight", colour=theme.GREEN, shape="hv", hovertemplate=hover, **place)
    ends = [min(0.0, float(weights.min())) - 0.06, max(1.0, float(weights.max())) + 0.06]
    page.update_yaxes(title={"text": "weight"}, range=ends, nticks=5, row=3, col=1)


def _window(page: go.Figure, rule: PairSTDP, lags: list[int]) -> None:
    place: dict[str, Any] = {"row": 1, "col": 2}
    hover = "lag %{x:.0f} ms<br>change %{y:.4f}<extra></extra>"
    curve = [rule.window(float(lag) * DT) for lag in _LAGS]
    add_line(page, _LAGS, curve, "window", colour=theme.PURPLE, showlegend=False, hovertemplate=hover, **place)
    changes = [rule.window(lag * DT) for lag in lags]
    look = {"symbol": "diamond", "size": 11, "colour": theme.GREEN, "name": "pairs", "hovertemplate": hover}
    add_marks(page, lags, np.array(changes), **look, **place)
    page.update_xaxes(title={"text": "lag t_post − t_pre (ms)"}, range=[-STEPS, STEPS], **place)
    page.update_yaxes(zeroline=True, zerolinecolor=theme.AXIS, **place)


def _dress(page: go.Figure, start: float, end: float, *, soft: bool) -> None:
    steps = times(STEPS, DT)
    for row in (1, 2, 3):
        page.update_xaxes(range=[-2, STEPS + 1], matches="x", showticklabels=row == 3, row=row, col=1)
    page.update_xaxes(title={"text": steps.title}, row=3, col=1)
    what = "share of the room left" if soft else "weight"
    page.update_yaxes(title={"text": f"change by one pair ({what})"}, row=1, col=2)
    text = f"weight {start:.3f} → {end:.3f}: Δw = {end - start:+.3f}"
    page.update_layout(title={"text": text}, height=470, margin={"t": 60})


stdp_lab = Lab(
    "stdp_lab",
    "STDP lab",
    figure,
    CONTROLS,
    "Which order and which lag of the spikes on both sides make a synapse stronger, and which make it weaker?",
)
