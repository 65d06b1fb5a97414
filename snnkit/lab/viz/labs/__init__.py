"""Ready-made explorers: ``viz.labs.neuron_lab()`` in the last line of a cell shows one.

Those of ``explorers`` compute in the page; those of ``measured`` need the kernel, because they measure its machine.
"""

from snnkit import lazy
from snnkit.lab.viz.labs.explorers import (
    conv_costs as conv_costs,
    crossing as crossing,
    decision_lab as decision_lab,
    encoder_lab as encoder_lab,
    event_player as event_player,
    feature_maps as feature_maps,
    gradient_scales as gradient_scales,
    memory_calculator as memory_calculator,
    neuron_lab as neuron_lab,
    number_lines as number_lines,
    population_lab as population_lab,
    stdp_lab as stdp_lab,
    surrogate_lab as surrogate_lab,
    under_the_roof as under_the_roof,
)
from snnkit.lab.viz.labs.measured import beside_measured as beside_measured, engine_race as engine_race

__getattr__, __dir__, __all__ = lazy.attach(__name__)
