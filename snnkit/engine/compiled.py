"""What the compiled engines share: the sequence as one node of the autograd graph.

An engine is a module with the functions of ``Kernels``. They know nothing of shapes, autograd or ``torch.func``; here
a sequence [T, B, ...] becomes [T, N] and back, x and the first state are saved for backward, and ``vmap`` becomes what
it is for an equation without neighbours: more neurons.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from .equations import tensors_of
from .layout import Layout, is_one_for_all, side_by_side
from .second import Origin, differentiable_backward
from .trace import Equation


class CompilationFailed(Exception):
    """A compiler could not make a kernel; the message is its own."""


class Kernels(Protocol):
    """A compiled engine. x, out and their gradients are [T, N] with neurons side by side and any stride in time, 0
    included; states and their gradients are [N], side by side or one value for all (stride 0); parameters [N] or, if
    all neurons share the number, 0-dimensional."""

    def supports(self, equation: Equation, device: torch.device) -> str:
        """An empty string, or the reason why this engine can't run the equation there."""
        ...

    def forward(
        self,
        equation: Equation,
        x: Tensor,
        state: Sequence[Tensor],
        parameters: Sequence[Tensor],
        out_dtype: torch.dtype,
        keep: bool,
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """(out, last state, what backward needs besides x, state and parameters: nothing unless ``keep``)."""
        ...

    def backward(
        self,
        equation: Equation,
        x: Tensor,
        state: Sequence[Tensor],
        kept: Sequence[Tensor],
        parameters: Sequence[Tensor],
        d_out: Tensor,
        d_last: Sequence[Tensor],
        needs: tuple[bool, ...],
        summed: bool,
    ) -> tuple[Tensor | None, list[Tensor], list[Tensor | None]]:
        """Gradients of x, state and parameters; ``needs``: whether x, and each parameter, wants one. ``kept`` may be
        empty (then forward is run again for it). ``summed``: that of x over time, [N] in the equation's dtype."""
        ...


def kernels(engine: str) -> Kernels:
    """The engine of this name."""
    return importlib.import_module(f"{__package__}.{engine}")  # type: ignore[return-value]


def run(
    engine: str,
    equation: Equation,
    step: Callable | nn.Module,
    x: Tensor,
    state: Any,
    out_dtype: torch.dtype,
    once: Tensor | None = None,
) -> tuple[Tensor, Any]:
    """As ``eager.run``, by the ``equation`` of ``step``. ``once``: the one step of which x is an expanded view; its
    gradient is summed over time as it is made. Raises CompilationFailed."""
    layout = Layout.of(x)
    rebuild = getattr(type(state), "_make", tuple)
    tensors = [
        layout.flatten_sequence(x),
        *(layout.flatten_step(part) for part in state),
        *(layout.flatten_parameter(p.to(x.device, equation.dtype)) for p in tensors_of(step).values()),
    ]
    differentiable = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    transformed = torch._C._functorch.peek_interpreter_stack() is not None  # pyright: ignore
    if differentiable or transformed:
        repeat = 0
        if once is not None and not transformed:
            repeat, tensors[0] = len(x), layout.flatten_step(once).contiguous()
        every = Unrolled.apply(engine, equation, Origin(step, rebuild), out_dtype, repeat, *tensors)
        out, *last = every[: 1 + len(state)]  # type: ignore[index]
    else:
        count = 1 + equation.states
        out, last, _ = kernels(engine).forward(
            equation, tensors[0], tensors[1:count], tensors[count:], out_dtype, keep=False
        )
    return layout.restore_sequence(out), rebuild([layout.restore_step(part) for part in last])


class Unrolled(torch.autograd.Function):
    """(engine, equation, origin, out_dtype, repeat, x, *state, *parameters) -> (out, *last, *kept).

    x is [T, N] or, if it is to be repeated so many times, [N]. ``origin`` is what ``equation`` was traced from.
    """

    @staticmethod
    def forward(
        engine: str,
        equation: Equation,
        origin: Origin,
        out_dtype: torch.dtype,
        repeat: int,
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        x, state, parameters = _split(equation, tensors, repeat)
        out, last, kept = kernels(engine).forward(equation, x, state, parameters, out_dtype, keep=True)
        return (out, *last, *kept)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        engine, equation, origin, out_dtype, repeat, *tensors = inputs
        kept = output[1 + equation.states :]
        ctx.mark_non_differentiable(*kept)
        ctx.save_for_backward(*tensors, *kept)
        ctx.engine, ctx.equation, ctx.repeat, ctx.arguments = engine, equation, repeat, len(tensors)
        ctx.origin, ctx.out_dtype = origin, out_dtype
        ctx.set_materialize_grads(False)  # most losses do not look at the last state

    @staticmethod
    def backward(ctx, *gradients: Tensor | None):
        saved = ctx.saved_tensors  # once: under activation checkpointing, looking again is an error
        tensors, kept = saved[: ctx.arguments], saved[ctx.arguments :]
        if any(torch._C._functorch.is_legacy_batchedtensor(g) for g in gradients if g is not None):  # pyright: ignore
            raise RuntimeError(
                "compiled engines don't take several gradients at once (is_grads_batched=True, vectorize=True); "
                "use torch.func.vmap or jacrev, or engine='eager'"
            )
        equation: Equation = ctx.equation
        first = 1 + equation.states
        # Under torch.func's transforms gradients are always recorded; those of gradients were refused beforehand.
        if torch.is_grad_enabled() and torch._C._functorch.peek_interpreter_stack() is None:  # pyright: ignore
            again = differentiable_backward(
                ctx.origin, equation, ctx.out_dtype, ctx.repeat, tensors, gradients, ctx.needs_input_grad[5:]
            )
            return (None, None, None, None, None, *again)
        needs = (ctx.needs_input_grad[5], *ctx.needs_input_grad[5 + first :])
        x, state, _ = _split(equation, tensors, ctx.repeat)
        d = [zeros_like_one(t) if g is None else g for g, t in zip(gradients, (x, *state), strict=False)]
        try:
            found = _Backward.apply(ctx.engine, equation, needs, ctx.repeat, *tensors, *d, *kept)
        except CompilationFailed as error:
            raise RuntimeError(f"the backward pass can't be compiled ({error}); use engine='eager'") from None
        every = iter(found)  # type: ignore[arg-type]
        wanted = (needs[0], *(True for _ in range(equation.states)), *needs[1:])
        return (None, None, None, None, None, *(next(every) if wants else None for wants in wanted))

    @staticmethod
    def vmap(
        info,
        in_dims,
        engine: str,
        equation: Equation,
        origin: Origin,
        out_dtype: torch.dtype,
        repeat: int,
        *tensors: Tensor,
    ):
        samples = _Samples(info.batch_size, tensors[0], in_dims[5])  # a sequence: under transforms nothing is repeated
        rest = [samples.together(t, d) for t, d in zip(tensors[1:], in_dims[6:], strict=True)]
        # What is kept for backward has another shape then; without it, backward makes it anew.
        every = Unrolled.apply(engine, equation, origin, out_dtype, repeat, samples.x, *rest)
        out, *last = every[: 1 + equation.states]  # type: ignore[index]
        return (samples.apart(out), *(samples.apart(part) for part in last)), (1, *(0 for _ in last))


class _Backward(torch.autograd.Function):
    """(engine, equation, needs, repeat, x, *state, *parameters, d_out, *d_last, *kept) -> the gradients that are
    needed; that of an x that is repeated is summed over time.

    A function of its own, so that ``torch.func`` can transform it, and that a second derivative is refused only where
    one is asked for.
    """

    @staticmethod
    def forward(
        engine: str, equation: Equation, needs: tuple[bool, ...], repeat: int, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        count = 1 + equation.states + equation.parameters
        x, state, parameters = _split(equation, tensors[:count], repeat)
        d_out, *d_last = tensors[count : count + 1 + equation.states]
        kept = tensors[count + 1 + equation.states :]
        d_last = [d if is_one_for_all(d) else d.contiguous() for d in d_last]
        d_x, d_state, d_parameters = kernels(engine).backward(
            equation, x, state, kept, parameters, side_by_side(d_out), d_last, needs, repeat > 0
        )
        d_x = None if d_x is None else d_x.to(x.dtype)
        return tuple(d for d in (d_x, *d_state, *d_parameters) if d is not None)

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
    def vmap(info, in_dims, engine: str, equation: Equation, needs: tuple[bool, ...], repeat: int, *tensors: Tensor):
        dims, states = in_dims[4:], equation.states
        samples = _Samples(info.batch_size, tensors[0], dims[0])
        together = [samples.together(t, d) for t, d in zip(tensors[1:], dims[1:], strict=True)]
        state, parameters = together[:states], together[states : states + equation.parameters]
        gradients = slice(states + equation.parameters, 1 + 2 * states + equation.parameters)
        shared = [p.dim() == 0 for p in parameters]
        # Each sample has a gradient of its own, which one number for all would not show.
        for i, need in enumerate(needs[1:]):
            if need and shared[i]:
                parameters[i] = parameters[i].expand(samples.x.shape[1]).contiguous()
            shared[i] = tensors[1 + states + i].dim() - (dims[1 + states + i] is not None) == 0
        found = _Backward.apply(engine, equation, needs, repeat, samples.x, *state, *parameters, *together[gradients])
        results = [samples.apart(d) for d in found]  # type: ignore[union-attr]
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
        """[T, N], [N] or (), once for every sample along ``dim`` or the same for all, as [T, B·N], [B·N] or ()."""
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


# PyTorch looks at the arguments of ``forward`` at every call; found here, its signature need not be worked out again.
for _function in (Unrolled, _Backward):
    _function.forward.__signature__ = inspect.signature(_function.forward)  # type: ignore[attr-defined]


def zeros_like_one(tensor: Tensor) -> Tensor:
    """Zeros of the shape of ``tensor`` that take the memory of one."""
    return tensor.new_zeros(()).expand(tensor.shape)


def _split(
    equation: Equation, tensors: Sequence[Tensor], repeat: int
) -> tuple[Tensor, Sequence[Tensor], Sequence[Tensor]]:
    """x [T, N], state and parameters."""
    first = 1 + equation.states
    x = tensors[0].expand(repeat, *tensors[0].shape) if repeat else tensors[0]
    return x, tensors[1:first], tensors[first:]
