"""What differs between figures of one form: all that their frames have to hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

FOLLOWING = ("title", "tickvals", "ticktext")  # what of an axis may change from frame to frame


def moving_traces(figures: Sequence[Any]) -> tuple[list[int], list[list[dict[str, Any]]]]:
    """Indices of the traces that change, and for each figure these traces without what is the same in all of them."""
    every = [[trace.to_plotly_json() for trace in figure.data] for figure in figures]
    indices: list[int] = []
    found: list[list[dict[str, Any]]] = [[] for _ in figures]
    for index, same_trace in enumerate(zip(*every, strict=True)):
        keys = [key for key in dict.fromkeys(key for trace in same_trace for key in trace) if _differs(key, same_trace)]
        if not keys:
            continue
        indices.append(index)
        for changes, trace in zip(found, same_trace, strict=True):
            # A trace without a type would be a line to plotly.
            changes.append({"type": trace["type"]} | {key: trace[key] for key in keys if key in trace})
    return indices, found


def moving_layouts(figures: Sequence[Any]) -> list[dict[str, Any]]:
    """For each figure: its title, annotations and shapes, and the titles and ticks of axes that have not the same."""
    every = [figure.layout.to_plotly_json() for figure in figures]
    found = [{key: layout[key] for key in ("title", "annotations", "shapes") if key in layout} for layout in every]
    for axis in dict.fromkeys(key for layout in every for key in layout if key[1:].startswith("axis")):
        axes = [layout.get(axis, {}) for layout in every]
        keys = [key for key in FOLLOWING if _differs(key, axes)]
        for changes, spec in zip(found, axes, strict=True):
            if keys:
                changes[axis] = {key: spec[key] for key in keys if key in spec}
    return found


def _differs(key: str, dictionaries: Sequence[dict[str, Any]]) -> bool:
    first = dictionaries[0]
    return any((key in one) != (key in first) or not _same(one.get(key), first.get(key)) for one in dictionaries[1:])


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        one, other = np.asarray(one), np.asarray(other)
        numbers = one.dtype.kind in "fc" and other.dtype.kind in "fc"  # NaN is a gap in both
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=numbers)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
