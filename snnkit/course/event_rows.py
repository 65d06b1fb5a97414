"""Small recordings that exercises about events are checked with, and how a learner reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from snnkit.data.events import Events


def made(rows: Sequence[tuple[int, int, int, int]], size: tuple[int, int], duration: int = 0) -> Events:
    """Of rows (t, x, y, p)."""
    t, x, y, p = torch.tensor(rows).T
    return Events(t, x, y, p.bool(), size, duration)


def drawn(count: int, size: tuple[int, int], duration: int, seed: int) -> Events:
    """Events anywhere, at moments that differ."""
    draw = torch.Generator().manual_seed(seed)
    t = torch.randperm(duration, generator=draw)[:count].sort().values
    y, x = (torch.randint(limit, (count,), generator=draw) for limit in size)
    return Events(t, x, y, torch.rand(count, generator=draw) < 0.5, size, duration)


def shown(rows: Sequence[tuple[int, int, int, int]], **more: Any) -> dict[str, Any]:
    return {"events (t, x, y, p)": list(rows), **more}


class Operations(TorchDispatchMode):
    """How many operations on tensors are done."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))
