"""One seed for every source of randomness."""

from __future__ import annotations

import random

import numpy as np
import torch


def seed_everything(seed: int) -> int:
    """Seed Python's `random`, NumPy's global generator, and PyTorch's on the CPU and all CUDA devices; return the seed.

    On a CPU the same seed gives the same weights to the bit. On a GPU some of PyTorch's kernels add in an order that
    varies; `torch.use_deterministic_algorithms(True)` forbids those, at a cost in speed.

    Raises TypeError unless `seed` is an int, ValueError unless it lies in 0 .. 2**32 - 1 (NumPy's range).
    """
    seed = check_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    return seed


def check_seed(seed: int) -> int:
    """``seed`` if it is one, else TypeError or ValueError as above."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise TypeError(f"seed must be an int; got {seed!r} ({type(seed).__name__})")
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must lie in 0 .. 2**32 - 1; got {seed}")
    return int(seed)
