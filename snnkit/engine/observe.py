"""Who sees the passes of a neuron, and who changes their output: ``unroll`` asks here after each.

Nothing is stored in a module, so a copy of one is neither seen nor changed, and a module keeps its fast paths. Code
that ``torch.compile`` has compiled makes no calls: it is neither seen nor changed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from snnkit.engine import trace


class Seen(NamedTuple):
    """One pass over time.

    Attributes:
        step: the neuron, or the function.
        out: [T, B, ...].
        before, last: the state before the first step and after the last.
        states: the state after every step, each part [T, B, ...]; None unless an observer wants it.
    """

    step: Any
    out: Tensor
    before: Any
    last: Any
    states: Any


class observed:
    """A context in which ``observer(seen)`` is called after every pass of this thread, and of threads that observe
    nothing themselves, as those that the work in here has started.

    Args:
        observer: takes a ``Seen``.
        steps: ``id`` of the steps that it looks at; None: at all.
        states: whether it needs the state after every step.
    """

    def __init__(
        self, observer: Callable[[Seen], None], steps: Collection[int] | None = None, states: bool = False
    ) -> None:
        self.observer, self.steps, self.states = observer, steps, states

    def __enter__(self) -> observed:
        self.outer = _thread.observers
        _thread.observers = (*self.outer, self)
        all_observers.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _thread.observers = self.outer
        all_observers.remove(self)

    def looks(self) -> bool:
        """Whether passes of this thread are seen now: not in ``backward``, where activation checkpointing computes
        again what was seen before."""
        return self in (_thread.observers or all_observers) and torch._C._current_graph_task_id() == -1


class changed:
    """A context in which ``change(out)`` replaces the output [T, B, ...] of every pass of ``step``, in all threads."""

    def __init__(self, step: nn.Module, change: Callable[[Tensor], Tensor]) -> None:
        self.step, self.change = step, change

    def __enter__(self) -> None:
        all_changes.append(self)

    def __exit__(self, *error: object) -> None:
        all_changes.remove(self)


class _Thread(threading.local):
    observers: tuple[observed, ...] = ()


_thread = _Thread()
all_observers: list[observed] = []  # of all threads: one without its own may work for any of them
all_changes: list[changed] = []


def observers_of(step: Any) -> tuple[observed, ...]:
    """Those that take an interest in passes of ``step`` in this thread; not in one whose operations are traced."""
    every = () if trace.thread.tracing else _thread.observers or (*all_observers,)
    return tuple(one for one in every if one.steps is None or id(step) in one.steps)


def with_changes(step: Any, out: Tensor) -> Tensor:
    """The output of a pass of ``step`` as it is handed on."""
    for one in (*all_changes,):
        if one.step is step:
            out = one.change(out)
    return out


def is_looked_into(modules: Iterable[nn.Module]) -> bool:
    """Whether anyone observes some of these ``modules`` in particular, or changes what they give."""
    observers = _thread.observers or (*all_observers,)
    steps = {step for one in observers for step in one.steps or ()} | {id(one.step) for one in (*all_changes,)}
    return bool(steps) and any(id(module) in steps for module in modules)
