"""The eager engine: a Python loop over time. It is the reference that every other engine must equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def run(step: Callable[[Tensor, Any], tuple[Tensor, Any]], x: Tensor, state: Any, dtype: torch.dtype):
    """Apply ``step`` to x[0], x[1], … in turn, carrying the state along.

    Args:
        step: ``step(x_t, state) -> (out_t, state)``.
        x: [T, B, ...]; each step is handed over in ``dtype``.
        state: what the first step starts from.
        dtype: of state and arithmetic; outputs are given back in the dtype of ``x``.

    Returns:
        out [T, B, ...], and the state after the last step.
    """
    outputs = []
    for x_t in x.unbind(0):
        out, state = step(x_t.to(dtype), state)
        outputs.append(out.to(x.dtype))
    return torch.stack(outputs), state
