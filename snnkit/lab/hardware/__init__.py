"""Machines as numbers: their processors, the links between them, and the speed of training on many of them."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from snnkit import lazy

if _TYPE_CHECKING:
    from snnkit.lab.hardware import (
        chips as chips,
        energy as energy,
        ipu as ipu,
        roofline as roofline,
        scaling as scaling,
    )

__getattr__, __dir__, __all__ = lazy.attach(__name__, "chips", "energy", "ipu", "roofline", "scaling")
