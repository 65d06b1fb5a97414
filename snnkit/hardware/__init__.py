"""Machines as numbers: their processors, the links between them, and the speed of training on many of them."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from snnkit import lazy

if _TYPE_CHECKING:
    from . import chips as chips
    from . import energy as energy
    from . import ipu as ipu
    from . import roofline as roofline
    from . import scaling as scaling

__getattr__, __dir__, __all__ = lazy.attach(__name__, "chips", "energy", "ipu", "roofline", "scaling")
