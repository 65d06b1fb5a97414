"""Pictures: plotly figures with a PNG beside them, explorers with sliders, a live training panel.

    from snnkit.lab import viz

    viz.show(viz.figures.raster(spikes))
    viz.explore(lambda beta: viz.figures.traces(membrane(beta)), beta=(0.5, 0.99))
    viz.show(viz.frames(figure_at, "beta", [0.5, 0.7, 0.9]))       # its slider works without a kernel
    panel = viz.LivePanel(total_epochs=10)
    train.fit(net, digits, on_epoch=panel, on_batch=panel.on_batch)  # curves, time left, a button that stops it
    viz.explorers.neuron(my_neuron)                                   # a ready-made explorer, here of your own neuron
    viz.listen({"LIF": spikes})                                      # a click for every spike
    viz.module_tree(net, state)                                      # every tensor, and what .to() leaves behind

Importing this package makes the kit's theme plotly's default template for the running kernel.
"""

import plotly.io as pio

from snnkit import lazy
from snnkit.lab.viz import explorers as explorers, figures as figures, frontend as frontend, theme as theme
from snnkit.lab.viz.architecture import layer_costs as layer_costs, module_tree as module_tree
from snnkit.lab.viz.display import show as show
from snnkit.lab.viz.embedded import embed as embed, landscape as landscape, listen as listen
from snnkit.lab.viz.explorer import explore as explore
from snnkit.lab.viz.frame_slider import frames as frames
from snnkit.lab.viz.listings import (
    generated as generated,
    inductor as inductor,
    listing as listing,
    sbatch_form as sbatch_form,
    sbatch_table as sbatch_table,
)
from snnkit.lab.viz.live import LivePanel as LivePanel
from snnkit.lab.viz.png import png_bytes as png_bytes

pio.templates.default = theme.NAME

__getattr__, __dir__, __all__ = lazy.attach(
    __name__, "explorers", "figures", "frontend", "theme", "live.lightning:NotebookPanel"
)
