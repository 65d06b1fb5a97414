"""What rules of plasticity have in common: time steps, bounds, batches, checks, and the engine of their traces."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from snnkit import checks

from ..engine import check_engine, unroll
from . import cpp_kernels
from .change import Limits, Pairings, Trace, TraceState, changed
from .connection import Connection, Convolution, Dense, check_like

S = TypeVar("S", bound=NamedTuple)

# Rows of spikes times columns that PyTorch lays out at once, where the steps of a sequence add up in one product.
_AT_ONCE = 2**24

# Arguments that have passed: the checks depend on nothing else, and for a small layer take longer than its arithmetic.
_passed: set[tuple[Any, ...]] = set()
_MOST = 4096


class Rule:
    """Base of the rules, which are frozen dataclasses with these fields."""

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
            checks.number(name, getattr(self, name), at_least=0)
        for name in (*times, "dt"):
            checks.number(name, getattr(self, name), above=0)
        checks.choice("bound", self.bound, ("hard", "soft", None))
        checks.number("w_min", self.w_min)
        checks.number("w_max", self.w_max, above=self.w_min)
        checks.choice("batch", self.batch, ("sum", "mean"))
        check_engine(self.engine)
        checks.instance("connection", self.connection, (Dense, Convolution), "a Dense or a Convolution")

    @property
    def limits(self) -> Limits:
        return Limits(self.bound, self.w_min, self.w_max)

    def scale(self, samples: int) -> float:
        """Weight of the change by one of so many samples."""
        return 1.0 / samples if self.batch == "mean" else 1.0

    def decay(self, tau: float) -> float:
        return math.exp(-self.dt / tau)

    def traced(self, spikes: Tensor, start: Tensor, tau: float, in_cpp: bool = False) -> tuple[Tensor, Tensor]:
        """The trace of spikes [T, B, ...] at every step, and after the last."""
        if in_cpp:
            trace = cpp_kernels.traced(spikes, start, self.decay(tau))
            return trace, trace[-1].clone()  # or it would keep the whole sequence in memory
        trace, last = unroll(Trace(tau, self.dt), spikes, TraceState(start), engine=self.engine)
        return trace, last.trace

    def in_cpp(self, weight: Tensor) -> bool:
        """Whether a sequence runs in ``cpp_kernels``."""
        return cpp_kernels.takes(self.engine, self.connection, weight, weight)

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

    def checked_state(
        self, kind: type[S], state: Any, pre: Any, post: Any, weight: Any, lead: str, out: Tensor | None = None
    ) -> S | None:
        """``state`` as a ``kind``, or None; TypeError or ValueError unless all of these fit each other.

        Of a state, the traces are checked: the fields whose names begin with pre or post.
        """
        if type(state) is not kind and state is not None:
            if not (isinstance(state, tuple) and len(state) == len(kind._fields)):
                self._check(pre, post, weight, None, lead, out)
                raise TypeError(f"state must be a {kind.__name__} or None, but it is a {type(state).__name__}")
            state = kind._make(state)
        if torch.compiler.is_compiling():
            self._check(pre, post, weight, state, lead, out)
            return state
        parts = (pre, post, weight) if state is None else (pre, post, weight, *state)
        if out is not None and out is not weight:
            parts = (*parts, out)
        try:
            key = (lead, self.connection, kind, state is None, *[(type(x), x.shape, x.dtype, x.device) for x in parts])
            new = key not in _passed
        except (AttributeError, TypeError):  # not tensors, as the checks will say
            key, new = (), True
        if new:
            self._check(pre, post, weight, state, lead, out)
            if len(_passed) >= _MOST:
                _passed.clear()
            _passed.add(key)
        return state

    def _check(self, pre: Any, post: Any, weight: Any, state: NamedTuple | None, lead: str, out: Tensor | None) -> None:
        self.connection.check(pre, post, weight, lead)
        for name, value in {} if state is None else state._asdict().items():
            if name.startswith(("pre", "post")):
                side = pre if name.startswith("pre") else post
                checks.instance(f"state.{name}", value, Tensor, "a torch.Tensor")
                expected = list(side.shape[-1 - self.connection.dims :])
                if list(value.shape) != expected:
                    raise ValueError(
                        f"state.{name} must have the shape {expected} of one step, but its shape is {list(value.shape)}"
                    )
                check_like(f"state.{name}", value, weight)
        if out is not None:
            checks.instance("out", out, Tensor, "a torch.Tensor")
            if out.shape != weight.shape:
                raise ValueError(
                    f"out must have the shape {list(weight.shape)} of weight, but its shape is {list(out.shape)}"
                )
            check_like("out", out, weight)

    def after_step(self, weight: Tensor, by: Pairings, out: Tensor | None = None) -> Tensor:
        """The weight after one step, in ``out`` or in a new tensor."""
        if not cpp_kernels.takes(self.engine, self.connection, weight, weight if out is None else out):
            return self._changed(weight, by.flat(self.connection, weight), out)
        new = torch.empty_like(weight) if out is None else out
        cpp_kernels.change(weight, by, self.limits, self.connection, new)
        return new

    def after_run(self, weight: Tensor, by: Pairings) -> Tensor:
        """The weight after the steps of a sequence [T, ...]."""
        if self.in_cpp(weight):
            most, new = cpp_kernels.steps_at_once(by, weight, self.connection), torch.empty_like(weight)
            for i, some in enumerate(_cut(by, most)):
                some = some if most > 1 else some.together()
                cpp_kernels.change(new if i else weight, some, self.limits, self.connection, new)
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


def check_finite(name: str, value: Tensor) -> None:
    """ValueError for NaN or infinity, on a CPU only: elsewhere this would wait for the device."""
    if value.device.type != "cpu" or not value.is_floating_point():
        return
    # A sum is finite only if all are, and quick; it may overflow nevertheless.
    if not torch.isfinite(value.sum()) and not torch.isfinite(value).all():
        where = torch.nonzero(~torch.isfinite(value))[0].tolist()
        raise ValueError(f"{name} must be finite, but {name}{where} is {value[tuple(where)].item()}")


def _cut(by: Pairings, most: int) -> Iterator[Pairings]:
    for first in range(0, len(by.up_post), most):
        yield by.steps(first, first + most)
