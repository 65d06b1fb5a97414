"""Every figure of the kit in one namespace: ``viz.figures.raster(spikes)``. Each returns a plotly Figure."""

from .learning import confusion as confusion
from .learning import image_grid as image_grid
from .learning import spike_counts as spike_counts
from .learning import training_curves as training_curves
from .neurons import f_i_curve as f_i_curve
from .neurons import firing_rate as firing_rate
from .neurons import raster as raster
from .neurons import surrogate_curves as surrogate_curves
from .neurons import traces as traces
