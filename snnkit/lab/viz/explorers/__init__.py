"""Ready-made explorers: ``viz.explorers.neuron()`` in the last line of a cell shows one.

Those of ``in_page`` compute in the page; those of ``measured`` need the kernel, because they measure its machine.
"""

from snnkit import lazy
from snnkit.lab.viz.explorers.in_page import (
    conv_costs as conv_costs,
    crossing as crossing,
    decision as decision,
    encoder as encoder,
    event_player as event_player,
    feature_maps as feature_maps,
    gradient_scales as gradient_scales,
    memory_calculator as memory_calculator,
    neuron as neuron,
    number_lines as number_lines,
    population as population,
    stdp as stdp,
    surrogate as surrogate,
    under_the_roof as under_the_roof,
)
from snnkit.lab.viz.explorers.measured import beside_measured as beside_measured, engine_race as engine_race

__getattr__, __dir__, __all__ = lazy.attach(__name__)
