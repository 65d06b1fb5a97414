"""Tools for instructors: schedules and facilitator pages that fit the notebooks, and a verdict on every machine."""

from snnkit import lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__)
