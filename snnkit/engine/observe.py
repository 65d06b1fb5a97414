"""Who sees the passes of a neuron, and who changes their output: ``unroll`` asks here after each.

Nothing is stored in a module, so a copy of one is neither seen nor changed, and a module keeps its fast paths. Code
that ``torch.compile`` has compiled makes no calls: it is neither seen nor changed.

An activation checkpoint (``torch.utils.checkpoint``) computes a pass again in ``backward``, perhaps when the contexts
of the first pass have ended. Without them another engine may run, which saves other tensors than the first did, or the
output is not changed. So the second computation has the conditions of the first (``_AsBefore``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext
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
        around: a context that passes run in besides, and do again when they are computed again.
    """

    def __init__(
        self,
        observer: Callable[[Seen], None],
        steps: Collection[int] | None = None,
        states: bool = False,
        around: AbstractContextManager[Any] | None = None,
    ) -> None:
        self.observer, self.steps, self.states = observer, steps, states
        self.around = around or nullcontext()

    def __enter__(self) -> observed:
        self.around.__enter__()
        self.checkpoint, self.outer = _checkpoint(), _thread.observers
        _thread.observers = (*self.outer, self)
        all_observers.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        _thread.observers = self.outer
        all_observers.remove(self)
        self.around.__exit__(*error)

    def looks(self) -> bool:
        """Whether passes of this thread are seen now: not in ``backward``, where activation checkpointing computes
        again what was seen before."""
        return self in _observers() and torch._C._current_graph_task_id() == -1

    def blind(self) -> observed:
        """One that makes passes run as this one does, but looks at nothing: what was seen may hold the graph, which
        holds its checkpoints."""
        return observed(_look_away, self.steps, self.states, self.around)


class changed:
    """A context in which ``change(out)`` replaces the output [T, B, ...] of every pass of ``step``, in all threads.
    ``around``: as for ``observed``."""

    def __init__(
        self, step: nn.Module, change: Callable[[Tensor], Tensor], around: AbstractContextManager[Any] | None = None
    ) -> None:
        self.step, self.change = step, change
        self.around = around or nullcontext()

    def __enter__(self) -> None:
        self.around.__enter__()
        self.checkpoint, self.outer = _checkpoint(), _thread.changes
        if self.outer is not None:
            _thread.changes = (*self.outer, self)
        all_changes.append(self)

    def __exit__(self, *error: Any) -> None:
        _thread.changes = self.outer
        all_changes.remove(self)
        self.around.__exit__(*error)


class _Thread(threading.local):
    observers: tuple[observed, ...] = ()
    changes: tuple[changed, ...] | None = None  # None: those of all threads; else this one computes something again


_thread = _Thread()
all_observers: list[observed] = []  # of all threads: one without its own may work for any of them
all_changes: list[changed] = []


def anyone() -> bool:
    """Whether there may be any observer or change in this thread: a quick answer for most calls, which have none."""
    return bool(all_observers or all_changes or _thread.changes is not None)


def _observers() -> tuple[observed, ...]:
    return _thread.observers or ((*all_observers,) if _thread.changes is None else ())


def changes() -> tuple[changed, ...]:
    """Those that are in force in this thread."""
    return (*all_changes,) if _thread.changes is None else _thread.changes


def observers_of(step: Any) -> tuple[observed, ...]:
    """Those that take an interest in passes of ``step`` in this thread; not in one whose operations are traced."""
    every = () if trace.thread.tracing else _observers()
    return tuple(one for one in every if one.steps is None or id(step) in one.steps)


def with_changes(step: Any, out: Tensor) -> Tensor:
    """The output of a pass of ``step`` as it is handed on."""
    for one in changes():
        if one.step is step:
            out = one.change(out)
    return out


def is_looked_into(modules: Iterable[nn.Module]) -> bool:
    """Whether anyone observes some of these ``modules`` in particular, or changes what they give."""
    steps = {step for one in _observers() for step in one.steps or ()} | {id(one.step) for one in changes()}
    return bool(steps) and any(id(module) in steps for module in modules)


# --- activation checkpoints ------------------------------------------------------------------------------------------


def repeat_under_these_conditions() -> None:
    """An activation checkpoint around this pass will have the observers and changes of now when it computes it again,
    without those that its own function sets up: it does that again, too."""
    checkpoint = _checkpoint()
    if checkpoint is None or isinstance(checkpoint.recompute_fn, _AsBefore):
        return
    seen = tuple(one.blind() for one in _observers() if one.checkpoint is not checkpoint)
    masks = tuple(one for one in changes() if one.checkpoint is not checkpoint)
    checkpoint.recompute_fn = _AsBefore(checkpoint.recompute_fn, seen, masks)


class _AsBefore:
    """The function of a checkpoint, under the conditions of its first computation."""

    def __init__(self, compute: Callable, observers: tuple[observed, ...], changes: tuple[changed, ...]) -> None:
        self.compute, self.observers, self.changes = compute, observers, changes

    def __call__(self, *arguments: Any) -> Any:
        outer = _thread.observers, _thread.changes
        with ExitStack() as stack:
            for one in (*self.observers, *self.changes):
                stack.enter_context(one.around)
            _thread.observers, _thread.changes = self.observers, self.changes
            try:
                return self.compute(*arguments)
            finally:
                _thread.observers, _thread.changes = outer


def _checkpoint() -> Any:
    """The record of the innermost checkpoint that computes its function for the first time in this thread, or None.

    PyTorch has no public name for it; the function that saves tensors for such a checkpoint refers to it. Where it is
    not there, passes are computed again without the conditions, and PyTorch raises CheckpointError if the tensors
    differ. (With ``use_reentrant=True`` nothing is saved in the first computation, and tensors need not agree.)
    """
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)  # pyright: ignore[reportAttributeAccessIssue]
    save = hooks[0] if hooks else None
    names = getattr(getattr(save, "__code__", None), "co_freevars", ())
    if "frame" not in names:
        return None
    record = save.__closure__[names.index("frame")].cell_contents  # type: ignore[union-attr]
    return record if hasattr(record, "recompute_fn") else None


def _look_away(seen: Seen) -> None:
    pass
