"""Calls that repeat an earlier one: for tensors of the same shapes, strides and kinds, only the kernel is left to call.

In a small layer's call the kernel took a tenth of the time, and questions whose answers were known from the call before
took half. So the first call of a form goes through ``autograd.run``, which settles them, and leaves a ``Warm`` for the
next. What can change between calls is still checked: who watches, and in backward what came back from autograd.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Sequence
from operator import is_
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from snnkit.engine import autograd
from snnkit.engine.autograd import Call, CompilationFailed, Gradients, Layout, Pass, Pooling, Unrolled, backend, zeros
from snnkit.engine.memory_gate import as_saved, inside_functional_transform, is_plain, is_watched, keys_of
from snnkit.engine.trace import Equation

# Forms of one plan's calls that are remembered.
_MOST_FORMS = 64


def run(
    known: dict[Hashable, Warm | None],
    is_rest: bool,
    engine: str,
    equation: Equation,
    step: Callable | nn.Module,
    x: Tensor,
    state: Any,
    out_dtype: torch.dtype,
    layout: Layout,
    once: Tensor | None = None,
    every: bool = False,
    pooling: Pooling | None = None,
) -> tuple[Tensor, Any, Any, bool]:
    """As ``autograd.run``. ``known``: what this function remembers of calls with the same plan, which determines x but
    for its values, and ``state``, too, if that is the one at rest."""
    how = (engine, equation, step, x, state, out_dtype, layout, once, every, pooling)
    if engine != "cpp" or equation.parameters or every or pooling or inside_functional_transform():
        return autograd.run(*how)
    repeat = 0 if once is None else len(x)
    given = (x if once is None else once, *(() if is_rest else state))
    records = torch.is_grad_enabled() and True in [t.requires_grad for t in given]
    form = (out_dtype, records, repeat, backend("cpp").threads_for(x), *map(_form, given[1:]))  # type: ignore[attr-defined]
    warm = known.get(form)
    if warm is None:
        results = autograd.run(*how)
        if form not in known and len(known) < _MOST_FORMS:
            rest = state if is_rest else ()
            ready = _is_ready(equation, layout, given, repeat)
            known[form] = Warm(equation, layout, given, repeat, rest, out_dtype) if ready else None
        return results
    rebuild = getattr(type(state), "_make", tuple)
    out, *last, is_finite = _differentiable(warm, step, rebuild, *given) if records else warm.run(given)
    return out, rebuild(last), None, is_finite


def _form(tensor: Tensor) -> tuple:
    """All of a tensor that a call depends on, but its values."""
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad, keys_of(tensor)


def _is_ready(equation: Equation, layout: Layout, given: Sequence[Tensor], repeat: int) -> bool:
    """Whether the kernels take these tensors as they are."""
    if not layout.usual or equation.flags or not all(is_plain(t) and not t.is_inference() for t in given):
        return False
    x, *state = given
    arranged = [layout.step(x).contiguous() if repeat else layout.sequence(x), *map(layout.step, state)]
    return all(map(is_, arranged, given))


class Warm:
    """The kernels of calls of one form, and what their backward passes expect.

    The tensors ``given`` are x, or one step to ``repeat``, and the state, unless that is at ``rest``. There are no
    parameters.
    """

    def __init__(
        self,
        equation: Equation,
        layout: Layout,
        given: Sequence[Tensor],
        repeat: int,
        rest: Sequence[Tensor],
        out_dtype: torch.dtype,
    ) -> None:
        self.equation, self.layout, self.repeat, self.rest, self.out_dtype = equation, layout, repeat, rest, out_dtype
        run = Pass.of(equation, (*given, *rest), repeat)
        self.launch = backend("cpp").forward_launch(run, out_dtype)  # type: ignore[attr-defined]
        self.backward: dict[Hashable, Any] = {}  # by which gradients are wanted, and how those of results are stored
        self.saved = [*map(as_saved, given)]
        self.absent = [zeros(t, i == 0, shared=True) for i, t in enumerate((run.x, *run.state))]

    def run(self, given: Sequence[Tensor]) -> tuple[Any, ...]:
        """(out, *last, whether the last state was seen to be finite)."""
        launch = self.launch
        out = launch.empty(launch.sequence, self.out_dtype)
        last = [launch.empty(launch.one, self.equation.dtype) for _ in self.absent[1:]]
        done = launch(given[0], out, *given[1:], *self.rest, *last)
        if done > 1:
            raise launch.out_of_memory()
        return out, *last, done != 0

    def arranged(self, gradients: Sequence[Tensor | None]) -> list[Tensor] | None:
        """Those of out and the last state as the kernel takes them; None: it can't read them."""
        d = self.absent.copy()
        for i, g in enumerate(gradients):
            if g is None:
                continue
            if not is_plain(g):
                return None
            d[i] = self.layout.step(g) if i else self.layout.sequence(g)
        return d

    def gradients(self, given: Sequence[Tensor], d: list[Tensor], needed: Sequence[bool]) -> list[Tensor | None]:
        """Of x and its state; ``d``: those of the results, arranged."""
        first = True in needed[1:]
        form = (needed[0], first, d[0].stride(0), *[any(t.stride()) for t in d[1:]])
        launch = self.backward.get(form)
        if launch is None:
            run = Pass.of(self.equation, (*given, *self.rest), self.repeat)
            wanted = Gradients(d[0], d[1:], (needed[0],), self.repeat > 0, first=first)
            launch = self.backward[form] = backend("cpp").backward_launch(run, wanted)  # type: ignore[attr-defined]
        x, dtype, summed = given[0], self.equation.dtype, self.repeat > 0
        form, kind = (launch.one, dtype) if summed else (launch.sequence, x.dtype)
        d_x = launch.empty(form, kind) if needed[0] else None
        d_first = [launch.empty(launch.one, dtype) for _ in d[1:]] if first else []
        sequence, sums = (None, d_x) if summed else (d_x, None)
        if launch(x, d[0], sequence, *given[1:], *self.rest, *d[1:], *d_first, sums):
            raise launch.out_of_memory()
        return [d_x if d_x is None else d_x.to(x.dtype), *(d_first or [None] * (len(given) - 1))]


class _Differentiable(torch.autograd.Function):
    """(warm, step, rebuild, *tensors given) -> (out, *last, whether the last state was seen to be finite)."""

    @staticmethod
    def forward(ctx, warm: Warm, step: Any, rebuild: Callable, *given: Tensor) -> tuple[Any, ...]:
        # The state at rest, too: activation checkpointing expects a repeated call to save what the first one did.
        ctx.save_for_backward(*given, *warm.rest)
        ctx.set_materialize_grads(False)  # most losses do not look at the last state
        ctx.call = warm, step, rebuild
        return warm.run(given)

    @staticmethod
    def backward(ctx, *gradients: Tensor | None):
        (warm, step, rebuild), tensors, needed = ctx.call, ctx.saved_tensors, ctx.needs_input_grad[3:]
        given = tensors[: len(needed)]
        if not (torch.is_grad_enabled() or is_watched()) and [*map(as_saved, given)] == warm.saved:
            d = warm.arranged(gradients[:-1])
            with contextlib.suppress(CompilationFailed):  # then, below, the error says what to do
                if d is not None:
                    return None, None, None, *warm.gradients(given, d, needed)
        absent = [False] * len(warm.rest)
        forms = [(dtype, strides, False) for dtype, strides, *_ in warm.saved]
        settled = SimpleNamespace(
            call=Call("cpp", warm.equation, step, rebuild, warm.out_dtype, warm.repeat, False, warm.layout),
            saved_tensors=tensors,
            arguments=len(tensors),
            forms=forms + [autograd.form_of(t) for t in warm.rest],
            needs_input_grad=(False, *needed, *absent),
        )
        results = Unrolled.backward(settled, *gradients[:-1])
        return None, None, *results[: 1 + len(given)]


# As that of ``autograd``.
_differentiable = super(torch.autograd.Function, _Differentiable).apply  # pyright: ignore[reportAttributeAccessIssue]
