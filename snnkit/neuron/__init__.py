"""All neurons. Each is one equation, written as one step; engines run it over time."""

from typing import NoReturn

from snnkit import lazy
from snnkit.neuron import foreign
from snnkit.neuron.adaptive import ALIF, ALIFState, Izhikevich, IzhikevichState
from snnkit.neuron.around import OneToOne, Recurrent, RecurrentState, Refractory
from snnkit.neuron.base import MembraneState, Neuron, Value, named_neurons
from snnkit.neuron.cuba import LI, AdEx, AdExState, CubaLIF, SynapticState
from snnkit.neuron.integrate import IF, LIF, PLIF, QIF
from snnkit.neuron.leaky import (
    Alpha,
    AlphaState,
    Leaky,
    LeakyState,
    Readout,
    Synaptic,
    SynapticLeakyState,
    beta_of,
)

__all__ = [
    "ALIF",
    "IF",
    "LI",
    "LIF",
    "PLIF",
    "QIF",
    "ALIFState",
    "AdEx",
    "AdExState",
    "Alpha",
    "AlphaState",
    "CubaLIF",
    "Izhikevich",
    "IzhikevichState",
    "Leaky",
    "LeakyState",
    "MembraneState",
    "Neuron",
    "OneToOne",
    "Readout",
    "Recurrent",
    "RecurrentState",
    "Refractory",
    "Synaptic",
    "SynapticLeakyState",
    "SynapticState",
    "Value",
    "beta_of",
    "named_neurons",
]

_KINDS: tuple[type, ...] = (IF, LIF, PLIF, QIF, Leaky, Synaptic, Alpha, Readout, CubaLIF, LI, AdEx, ALIF, Izhikevich)
for _kind in (*_KINDS, Recurrent, OneToOne, Refractory):
    lazy.explains(foreign.REQUIRED, **foreign.hints(_kind))(_kind)

lazy.ELSEWHERE.update((f"{__name__}.{name}", sentence) for name, sentence in foreign.NAMES.items())


def __getattr__(name: str) -> NoReturn:
    raise lazy.missing(__name__, name)
