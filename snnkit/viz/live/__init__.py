"""A panel that shows a training run while it goes on, wherever it runs, and can stop it.

    panel = viz.LivePanel(epochs)
    train.fit(…, epochs=epochs, on_epoch=panel, on_batch=panel.on_batch)

``panel`` receives what happens and decides what to draw; one of ``renderers`` draws it. ``stop`` is why a button works
while the kernel is busy.
"""

from .panel import LivePanel as LivePanel
