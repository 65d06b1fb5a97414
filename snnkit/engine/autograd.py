"""The part that all compiled engines share: the sequence as one node of the autograd graph.

An engine is a module with the functions of ``Backend``. It does not deal with shapes, autograd or ``torch.func``. Here
a sequence [T, B, ...] becomes [T, N] and back, and x and the first state are saved for backward. ``vmap`` only adds
neurons, as an equation has no neighbours.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch._functorch.utils import unwrap_dead_wrappers

from snnkit.engine.eager import Origin, in_dtype, recorded_backward
from snnkit.engine.memory_gate import (
    as_stored,
    check_shape,
    foreign,
    inside_functional_transform,
    is_dual,
    is_in_graph,
    recorder,
    tensors_of,
    uncompiled,
)
from snnkit.engine.trace import Disturbed, Equation, NotElementwise, name_of
from snnkit.engine.trace_cache import equation_of

_unwrap_if_dead = torch._C._functorch.unwrap_if_dead  # pyright: ignore[reportAttributeAccessIssue]


class CompilationFailed(Exception):
    """A compiler could not make a kernel; the message is its own."""


class Pass(NamedTuple):
    """A sequence as a compiled engine takes it. N is the shape of a step, [N] unless ``Layout.usual``.

    Attributes:
        equation: of all neurons.
        x: [T, *N], each step contiguous, with any stride in time, also 0.
        state: before the first step, each [*N], contiguous or one value for all (all strides 0).
        parameters: each [*N], contiguous, or, if all neurons share the number, 0-dimensional.
    """

    equation: Equation
    x: Tensor
    state: Sequence[Tensor]
    parameters: Sequence[Tensor]

    @staticmethod
    def of(equation: Equation, tensors: Sequence[Tensor], repeat: int = 0) -> Pass:
        """Of x (one step if it is repeated), state and parameters, which are arranged already."""
        first, x = 1 + equation.states, tensors[0]
        return Pass(equation, x.expand(repeat, *x.shape) if repeat else x, tensors[1:first], tensors[first:])

    @property
    def dims(self) -> tuple[int, ...]:
        """0 or 1 for each parameter: shared, or one per neuron."""
        return tuple([min(p.dim(), 1) for p in self.parameters])

    def flat(self) -> Pass:
        """The same with [N] for N."""
        state = [s.reshape(-1) for s in self.state]
        return Pass(self.equation, self.x.flatten(1), state, [p.reshape(-1) if p.dim() else p for p in self.parameters])


# Side of the windows that kernels pool. (Places are saved in a byte, which would do up to 16.)
LARGEST_WINDOW = 8


class Pooling(NamedTuple):
    """Windows in which the outputs of channels-last images [B, C, H, W] are pooled, and what these images become.

    Attributes:
        sides: of a window, of which H is a multiple; then W and C.
        layout: of a step of the pooled output [B, C, H / side, W / side], channels-last.
    """

    sides: tuple[int, int, int]
    layout: Layout

    @staticmethod
    def of(window: int, images: Layout) -> Pooling | None:
        """Of images that are stored so; None if they have no rows of whole windows, one after the other, or windows are
        too large: a kernel has code for each place of one."""
        if (
            window > LARGEST_WINDOW
            or len(images.shape) != 4
            or images.order != (0, 2, 3, 1)
            or images.shape[2] % window
        ):
            return None
        batch, channels, height, width = images.shape
        rows, columns = height // window, width // window
        strides = (rows * columns * channels, 1, columns * channels, channels)
        shape = torch.Size((batch, channels, rows, columns))
        return Pooling((window, width, channels), Layout(shape, images.order, strides, False))


class Gradients(NamedTuple):
    """The input of a backward pass, and the gradients that it must return.

    Attributes:
        out: gradient of the output [T, *N], as ``Pass.x``.
        last: gradients of the last state, as ``Pass.state``, and then the equation's flags (``presence_of``).
        needs: whether x, and each parameter, requires a gradient.
        summed: the gradient of x is summed over time, [*N] in the equation's dtype.
        states: gradients of the states after every step, each contiguous [T, *N] or None; empty: all are None.
        first: whether those of the first state are wanted.
    """

    out: Tensor
    last: Sequence[Tensor]
    needs: tuple[bool, ...]
    summed: bool = False
    states: Sequence[Tensor | None] = ()
    first: bool = True

    @property
    def given(self) -> tuple[int, ...]:
        """The parts of the state that have gradients after every step."""
        return tuple([i for i, d in enumerate(self.states) if d is not None])


def presence_of(equation: Equation, x: Tensor, gradients: Sequence[Tensor | None]) -> list[Tensor]:
    """The flags that backward starts from, each [*N]: whether out and the parts of the last state have gradients."""
    one_for_all = (x.new_full((), float(g is not None), dtype=equation.dtype) for g in gradients)
    return [flag.expand(x.shape[1:]) for flag in one_for_all] if equation.flags else []


class Forward(NamedTuple):
    """What a forward pass gives: new tensors, none of them a view.

    Attributes:
        out: [T, *N].
        last: the state after the last step, each [*N].
        saved: what backward needs besides ``Pass``; empty unless it was to be saved.
        is_finite: whether the engine has seen that ``last`` is finite, while it was in the cache.
        states: the state after every step, each part [T, *N] in the equation's dtype; empty unless ``every``.
    """

    out: Tensor
    last: list[Tensor]
    saved: Sequence[Tensor] = ()
    is_finite: bool = False
    states: Sequence[Tensor] = ()


# Gradients of x, of the first state (and what became of the flags), and of the parameters.
Results = tuple[Tensor | None, Sequence[Tensor | None], list[Tensor | None]]


class Backend(Protocol):
    """A compiled engine."""

    def supports(self, equation: Equation, device: torch.device) -> str:
        """An empty string, or the reason why this engine can't run the equation there."""
        ...

    def forward(self, run: Pass, out_dtype: torch.dtype, save: bool, every: bool = False) -> Forward:
        """Run over x. ``save``: whether backward will follow; ``every``: whether all states are results, too."""
        ...

    def backward(self, run: Pass, saved: Sequence[Tensor], d: Gradients) -> Results:
        """The gradients. If ``saved`` is empty, forward runs again."""
        ...


@functools.cache
def backend(engine: str) -> Backend:
    """The compiled engine of this name."""
    return importlib.import_module(f"{__package__}.{engine}")  # type: ignore[return-value]


class Layout(NamedTuple):
    """How the steps [B, ...] of a sequence are stored: shape, and order of dimensions from outer to inner.

    For an elementwise equation the order of neurons in memory does not matter, if input, state and output agree. If the
    steps are dense in some order of dimensions (contiguous, channels-last, a transposed batch), the sequence is viewed
    as [T, N] in that order. Time may have any stride, also 0: a static input stays one step in memory.
    """

    shape: torch.Size
    order: tuple[int, ...]
    strides: tuple[int, ...]  # of a dense step
    usual: bool  # in order: then there is nothing to permute, and a third of the calls less

    @staticmethod
    def of(x: Tensor) -> Layout:
        """The layout of the steps of ``x`` [T, B, ...]."""
        strides = x.stride()[1:]
        # Stable, so dimensions of size one and equal strides stay in the usual order. By hand, as torch.compile can
        # compare symbolic strides but not sort them.
        order: list[int] = []
        for d in range(len(strides)):
            at = len(order)
            while at > 0 and strides[order[at - 1]] < strides[d]:
                at -= 1
            order.insert(at, d)
        shape, size, dense = x.shape[1:], 1, [0] * len(order)
        for d in reversed(order):
            dense[d], size = size, size * shape[d]
        return Layout(shape, tuple(order), tuple(dense), order == list(range(len(order))))

    def flatten_sequence(self, x: Tensor) -> Tensor:
        """[T, B, ...] -> [T, N] with neurons side by side; a view if the layout is dense, else a copy."""
        if not self.usual:
            x = x.permute(0, *(d + 1 for d in self.order))
        return side_by_side(x if x.dim() == 2 else x.reshape(x.shape[0], -1))

    def flatten_step(self, v: Tensor) -> Tensor:
        """[B, ...] -> [N] in the same order of neurons; a view if memory allows it, else a copy.

        One value for all, such as a state at rest, stays one: its stride is 0.
        """
        flat = v if v.dim() == 1 else (v if self.usual else v.permute(self.order)).reshape(-1)
        return flat if is_one_for_all(flat) else flat.contiguous()

    def restore_sequence(self, x: Tensor) -> Tensor:
        """[T, N] -> [T, B, ...], a view."""
        if self.usual:
            return x if len(self.shape) == 1 else x.reshape(x.shape[0], *self.shape)
        sizes = [self.shape[d] for d in self.order]
        return x.reshape(x.shape[0], *sizes).permute(0, *(d + 1 for d in self._inverse()))

    def restore_step(self, v: Tensor) -> Tensor:
        """[N] -> [B, ...], a view."""
        if self.usual:
            return v if len(self.shape) == 1 else v.reshape(self.shape)
        return v.reshape([self.shape[d] for d in self.order]).permute(self._inverse())

    def flatten_parameter(self, p: Tensor) -> Tensor:
        """A parameter that broadcasts against [B, ...] -> [N], or 0-dimensional if it is one number for all."""
        if p.numel() == 1:
            return p.reshape(())
        return self.flatten_step(p.expand(self.shape)).contiguous()

    def sequence(self, x: Tensor) -> Tensor:
        """[T, B, ...] as ``Pass`` takes it: in its own shape if that is usual, else flat."""
        x = as_stored(x)
        if self.usual:
            return x if x.stride()[1:] == self.strides else side_by_side(x)
        return self.flatten_sequence(x)

    def step(self, v: Tensor) -> Tensor:
        """[B, ...] as ``Pass`` takes it."""
        v = as_stored(v)
        if self.usual:
            return v if v.stride() == self.strides or is_one_for_all(v) else v.contiguous()
        return self.flatten_step(v)

    def parameter(self, p: Tensor) -> Tensor:
        """One that broadcasts against [B, ...] as ``Pass`` takes it."""
        if p.numel() == 1:
            return as_stored(p.reshape(()) if p.dim() else p)
        return self.step(p.expand(self.shape)).contiguous()

    def arranged(self, equation: Equation, tensors: Sequence[Tensor], repeated: bool = False) -> list[Tensor]:
        """A call's x (or the one step of it that is repeated), state and parameters as ``Pass`` takes them."""
        first, x = 1 + equation.states, tensors[0]
        given = [self.step(x).contiguous() if repeated else self.sequence(x), *map(self.step, tensors[1:first])]
        return given + [self.parameter(p) for p in tensors[first:]] if equation.parameters else given

    def restored(self, result: Tensor) -> Tensor:
        """A result that is arranged so, as [T, B, ...] or [B, ...]: a view. That of one number for all stays one."""
        if self.usual or not result.dim():
            return result
        return self.restore_step(result) if result.dim() == 1 else self.restore_sequence(result)

    def give(self, *results: Tensor) -> None:
        """Make flat results [T, B, ...] and [B, ...] in place: views that an ``autograd.Function`` returns could not be
        changed by users."""
        for flat in results:
            flat.as_strided_((*flat.shape[:-1], *self.shape), (*flat.stride()[:-1], *self.strides))

    def _inverse(self) -> list[int]:
        inverse = [0] * len(self.order)
        for position, d in enumerate(self.order):
            inverse[d] = position
        return inverse


def is_one_for_all(v: Tensor) -> bool:
    """Whether [*N] is one value in memory, an expanded view."""
    return not any(v.stride()) and v.numel() > 1


def side_by_side(gradient: Tensor) -> Tensor:
    """[T, *N] with steps that are contiguous in memory; any stride in time."""
    flat = gradient.dim() == 2
    if gradient.stride(1) == 1 or gradient.shape[1] <= 1 if flat else gradient[0].is_contiguous():
        return gradient
    # The gradient of a sum is one number in all places, so one step is enough.
    return gradient[0].contiguous().expand_as(gradient) if gradient.stride(0) == 0 else gradient.contiguous()


def run(
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
    """As ``eager.run``, by the ``equation`` of ``step``; then the state after ``every`` step, each part [T, B, ...], or
    None; the last result is ``Forward.is_finite``. ``pooling``: of out, which the C++ engine does alone.

    ``layout`` is that of x. ``once``: the one step if x is an expanded view of it; its gradient is summed over time at
    once. Raises CompilationFailed.
    """
    states, rebuild = len(state), getattr(type(state), "_make", tuple)
    tensors = [x, *state]
    if equation.parameters:
        tensors += [p.to(x.device, equation.dtype) for p in tensors_of(step).values()]
    if inside_functional_transform():
        layout = layout._replace(usual=False)  # samples become neurons, which must be flat for that
        call = Call(engine, equation, step, rebuild, out_dtype, 0, every, None)
        results = Unrolled.apply(call, *_saveable(layout.arranged(equation, tensors)))
        results = [layout.restored(t) for t in results[: call.results]]  # type: ignore[index]
        is_finite = call.is_finite
    elif torch.is_grad_enabled() and True in [t.requires_grad for t in tensors]:
        call = Call(engine, equation, step, rebuild, out_dtype, 0 if once is None else len(x), every, layout, pooling)
        tensors[0] = x if once is None else once
        results = _unrolled(call, *map(_unwrap_if_dead, _saveable(tensors)))
        is_finite = call.is_finite
    else:
        run = Pass.of(equation, layout.arranged(equation, tensors))
        more = {"pooling": pooling} if pooling else {}
        out, last, _, is_finite, after = backend(engine).forward(run, out_dtype, save=False, every=every, **more)
        results = (out, *last, *after)
        if not layout.usual:
            (pooling.layout if pooling else layout).give(out)
            layout.give(*last, *after)
    after = rebuild(results[1 + states : 1 + 2 * states]) if every else None
    return results[0], rebuild(results[1 : 1 + states]), after, is_finite


def form_of(tensor: Tensor) -> tuple[torch.Size, torch.dtype, tuple[int, ...], bool]:
    """How it is stored; autograd's hooks may give back what was saved in another form."""
    return tensor.shape, tensor.dtype, tensor.stride(), tensor.is_neg()


def _saveable(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Autograd saves no tensors that were made in inference mode."""
    return [t.clone() if t.is_inference() else t for t in tensors]


@dataclass(slots=True)
class Call:
    """All but tensors that autograd's functions take and leave: what runs, and what was seen.

    Attributes:
        step: what ``equation`` was traced from.
        rebuild: makes its state of a sequence of tensors.
        repeat: so many times x, one step, is repeated; 0: x is a sequence.
        every: the states after every step are results, too.
        layout: of x; None: all tensors are arranged already, and flat, as transforms need it.
        pooling: of out, if it is pooled.
        is_finite: as ``Forward.is_finite``, once forward has run.
        is_arranged: whether all tensors were as kernels take them, once forward has run.
    """

    engine: str
    equation: Equation
    step: Callable | nn.Module
    rebuild: Callable[[Iterable[Tensor]], Any]
    out_dtype: torch.dtype
    repeat: int
    every: bool
    layout: Layout | None
    pooling: Pooling | None = None
    is_finite: bool = False
    is_arranged: bool = False

    @property
    def results(self) -> int:
        """The tensors of out, of the last state and of the states after every step."""
        return 1 + self.equation.states * (1 + self.every)


class _PooledStep(nn.Module):
    """A step whose output is pooled, by PyTorch's operations."""

    def __init__(self, neuron: Callable | nn.Module, window: int) -> None:
        super().__init__()
        self.neuron, self.window = neuron, window

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        out, after = in_dtype(self.neuron, x.dtype)(x, state)
        return nn.functional.max_pool2d(out, self.window), after


class Unrolled(torch.autograd.Function):
    """(call, x, *state, *parameters) -> (out, *last, *states, *saved)."""

    @staticmethod
    def forward(call: Call, *tensors: Tensor) -> tuple[Tensor, ...]:
        layout, equation, repeat = call.layout, call.equation, call.repeat
        needs = (tensors[0].requires_grad, *[p.requires_grad for p in tensors[1 + equation.states :]])
        first = True in [s.requires_grad for s in tensors[1 : 1 + equation.states]]
        arranged = layout.arranged(equation, tensors, repeat > 0) if layout else tensors
        call.is_arranged = all(map(is_, arranged, tensors))
        run = Pass.of(equation, arranged, repeat)
        compiled = backend(call.engine)
        more, window = ({"pooling": call.pooling}, call.pooling.sides[:1]) if call.pooling else ({}, ())
        if hasattr(compiled, "expect_backward") and any(needs):  # of a compiler that is another process
            compiled.expect_backward(equation, run.x.dtype, run.dims, needs, repeat > 0, call.every, first, *window)  # type: ignore[attr-defined]
        result = compiled.forward(run, call.out_dtype, save=True, every=call.every, **more)
        out, last, saved, call.is_finite, states = result
        if layout and not layout.usual:
            (call.pooling.layout if call.pooling else layout).give(out)
            layout.give(*last, *states)
        return (out, *last, *states, *saved)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        call, *tensors = inputs
        saved = output[call.results :]
        if saved:
            ctx.mark_non_differentiable(*saved)
        every = (*tensors, *saved)
        ctx.save_for_backward(*every)
        ctx.call, ctx.arguments, ctx.forms = call, len(tensors), [*map(form_of, every)]
        ctx.set_materialize_grads(False)  # most losses do not look at the last state

    @staticmethod
    @uncompiled
    def backward(ctx, *gradients: Tensor | None):
        call: Call = ctx.call
        every = ctx.saved_tensors  # once: under activation checkpointing, looking again is an error
        equation, layout, needed = call.equation, call.layout, ctx.needs_input_grad[1:]
        first, gradients = 1 + equation.states, gradients[: call.results]
        if not layout:
            # The function that torch.func.vjp returns is called when its transform has ended, and what it saved is
            # still wrapped.
            every, gradients = unwrap_dead_wrappers(every), unwrap_dead_wrappers(gradients)
        is_arranged = call.is_arranged
        if [*map(form_of, every)] != ctx.forms:  # a hook of autograd's changed their form
            every = tuple(_in_form(t, *form[:3]) for t, form in zip(every, ctx.forms, strict=True))
            is_arranged = False
        tensors, saved = every[: ctx.arguments], every[ctx.arguments :]
        # Under torch.func's transforms gradients are always recorded; second derivatives were refused before.
        transformed = inside_functional_transform()
        recorded = torch.is_grad_enabled() and not transformed
        higher = recorded and any(t is not None and t.requires_grad for t in (*every, *gradients))
        pooling = call.pooling
        left = recorder() or foreign(*every, *[g for g in gradients if g is not None])
        left = left or (pooling if transformed else is_dual())
        if higher or left:
            step, names = call.step, list(tensors_of(call.step))
            state = call.rebuild(tensors[1 : 1 + equation.states])
            require_same_step(step, equation, state, tensors[0].device)
            if pooling:
                step, names = _PooledStep(step, pooling.sides[0]), [f"neuron.{name}" for name in names]
            how = (Origin(step, call.rebuild), names, equation.dtype, call.out_dtype, call.repeat)
            return (None, *recorded_backward(*how, tensors, gradients, needed))
        if transformed and layout:
            layout = layout._replace(usual=False)
        arranged = tensors
        if layout and (transformed or not is_arranged):
            arranged = layout.arranged(equation, tensors, call.repeat > 0)
        run, needs = Pass.of(equation, arranged, call.repeat), (needed[0], *needed[first:])
        d, d_states = [], []
        if pooling:
            likes = [run.x.new_empty(()).expand(len(run.x), pooling.layout.shape.numel()), *run.state]
        else:
            likes = [run.x, *run.state]
        for i, (like, g) in enumerate(zip(likes, gradients, strict=False)):
            if g is None:
                g = zeros(like, sequence=i == 0, shared=not transformed)
            elif layout:
                g = layout.step(g) if i else (pooling.layout if pooling else layout).sequence(g)
            d.append(g)
        if equation.flags:
            d += presence_of(equation, run.x, gradients[:first])
        for g in gradients[first:]:
            d_states.append(layout.sequence(g).contiguous() if g is not None and layout else g)
        try:
            if transformed:  # which may differentiate the results
                given = tuple(g is not None for g in d_states)
                d += [g for g in d_states if g is not None]
                wanted = (needs[0], *[True for _ in run.state], *needs[1:])
                remaining = iter(_Backward.apply(call, needs, given, *arranged, *d, *saved))  # type: ignore[arg-type]
                results = [next(remaining) if wants else None for wants in wanted]
            else:
                results = _gradients(
                    call, run, saved, Gradients(d[0], d[1:], needs, call.repeat > 0, d_states, True in needed[1:first])
                )
        except CompilationFailed as error:
            raise RuntimeError(f"the backward pass can't be compiled ({error}); use engine='eager'") from None
        if layout:
            pairs = zip(tensors, results, needed, strict=True)
            results = [alike(t, layout.restored(d)) if need else None for t, d, need in pairs]  # type: ignore[arg-type]
        return (None, *results)

    @staticmethod
    def vmap(info, in_dims, call: Call, *tensors: Tensor):
        _, of_x, *dims = in_dims
        samples = _Samples(info.batch_size, tensors[0], of_x)  # a sequence: under transforms nothing is repeated
        rest = [samples.together(t, d) for t, d in zip(tensors[1:], dims, strict=True)]
        # The saved values have another shape then; without them, backward recomputes them.
        every = Unrolled.apply(call, samples.x, *rest)
        results = [samples.apart(t) for t in every[: call.results]]  # type: ignore[index]
        return tuple(results), tuple(t.dim() - 2 for t in results)


# PyTorch's own ``apply`` binds arguments to the signature of ``forward``; that takes longer than a small layer.
_unrolled = super(torch.autograd.Function, Unrolled).apply  # pyright: ignore[reportAttributeAccessIssue]


def _gradients(call: Call, run: Pass, saved: Sequence[Tensor], d: Gradients) -> list[Tensor | None]:
    """Those of x, of the first state and of the parameters."""
    more = {"pooling": call.pooling} if call.pooling else {}
    d_x, d_state, d_parameters = backend(call.engine).backward(run, saved, d, **more)
    if d_x is not None and d_x.dtype != run.x.dtype:
        d_x = d_x.to(run.x.dtype)
    return [d_x, *d_state[: call.equation.states], *d_parameters]


def zeros(like: Tensor, sequence: bool, shared: bool) -> Tensor:
    """Zeros that take the memory of one, or, where kernels read them step by step, of a step of a ``sequence``.
    ``shared``: other passes read it, too, so no transform may see it."""
    if not shared or is_in_graph(like.device):
        return like.new_zeros(like.shape[1:] if sequence else ()).expand(like.shape)
    if sequence:
        return _zero_step(like.shape[1:], like.dtype, like.device).expand(like.shape)
    return _one_zero(like.shape, like.dtype, like.device)


@functools.lru_cache(maxsize=8)  # they may be large, and few layers have an output without a gradient
def _zero_step(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.zeros(shape, dtype=dtype, device=device)


@functools.lru_cache(maxsize=256)
def _one_zero(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.zeros((), dtype=dtype, device=device).expand(shape)


def alike(tensor: Tensor, gradient: Tensor) -> Tensor:
    """The ``gradient`` of a tensor in its shape, summed where it was one number for many neurons."""
    if gradient.shape == tensor.shape:
        return gradient
    return gradient.sum_to_size(tensor.shape) if gradient.dim() else gradient.reshape(tensor.shape)


def _in_form(tensor: Tensor, shape: torch.Size, dtype: torch.dtype, stride: tuple[int, ...]) -> Tensor:
    check_shape(tensor, shape)
    tensor = tensor.to(dtype)
    return tensor if tensor.stride() == stride else tensor.contiguous()


def require_same_step(step: Callable | nn.Module, equation: Equation, state: Any, device: torch.device) -> None:
    """The step runs again, so its numbers must be those of the forward pass."""
    try:
        now = equation_of(step, state, equation.dtype, device)
    except NotElementwise:
        now = None
    except Disturbed:  # nothing can be said
        return
    if now is None or now.key != equation.key or now.parameters != equation.parameters:
        raise RuntimeError(
            f"{name_of(step)} must stay as it was in its forward pass until a backward pass that records PyTorch's "
            "operations (create_graph=True), but a number that its step reads has changed; use engine='eager' for that"
        )


class _Backward(torch.autograd.Function):
    """(call, needs, given, x, *state, *parameters, d_out, *d_last, *flags, *d_states, *saved) -> the needed gradients;
    for a repeated x, the sum over time. ``given``: which parts of the states after every step have a gradient.

    It is a separate function, so that ``torch.func`` can transform it, and that only a request for a second derivative
    is refused.
    """

    @staticmethod
    def forward(call: Call, needs: tuple[bool, ...], given: tuple[bool, ...], *tensors: Tensor) -> tuple[Tensor, ...]:
        equation = call.equation
        count = 1 + equation.states + equation.parameters
        run = Pass.of(equation, tensors[:count], call.repeat)
        d_out, *d_last = tensors[count : count + 1 + equation.carried]
        rest = iter(tensors[count + 1 + equation.carried :])
        d_states = [next(rest).contiguous() if present else None for present in given]
        d_last = [d if is_one_for_all(d) else d.contiguous() for d in d_last]
        d = Gradients(side_by_side(d_out), d_last, needs, call.repeat > 0, d_states)
        return tuple(d for d in _gradients(call, run, tuple(rest), d) if d is not None)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        pass

    @staticmethod
    @uncompiled
    def backward(ctx, *_: Tensor):
        raise RuntimeError(
            "under torch.func's transforms compiled engines give first derivatives only; use engine='eager' to "
            "differentiate twice"
        )

    @staticmethod
    def vmap(info, in_dims, call: Call, needs: tuple[bool, ...], given: tuple[bool, ...], *tensors: Tensor):
        _, _, _, *dims = in_dims
        equation, states = call.equation, call.equation.states
        samples = _Samples(info.batch_size, tensors[0], dims[0])
        together = [samples.together(t, d) for t, d in zip(tensors[1:], dims[1:], strict=True)]
        state, parameters = together[:states], together[states : states + equation.parameters]
        first = states + equation.parameters
        gradients = slice(first, first + 1 + equation.carried + sum(given))
        shared = [p.dim() == 0 for p in parameters]
        # Each sample has its own gradient, so one number for all is not enough.
        for i, need in enumerate(needs[1:]):
            if need and shared[i]:
                parameters[i] = parameters[i].expand(samples.x.shape[1]).contiguous()
            shared[i] = tensors[1 + states + i].dim() - (dims[1 + states + i] is not None) == 0
        flat = _Backward.apply(call, needs, given, samples.x, *state, *parameters, *together[gradients])
        results = [samples.apart(d) for d in flat]  # type: ignore[union-attr]
        first = needs[0] + states
        wanted = [is_shared for is_shared, need in zip(shared, needs[1:], strict=True) if need]
        for i, is_shared in enumerate(wanted):
            results[first + i] = results[first + i].sum(1) if is_shared else results[first + i]
        return tuple(results), tuple(1 if i < needs[0] else 0 for i in range(len(results)))


class _Samples:
    """The samples of a ``vmap`` as one layer of batch · N neurons: an equation has no neighbours."""

    def __init__(self, batch: int, x: Tensor, dim: int | None) -> None:
        self.batch = batch
        self.neurons = x.shape[1] if dim is None else x.movedim(dim, 0).shape[2]
        self.x = self.together(x, dim)

    def together(self, tensor: Tensor, dim: int | None) -> Tensor:
        """[T, N], [N] or (), with samples along ``dim`` or the same for all, as [T, B·N], [B·N] or ()."""
        if dim is None:
            if tensor.dim() == 0:
                return tensor
            place = tensor.dim() - 1
            shape = [*tensor.shape[:place], self.batch, self.neurons]
            return tensor.unsqueeze(place).expand(shape).flatten(place)
        if tensor.dim() == 1:  # a number for each sample
            return tensor[:, None].expand(self.batch, self.neurons).flatten()
        place = tensor.dim() - 2
        return tensor.movedim(dim, place).flatten(place)

    def apart(self, tensor: Tensor) -> Tensor:
        """[..., B·N] -> [..., B, N]."""
        return tensor.unflatten(-1, (self.batch, self.neurons))
