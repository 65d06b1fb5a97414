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
from torch import Tensor, nn

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
_IZHIKEVICH_GAIN = 10.0  # from current to x; this one needs about 4 to fire
_INHIBITION = -1.0  # of all other neurons of a recurrent layer together, on the next input


class Knobs(NamedTuple):
    """Settings that all kinds of neurons share.

    Attributes:
        tau: time constant in steps, above 1.
        threshold: above 0.
        reset: "hard" (back to 0) or "soft" (down by the threshold).
    """

    tau: float
    threshold: float
    reset: str

    @property
    def v_reset(self) -> float | None:
        return 0.0 if self.reset == "hard" else None

    @property
    def beta(self) -> float:
        """Decay per step, exp(-1 / tau)."""
        return neuron.beta_of(self.tau, 1.0)


class Run(NamedTuple):
    """A run of neurons.

    Attributes:
        out: spikes, or the output of a readout [T, ...].
        v: membrane potential after each step [T, ...].
        states: the whole state after each step, T of them.
    """

    out: Tensor
    v: Tensor
    states: list[Any]


@dataclass(frozen=True)
class Cell:
    """One kind of neuron, and how the knobs translate to its arguments.

    Attributes:
        kind: its class.
        numbers: from the knobs to the arguments of the class.
        scale: from current to x, given tau.
        threshold: that each step of a run was compared with, a number or [T, ...]; None: it has none.
        tau: the meaning of ``tau``, where it isn't the time constant of the membrane.
        unused: knobs without effect.
        unit: of its membrane potential; "" where it has none.
        recurrent: whether the neurons are connected to each other.
    """

    kind: Callable[..., neuron.Neuron]
    numbers: Callable[[Knobs], dict[str, Any]]
    scale: Callable[[float], float]
    threshold: Callable[[Run, Knobs], Tensor | float | None] = lambda run, knobs: knobs.threshold
    tau: str = ""
    unused: tuple[str, ...] = ()
    unit: str = ""
    recurrent: bool = False

    def module(self, knobs: Knobs, neurons: int) -> nn.Module:
        """A layer of so many, called or stepped on [B, neurons]."""
        inner = self.kind(**self.numbers(knobs))
        if not self.recurrent:
            return inner
        layer = neuron.Recurrent(inner, neurons)
        with torch.no_grad():
            layer.weight.weight.copy_((1 - torch.eye(neurons)) * (_INHIBITION / max(neurons - 1, 1)))
        return layer

    def code(self, knobs: Knobs) -> str:
        """The line of Python that makes one."""
        words = [f"{k}={f'{v:.4g}' if isinstance(v, float) else repr(v)}" for k, v in self.numbers(knobs).items()]
        made = f"{self.kind.__name__}({', '.join(words)})"  # type: ignore[attr-defined]
        return f"Recurrent({made}, …)" if self.recurrent else made

    def notes(self) -> list[str]:
        """On the knobs, for readers."""
        unused = (
            [f"{' and '.join(self.unused)} {'do' if len(self.unused) > 1 else 'does'} nothing here"]
            if self.unused
            else []
        )
        return ([f"tau: {self.tau}"] if self.tau else []) + unused


def run(module: nn.Module, x: Tensor) -> Run:
    """``module`` step by step over x [T, B, N], without gradients, recording every state."""
    out, states = [], []
    with torch.no_grad():
        if isinstance(module, neuron.Neuron):
            state: Any = module.initial_state(x[0])
            for x_t in x.unbind(0):
                spikes, state = module.step(x_t, state)
                out.append(spikes)
                states.append(state)
        else:  # Recurrent, whose step is a call with one step
            state = None
            for x_t in x.split(1):
                spikes, state = module(x_t, state)
                out.append(spikes[0])
                states.append(state.neuron)
    # The membrane is the first part of every state: v, or mem.
    return Run(torch.stack(out), torch.stack([state[0] for state in states]), states)


def _integrator(knobs: Knobs) -> dict[str, Any]:
    return {"v_threshold": knobs.threshold, "v_reset": knobs.v_reset}


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
    "IF": Cell(neuron.IF, _integrator, lambda tau: 1 / tau, tau="only divides the input, nothing leaks"),
    "PLIF": Cell(
        neuron.PLIF, lambda k: {"init_tau": k.tau} | _integrator(k), lambda tau: 1.0, tau="where learning begins"
    ),
    "Leaky": Cell(
        neuron.Leaky,
        lambda k: {
            "beta": k.beta,
            "threshold": k.threshold,
            "reset_mechanism": "zero" if k.reset == "hard" else "subtract",
        },
        _charge,
    ),
    "ALIF": Cell(
        neuron.ALIF, lambda k: {"tau": k.tau, "beta": _ADAPTATION} | _integrator(k), _charge, threshold=_adapted
    ),
    "CubaLIF": Cell(
        neuron.CubaLIF, lambda k: _synaptic(k) | {"v_th": k.threshold}, lambda tau: _SYNAPSE * DT, unused=("reset",)
    ),
    "Izhikevich": Cell(
        neuron.Izhikevich,
        lambda k: {"a": 1 / k.tau},
        lambda tau: _IZHIKEVICH_GAIN,
        threshold=lambda run, knobs: neuron.Izhikevich.v_peak,
        tau="that of recovery, 1/a in ms",
        unused=("threshold", "reset"),
        unit="mV",
    ),
    "Recurrent": Cell(neuron.LIF, lambda k: {"tau": k.tau} | _integrator(k), lambda tau: 1.0, recurrent=True),
    "LI": Cell(
        neuron.LI,
        _synaptic,
        lambda tau: _SYNAPSE * DT,
        threshold=lambda run, knobs: None,
        unused=("threshold", "reset"),
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
    ran = run(cell.module(knobs, NEURONS), cell.scale(tau) * drive)
    spiking = bool(getattr(cell.kind, "spiking", True))
    axis = times(STEPS, None)
    page = stacked([0.17, 0.5, 0.33], axis, ends=axis.ends, spacing=0.05)
    _input(page, axis.at, drive[:, 0, 0].numpy())
    _membrane(page, axis.at, Run(ran.out[:, 0, 0], ran.v[:, 0, 0], ran.states), cell, knobs, spiking)
    _raster(page, ran.out[:, 0].numpy() > 0 if spiking else np.zeros((STEPS, NEURONS)))
    # Of each row of the batch: its rate, or the final potential of a readout.
    response, unit = ran.v[-1].mean(1), "potential at the end"
    if spiking:
        response, unit = ran.out.mean((0, 2)), "spikes per step"
    _response_curve(page, current, response.numpy(), unit)
    value = float(response[0])
    text = f"{unit} {value:.3g}"
    if spiking:
        text = f"{value:.3f} {unit}, one in {1 / value:.1f}" if value else "silence"
    add_note(page, f"{cell.code(knobs)} with x = {cell.scale(tau) * current:.3g}<br>{'; '.join(cell.notes()) or ' '}")
    return page.update_layout(title_text=f"{kind}: {text}", height=470, margin={"t": 84})


@functools.lru_cache(maxsize=1)
def _draws() -> Tensor:
    """White noise [STEPS, 1 + currents, NEURONS], the same at every move of a slider."""
    return torch.randn(STEPS, 1 + len(CURRENTS), NEURONS, generator=torch.Generator().manual_seed(0))


def _input(page: go.Figure, at: np.ndarray, drive: np.ndarray) -> None:
    look = {"colour": theme.TEXT, "width": 1.4, "shape": "hv", "showlegend": False, "row": 1, "col": 1}
    add_line(page, at, drive, "current", hovertemplate="current %{y:.3g} at step %{x}<extra></extra>", **look)
    ends = [min(float(drive.min()), 0) - 0.1, 1.1 * max(float(drive.max()), 1)]
    page.update_yaxes(title_text="current", range=ends, nticks=3, row=1, col=1)


def _membrane(page: go.Figure, at: np.ndarray, ran: Run, cell: Cell, knobs: Knobs, spiking: bool) -> None:
    """Of neuron 0. A cell without a threshold or spikes gets empty traces, so that their number is always the same."""
    v, place = ran.v.numpy(), {"showlegend": False, "row": 2, "col": 1}
    hover = f"%{{y:.4g}} {cell.unit}".rstrip()
    potential = {"colour": theme.BLUE, "hovertemplate": f"potential {hover} after step %{{x}}<extra></extra>"}
    add_line(page, at, v, "potential", **potential, **place)
    limit = cell.threshold(ran, knobs)
    if isinstance(limit, Tensor):
        limit = limit[:, 0, 0].numpy()
    level = np.broadcast_to(np.nan if limit is None else limit, STEPS)
    dashed = {"colour": theme.TEXT, "dash": "dash", "width": 1.5}
    add_line(page, at, level, "threshold", hovertemplate=f"threshold {hover}<extra></extra>", **dashed, **place)
    highest, lowest = (float(end(np.append(v, level))) for end in (np.nanmax, np.nanmin))
    span = max(highest - lowest, 1e-6)
    fired = at[ran.out.numpy() > 0] if spiking else at[:0]
    look = {"symbol": SPIKE, "size": 7, "colour": theme.BLUE, "hovertemplate": "spike at step %{x}<extra></extra>"}
    add_marks(page, fired, highest + 0.1 * span, name="spike", **look, **place)
    title = f"potential{' (mV)' if cell.unit else ''}"
    page.update_yaxes(title_text=title, range=[lowest - 0.06 * span, highest + 0.2 * span], row=2, col=1)


def _raster(page: go.Figure, spikes: np.ndarray) -> None:
    steps, rows = np.nonzero(spikes)
    hover = "neuron %{y} at step %{x}<extra></extra>"
    look = {"symbol": TICK, "size": tick_size(NEURONS, 90), "colour": theme.GREEN, "hovertemplate": hover}
    add_marks(page, steps, rows, name="spikes", **look, row=3, col=1)
    page.update_yaxes(title_text="neuron", range=[-0.7, NEURONS - 0.3], nticks=4, row=3, col=1)


def _response_curve(page: go.Figure, current: float, response: np.ndarray, unit: str) -> None:
    hover = f"current %{{x:.3g}}<br>%{{y:.3g}} {unit}<extra></extra>"
    look = {"hovertemplate": hover, "showlegend": False, "row": 1, "col": 2}
    add_line(page, CURRENTS.numpy(), response[1:], unit, colour=theme.VERMILION, **look)
    add_marks(page, [current], response[:1], symbol="diamond", size=12, colour=theme.BLUE, name="now", **look)
    page.update_xaxes(title_text="current", range=[-0.08, 4.12], row=1, col=2)
    title = f"firing rate ({unit})" if unit.startswith("spikes") else unit
    page.update_yaxes(title_text=title, rangemode="tozero", row=1, col=2)


neuron_lab = Lab(
    "neuron_lab",
    "Neuron lab",
    figure,
    CONTROLS,
    "Every neuron of the catalogue under the same input: when does it fire, how regularly, and how fast?",
)
