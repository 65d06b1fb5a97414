"""The neuron lab: one neuron of the catalogue, what it does with an input, and its f-I curve."""

from __future__ import annotations

import functools
from typing import Annotated, Any

import numpy as np
import plotly.graph_objects as go
import torch
from torch import Tensor

from .. import theme
from ..axes import times
from ..panels import panels
from ..strokes import SPIKE, TICK, add_line, add_marks, tick_size
from .cells import CELLS, Cell, Knobs, Run, run
from .lab import Lab

STEPS = 300
NEURONS = 20  # rows of the raster, and the average behind each point of the f-I curve
CURRENTS = torch.linspace(0, 4, 33)

CONTROLS: dict[str, Any] = {
    "kind": list(CELLS),
    "current": (0.0, 4.0, 0.05),
    "tau": (2.0, 60.0, 1.0),
    "threshold": (0.2, 2.0, 0.1),
    "reset": ["hard", "soft"],
    "noise": (0.0, 3.0, 0.1),
}


def figure(
    kind: Annotated[str, "which neuron of the catalogue"] = "LIF",
    current: Annotated[float, "where a leaky membrane without threshold would settle"] = 1.5,
    tau: Annotated[float, "time constant of the membrane, in steps"] = 20.0,
    threshold: Annotated[float, "where it fires, on the scale of the current"] = 1.0,
    reset: Annotated[str, "after a spike: back to 0 (hard) or down by the threshold (soft)"] = "hard",
    noise: Annotated[float, "standard deviation of what each step adds to the current"] = 0.0,
) -> go.Figure:
    """Input and membrane of neuron 0 and the spikes of 20 of its kind; beside them their rate against the current.

    All get the same current, and each has noise of its own. What a knob is to a neuron says ``cells.CELLS``.
    """
    cell, knobs = CELLS[kind], Knobs(tau, threshold, reset)
    # One batch: the present current in row 0, those of the f-I curve in the others, and the same noise for all.
    currents = torch.cat([torch.tensor([current]), CURRENTS])
    drive = currents[:, None] + noise * _draws()
    ran = run(cell.module(knobs, NEURONS), cell.scale(tau) * drive)
    response, unit = _response(ran, cell)
    page = panels(
        3, 2, specs=[[{}, {"rowspan": 3}], [{}, None], [{}, None]], row_heights=[0.17, 0.5, 0.33],
        column_widths=[0.6, 0.4], vertical_spacing=0.05, horizontal_spacing=0.14,
    )  # fmt: skip
    _input(page, drive[:, 0, 0])
    _membrane(page, Run(ran.out[:, 0, 0], ran.v[:, 0, 0], ran.states), cell, knobs)
    _raster(page, ran.out[:, 0], _spikes(cell))
    _response_curve(page, current, response, unit)
    said = _said(float(response[0]), unit)
    line = f"{cell.code(knobs)} with x = {cell.scale(tau) * current:.3g}"
    _dress(page, f"{kind}: {said}", "<br>".join([line, "; ".join(cell.notes()) or " "]))
    return page


@functools.lru_cache(maxsize=1)
def _draws() -> Tensor:
    """White noise [STEPS, 1 + currents, NEURONS], the same at every move of a slider."""
    return torch.randn(STEPS, 1 + len(CURRENTS), NEURONS, generator=torch.Generator().manual_seed(0))


def _spikes(cell: Cell) -> bool:
    return bool(getattr(cell.kind, "spiking", True))


def _response(ran: Run, cell: Cell) -> tuple[Tensor, str]:
    """Of each row of the batch, [1 + currents]: its rate, or where the membrane of a readout has got to."""
    if _spikes(cell):
        return ran.out.mean((0, 2)), "spikes per step"
    return ran.v[-1].mean(1), "potential at the end"


def _said(value: float, unit: str) -> str:
    if unit != "spikes per step":
        return f"{unit} {value:.3g}"
    return f"{value:.3f} {unit}, one in {1 / value:.1f}" if value else "silence"


def _input(page: go.Figure, drive: Tensor) -> None:
    look = {"colour": theme.TEXT, "width": 1.4, "shape": "hv", "showlegend": False}
    hover = "current %{y:.3g} at step %{x}<extra></extra>"
    add_line(page, times(STEPS, None).at, drive.numpy(), "current", hovertemplate=hover, row=1, col=1, **look)
    low, high = float(drive.min()), float(drive.max())
    page.update_yaxes(title={"text": "current"}, range=[min(low, 0) - 0.1, 1.1 * max(high, 1)], nticks=3, row=1, col=1)


def _membrane(page: go.Figure, ran: Run, cell: Cell, knobs: Knobs) -> None:
    """Of neuron 0. A cell without a threshold or spikes gets empty traces, so that their number is always the same."""
    at, v = times(STEPS, None).at, ran.v.numpy()
    unit = f" {cell.unit}" if cell.unit else ""
    place: dict[str, Any] = {"row": 2, "col": 1}
    hover = f"potential %{{y:.4g}}{unit} after step %{{x}}<extra></extra>"
    add_line(page, at, v, "potential", colour=theme.BLUE, showlegend=False, hovertemplate=hover, **place)
    limit = cell.threshold(ran, knobs)
    if isinstance(limit, Tensor):
        limit = limit[:, 0, 0].numpy()
    level = np.broadcast_to(np.nan if limit is None else limit, STEPS)
    look = {"colour": theme.TEXT, "dash": "dash", "width": 1.5, "showlegend": False}
    add_line(page, at, level, "threshold", hovertemplate=f"threshold %{{y:.4g}}{unit}<extra></extra>", **look, **place)
    highest, lowest = (float(end(np.append(v, level))) for end in (np.nanmax, np.nanmin))
    span = max(highest - lowest, 1e-6)
    fired = at[ran.out.numpy() > 0] if _spikes(cell) else at[:0]
    look = {"symbol": SPIKE, "size": 7, "colour": theme.BLUE, "hovertemplate": "spike at step %{x}<extra></extra>"}
    add_marks(page, fired, highest + 0.1 * span, name="spike", **look, **place)
    ends = [lowest - 0.06 * span, highest + 0.2 * span]
    page.update_yaxes(title={"text": f"potential{' (mV)' if unit else ''}"}, range=ends, **place)


def _raster(page: go.Figure, out: Tensor, spiking: bool) -> None:
    when, who = np.nonzero(out.numpy() > 0) if spiking else (np.empty(0, int), np.empty(0, int))
    hover = "neuron %{y} at step %{x}<extra></extra>"
    look = {"symbol": TICK, "size": tick_size(NEURONS, 90), "colour": theme.GREEN, "hovertemplate": hover}
    add_marks(page, when, who, name="spikes", **look, row=3, col=1)
    page.update_yaxes(title={"text": "neuron"}, range=[-0.7, NEURONS - 0.3], nticks=4, row=3, col=1)


def _response_curve(page: go.Figure, current: float, response: Tensor, unit: str) -> None:
    hover = f"current %{{x:.3g}}<br>%{{y:.3g}} {unit}<extra></extra>"
    look = {"colour": theme.VERMILION, "hovertemplate": hover, "showlegend": False, "row": 1, "col": 2}
    add_line(page, CURRENTS.numpy(), response[1:].numpy(), unit, **look)
    look |= {"symbol": "diamond", "size": 12, "colour": theme.BLUE, "name": "now"}
    add_marks(page, [current], response[:1].numpy(), **look)
    page.update_xaxes(title={"text": "current"}, range=[-0.08, 4.12], row=1, col=2)
    title = f"firing rate ({unit})" if unit.startswith("spikes") else unit
    page.update_yaxes(title={"text": title}, rangemode="tozero", row=1, col=2)


def _dress(page: go.Figure, title: str, below: str) -> None:
    steps = times(STEPS, None)
    for row in (1, 2, 3):
        page.update_xaxes(range=steps.ends, matches="x", showticklabels=row == 3, row=row, col=1)
    page.update_xaxes(title={"text": steps.title}, row=3, col=1)
    page.update_layout(title={"text": title}, height=470, margin={"t": 84})
    place = {"x": 0, "xref": "paper", "xanchor": "left", "y": 1, "yref": "paper", "yanchor": "bottom", "yshift": 4}
    font = {"size": 12, "color": theme.TEXT}
    page.add_annotation(text=below, align="left", showarrow=False, font=font, **place)


LAB = Lab(
    "neuron_lab",
    "Neuron lab",
    figure,
    CONTROLS,
    "Every neuron of the catalogue under the same input: when does it fire, how regularly, and how fast?",
)


def neuron_lab(**start: Any) -> None:
    """Show the neuron lab: membrane, spikes and f-I curve of any neuron of the catalogue.

    Args:
        start: first values of ``kind``, ``current``, ``tau``, ``threshold``, ``reset`` or ``noise``.

    Raises:
        TypeError, ValueError: a setting that there is not, or a value that its control can't take.
    """
    LAB.show(**start)
