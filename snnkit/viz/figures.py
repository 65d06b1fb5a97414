"""Every figure of the kit in one namespace: ``viz.figures.raster(spikes)``. Each returns a plotly Figure."""

from .coding import coded_image as coded_image
from .coding import coded_signal as coded_signal
from .coding import compared_spikes as compared_spikes
from .coding import rate_against_brightness as rate_against_brightness
from .curves import f_i_curve as f_i_curve
from .curves import lines as lines
from .images import image_grid as image_grid
from .inference import inference as inference
from .learning import confusion as confusion
from .learning import training_curves as training_curves
from .membranes import gallery as gallery
from .membranes import membrane_and_raster as membrane_and_raster
from .membranes import traces as traces
from .panels import panels as panels
from .per_step import per_neuron_step as per_neuron_step
from .races import races as races
from .roofline import roofline as roofline
from .spikes import firing_rate as firing_rate
from .spikes import raster as raster
from .spikes import spike_counts as spike_counts
from .surrogates import surrogate_curves as surrogate_curves
