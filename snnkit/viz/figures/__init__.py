"""Every figure of the kit in one namespace: ``viz.figures.raster(spikes)``. Each returns a plotly Figure.

Arrays are tensors, NumPy arrays or nested lists. An argument of another kind, shape or range is refused by name, with
a TypeError or a ValueError.
"""

from snnkit import lazy

from ..drawing import panels as panels
from .activity import gallery as gallery
from .activity import raster as raster
from .activity import rate_histogram as rate_histogram
from .activity import traces as traces
from .bars import shares as shares
from .bars import spans as spans
from .bars import supersteps as supersteps
from .benchmarks import comparison as comparison
from .benchmarks import device_rates as device_rates
from .benchmarks import framework_ratios as framework_ratios
from .benchmarks import per_neuron_step as per_neuron_step
from .benchmarks import races as races
from .benchmarks import training_rates as training_rates
from .line_plots import lines as lines
from .line_plots import pareto as pareto
from .machines import Marked as Marked
from .machines import Run as Run
from .machines import marked as marked
from .machines import roofline as roofline
from .machines import scaling_efficiency as scaling_efficiency
from .number_formats import spacing as spacing
from .pictures import coded_image as coded_image
from .pictures import compared_spikes as compared_spikes
from .pictures import confusion as confusion
from .pictures import event_cloud as event_cloud
from .pictures import image_grid as image_grid

__getattr__, __dir__, __all__ = lazy.attach(__name__)
