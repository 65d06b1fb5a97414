"""A panel that shows a training run while it goes on, wherever it runs, and can stop it."""

from .panel import LivePanel as LivePanel
