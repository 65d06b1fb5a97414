"""A panel that shows a training run and can stop it, in a notebook, a terminal or a file."""

from snnkit import lazy
from snnkit.lab.viz.live.panel import LivePanel as LivePanel

__getattr__, __dir__, __all__ = lazy.attach(__name__)
