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
    if hasattr(value, "detach"):  # a torch tensor, without importing torch
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
        value = value.numpy()
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold numbers, not {array.dtype}")
    axes = shape.count(",") + 1
    if array.ndim != axes:
        advice = " (pick one sample, for example x[:, 0])" if array.ndim == axes + 1 else ""
        raise ValueError(f"{name} must be {shape}, not of shape {tuple(array.shape)}{advice}")
    if array.size == 0:
        raise ValueError(f"{name} must be {shape} with nothing empty, not of shape {tuple(array.shape)}")
    return array


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
