"""Tensors and arrays as the figures take them: on the CPU, as numpy, with the shape checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def as_array(value: Any, name: str, shape: str) -> np.ndarray:
    """``value`` as a numpy array with the axes that ``shape`` names, e.g. "[T, N]".

    Raises:
        TypeError: it is not numeric.
        ValueError: it has another number of axes, or an empty one.
    """
    if getattr(getattr(value, "device", None), "type", "") == "meta":
        raise ValueError(f"{name} must hold numbers, but it is a tensor on the device meta, which has none")
    try:
        if hasattr(value, "detach"):  # a torch tensor, without importing torch
            value = value.detach().cpu()
            # numpy has no bfloat16 and no float8.
            value = value.float() if value.is_floating_point() and value.dtype.itemsize < 4 else value
            value = value.numpy()
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} must hold numbers in {shape}: {error}") from None
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold numbers, not {array.dtype}")
    wanted = shape.count(",") + 1
    if array.ndim != wanted:
        advice = " (pick one sample, for example x[:, 0])" if array.ndim == wanted + 1 else ""
        raise ValueError(f"{name} must be {shape}, not of shape {tuple(array.shape)}{advice}")
    if array.size == 0:
        raise ValueError(f"{name} must be {shape} with nothing empty, not of shape {tuple(array.shape)}")
    return array


def axes(value: Any) -> int:
    """How many axes ``value`` has; 0 where it is nothing that ``as_array`` takes."""
    if hasattr(value, "ndim"):
        return value.ndim
    try:
        return np.ndim(value)
    except ValueError:  # lists of different lengths
        return 0


def as_arrays(value: Any, name: str, alone: str, shape: str) -> dict[str, np.ndarray]:
    """A dict of arrays by name, each of ``shape``; a single array is called ``alone``. Raises as ``as_array``."""
    if isinstance(value, Mapping):
        if not value:
            raise ValueError(f"{name} must hold at least one {shape} array")
        return {str(key): as_array(one, f"{name}[{key!r}]", shape) for key, one in value.items()}
    return {alone: as_array(value, name, shape)}


def class_names(names: Any, count: int, argument: str) -> list[str]:
    """``count`` names as texts: those given, or the numbers from 0. ValueError if there are more or fewer."""
    called = [str(i) for i in range(count)] if names is None else [str(name) for name in names]
    if len(called) != count:
        raise ValueError(f"{argument} must hold {count} names, not {len(called)}")
    return called


def compact(array: np.ndarray) -> np.ndarray:
    """``array`` in the smallest type that shows the same picture, so that notebooks stay small."""
    if array.dtype.kind == "f":
        return array.astype(np.float32)
    if array.dtype.kind == "b":
        return array.astype(np.uint8)
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    for kind in (np.uint8, np.int16, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return array.astype(kind)
    return array.astype(np.float64)


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 22nd, …"""
    teens = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
