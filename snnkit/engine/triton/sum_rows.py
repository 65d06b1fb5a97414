"""Sums of rows of a table by lists, on a GPU: products of spikes with weights, and the gradient of the weights.

``out[b] = sum of table[i] for i in places[starts[b]:starts[b + 1]]``. With the transposed weights as the table it is
the product of spikes; with the gradient of that product, and the rows in which each input fired, the gradient of the
weights. A program makes a tile of one row of the result, and reads a few rows of the table at a time.
"""

from __future__ import annotations

import torch
from torch import Tensor

from snnkit.engine.triton.launch import start
from snnkit.engine.triton.triton_source import Source

# Outputs of a tile, and rows of the table that are on their way at the same time.
TILE, _AT_ONCE = 256, 8

_TEXT = '''def sum_rows(table_ptr, starts_ptr, places_ptr, out_ptr, N, TILE: tl.constexpr):
    """A tile of one row of the result."""
    row = tl.cast(tl.program_id(0), tl.int64)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = column < N
    begin, end = tl.load(starts_ptr + row), tl.load(starts_ptr + row + 1)
    total = tl.full([TILE], 0.0, tl.float32)
    for at in range(begin, end, AT_ONCE):
'''.replace("AT_ONCE", str(_AT_ONCE))
_TEXT += "".join(
    f"        there{k} = (at + {k} < end) & inside\n"
    f"        place{k} = tl.load(places_ptr + at + {k}, mask=at + {k} < end, other=0).to(tl.int64)\n"
    for k in range(_AT_ONCE)
)
_TEXT += "".join(
    f"        row{k} = tl.load(table_ptr + place{k} * N + column, mask=there{k}, other=0.0)\n" for k in range(_AT_ONCE)
)
_TEXT += "".join(f"        total += row{k}.to(tl.float32)\n" for k in range(_AT_ONCE))
_TEXT += "    tl.store(out_ptr + row * N + column, total.to(out_ptr.dtype.element_ty), mask=inside)\n"

SOURCE = Source("sum_rows", _TEXT, ())


def sum_rows(table: Tensor, starts: Tensor, places: Tensor) -> Tensor:
    """[B, N] from a table [I, N], starts int64 [B + 1] and places int32 or int64 [n]; sums are in float32."""
    table = table.contiguous()
    rows, columns = len(starts) - 1, table.shape[1]
    out = table.new_empty(rows, columns)
    if out.numel():
        options = {"TILE": TILE, "num_warps": 4}
        start(SOURCE, (rows, -(-columns // TILE)), (table, starts, places, out, columns), options)
    return out


def zero_times(weight: Tensor) -> Tensor:
    """[O]: what inputs of 0 add to a product with a weight [O, I], whose numbers no kernel reads for them: 0, or NaN
    where one is not finite."""
    return (weight * 0).sum(1)


def by_place(starts: Tensor, places: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The same lists the other way round: for each of ``count`` places, in which rows it occurs, as (starts, rows).

    ``torch.bincount``, and ``repeat_interleave`` without the size of its result, would wait for the device.
    """
    ordered, order = places.sort(stable=True)
    rows = torch.repeat_interleave(starts.diff(), output_size=len(places))[order]
    return torch.searchsorted(ordered, torch.arange(count + 1, dtype=places.dtype, device=places.device)), rows
