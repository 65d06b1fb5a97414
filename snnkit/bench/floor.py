"""The least that memory must carry, which no program undercuts: time over floor is the figure of merit."""

from __future__ import annotations

import torch

INFERENCE, TRAINING = "inference", "training"
MODES = (INFERENCE, TRAINING)


def bytes_per_neuron_step(mode: str, dtype: torch.dtype, out_dtype: torch.dtype | None = None) -> int:
    """Bytes that a layer of neurons has to move for each neuron and step; its state can stay in registers.

    inference: read x, write the spikes (float32 8, bfloat16 4; uint8 spikes 5 and 3).
    training: read x, write the spikes; in backward read x and the gradient of the spikes, write that of x (20, 10).

    Args:
        mode: "inference" or "training".
        dtype: of x and all gradients.
        out_dtype: of the spikes; None is ``dtype``.
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}, but it is {mode!r}")
    size, out = dtype.itemsize, (out_dtype or dtype).itemsize
    return size + out if mode == INFERENCE else size + out + 3 * size
