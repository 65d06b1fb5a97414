"""A bulk-synchronous machine at work: all tiles compute, wait for each other, exchange, and go on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import plotly.graph_objects as go

from ..hardware import chips, roofline
from .spans import Span, spans


def supersteps(
    work: roofline.Work,
    operations: Sequence[roofline.Operation],
    chip: str = "GC200",
    *,
    tiles: int = 6,
    precision: str = "float32",
    title: str = "",
) -> go.Figure:
    """What some of the tiles do when, while ``operations`` of ``work`` run: from the terms of ``roofline.ipu``.

    Predicted, never run. The values of an operation are shared out evenly, so where there are fewer values than tiles,
    some have none: they compute nothing and wait.

    Args:
        work: the training step that the operations are of.
        operations: one superstep each.
        chip: an IPU.
        tiles: how many are drawn, evenly chosen.
        precision: "float32" or "float16".

    Raises:
        ValueError: no operation, fewer than two tiles or more than there are, and what ``roofline.ipu`` refuses.
    """
    if not operations:
        raise ValueError("operations must hold at least one operation")
    count = int(chips.get(chip).value("tiles"))
    if not 2 <= tiles <= count:
        raise ValueError(f"tiles must lie between 2 and {count}, but it is {tiles}")
    shown = [round(i * (count - 1) / (tiles - 1)) for i in range(tiles)]
    lanes: dict[int, list[Span]] = {tile: [] for tile in shown}
    start = 0.0
    for op in operations:
        parts = roofline.ipu(replace(work, operations=(op,)), chip, precision=precision).parts
        microseconds = {name: seconds.value * 1e6 for name, seconds in parts.items()}
        compute = microseconds["matmul"] + microseconds["elementwise"]
        kind = "matrix product" if op.flops else "elementwise"
        share = math.ceil(op.numel / count)
        synced = start + compute + microseconds["sync"]
        for tile, lane in lanes.items():
            busy = op.flops > 0 or tile * share < op.numel  # products are taken for evenly spread
            if busy:
                lane.append((kind, start, start + compute))
            lane.append(("waiting for all", start + compute if busy else start, synced))
            if microseconds["exchange"]:
                lane.append(("exchange", synced, synced + microseconds["exchange"]))
        start = synced + microseconds["exchange"]
    named = {f"tile {tile:,}": lane for tile, lane in lanes.items()}
    return spans(named, "µs (predicted)", title or f"{chip}: {len(operations)} supersteps, {start:.1f} µs")
