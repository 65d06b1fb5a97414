"""The part that all compiled engines share: the sequence as one node of the autograd graph.

An engine is a module with the functions of ``Backend``. It does not deal with shapes, autograd or ``torch.func``. Here
a sequence [T, B, ...] becomes [T, N] and back, and x and the first state are saved for backward. ``vmap`` only adds
neurons, as an equation has no neighbours.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch._functorch.utils import unwrap_dead_wrappers

from snnkit.engine.eager import Origin, recorded_backward
from snnkit.engine.memory_gate import as_stored, foreign, inside_functional_transform, recorder, tensors_of
from snnkit.engine.trace import Disturbed, Equation, NotElementwise, name_of
from snnkit.engine.trace_cache import equation_of


class CompilationFailed(Exception):
    """A compiler could not make a kernel; the message is its own."""


class Pass(NamedTuple):
    """A sequence as a compiled engine takes it.

    Attributes:
        equation: of all neurons.
        x: [T, N] with neurons side by side and any stride in time, also 0.
        state: before the first step, each [N], side by side or one value for all (stride 0).
        parameters: each [N] or, if all neurons share the number, 0-dimensional.
    """

    equation: Equation
    x: Tensor
    state: Sequence[Tensor]
    parameters: Sequence[Tensor]

    @property
    def dims(self) -> tuple[int, ...]:
        """0 or 1 for each parameter: shared, or one per neuron."""
        return tuple(p.dim() for p in self.parameters)


class Gradients(NamedTuple):
    """The input of a backward pass, and the gradients that it must return.

    Attributes:
        out: gradient of the output [T, N], as ``Pass.x``.
        last: gradients of the last state, as ``Pass.state``, and then the equation's flags (``presence_of``).
        needs: whether x, and each parameter, requires a gradient.
        summed: the gradient of x is summed over time, [N] in the equation's dtype.
        states: gradients of the states after every step, each contiguous [T, N] or None; empty: all are None.
    """

    out: Tensor
    last: Sequence[Tensor]
    needs: tuple[bool, ...]
    summed: bool = False
    states: Sequence[Tensor | None] = ()

    @property
    def given(self) -> tuple[int, ...]:
        """The parts of the state that have gradients after every step."""
        return tuple(i for i, d in enumerate(self.states) if d is not None)


def presence_of(equation: Equation, x: Tensor, gradients: Sequence[Tensor | None]) -> list[Tensor]:
    """The flags that backward starts from, each [N]: whether out and the parts of the last state have gradients."""
    one_for_all = (x.new_full((), float(g is not None), dtype=equation.dtype) for g in gradients)
    return [flag.expand(x.shape[1]) for flag in one_for_all] if equation.flags else []


class Forward(NamedTuple):
    """What a forward pass gives.

    Attributes:
        out: [T, N].
        last: the state after the last step, each [N].
        saved: what backward needs besides ``Pass``; empty unless it was to be saved.
        is_finite: whether the engine has seen that ``last`` is finite, while it was in the cache.
        states: the state after every step, each part [T, N] in the equation's dtype; empty unless ``every``.
    """

    out: Tensor
    last: list[Tensor]
    saved: Sequence[Tensor] = ()
    is_finite: bool = False
    states: Sequence[Tensor] = ()


# Gradients of x, of the first state (and what became of the flags), and of the parameters.
Results = tuple[Tensor | None, list[Tensor], list[Tensor | None]]


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
        return Layout(x.shape[1:], tuple(order), order == list(range(len(order))))

    def flatten_sequence(self, x: Tensor) -> Tensor:
        """[T, B, ...] -> [T, N] with neurons side by side; a view if the layout is dense, else a copy."""
        if not self.usual:
            x = x.permute(0, *(d + 1 for d in self.order))
        flat = x if x.dim() == 2 else x.reshape(x.shape[0], -1)
        return flat if flat.shape[1] <= 1 or flat.stride(1) == 1 else flat.contiguous()

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
        return self.flatten_step(p.expand(self.shape))

    def _inverse(self) -> list[int]:
        inverse = [0] * len(self.order)
        for position, d in enumerate(self.order):
            inverse[d] = position
        return inverse


def is_one_for_all(v: Tensor) -> bool:
    """Whether [N] is one value in memory, an expanded view."""
    return v.shape[0] > 1 and v.stride(0) == 0


def side_by_side(gradient: Tensor) -> Tensor:
    """A gradient [T, N] with neurons side by side in memory; any stride in time."""
    if gradient.shape[1] <= 1 or gradient.stride(1) == 1:
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
    once: Tensor | None = None,
    every: bool = False,
) -> tuple[Tensor, Any, Any, bool]:
    """As ``eager.run``, by the ``equation`` of ``step``; then the state after ``every`` step, each part [T, B, ...], or
    None; the last result is ``Forward.is_finite``.

    ``once``: the one step if x is an expanded view of it; its gradient is summed over time at once. Raises
    CompilationFailed.
    """
    layout = Layout.of(x)
    rebuild = getattr(type(state), "_make", tuple)
    tensors = [layout.flatten_sequence(x), *(layout.flatten_step(part) for part in state)]
    if equation.parameters:
        parameters = (p.to(x.device, equation.dtype) for p in tensors_of(step).values())
        tensors += [layout.flatten_parameter(p) for p in parameters]
    tensors = [as_stored(t) for t in tensors]
    differentiable = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    transformed = inside_functional_transform()
    if differentiable or transformed:
        tensors = [t.clone() if t.is_inference() else t for t in tensors]  # or autograd could not save them
        repeat = 0
        if once is not None and not transformed:
            repeat, tensors[0] = len(x), layout.flatten_step(once).contiguous()
        call = _Call(engine, equation, Origin(step, rebuild), out_dtype, repeat, every)
        out, *rest = _Unrolled.apply(call, *tensors)  # type: ignore[misc]
        last, states = rest[: len(state)], rest[len(state) : call.results - 1]
        is_finite = call.is_finite
    else:
        run = _pass(equation, tensors)
        out, last, _, is_finite, states = backend(engine).forward(run, out_dtype, save=False, every=every)
    after = rebuild([layout.restore_sequence(part) for part in states]) if every else None
    return layout.restore_sequence(out), rebuild([layout.restore_step(part) for part in last]), after, is_finite


@dataclass
class _Call:
    """All but tensors that autograd's functions take and leave: what runs, and what was seen.

    Attributes:
        origin: what ``equation`` was traced from.
        repeat: so many times x, one step [N], is repeated; 0: x is [T, N].
        every: the states after every step are results, too.
        is_finite: as ``Forward.is_finite``, once forward has run.
    """

    engine: str
    equation: Equation
    origin: Origin
    out_dtype: torch.dtype
    repeat: int
    every: bool
    is_finite: bool = False

    @property
    def results(self) -> int:
        """The tensors of out, of the last state and of the states after every step."""
        return 1 + self.equation.states * (1 + self.every)


class _Function(torch.autograd.Function):
    """In every call PyTorch binds arguments to the signature of ``forward``; that takes longer than a small layer."""

    @classmethod
    def apply(cls, *args: Any) -> Any:
        if inside_functional_transform():
            return super().apply(*args)
        plain = super(torch.autograd.Function, cls)
        return plain.apply(*unwrap_dead_wrappers(args))  # pyright: ignore[reportAttributeAccessIssue]


class _Unrolled(_Function):
    """(call, x, *state, *parameters) -> (out, *last, *states, *saved)."""

    @staticmethod
    def forward(call: _Call, *tensors: Tensor) -> tuple[Tensor, ...]:
        run = _pass(call.equation, tensors, call.repeat)
        needs = (tensors[0].requires_grad, *(p.requires_grad for p in run.parameters))
        compiled = backend(call.engine)
        if any(needs) and hasattr(compiled, "expect_backward"):  # of a compiler that is another process
            compiled.expect_backward(run, needs, call.repeat > 0, call.every)  # type: ignore[attr-defined]
        out, last, saved, call.is_finite, states = compiled.forward(run, call.out_dtype, save=True, every=call.every)
        return (out, *last, *states, *saved)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        call, *tensors = inputs
        saved = output[call.results :]
        ctx.mark_non_differentiable(*saved)
        ctx.save_for_backward(*tensors, *saved)
        ctx.forms = [(t.dtype, t.stride()) for t in (*tensors, *saved)]
        ctx.call, ctx.arguments = call, len(tensors)
        ctx.set_materialize_grads(False)  # most losses do not look at the last state

    @staticmethod
    def backward(ctx, *gradients: Tensor | None):
        # Once: under activation checkpointing, looking again is an error. The function that torch.func.vjp returns is
        # called when its transform has ended, and what it saved is still wrapped.
        every, gradients = unwrap_dead_wrappers(ctx.saved_tensors), unwrap_dead_wrappers(gradients)
        if [(t.dtype, t.stride()) for t in every] != ctx.forms:  # a hook of autograd's gave them back in another form
            every = tuple(_in_form(t, *form) for t, form in zip(every, ctx.forms, strict=True))
        tensors, saved = every[: ctx.arguments], every[ctx.arguments :]
        call: _Call = ctx.call
        equation, needed = call.equation, ctx.needs_input_grad[1:]
        first, gradients = 1 + equation.states, gradients[: call.results]
        # Under torch.func's transforms gradients are always recorded; second derivatives were refused before.
        recorded = torch.is_grad_enabled() and not inside_functional_transform()
        higher = recorded and any(t is not None and t.requires_grad for t in (*every, *gradients))
        if higher or recorder() or foreign(*every, *(g for g in gradients if g is not None)):
            names = list(tensors_of(call.origin.step))
            state = call.origin.rebuild(tensors[1 : 1 + equation.states])
            require_same_step(call.origin.step, equation, state, tensors[0].device)
            how = (call.origin, names, equation.dtype, call.out_dtype, call.repeat)
            return (None, *recorded_backward(*how, tensors, gradients, needed))
        needs = (needed[0], *needed[first:])
        run = _pass(equation, tensors, call.repeat)
        # Zeros that take the memory of one.
        pairs = zip(gradients[:first], (run.x, *run.state), strict=True)
        d = [t.new_zeros(()).expand(t.shape) if g is None else as_stored(g) for g, t in pairs]
        d += presence_of(equation, run.x, gradients[:first])
        given = tuple(g is not None for g in gradients[first:])
        d += [as_stored(g) for g in gradients[first:] if g is not None]
        try:
            # Only a transform differentiates the result.
            backward = _Backward.apply if inside_functional_transform() else _Backward.forward
            results = backward(call, needs, given, *tensors, *d, *saved)
        except CompilationFailed as error:
            raise RuntimeError(f"the backward pass can't be compiled ({error}); use engine='eager'") from None
        remaining = iter(results)  # type: ignore[arg-type]
        wanted = (needs[0], *(True for _ in range(equation.states)), *needs[1:])
        return (None, *(next(remaining) if wants else None for wants in wanted))

    @staticmethod
    def vmap(info, in_dims, call: _Call, *tensors: Tensor):
        _, of_x, *dims = in_dims
        samples = _Samples(info.batch_size, tensors[0], of_x)  # a sequence: under transforms nothing is repeated
        rest = [samples.together(t, d) for t, d in zip(tensors[1:], dims, strict=True)]
        # The saved values have another shape then; without them, backward recomputes them.
        every = _Unrolled.apply(call, samples.x, *rest)
        results = [samples.apart(t) for t in every[: call.results]]  # type: ignore[index]
        return tuple(results), tuple(t.dim() - 2 for t in results)


def _in_form(tensor: Tensor, dtype: torch.dtype, stride: tuple[int, ...]) -> Tensor:
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


class _Backward(_Function):
    """(call, needs, given, x, *state, *parameters, d_out, *d_last, *flags, *d_states, *saved) -> the needed gradients;
    for a repeated x, the sum over time. ``given``: which parts of the states after every step have a gradient.

    It is a separate function, so that ``torch.func`` can transform it, and that only a request for a second derivative
    is refused.
    """

    @staticmethod
    def forward(call: _Call, needs: tuple[bool, ...], given: tuple[bool, ...], *tensors: Tensor) -> tuple[Tensor, ...]:
        equation, repeat = call.equation, call.repeat
        count = 1 + equation.states + equation.parameters
        run = _pass(equation, tensors[:count], repeat)
        d_out, *d_last = tensors[count : count + 1 + equation.carried]
        rest = iter(tensors[count + 1 + equation.carried :])
        d_states = [next(rest).contiguous() if present else None for present in given]
        saved = tuple(rest)
        d_last = [d if is_one_for_all(d) else d.contiguous() for d in d_last]
        d = Gradients(side_by_side(d_out), d_last, needs, repeat > 0, d_states)
        d_x, d_state, d_parameters = backend(call.engine).backward(run, saved, d)
        d_x = None if d_x is None else d_x.to(run.x.dtype)
        return tuple(d for d in (d_x, *d_state[: equation.states], *d_parameters) if d is not None)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        pass

    @staticmethod
    def backward(ctx, *_: Tensor):
        raise RuntimeError(
            "under torch.func's transforms compiled engines give first derivatives only; use engine='eager' to "
            "differentiate twice"
        )

    @staticmethod
    def vmap(info, in_dims, call: _Call, needs: tuple[bool, ...], given: tuple[bool, ...], *tensors: Tensor):
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


def _pass(equation: Equation, tensors: Sequence[Tensor], repeat: int = 0) -> Pass:
    """Of x (one step [N] if it is repeated), state and parameters."""
    first = 1 + equation.states
    x = tensors[0].expand(repeat, *tensors[0].shape) if repeat else tensors[0]
    return Pass(equation, x, tensors[1:first], tensors[first:])
