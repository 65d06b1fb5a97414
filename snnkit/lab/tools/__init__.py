"""Tools for the notebooks: build and check pairs, run them, report, and `snnkit doctor`."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from snnkit import lazy

if _TYPE_CHECKING:
    from snnkit.lab.tools import doctor as doctor

__getattr__, __dir__, __all__ = lazy.attach(__name__, "doctor")
