"""All neurons. Each is one equation, written as one step; engines run it over time."""

from .adaptive import ALIF, ALIFState, Izhikevich, IzhikevichState
from .base import MembraneState, Neuron, Recurrent, RecurrentState, Value
from .cuba import LI, CubaLIF, SynapticState
from .integrate import IF, LIF, PLIF
from .leaky import Leaky, LeakyState, beta_of

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
