"""What notebooks, workshops and the command line stand on: ``from snnkit.lab import course, viz``.

The library, which is the rest of ``snnkit``, never imports the lab.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from snnkit import lazy as _lazy

if _TYPE_CHECKING:
    from snnkit.lab import (
        bench as bench,
        challenge as challenge,
        course as course,
        exercises as exercises,
        hardware as hardware,
        pages as pages,
        sweep as sweep,
        text as text,
        tools as tools,
        viz as viz,
        workshop as workshop,
    )

__getattr__, __dir__, __all__ = _lazy.attach(
    __name__,
    "bench",
    "challenge",
    "course",
    "exercises",
    "hardware",
    "pages",
    "sweep",
    "text",
    "tools",
    "viz",
    "workshop",
)
