"""Tensors and arrays as the figures take them: on the CPU, as numpy, with the shape checked."""

from __future__ import annotations

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


def times(steps: int, dt: float | None) -> tuple[np.ndarray, str]:
    """The time axis of ``steps`` steps and its title: step numbers, or milliseconds when ``dt`` (seconds) is given."""
    if dt is None:
        return compact(np.arange(steps)), "time step"
    if not dt > 0:
        raise ValueError(f"dt must be a positive number of seconds, not {dt!r}")
    return compact(np.arange(steps) * dt * 1e3), "time (ms)"
