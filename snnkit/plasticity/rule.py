"""What rules of plasticity have in common: time steps, bounds, batches, and the engine of their traces."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..engine import check_engine, unroll
from . import check, kernel
from .change import BATCHES, Limits, Pairings, changed
from .connection import Connection, checked_connection
from .trace import Trace, TraceState

# Rows of spikes times columns that PyTorch lays out at once, where the steps of a sequence add up in one product.
_AT_ONCE = 2**24


class Rule:
    """Base of the rules; a rule is a frozen dataclass that has these."""

    dt: float
    bound: str | None
    w_min: float
    w_max: float
    batch: str
    engine: str
    connection: Connection

    def check_numbers(self, amplitudes: tuple[str, ...], times: tuple[str, ...]) -> None:
        """TypeError or ValueError unless amplitudes are 0 or more, times above 0, and the rest makes sense."""
        for name in amplitudes:
            check.number(name, getattr(self, name), at_least=0.0)
        for name in (*times, "dt"):
            check.number(name, getattr(self, name), above=0.0)
        self.limits.checked()
        check.choice("batch", self.batch, BATCHES)
        check_engine(self.engine)
        checked_connection(self.connection)

    @property
    def limits(self) -> Limits:
        return Limits(self.bound, self.w_min, self.w_max)

    def scale(self, samples: int) -> float:
        """What the change by one of so many samples counts."""
        return 1.0 / samples if self.batch == "mean" else 1.0

    def traced(self, spikes: Tensor, start: Tensor, tau: float, in_cpp: bool = False) -> tuple[Tensor, Tensor]:
        """The trace of spikes [T, B, ...] at every step, and after the last."""
        if in_cpp:
            trace = kernel.traced(spikes, start, math.exp(-self.dt / tau))
            return trace, trace[-1].clone()  # or it would keep the whole sequence in memory
        trace, last = unroll(Trace(tau, self.dt), spikes, TraceState(start), engine=self.engine)
        return trace, last.trace

    def in_cpp(self, weight: Tensor) -> bool:
        """Whether a sequence runs in ``kernel``."""
        return kernel.takes(self.engine, self.connection, weight, weight)

    def as_weights_are(self, weight: Tensor, *sides: Tensor) -> Sequence[Tensor]:
        """Spikes or traces in the dtype of ``weight`` and without gradient."""
        dtype = weight.dtype
        for x in sides:
            if x.dtype != dtype or x.requires_grad:
                break
        else:
            return sides
        return [x if x.dtype == dtype and not x.requires_grad else x.detach().to(dtype) for x in sides]

    def no_spikes(self, spikes: Tensor, weight: Tensor) -> Tensor:
        """The trace of one side before its first spike, for steps like ``spikes`` [..., B, neurons]."""
        shape = spikes.shape[-1 - self.connection.dims :]
        return torch.zeros(shape, dtype=weight.dtype, device=weight.device)

    def check_sides(
        self, pre: Any, post: Any, weight: Any, state: NamedTuple | None, lead: str, out: Tensor | None = None
    ) -> None:
        """TypeError or ValueError unless these fit each other; those parts of a state that are called pre or post."""

        def checks() -> None:
            self.connection.check(pre, post, weight, lead)
            for name, value in {} if state is None else state._asdict().items():
                if name.startswith(("pre", "post")):
                    side = pre if name.startswith("pre") else post
                    check.trace(name, value, side, weight, self.connection.dims)
            if out is not None:
                check.place("out", out, weight)

        parts = (pre, post, weight) if state is None else (pre, post, weight, *state)
        if out is not None and out is not weight:
            parts = (*parts, out)
        check.once(checks, (lead, self.connection, type(state)), parts)

    def after_step(self, weight: Tensor, by: Pairings, out: Tensor | None = None) -> Tensor:
        """The weight after one step, in ``out`` or in a tensor of its own."""
        if not kernel.takes(self.engine, self.connection, weight, weight if out is None else out):
            return self._changed(weight, by.flat(self.connection, weight), out)
        new = torch.empty_like(weight) if out is None else out
        kernel.change(weight, by, self.limits, self.connection, new)
        return new

    def after_run(self, weight: Tensor, by: Pairings) -> Tensor:
        """The weight after the steps of a sequence [T, ...]."""
        if self.in_cpp(weight):
            most, new = kernel.steps_at_once(by, weight, self.connection), torch.empty_like(weight)
            for i, some in enumerate(_cut(by, most)):
                some = some if most > 1 else some.together()
                kernel.change(new if i else weight, some, self.limits, self.connection, new)
            return new
        if self.bound is None:  # all changes add up in one product; with bounds each depends on the one before
            rows = by.up_post[0].numel() // max(len(weight), 1)  # samples, and their positions
            most = max(1, _AT_ONCE // max(rows * weight.shape[1:].numel() * self.connection.groups, 1))
        else:
            most = 1
        new = None
        for some in _cut(by, most):
            flat = some.flat(self.connection, weight).together()
            new = self._changed(weight if new is None else new, flat, new)
        assert new is not None, "a sequence has at least one step"
        return new

    @torch.no_grad()
    def _changed(self, weight: Tensor, by: Pairings, out: Tensor | None) -> Tensor:
        """In PyTorch."""
        weight, limits, groups = weight.detach(), self.limits, self.connection.groups
        if weight.dim() == 2:
            return changed(weight, by, limits, groups, out)
        new = changed(weight.flatten(1), by, limits, groups).view(weight.shape)
        return new if out is None else out.copy_(new)


def _cut(by: Pairings, most: int) -> Iterator[Pairings]:
    for first in range(0, len(by.up_post), most):
        yield by.steps(first, first + most)
