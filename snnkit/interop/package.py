"""The ``nir`` package, imported when it is needed, and what both directions check."""

from __future__ import annotations

import inspect
import math
from typing import Any


class InexactWarning(UserWarning):
    """Other readers of a graph may find spikes at other times than the network that it was written from."""


def nir_package() -> Any:
    """The module ``nir``; ImportError that says how to install it."""
    try:
        import nir
    except ImportError as error:
        raise ImportError(
            'interop needs the package nir (and h5py, which comes with it): pip install "snnkit[nir]"'
        ) from error
    if "type_check" not in inspect.signature(nir.read).parameters:
        raise ImportError(f'interop needs nir 1.0.7 or newer, but {nir.__version__} is here: pip install "snnkit[nir]"')
    return nir


def checked_dt(dt: Any) -> float:
    """A time step in seconds."""
    if isinstance(dt, bool) or not isinstance(dt, (int, float)):
        raise TypeError(f"dt must be a number of seconds such as 1e-3, but it is a {type(dt).__name__}")
    if not (dt > 0 and math.isfinite(dt)):
        raise ValueError(f"dt must be a positive number of seconds such as 1e-3, but it is {dt}")
    return float(dt)
