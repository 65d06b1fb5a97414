"""The surrogate lab: shape and derivative of a surrogate, which membranes receive gradient, and how gradients decay.

The gradient is followed through a deep net of LIF neurons, back through its layers and back through time. All layers
fire at about the same rate, and their spikes do not depend on the surrogate: only the gradient changes with it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
import torch
from torch import Tensor

from snnkit import nn
from snnkit import surrogate as surrogates
from snnkit.neuron import LIF
from snnkit.surrogate import Surrogate

from .. import theme
from ..drawing import add_line, log_ticks, panels, whole_ticks
from .lab import Lab
from .neuron_explorer import run

DEEPEST, STEPS, BATCH = 16, 10, 16
_WIDTH, _RATE = 64, 0.3
_THRESHOLD = 1.0
_LIMIT, _POINTS, _BINS = 3.0, 301, 60
_TWICE = math.acosh(math.sqrt(2))

# Each shape: how to make it from its slope, and the distance at which its derivative has fallen to half its peak.
SHAPES: dict[str, tuple[Callable[[float], Surrogate], Callable[[float], float]]] = {
    "ATan": (surrogates.ATan, lambda slope: 2 / (math.pi * slope)),
    "Sigmoid": (surrogates.Sigmoid, lambda slope: 2 * _TWICE / slope),
    "Triangle": (surrogates.Triangle, lambda slope: 0.5 / slope),
    "FastSigmoid": (surrogates.FastSigmoid, lambda slope: (math.sqrt(2) - 1) / slope),
    "SuperSpike": (surrogates.SuperSpike, lambda slope: (math.sqrt(2) - 1) / slope),
    "StraightThrough": (lambda slope: surrogates.StraightThrough(), lambda slope: math.inf),
}

CONTROLS: dict[str, Any] = {
    "shape": list(SHAPES),
    "log2_slope": (-2.0, 7.0, 0.5),
    "depth": (2, DEEPEST),
    "detach_reset": True,
}


def figure(
    shape: Annotated[str, "which surrogate of the kit"] = "ATan",
    log2_slope: Annotated[float, "the surrogate's one number is 2 to this power"] = 1.0,
    depth: Annotated[int, "layers of the net; the loss is at the last"] = 8,
    detach_reset: Annotated[bool, "whether the reset is left out of the gradient"] = True,
) -> go.Figure:
    """A surrogate, its derivative among the membranes of a deep net, and the gradients it gives in that net."""
    make, half_width = SHAPES[shape]
    chosen, width = make(2.0**log2_slope), half_width(2.0**log2_slope)
    u = distances(depth)
    flow, usual = gradient_flow(chosen, depth, detach_reset), _usual(depth, detach_reset)
    first, last = flow.by_layer[0], flow.by_layer[-1]
    change = f"× {first / last:.2g}" if first and last else "no gradient"
    titles = ["forward", "backward; bars: membranes", f"back in depth: {change}", "back in time"]
    page = panels(2, 2, titles, vertical_spacing=0.2, horizontal_spacing=0.13)
    _shape(page, chosen, u)
    _gradients(page, "ATan(2.0)", usual, {"mode": "lines", "line": {"color": theme.PALE, "width": 7}})
    marked = {"mode": "lines+markers", "line": {"color": theme.VERMILION, "width": 2}, "marker": {"size": 6}}
    _gradients(page, shape, flow, marked)
    for col, norms in enumerate(zip(flow, usual, strict=True), start=1):
        ticks = log_ticks([norm for one in norms for norm in one])
        page.update_yaxes(type="log", exponentformat="power", tickvals=ticks, title="gradient norm", row=2, col=col)
    title = "StraightThrough passes gradient to all membranes alike"
    if math.isfinite(width):
        near = float((u.abs() < width).double().mean())
        title = f"{shape}({2.0**log2_slope:.3g}), half-width {width:.2g}: {100 * near:.2g} % of membranes within"
    below = theme.LEGEND_BELOW | {"y": -0.17}
    return page.update_layout(title={"text": title}, height=560, margin={"t": 76, "b": 92}, legend=below)


@functools.lru_cache(maxsize=2 * DEEPEST)
def _usual(depth: int, detach_reset: bool) -> Flow:
    """The default, to compare with."""
    return gradient_flow(surrogates.ATan(2.0), depth, detach_reset)


def _shape(page: go.Figure, chosen: Surrogate, distance: torch.Tensor) -> None:
    u = torch.linspace(-_LIMIT, _LIMIT, _POINTS, dtype=torch.float64)
    primitive, derivative = chosen.primitive(u).numpy(), chosen.derivative(u).numpy()
    look: dict[str, Any] = {"showlegend": False, "row": 1, "col": 1}
    step = {"colour": theme.TEXT, "width": 1.5, "hoverinfo": "skip"}
    add_line(page, [-_LIMIT, 0, 0, _LIMIT], [0, 0, 1, 1], "spike", **step, **look)
    hover: dict[str, Any] = {"hovertemplate": "u %{x:.3g}<br>%{y:.4g}<extra></extra>"}
    add_line(page, u.numpy(), primitive, "smooth", colour=theme.BLUE, dash="dash", **hover, **look)
    counts, edges = np.histogram(distance.numpy(), bins=_BINS, range=(-_LIMIT, _LIMIT))
    # Shares have no axis of their own: the tallest bar is as tall as the derivative.
    page.add_bar(
        x=(edges[:-1] + edges[1:]) / 2, y=derivative.max() * counts / counts.max(), width=edges[1] - edges[0],
        name="membranes", marker={"color": theme.faint(theme.TEXT, 0.3)}, customdata=counts / len(distance),
        hovertemplate="u about %{x:.2f}: %{customdata:.1%} of membranes", showlegend=False, row=1, col=2,
    )  # fmt: skip
    add_line(page, u.numpy(), derivative, "derivative", colour=theme.BLUE, **hover, showlegend=False, row=1, col=2)
    page.update_xaxes(title={"text": "u = potential − threshold"}, row=1)
    page.update_yaxes(title={"text": "spike"}, range=[-0.15, 1.15], row=1, col=1)
    page.update_yaxes(title={"text": "derivative"}, rangemode="tozero", row=1, col=2)


def _gradients(page: go.Figure, name: str, flow: Flow, look: dict[str, Any]) -> None:
    hover = f"{name}<br>%{{x}}: %{{y:.3g}}<extra></extra>"
    titles = "layer (the loss is at the last)", "time step (the loss is at 0)"
    places = np.arange(1, len(flow.by_layer) + 1), np.arange(1 - STEPS, 1)
    for col, (x, values, title) in enumerate(zip(places, flow, titles, strict=True), start=1):
        norms = np.array(values)
        norms[norms == 0] = math.nan  # a logarithmic axis has no place for them
        place: dict[str, Any] = {"row": 2, "col": col, "legendgroup": name, "showlegend": col == 1}
        # Not by add_line, which draws in float32: that can't hold what a narrow surrogate makes.
        page.add_scatter(x=x, y=norms, name=name, hovertemplate=hover, **look, **place)
        page.update_xaxes(title={"text": title}, tickvals=whole_ticks(x), row=2, col=col)


class Flow(NamedTuple):
    """Norms of the gradient of a loss of the last step's spikes: of each layer's weights, of the input at each step."""

    by_layer: list[float]
    by_step: list[float]


def gradient_flow(surrogate: Surrogate, depth: int, detach_reset: bool) -> Flow:
    """Through ``depth`` layers and 10 time steps."""
    weights, x, direction = ingredients()
    modules: list[torch.nn.Module] = []
    for weight in weights[:depth]:
        layer = torch.nn.Linear(_WIDTH, _WIDTH, bias=False, dtype=weight.dtype, device="meta")
        layer.weight = torch.nn.Parameter(weight)
        modules += [layer, _cell(surrogate, detach_reset)]
    x = x.clone().requires_grad_()
    with torch.enable_grad():
        out, _ = nn.Sequential(*modules)(x)
        loss = (out[-1] * direction).sum()
        *by_layer, of_x = torch.autograd.grad(loss, [layer.weight for layer in modules[::2]] + [x])  # type: ignore[misc]
    return Flow([float(g.norm()) for g in by_layer], of_x.flatten(1).norm(dim=1).tolist())


@functools.lru_cache(maxsize=DEEPEST)
def distances(depth: int) -> Tensor:
    """Distance of each membrane from its threshold when that is applied, all layers and steps [P]."""
    weights, x, _ = ingredients()
    parts = []
    for weight in weights[:depth]:
        ran = run(_cell(None, True), x @ weight.T)
        # The soft reset took the threshold from those that fired; here they get it back.
        parts.append(ran.v + _THRESHOLD * ran.out - _THRESHOLD)
        x = ran.out
    return torch.cat([one.flatten() for one in parts])


def _cell(surrogate: Surrogate | None, detach_reset: bool) -> LIF:
    options: dict[str, Any] = {} if surrogate is None else {"surrogate": surrogate}
    return LIF(2.0, _THRESHOLD, None, decay_input=False, detach_reset=detach_reset, **options)


@functools.lru_cache(maxsize=1)
def ingredients() -> tuple[list[Tensor], Tensor, Tensor]:
    """Weights of each layer [64, 64], the input's spikes [10, 16, 64], and the loss's direction [16, 64].

    In float64, as narrow surrogates make gradients that float32 can't hold.
    """
    g = torch.Generator().manual_seed(0)
    x = (torch.rand(STEPS, BATCH, _WIDTH, generator=g) < _RATE).double()
    direction = torch.randn(BATCH, _WIDTH, generator=g).double()
    # Gain and mean are chosen so that activity neither dies out nor grows from layer to layer.
    draws = [torch.randn(_WIDTH, _WIDTH, generator=g).double() for _ in range(DEEPEST)]
    return [2.5 / _WIDTH**0.5 * draw + 0.5 / _WIDTH for draw in draws], x, direction


surrogate_lab = Lab("surrogate_lab", figure, CONTROLS)
