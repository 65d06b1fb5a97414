"""Ready-made explorers: ``viz.labs.neuron_lab()`` shows one, ``viz.labs.neuron_lab(kind="ALIF")`` with another start.

Each is a module with a pure ``figure(**settings)``, its ``CONTROLS``, and the ``LAB`` that joins them. ``LABS`` holds
them all, for tests and for ``snnkit bench explorers``.
"""

from . import encoder, events, memory, neuron, race, stdp, surrogate
from .encoder import encoder_lab as encoder_lab
from .events import event_player as event_player
from .lab import Lab as Lab
from .measured_bill import beside_measured as beside_measured
from .memory import memory_calculator as memory_calculator
from .neuron import neuron_lab as neuron_lab
from .race import engine_race as engine_race
from .stdp import stdp_lab as stdp_lab
from .surrogate import surrogate_lab as surrogate_lab

LABS: tuple[Lab, ...] = (neuron.LAB, surrogate.LAB, encoder.LAB, memory.LAB, race.LAB, events.LAB, stdp.LAB)
