"""The common part of plasticity rules: time steps, bounds, batches and checks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from snnkit import checks
from snnkit.engine.memory_gate import shows_values
from snnkit.engine.page_pool import POOL
from snnkit.plasticity import cpp_kernels
from snnkit.plasticity.connection import Connection, Limits, Pairings, as_state, changed, check_like

# Arguments that have passed: the checks depend on nothing else, and for a small layer take longer than its arithmetic.
_passed: set[tuple[Any, ...]] = set()
_MOST = 4096
_AT_ONCE = 2**20  # spikes of the steps whose changes are made in one product


def _traced(spikes: Tensor, before: Tensor, decay: float) -> Tensor:
    """The trace of a step after the one ``before``."""
    return torch.add(spikes, before, alpha=decay)


class Rule(ABC):
    """Base of the rules, which are frozen dataclasses with these fields.

    A rule has a ``State`` of traces, named by their side, "pre…" or "post…", ``TIMES``, the name of the time constant
    of each, and ``_pairings``; ``step`` and ``run`` follow.
    """

    State: ClassVar[Any]
    TIMES: ClassVar[tuple[str, ...]]
    dt: float
    bound: str | None
    w_min: float
    w_max: float
    batch: str
    engine: str
    connection: Connection

    @abstractmethod
    def _pairings(self, pre: Tensor, post: Tensor, traces: Any) -> Pairings:
        """The changes by spikes and ``traces`` that include them, of one step or of a sequence."""

    def check_numbers(self, *amplitudes: str) -> None:
        """Raise ValueError unless amplitudes are 0 or more, times above 0, and the bounds a range."""
        for name in amplitudes:
            checks.number(name, getattr(self, name), at_least=0)
        for name in (*self.TIMES, "dt"):
            checks.number(name, getattr(self, name), above=0)
        checks.number("w_min", self.w_min)
        checks.number("w_max", self.w_max, above=self.w_min)

    def initial_state(self, pre: Tensor, post: Tensor, weight: Tensor) -> Any:
        """No spikes so far, for steps like ``pre`` [..., B, n_pre] and ``post`` [..., B, n_post]."""
        for name, side in (("pre", pre), ("post", post)):
            if side.ndim <= self.connection.dims:
                raise ValueError(f"{name} must have a batch dimension, but its shape is {list(side.shape)}")
        sides = (pre if name.startswith("pre") else post for name in self.State._fields)
        return self.State(*(weight.new_zeros(side.shape[-1 - self.connection.dims :]) for side in sides))

    @torch.no_grad()
    def step(
        self, pre: Tensor, post: Tensor, weight: Tensor, state: Any = None, *, out: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """One time step.

        Args:
            pre, post: spikes [B, n_pre] and [B, n_post] of this step, or as the connection has its neurons; 0 or 1 in
                any dtype.
            weight: [n_post, n_pre], or as the connection has it; float32 or float64.
            state: of the step before; None: there were no spikes.
            out: where to write the new weight. ``out=weight`` changes it in place. This is several times faster for
                large weights, because new memory costs more than the arithmetic.

        Returns:
            The new weight, ``out`` or a new tensor without gradient, and the new state.
        """
        state = self.checked_state(state, pre, post, weight, "B", out)
        dtype = weight.dtype
        pre, post = (x if x.dtype == dtype else x.to(dtype) for x in (pre, post))
        traces = self._traces(pre, post, state)
        return self._after_step(weight, self._pairings(pre, post, traces), out), traces

    def _traces(self, pre: Tensor, post: Tensor, state: Any, traced: Callable[..., Tensor] = _traced) -> Any:
        """Those of the step, or of the steps, after ``state``."""
        return self.State(
            *(
                traced(pre if name.startswith("pre") else post, before, self.decay(getattr(self, tau)))
                for name, before, tau in zip(self.State._fields, state, self.TIMES, strict=True)
            )
        )

    @torch.no_grad()
    def run(self, pre: Tensor, post: Tensor, weight: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """A whole sequence: the same as ``step`` after ``step``.

        In C++ all steps pass over a few rows of the weight at a time, which stay in the cache.

        Args:
            pre, post: spikes [T, B, n_pre] and [T, B, n_post], or as the connection has its neurons; 0 or 1 in any
                dtype.
            weight, state: as in ``step``.

        Returns:
            The weight and the state after the last step.
        """
        state = self.checked_state(state, pre, post, weight, "T, B")
        check_spikes(pre=pre, post=post)
        if not cpp_kernels.takes(self.engine, self.connection, weight, weight, pre, post, *state):
            # Without bounds all changes add up in one product; with them, each depends on the one before.
            most = 1 if self.bound else max(1, _AT_ONCE // max(pre[0].numel() + post[0].numel(), 1))
            new, waiting = weight.detach().clone(), []
            for t, (pre_t, post_t) in enumerate(zip(pre.to(weight.dtype), post.to(weight.dtype), strict=True), 1):
                state = self._traces(pre_t, post_t, state)
                waiting.append(self._pairings(pre_t, post_t, state))
                if len(waiting) == most or t == len(pre):
                    parts = {name: torch.cat([getattr(by, name) for by in waiting]) for name in Pairings._fields[:4]}
                    self._after_step(new, waiting[0]._replace(**parts), new)
                    waiting.clear()
            return new, state
        pre, post = pre.to(weight.dtype), post.to(weight.dtype)
        traces = self._traces(pre, post, state, cpp_kernels.traced)
        by, new = self._pairings(pre, post, traces), POOL.empty(weight.shape, weight.dtype)
        most = cpp_kernels.steps_at_once(by, weight, self.connection)
        for first in range(0, len(pre), most):
            steps = slice(first, first + most) if most > 1 else first
            some = by._replace(**{name: part[steps] for name, part in zip(by._fields[:4], by[:4], strict=True)})
            cpp_kernels.change(new if first else weight, some, self.limits, self.connection, new)
        # Copies, or the state would keep the whole sequence in memory.
        return new, self.State(*(trace[-1].clone() for trace in traces))

    @property
    def limits(self) -> Limits:
        return Limits(self.bound, self.w_min, self.w_max)

    def scale(self, spikes: Tensor) -> float:
        """Weight of the change by one of the samples of spikes [..., B, neurons]."""
        return 1.0 / spikes.shape[-1 - self.connection.dims] if self.batch == "mean" else 1.0

    def decay(self, tau: float) -> float:
        return math.exp(-self.dt / tau)

    def checked_state(self, state: Any, pre: Any, post: Any, weight: Any, lead: str, out: Tensor | None = None) -> Any:
        """``state``, or one without spikes for None; TypeError or ValueError unless all of these fit each other."""
        kind = self.State
        state = as_state(kind, state)
        parts = [part for part in (pre, post, weight, *(state or ()), out) if part is not None]
        if not all(isinstance(part, Tensor) for part in parts) or torch.compiler.is_compiling():
            self._check(pre, post, weight, state, lead, out)
        elif (key := (lead, self.connection, kind, *((x.shape, x.dtype, x.device) for x in parts))) not in _passed:
            self._check(pre, post, weight, state, lead, out)
            if len(_passed) >= _MOST:
                _passed.clear()
            _passed.add(key)
        return self.initial_state(pre, post, weight) if state is None else state

    def _check(self, pre: Any, post: Any, weight: Any, state: NamedTuple | None, lead: str, out: Tensor | None) -> None:
        self.connection.check(pre, post, weight, lead)
        for name, value in {} if state is None else state._asdict().items():
            if name.startswith(("pre", "post")):
                side = pre if name.startswith("pre") else post
                check_like(f"state.{name}", value, side.shape[-1 - self.connection.dims :], weight)
        if out is not None:
            check_like("out", out, weight.shape, weight)

    def _after_step(self, weight: Tensor, by: Pairings, out: Tensor | None = None) -> Tensor:
        """The weight after one step, in ``out`` or in a new tensor."""
        if cpp_kernels.takes(self.engine, self.connection, weight, weight if out is None else out, *by[:4]):
            new = POOL.empty(weight.shape, weight.dtype) if out is None else out
            cpp_kernels.change(weight, by, self.limits, self.connection, new)
            return new
        by = by.flat(self.connection, weight)
        if weight.dim() == 2:
            return changed(weight, by, self.limits, out)
        new = changed(weight.flatten(1), by, self.limits).view(weight.shape)
        return new if out is None else out.copy_(new)


def check_values(what: str, good: Tensor, name: str, value: Tensor) -> None:
    """ValueError for the first value that is not ``good``, on a CPU only: elsewhere this would wait for the device."""
    if shows_values(value) and not good.all():
        where = torch.nonzero(~good)[0].tolist()
        raise ValueError(f"{name} must be {what}, but {name}{where} is {value[tuple(where)].item()}")


def check_spikes(**spikes: Tensor) -> None:
    """ValueError for values other than 0 and 1."""
    for name, value in spikes.items():
        check_values("0 or 1", (value == 0) | (value == 1), name, value)
