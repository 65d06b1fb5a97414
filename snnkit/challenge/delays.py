"""Synapses that take their time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Delays(nn.Module):
    """Copies of the input, each later by some steps: ``out, state = delays(x, state=None)``, x [T, B, C].

    The copy of channel c that is ``steps[k]`` late is channel ``k C + c`` of the output [T, B, K C]. A linear map
    behind it has a weight for each channel and each delay. The state holds the last inputs [D, B, C], as many as the
    longest delay D, so that a sequence may come in parts.

    Args:
        steps: how many steps late each copy is, whole numbers of at least 0.

    Raises:
        TypeError: ``steps`` is no sequence of whole numbers.
        ValueError: it is empty, or one is negative.
    """

    def __init__(self, steps: Sequence[int]) -> None:
        super().__init__()
        wanted = f"steps of Delays must be whole numbers of at least 0, such as (0, 5, 11), but they are {steps!r}"
        if isinstance(steps, str) or not isinstance(steps, Sequence):
            raise TypeError(wanted)
        if any(isinstance(k, bool) or not isinstance(k, int) for k in steps):
            raise TypeError(wanted)
        if not steps or min(steps) < 0:
            raise ValueError(wanted)
        self.steps = tuple(steps)

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x [T, B, C] to [T, B, K C], and the last inputs."""
        longest = max(self.steps)
        before = x.new_zeros(longest, *x.shape[1:]) if state is None else state
        line = torch.cat([before, x])
        copies = [line[longest - k : len(line) - k] for k in self.steps]
        return torch.cat(copies, dim=2), line[len(line) - longest :]

    def extra_repr(self) -> str:
        return f"steps={self.steps}"
