"""Every figure of the kit in one namespace: ``viz.figures.raster(spikes)``. Each returns a plotly Figure.

Arrays are tensors, NumPy arrays or nested lists. An argument of another kind, shape or range is refused by name, with
a TypeError or a ValueError.
"""

from snnkit import lazy
from snnkit.lab.viz.drawing import panels as panels
from snnkit.lab.viz.figures.activity import (
    gallery as gallery,
    raster as raster,
    rate_histogram as rate_histogram,
    recording as recording,
    traces as traces,
)
from snnkit.lab.viz.figures.bars import shares as shares, spans as spans, supersteps as supersteps
from snnkit.lab.viz.figures.benchmarks import (
    break_even as break_even,
    comparison as comparison,
    device_rates as device_rates,
    framework_ratios as framework_ratios,
    per_neuron_step as per_neuron_step,
    races as races,
    training_rates as training_rates,
)
from snnkit.lab.viz.figures.line_plots import accuracy_over_time as accuracy_over_time, lines as lines, pareto as pareto
from snnkit.lab.viz.figures.machines import (
    Marked as Marked,
    Run as Run,
    marked as marked,
    roofline as roofline,
    scaling_efficiency as scaling_efficiency,
)
from snnkit.lab.viz.figures.number_formats import spacing as spacing
from snnkit.lab.viz.figures.pictures import (
    coded_image as coded_image,
    compared_spikes as compared_spikes,
    confusion as confusion,
    event_cloud as event_cloud,
    image_grid as image_grid,
)

__getattr__, __dir__, __all__ = lazy.attach(__name__)
