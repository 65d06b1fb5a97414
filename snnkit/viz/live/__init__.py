"""A panel that shows a training run and can stop it, in a notebook, a terminal or a file."""

from .panel import LivePanel as LivePanel
