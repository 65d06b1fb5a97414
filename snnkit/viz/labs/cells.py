"""The neurons of the catalogue on one bench: the same knobs for all, each translated to the neuron's own numbers.

``current`` is the level at which a leaky membrane would settle if it had no threshold. Each neuron gets it in its own
scale (``Cell.scale``), so that one slider fits them all, and a figure can say which ``x`` it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from snnkit import neuron

DT = 1e-3  # seconds per step of the neurons that count in seconds: one step is a millisecond
_SYNAPSE = 200.0  # 1/s, the default of CubaLIF and LI
_ADAPTATION = 0.2  # what a spike adds to the threshold of ALIF: enough to see
_IZHIKEVICH_GAIN = 10.0  # from current to x; this one needs about 4 to fire
_INHIBITION = -1.0  # what all other neurons of a recurrent layer together take from the next input


class Knobs(NamedTuple):
    """What can be turned at every neuron.

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
    """What neurons did.

    Attributes:
        out: spikes, or what a readout gives [T, ...].
        v: membrane potential after each step [T, ...].
        states: the whole state after each step, T of them.
    """

    out: Tensor
    v: Tensor
    states: list[Any]


@dataclass(frozen=True)
class Cell:
    """One kind of neuron and what the knobs are to it.

    Attributes:
        kind: its class.
        numbers: from the knobs to the arguments of the class.
        scale: from current to x, given tau.
        threshold: what each step of a run was compared with, a number or [T, ...]; None: it has no threshold.
        tau: what ``tau`` is to it, where it isn't the time constant of its membrane.
        deaf: knobs that change nothing.
        unit: of its membrane potential; "" where it has none.
        recurrent: whether the neurons hear each other.
    """

    kind: Callable[..., neuron.Neuron]
    numbers: Callable[[Knobs], dict[str, Any]]
    scale: Callable[[float], float]
    threshold: Callable[[Run, Knobs], Tensor | float | None] = lambda run, knobs: knobs.threshold
    tau: str = ""
    deaf: tuple[str, ...] = ()
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
        """What a reader should know of the knobs."""
        deaf = [f"{' and '.join(self.deaf)} {'do' if len(self.deaf) > 1 else 'does'} nothing here"] if self.deaf else []
        return ([f"tau: {self.tau}"] if self.tau else []) + deaf


def run(module: nn.Module, x: Tensor) -> Run:
    """``module`` step by step over x [T, B, N], without gradients, keeping every state."""
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
    """At rest, and what the spikes before each step have added."""
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
        neuron.CubaLIF, lambda k: _synaptic(k) | {"v_th": k.threshold}, lambda tau: _SYNAPSE * DT, deaf=("reset",)
    ),
    "Izhikevich": Cell(
        neuron.Izhikevich,
        lambda k: {"a": 1 / k.tau},
        lambda tau: _IZHIKEVICH_GAIN,
        threshold=lambda run, knobs: neuron.Izhikevich.v_peak,
        tau="that of recovery, 1/a in ms",
        deaf=("threshold", "reset"),
        unit="mV",
    ),
    "Recurrent": Cell(neuron.LIF, lambda k: {"tau": k.tau} | _integrator(k), lambda tau: 1.0, recurrent=True),
    "LI": Cell(
        neuron.LI, _synaptic, lambda tau: _SYNAPSE * DT, threshold=lambda run, knobs: None, deaf=("threshold", "reset")
    ),
}
