"""All neurons. Each is one equation, written as one step; engines run it over time."""

from snnkit.neuron.adaptive import ALIF, ALIFState, Izhikevich, IzhikevichState
from snnkit.neuron.base import MembraneState, Neuron, Recurrent, RecurrentState, Value
from snnkit.neuron.cuba import LI, CubaLIF, SynapticState
from snnkit.neuron.integrate import IF, LIF, PLIF
from snnkit.neuron.leaky import Leaky, LeakyState, beta_of

__all__ = [
    "ALIF",
    "IF",
    "LI",
    "LIF",
    "PLIF",
    "ALIFState",
    "CubaLIF",
    "Izhikevich",
    "IzhikevichState",
    "Leaky",
    "LeakyState",
    "MembraneState",
    "Neuron",
    "Recurrent",
    "RecurrentState",
    "SynapticState",
    "Value",
    "beta_of",
]
