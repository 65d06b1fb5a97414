"""A recurrent layer as one call of a kernel: ``out[t], state = step(x[t] + W out[t-1] + b, state)`` for all t.

The loop, the products and their way back are one C++ kernel in each direction (``cpp.recurrent_source``), and one node
of the autograd graph. Forward saves the inputs with what came back through the weights, in place of x; the gradient of
the weights is one product over all steps. The products add in another order than PyTorch's, so results differ in the
last bits, as they do in PyTorch between batches of other sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from snnkit.engine import cpp
from snnkit.engine.autograd import is_one_for_all, presence_of, require_same_step, side_by_side
from snnkit.engine.cpp import toolchain
from snnkit.engine.cpp.recurrent_source import backward_source, forward_source
from snnkit.engine.eager import Origin, in_dtype, recorded_backward
from snnkit.engine.memory_gate import as_stored, foreign, recorder, tensors_of
from snnkit.engine.trace import Equation
from snnkit.tables import size_of

# Samples of a group, which share what is read of the weights, as many as the kernels take at once; and bytes of what a
# group saves for backward.
_MOST_SAMPLES, _MOST_SAVED = 8, 64 * 1024 * 1024


class Cell(nn.Module):
    """One step of a recurrent layer, (x [B, N], (*state of the neuron, out)) -> (out, the same after the step).

    It is the reference of the kernels, and what second derivatives are computed by.
    """

    def __init__(self, neuron: nn.Module, weight: nn.Linear, rebuild: Callable) -> None:
        super().__init__()
        self.neuron, self.weight, self.rebuild = neuron, weight, rebuild

    def step(self, x: Tensor, state: Sequence[Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
        *inner, before = state
        step = in_dtype(self.neuron, x.dtype)
        out, after = step(x + self.weight(before), self.rebuild(inner))
        return out, (*after, out)


def run(
    equation: Equation, neuron: nn.Module, weight: nn.Linear, x: Tensor, state: Any, before: Tensor
) -> tuple[Tensor, Any] | None:
    """All steps of x [T, B, N] from the neuron's ``state`` and the outputs ``before`` [B, N].

    Returns out [T, B, N] and the neuron's last state; None where a weight or the last state is not finite: then the
    loop says what is wrong.

    Raises:
        CompilationFailed: the compiler refuses.
        MemoryError: too little memory; the message says how much was needed.
    """
    cell = Cell(neuron, weight, rebuild := getattr(type(state), "_make", tuple))
    parameters = [p.to(equation.dtype) for p in tensors_of(neuron).values()]
    weights = [weight.weight] if weight.bias is None else [weight.weight, weight.bias]
    tensors = [as_stored(t) for t in (x, *state, before, *parameters, *weights)]
    tensors = [t.clone() if t.is_inference() else t for t in tensors]  # or autograd could not save them
    call = _Call(equation, cell)
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        out, *last = _Recurrent.apply(call, *tensors)  # type: ignore[misc]
    else:
        out, last, _ = _forward(call, tensors, save=False)
    return (out, rebuild(last)) if call.is_finite else None


@dataclass
class _Call:
    """The layer, and whether its weights and its last state were finite, once forward has run."""

    equation: Equation
    cell: Cell
    is_finite: bool = False

    def parts(self, tensors: Sequence[Tensor]) -> tuple[Tensor, Sequence[Tensor], Tensor, list[Tensor], Tensor, Any]:
        """x, state, before, the neuron's parameters (each [B * N], or one number), weight and bias or None."""
        x, *rest = tensors
        states, parameters = self.equation.states, self.equation.parameters
        flat = [
            p.reshape(()) if p.numel() == 1 else p.expand(x.shape[1:]).reshape(-1)
            for p in rest[states + 1 : states + 1 + parameters]
        ]
        weight, bias = (*rest[states + 1 + parameters :], None)[:2]
        return x, rest[:states], rest[states], flat, weight, bias  # type: ignore[return-value]


class _Recurrent(torch.autograd.Function):
    """(call, x, *state, before, *parameters, weight, bias or nothing) -> (out, *last)."""

    @staticmethod
    def forward(ctx, call: _Call, *tensors: Tensor) -> tuple[Tensor, ...]:
        source = _backward_source(call, tensors, ctx.needs_input_grad[1:])[0]
        if source not in toolchain.loaded:  # the compiler is another process, which runs beside that of forward
            toolchain.load_ahead(source)
        out, last, inputs = _forward(call, tensors, save=True)
        ctx.call = call
        ctx.save_for_backward(*tensors, inputs)
        ctx.set_materialize_grads(False)
        return (out, *last)

    @staticmethod
    def backward(ctx, *gradients: Tensor | None):
        call, needs = ctx.call, ctx.needs_input_grad[1:]
        *tensors, inputs = ctx.saved_tensors
        given = [g for g in gradients if g is not None]
        higher = torch.is_grad_enabled() and any(t.requires_grad for t in (*tensors, *given))
        if higher or recorder() or foreign(*tensors, *given):
            return (None, *_recorded(call, tensors, gradients, needs))
        return (None, *_backward(call, (inputs, *tensors[1:]), gradients, needs))


def _backward_source(call: _Call, tensors: Sequence[Tensor], needs: Sequence[bool]) -> tuple[str, tuple, int]:
    parameters = call.parts(tensors)[3]
    first = 2 + call.equation.states
    of_weight = first + len(parameters)
    dims = tuple(p.dim() for p in parameters)
    return backward_source(call.equation, dims, tuple(needs[first:of_weight]), needs[of_weight])


def _recorded(call: _Call, tensors: Sequence[Tensor], gradients: Sequence[Any], needs: Sequence[bool]):
    """The gradients by PyTorch's operations, step by step, so that they can be differentiated in turn."""
    names = [*(f"neuron.{name}" for name in tensors_of(call.cell.neuron)), "weight.weight", "weight.bias"]
    states = call.equation.states + 1
    names = names[: len(tensors) - 1 - states]
    require_same_step(call.cell.neuron, call.equation, call.cell.rebuild(tensors[1:states]), tensors[0].device)
    how = (Origin(call.cell, tuple), names, call.equation.dtype, tensors[0].dtype, 0)
    return recorded_backward(*how, tensors, (*gradients, None), needs)


def _group(call: _Call, x: Tensor, saved: int) -> tuple[int, int]:
    """Samples that go through time together, and threads."""
    batch, threads = x.shape[1], cpp.threads_for(x)
    each = max(x.shape[0] * x.shape[2] * saved * x.element_size(), 1)
    return max(1, min(_MOST_SAMPLES, -(-batch // threads), _MOST_SAVED // each)), threads


def _forward(call: _Call, tensors: Sequence[Tensor], save: bool) -> tuple[Tensor, list[Tensor], Tensor | None]:
    equation = call.equation
    x, state, before, parameters, weight, bias = call.parts(tensors)
    steps, batch, features = x.shape
    x = x if x.stride()[1:] == (features, 1) else x.contiguous()
    first = [_flat(s) for s in (before, *state)]
    source, constants = forward_source(equation, tuple(p.dim() for p in parameters), bias is not None, save)
    out = cpp.empty(x.shape, x.dtype)
    inputs = cpp.empty(x.shape, x.dtype) if save else None
    last = [torch.empty(x.shape[1:], dtype=x.dtype) for _ in state]
    group, threads = _group(call, x, 0)
    sizes = (steps, batch, features, x.stride(0), *weight.stride(), group, *map(is_one_for_all, first))
    given = (bias, inputs)
    every = (x, out, weight, _blocks(weight), first[0], *(t for t in given if t is not None))
    code = cpp.call(source, (*every, *first[1:], *last, *parameters), constants, sizes, threads)
    if code == 1:
        raise MemoryError("a recurrent layer has too little memory for a step of a few samples")
    call.is_finite = code == 0
    return out, last, inputs


def _backward(
    call: _Call, tensors: Sequence[Tensor], gradients: Sequence[Tensor | None], needs: Sequence[bool]
) -> list[Tensor | None]:
    """The gradients of all but the inputs [T, B, N], which come in place of x; theirs is that of x."""
    # A hook of autograd's may have given them back in another form.
    tensors = [as_stored(t).to(call.equation.dtype) for t in tensors]
    x, state, before, parameters, weight, bias = call.parts(tensors)
    x, (steps, batch, features), zero = x.contiguous(), x.shape, x.new_zeros(())
    source, constants, saved = _backward_source(call, tensors, needs)
    shapes = (x.shape, *(x.shape[1:] for _ in state))
    d = [zero.expand(s) if g is None else as_stored(g) for g, s in zip(gradients, shapes, strict=True)]
    d_out, flags = side_by_side(d[0].flatten(1)), presence_of(call.equation, x.flatten(1), gradients)
    d_last = [*map(_flat, d[1:]), *flags]
    d_x, d_before = cpp.empty(x.shape, x.dtype), before.new_empty(before.shape)
    out = cpp.empty(x.shape, x.dtype) if needs[2 + len(state) + len(parameters)] else None
    first = [_flat(s) for s in state]
    d_first = [x.new_empty(x.shape[1:]) for _ in d_last]
    sums = [x.new_empty(x.shape[1:]) if need else None for need in needs[2 + len(state) :][: len(parameters)]]
    group, threads = _group(call, x, saved)
    sizes = (steps, batch, features, d_out.stride(0), *weight.stride(), group, *map(is_one_for_all, (*first, *d_last)))
    every = (x, d_out, d_x, weight, _blocks(weight), d_before, out, *first, *d_last, *d_first, *parameters, *sums)
    if cpp.call(source, [t for t in every if t is not None], constants, sizes, threads):
        need = threads * group * features * (steps * saved + len(state)) * x.element_size()
        raise MemoryError(
            f"backward of a recurrent layer over {steps} steps needs {size_of(need)} of scratch memory, which is not "
            "available; use fewer steps at once (truncated backpropagation) or fewer threads (torch.set_num_threads)"
        )
    given = tensors[2 + len(state) :]
    d_parameters = [None if d is None else d.sum_to_size(p.shape) for d, p in zip(sums, given, strict=False)]
    d_weight = None
    if out is not None:
        d_weight = torch.addmm(d_x[0].t() @ before, d_x[1:].flatten(0, 1).t(), out[:-1].flatten(0, 1))
    return [
        d_x,
        *d_first[: len(state)],
        d_before,
        *d_parameters,
        d_weight,
        *([] if bias is None else [d_x.sum((0, 1))]),
    ]


def _flat(v: Tensor) -> Tensor:
    """[B, N] -> [B * N], a view if it can be one; one value for all stays one."""
    flat = v.reshape(-1)
    return flat if is_one_for_all(flat) else flat.contiguous()


def _blocks(weight: Tensor) -> Tensor:
    """Room for the weights in blocks of outputs, of at most 64 numbers."""
    return weight.new_empty((weight.shape[0] + 63) * weight.shape[0])
