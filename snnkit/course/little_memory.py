"""A function that runs out of memory where it is told to, for the exercise on halving batches."""

from __future__ import annotations

import torch
from torch import Tensor

from .exercise import Violation

OUT_OF_MEMORY = torch.OutOfMemoryError, MemoryError


class Fits:
    """Doubles its samples, if they are at most ``most`` (from number ``late`` on: two), else runs out of memory.

    Attributes:
        sizes: of the calls so far; ``failed``: of the last one, if memory ran out in it, else 0.
    """

    def __init__(self, most: int, late: int = 99, error: type[Exception] = torch.OutOfMemoryError) -> None:
        self.most, self.late, self.error, self.sizes, self.failed = most, late, error, [], 0

    def __call__(self, samples: Tensor) -> Tensor:
        self.sizes.append(len(samples))
        yours = f"the last calls were with {', '.join(map(str, self.sizes[-12:]))} samples"
        if len(self.sizes) > 50:
            raise Violation("Each call must make progress or use fewer samples.", yours=yours, hint=1)
        if not len(samples):
            raise Violation("A part without samples is none.", yours=yours, hint=3 if self.failed == 1 else 0)
        if len(samples) < self.failed // 2:
            raise Violation("Where memory runs out, half as many samples are tried, not fewer.", yours=yours, hint=1)
        self.failed = 0
        if len(samples) > (2 if (samples >= self.late).any() else self.most):
            self.failed = len(samples)
            raise self.error("out of memory")
        return 2 * samples
