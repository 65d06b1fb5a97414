"""Ready-made explorers: ``viz.labs.neuron_lab()`` shows one.

Each is a module with a pure ``figure(**settings)``, its ``CONTROLS``, and the ``Lab`` that joins them. ``LABS`` holds
them all.
"""

from .encoder_explorer import encoder_lab as encoder_lab
from .engine_explorer import engine_race as engine_race
from .event_explorer import event_player as event_player
from .lab import Lab as Lab
from .memory_explorer import beside_measured as beside_measured
from .memory_explorer import memory_calculator as memory_calculator
from .neuron_explorer import neuron_lab as neuron_lab
from .stdp_explorer import stdp_lab as stdp_lab
from .surrogate_explorer import surrogate_lab as surrogate_lab

LABS = (neuron_lab, surrogate_lab, encoder_lab, memory_calculator, engine_race, event_player, stdp_lab)
