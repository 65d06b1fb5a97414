"""Floating-point formats: the distance between their numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from snnkit import checks

_FORMATS = ("float32", "bfloat16", "float16")


@checks.arguments
def spacing(values: Any, dtype: str | torch.dtype) -> np.ndarray:
    """Distance from each of ``values`` [P], which are positive, to the next larger number of a format.

    Below the smallest number above 0, it is that number; beyond the largest, infinity.
    """
    info = torch.finfo(_dtype(dtype))
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"values must be numbers [P], but they are {checks.shown(values)}") from None
    if not (np.isfinite(array) & (array > 0)).all():
        raise ValueError(f"values must be positive and finite, but they are {checks.shown(values)}")
    exponent = np.frexp(array)[1] - 1  # array = f * 2 ** exponent with 1 <= f < 2
    lowest = math.frexp(info.smallest_normal)[1] - 1
    gap = np.ldexp(info.eps, np.maximum(exponent, lowest))
    return np.where(array > info.max, math.inf, gap)


def _dtype(dtype: Any) -> torch.dtype:
    known = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(known, torch.dtype) or not known.is_floating_point:
        some = ", ".join(map(repr, _FORMATS))
        raise TypeError(f"dtype must be a floating-point format such as {some}, but it is {checks.shown(dtype)}")
    return known
