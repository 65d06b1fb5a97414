"""Ready-made explorers: ``viz.labs.neuron_lab()`` in the last line of a cell shows one.

Those of ``explorers`` compute in the page; those of ``measured`` need the kernel, because they measure its machine.
"""

from snnkit import lazy

from .explorers import conv_costs as conv_costs
from .explorers import crossing as crossing
from .explorers import decision_lab as decision_lab
from .explorers import encoder_lab as encoder_lab
from .explorers import event_player as event_player
from .explorers import feature_maps as feature_maps
from .explorers import gradient_scales as gradient_scales
from .explorers import memory_calculator as memory_calculator
from .explorers import neuron_lab as neuron_lab
from .explorers import number_lines as number_lines
from .explorers import population_lab as population_lab
from .explorers import stdp_lab as stdp_lab
from .explorers import surrogate_lab as surrogate_lab
from .explorers import under_the_roof as under_the_roof
from .measured import beside_measured as beside_measured
from .measured import engine_race as engine_race

__getattr__, __dir__, __all__ = lazy.attach(__name__)
