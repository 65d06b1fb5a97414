"""The neuron lab: one neuron of the catalogue, its response to an input, and its f-I curve.

All neurons have the same knobs, each translated to the neuron's own arguments. ``current`` is the level at which a
leaky membrane would settle without a threshold; each neuron gets it in its own scale (``Cell.scale``), so that one
slider fits them all, and the figure says which ``x`` it was.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
import torch
from torch import Tensor

from snnkit import neuron

from .. import theme
from ..drawing import SPIKE, TICK, add_line, add_marks, tick_size, times
from .lab import Lab, add_note, stacked

STEPS = 300
NEURONS = 20  # rows of the raster, and the average behind each point of the f-I curve
CURRENTS = torch.linspace(0, 4, 33)

DT = 1e-3  # seconds per step of the neurons that count in seconds: one step is a millisecond
_SYNAPSE = 200.0  # 1/s, the default of CubaLIF and LI
_ADAPTATION = 0.2  # added to the threshold of ALIF by a spike: enough to see


class Knobs(NamedTuple):
    """Settings that all kinds of neurons share: ``tau`` in steps, ``threshold``, ``reset`` ("hard" or "soft")."""

    tau: float
    threshold: float
    reset: str


class Run(NamedTuple):
    """Spikes (or a readout's output) [T, ...], membrane potential [T, ...] and the whole state after each of T steps.

    A neuron with an upstroke (``Izhikevich``) is shown at its peak in the step of a spike: the state is reset by then.
    """

    out: Tensor
    v: Tensor
    states: list[Any]


@dataclass(frozen=True)
class Cell:
    """One kind of neuron, and how the knobs translate to its arguments."""

    kind: Callable[..., neuron.Neuron]
    numbers: Callable[[Knobs], dict[str, Any]]
    scale: Callable[[float], float]  # from current to x, given tau
    # That each step of a run was compared with, a number or [T, ...]; None: it has none.
    threshold: Callable[[Run, Knobs], Tensor | float | None] = lambda run, knobs: knobs.threshold
    note: str = ""  # on knobs that mean something else, or nothing, here
    unit: str = ""  # of its membrane potential

    def module(self, knobs: Knobs) -> neuron.Neuron:
        return self.kind(**self.numbers(knobs))

    def code(self, knobs: Knobs) -> str:
        """The line of Python that makes one."""
        words = [f"{k}={f'{v:.4g}' if isinstance(v, float) else repr(v)}" for k, v in self.numbers(knobs).items()]
        return f"{self.kind.__name__}({', '.join(words)})"  # type: ignore[attr-defined]


def run(cell: neuron.Neuron, x: Tensor) -> Run:
    """``cell`` step by step over x [T, B, N], without gradients, recording every state."""
    out, states, state = [], [], cell.initial_state(x[0])
    with torch.no_grad():
        for x_t in x:
            spikes, state = cell.step(x_t, state)
            out.append(spikes)
            states.append(state)
    # The membrane is the first part of every state: v, or mem.
    fired, v = torch.stack(out), torch.stack([state[0] for state in states])
    if isinstance(cell, neuron.Izhikevich):
        v = torch.where(fired > 0, cell.v_peak, v)
    return Run(fired, v, states)


def _integrator(knobs: Knobs) -> dict[str, Any]:
    return {"v_threshold": knobs.threshold, "v_reset": 0.0 if knobs.reset == "hard" else None}


def _leaky(knobs: Knobs) -> dict[str, Any]:
    mechanism = "zero" if knobs.reset == "hard" else "subtract"
    return {"beta": neuron.beta_of(knobs.tau, 1.0), "threshold": knobs.threshold, "reset_mechanism": mechanism}


def _synaptic(knobs: Knobs) -> dict[str, Any]:
    return {"tau_mem_inv": 1 / (knobs.tau * DT)}


def _charge(tau: float) -> float:
    """x for a membrane that decays by exp(-1 / tau) per step and is to settle at 1."""
    return -math.expm1(-1 / tau)


def _adapted(run: Run, knobs: Knobs) -> Tensor:
    """The threshold at rest, plus the contribution of the spikes before each step."""
    a = torch.stack([state.a for state in run.states])
    return knobs.threshold + _ADAPTATION * torch.cat([torch.zeros_like(a[:1]), a[:-1]])


CELLS = {
    "LIF": Cell(neuron.LIF, lambda k: {"tau": k.tau} | _integrator(k), lambda tau: 1.0),
    "IF": Cell(neuron.IF, _integrator, lambda tau: 1 / tau, note="tau: only divides the input, nothing leaks"),
    "PLIF": Cell(
        neuron.PLIF,
        lambda k: {"init_tau": k.tau} | _integrator(k),
        lambda tau: 1.0,
        note="tau: where learning begins",
    ),
    "Leaky": Cell(neuron.Leaky, _leaky, _charge),
    "ALIF": Cell(
        neuron.ALIF, lambda k: {"tau": k.tau, "beta": _ADAPTATION} | _integrator(k), _charge, threshold=_adapted
    ),
    "CubaLIF": Cell(
        neuron.CubaLIF,
        lambda k: _synaptic(k) | {"v_th": k.threshold},
        lambda tau: _SYNAPSE * DT,
        note="reset does nothing here",
    ),
    "Izhikevich": Cell(
        neuron.Izhikevich,
        lambda k: {"a": 1 / k.tau},
        lambda tau: 10.0,  # it needs about 4 to fire
        threshold=lambda run, knobs: neuron.Izhikevich.v_peak,
        note="tau: that of recovery, 1/a in ms; threshold and reset do nothing here",
        unit="mV",
    ),
    "LI": Cell(
        neuron.LI,
        _synaptic,
        lambda tau: _SYNAPSE * DT,
        threshold=lambda run, knobs: None,
        note="threshold and reset do nothing here",
    ),
}


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

    All get the same current and independent noise. ``CELLS`` translates the knobs.
    """
    cell, knobs = CELLS[kind], Knobs(tau, threshold, reset)
    # One batch: the present current in row 0, those of the f-I curve in the others, and the same noise for all.
    currents = torch.cat([torch.tensor([current]), CURRENTS])
    drive = currents[:, None] + noise * _draws()
    ran = run(cell.module(knobs), cell.scale(tau) * drive)
    spiking = bool(getattr(cell.kind, "spiking", True))
    fired = ran.out[:, 0].numpy() > 0 if spiking else np.zeros((STEPS, NEURONS))
    axis = times(STEPS, None)
    page = stacked([0.17, 0.5, 0.33], axis, ends=axis.ends, spacing=0.05)
    _input(page, axis.at, drive[:, 0, 0].numpy())
    limit = cell.threshold(ran, knobs)
    level = limit[:, 0, 0].numpy() if isinstance(limit, Tensor) else math.nan if limit is None else limit
    _membrane(page, axis.at, ran.v[:, 0, 0].numpy(), np.broadcast_to(level, STEPS), axis.at[fired[:, 0] > 0], cell.unit)
    steps, rows = np.nonzero(fired)
    look = {"symbol": TICK, "size": tick_size(NEURONS, 90), "colour": theme.GREEN, "name": "spikes"}
    add_marks(page, steps, rows, hovertemplate="neuron %{y} at step %{x}<extra></extra>", **look, row=3, col=1)
    page.update_yaxes(title_text="neuron", range=[-0.7, NEURONS - 0.3], nticks=4, row=3, col=1)
    # Of each row of the batch: its rate, or the final potential of a readout.
    response, unit = ran.v[-1].mean(1), "potential at the end"
    if spiking:
        response, unit = ran.out.mean((0, 2)), "spikes per step"
    _response_curve(page, current, response.numpy(), unit)
    text = _firing(fired) if spiking else f"{unit} {float(response[0]):.3g}"
    add_note(page, f"{cell.code(knobs)} with x = {cell.scale(tau) * current:.3g}<br>{cell.note or ' '}")
    return page.update_layout(title_text=f"{kind}: {text}", height=470, margin={"t": 84})


def _firing(fired: np.ndarray) -> str:
    """Spikes per neuron, and the mean interval from one spike to the next, which no edge of the window cuts."""
    if not fired.any():
        return "silence"
    intervals = np.concatenate([np.diff(np.flatnonzero(one)) for one in fired.T])
    apart = f", {intervals.mean():.1f} steps apart on average" if len(intervals) else ""
    each = fired.sum() / NEURONS
    return f"{each:.3g} spike{'s' if each != 1 else ''} in {STEPS} steps{apart}"


@functools.lru_cache(maxsize=1)
def _draws() -> Tensor:
    """White noise [STEPS, 1 + currents, NEURONS], the same at every move of a slider."""
    return torch.randn(STEPS, 1 + len(CURRENTS), NEURONS, generator=torch.Generator().manual_seed(0))


def _input(page: go.Figure, at: np.ndarray, drive: np.ndarray) -> None:
    look = {"colour": theme.TEXT, "width": 1.4, "shape": "hv", "showlegend": False, "row": 1, "col": 1}
    add_line(page, at, drive, "current", hovertemplate="current %{y:.3g} at step %{x}<extra></extra>", **look)
    ends = [min(float(drive.min()), 0) - 0.1, 1.1 * max(float(drive.max()), 1)]
    page.update_yaxes(title_text="current", range=ends, nticks=3, row=1, col=1)


def _membrane(page: go.Figure, at: np.ndarray, v: np.ndarray, level: np.ndarray, fired: np.ndarray, unit: str) -> None:
    """Of neuron 0. A cell without a threshold or spikes gets empty traces, so that their number is always the same."""
    place, hover = {"showlegend": False, "row": 2, "col": 1}, f"%{{y:.4g}} {unit} at step %{{x}}<extra></extra>"
    add_line(page, at, v, "potential", colour=theme.BLUE, hovertemplate=f"potential {hover}", **place)
    dashed = {"colour": theme.TEXT, "dash": "dash", "width": 1.5, "hovertemplate": f"threshold {hover}"}
    add_line(page, at, level, "threshold", **dashed, **place)
    highest, lowest = (float(end(np.append(v, level))) for end in (np.nanmax, np.nanmin))
    span = max(highest - lowest, 1e-6)
    look = {"symbol": SPIKE, "size": 7, "colour": theme.BLUE, "hovertemplate": "spike at step %{x}<extra></extra>"}
    add_marks(page, fired, highest + 0.1 * span, name="spike", **look, **place)
    ends = [lowest - 0.06 * span, highest + 0.2 * span]
    page.update_yaxes(title_text=f"potential{' (mV)' if unit else ''}", range=ends, row=2, col=1)


def _response_curve(page: go.Figure, current: float, response: np.ndarray, unit: str) -> None:
    hover = f"current %{{x:.3g}}<br>%{{y:.3g}} {unit}<extra></extra>"
    look = {"hovertemplate": hover, "showlegend": False, "row": 1, "col": 2}
    add_line(page, CURRENTS.numpy(), response[1:], unit, colour=theme.VERMILION, **look)
    add_marks(page, [current], response[:1], symbol="diamond", size=12, colour=theme.BLUE, name="now", **look)
    page.update_xaxes(title_text="current", range=[-0.08, 4.12], row=1, col=2)
    title = f"firing rate ({unit})" if unit.startswith("spikes") else unit
    page.update_yaxes(title_text=title, rangemode="tozero", row=1, col=2)


neuron_lab = Lab("neuron_lab", figure, CONTROLS)
