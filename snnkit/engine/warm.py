"""Calls that repeat an earlier one: for tensors of the same shapes, strides and kinds, only the kernel is left to call.

In a small layer's call the kernel took a tenth of the time, and questions whose answers were known from the call before
took half. So the first call of a form goes through ``autograd.run``, which settles them, and leaves a ``Warm`` for the
next. What can change between calls is still checked: who watches, and in backward what came back from autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from operator import is_
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from snnkit.engine import autograd
from snnkit.engine.autograd import Call, CompilationFailed, Gradients, Layout, Pass, Pooling, Unrolled, backend, zeros
from snnkit.engine.memory_gate import as_saved, inside_functional_transform, is_plain, is_watched, keys_of, uncompiled
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
    # A view of one step may be plain where the step itself is not: the wrapper of a transform that has ended, say.
    is_usual = engine == "cpp" and (once is None or is_plain(once))
    if not is_usual or equation.parameters or every or pooling or inside_functional_transform():
        return autograd.run(*how)
    repeat = 0 if once is None else len(x)
    tensors = (x if once is None else once, *state)
    records = torch.is_grad_enabled() and True in [t.requires_grad for t in tensors]
    threads = backend("cpp").threads_for(x)  # type: ignore[attr-defined]
    form = (out_dtype, records, repeat, threads, *(() if is_rest else map(_form, state)))
    warm = known.get(form)
    if warm is None:
        results = autograd.run(*how)
        if form not in known and len(known) < _MOST_FORMS:
            rest = state if is_rest else ()
            ready = _is_ready(equation, layout, tensors, repeat)
            known[form] = Warm(equation, layout, tensors, repeat, out_dtype, rest) if ready else None
        return results
    rebuild = getattr(type(state), "_make", tuple)
    out, *last, is_finite = _differentiable(warm, step, rebuild, *tensors) if records else warm.run(tensors)
    return out, rebuild(last), None, is_finite


def _form(tensor: Tensor) -> tuple:
    """All of a tensor that a call depends on, but its values."""
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad, keys_of(tensor)


def _is_ready(equation: Equation, layout: Layout, tensors: Sequence[Tensor], repeat: int) -> bool:
    """Whether the kernels take these tensors as they are."""
    usual = layout.usual and not equation.flags and all(is_plain(t) and not t.is_inference() for t in tensors)
    return usual and all(map(is_, layout.arranged(equation, tensors, repeat > 0), tensors))


class Warm:
    """The kernels of calls of one form, and what their backward passes expect.

    ``tensors`` are x, or one step to ``repeat``, and the state. There are no parameters. ``rest``: a state at rest that
    all calls share; else nothing.
    """

    def __init__(
        self,
        equation: Equation,
        layout: Layout,
        tensors: Sequence[Tensor],
        repeat: int,
        out_dtype: torch.dtype,
        rest: Sequence[Tensor],
    ) -> None:
        self.equation, self.layout, self.repeat, self.out_dtype, self.rest = equation, layout, repeat, out_dtype, rest
        run = self._pass(tensors)
        self.launch = backend("cpp").forward_launch(run, out_dtype)  # type: ignore[attr-defined]
        self.backward: dict[Hashable, Any] = {}  # by which gradients are wanted, and how those of results are stored
        self.saved = [*map(as_saved, tensors[:1] if rest else tensors)]
        self.absent = [zeros(part, False, shared=True) for part in run.state]  # gradients of a last state without any

    def _pass(self, tensors: Sequence[Tensor]) -> Pass:
        return Pass.of(self.equation, tensors, self.repeat)

    def run(self, tensors: Sequence[Tensor]) -> tuple[Any, ...]:
        """(out, *last, whether the last state was seen to be finite)."""
        launch = self.launch
        out = launch.empty(launch.sequence, self.out_dtype)
        last = [launch.empty(launch.one, self.equation.dtype) for _ in tensors[1:]]
        done = launch(tensors[0], out, *tensors[1:], *last)
        if done > 1:
            raise launch.out_of_memory()
        return out, *last, done != 0

    def gradients(
        self, tensors: Sequence[Tensor], given: Sequence[Tensor | None], needed: Sequence[bool]
    ) -> list[Tensor | None] | None:
        """Of ``tensors``, from those ``given`` of out and the last state; None: the kernel can't read these, or there
        is none."""
        if not all(g is None or is_plain(g) for g in given):
            return None
        if self.rest:  # what autograd gives back may have another form
            tensors = (tensors[0], *self.rest)
        layout, summed = self.layout, self.repeat > 0
        out, *last = given
        d = [zeros(self._pass(tensors).x, True, shared=True) if out is None else layout.sequence(out)]
        d += [zero if g is None else layout.step(g) for g, zero in zip(last, self.absent, strict=True)]
        first, threads = True in needed[1:], backend("cpp").threads_for(d[0])  # type: ignore[attr-defined]
        form = (needed[0], first, threads, d[0].stride(0), *[any(t.stride()) for t in d[1:]])
        launch = self.backward.get(form)
        if launch is None:
            run, wanted = self._pass(tensors), Gradients(d[0], d[1:], (needed[0],), summed, first=first)
            try:
                launch = self.backward[form] = backend("cpp").backward_launch(run, wanted)  # type: ignore[attr-defined]
            except CompilationFailed:
                return None
        x, dtype = tensors[0], self.equation.dtype
        size, kind = (launch.one, dtype) if summed else (launch.sequence, x.dtype)
        d_x = launch.empty(size, kind) if needed[0] else None
        d_first = [launch.empty(launch.one, dtype) for _ in d[1:]] if first else []
        sequence, sums = (None, d_x) if summed else (d_x, None)
        if launch(x, d[0], sequence, *tensors[1:], *d[1:], *d_first, sums):
            raise launch.out_of_memory()
        return [d_x if d_x is None else d_x.to(x.dtype), *(d_first or [None] * len(d[1:]))]


class _Differentiable(torch.autograd.Function):
    """(warm, step, rebuild, x, *state) -> (out, *last, whether the last state was seen to be finite).

    It saves what ``Unrolled`` does: activation checkpointing may compare one's call with another's.
    """

    @staticmethod
    def forward(ctx, warm: Warm, step: Any, rebuild: Callable, *tensors: Tensor) -> tuple[Any, ...]:
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)  # most losses do not look at the last state
        ctx.call = warm, step, rebuild
        return warm.run(tensors)

    @staticmethod
    @uncompiled
    def backward(ctx, *gradients: Tensor | None):
        (warm, step, rebuild), tensors, needed = ctx.call, ctx.saved_tensors, ctx.needs_input_grad[3:]
        results, given = None, gradients[:-1]
        if not (torch.is_grad_enabled() or is_watched()) and [*map(as_saved, tensors[: len(warm.saved)])] == warm.saved:
            results = warm.gradients(tensors, given, needed)
        if results is None:
            call = SimpleNamespace(
                call=Call("cpp", warm.equation, step, rebuild, warm.out_dtype, warm.repeat, False, warm.layout),
                saved_tensors=tensors,
                arguments=len(tensors),
                forms=[*((*form[:3], False) for form in warm.saved), *map(autograd.form_of, warm.rest)],
                needs_input_grad=(False, *needed),
            )
            _, *results = Unrolled.backward(call, *given)
        return None, None, None, *results


# As that of ``autograd``.
_differentiable = super(torch.autograd.Function, _Differentiable).apply  # pyright: ignore[reportAttributeAccessIssue]
