"""A recurrent layer as one call of a kernel: ``out[t], state = step(x[t] + W out[t-1] + b, state)`` for all t.

The loop, the products and their way back are one kernel in each direction, and one node of the autograd graph. Forward
saves the inputs with what came back through the weights, or what follows from them; the gradient of the weights is one
product over all steps. The products add in another order than PyTorch's, so results differ in the last bits, as they do
in PyTorch between batches of other sizes.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from snnkit.engine.autograd import CompilationFailed, presence_of, require_same_step
from snnkit.engine.eager import Origin, in_dtype, recorded_backward
from snnkit.engine.memory_gate import as_stored, check_shape, foreign, is_watched, tensors_of, uncompiled
from snnkit.engine.trace import Equation

# The engines that have kernels for it, and the most neurons that each takes: on a GPU, one program holds them all.
MOST = {"cpp": 2**31 - 1, "triton": 1024}

# What of their products they leave out.
SKIPS = {
    "cpp": "a step of a sample in which fewer than a third are not 0 adds the weights of these alone",
    "triton": "weights of zeros are not read",
}


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


class Layer(NamedTuple):
    """A sequence as a kernel takes it.

    Attributes:
        equation: of all neurons.
        x: [T, B, N], of any stride in time, each step side by side in memory.
        state: before the first step, each [B, N], side by side or one value for all (strides 0).
        before: the outputs before the first step, as ``state``.
        parameters: of the neurons, each [B, N] or, if all share the number, 0-dimensional.
        weight: [N, N], of any strides.
        bias: [N] or None.
    """

    equation: Equation
    x: Tensor
    state: Sequence[Tensor]
    before: Tensor
    parameters: Sequence[Tensor]
    weight: Tensor
    bias: Tensor | None

    @property
    def dims(self) -> tuple[int, ...]:
        """0 or 1 for each parameter: shared, or one per neuron."""
        return tuple(min(p.dim(), 1) for p in self.parameters)


class Results(NamedTuple):
    """Gradients: of x [T, B, N], of the state and of the outputs before [B, N], of the parameters, each [B, N] or None
    where not needed; and pairs of gradients of inputs and outputs, each [rows, N], whose products make that of the
    weight, or None if it needs none or ``has_outputs`` is false."""

    x: Tensor
    state: list[Tensor]
    before: Tensor
    parameters: list[Tensor | None]
    weight: Sequence[tuple[Tensor, Tensor]] | None


class Kernels(Protocol):
    """The kernels of an engine. ``wanted``: whether each parameter, and the weight, wants a gradient."""

    def has_outputs(self, equation: Equation, wanted: Sequence[bool]) -> bool:
        """Whether backward has the outputs for the gradient of the weight, or those of forward must be saved."""
        ...

    def forward(self, layer: Layer, wanted: Sequence[bool] | None) -> tuple[Tensor, list[Tensor], Tensor | None, bool]:
        """(out [T, B, N], last state, what is saved for backward, whether weights and last state are finite). Nothing
        is saved if ``wanted`` is None."""
        ...

    def backward(
        self,
        layer: Layer,
        saved: Tensor | None,
        d_out: Tensor,
        d_last: Sequence[Tensor],
        wanted: Sequence[bool],
        needed: Sequence[bool],
    ) -> Results:
        """From the gradients of out, and of the last state and the equation's flags, each [B, N]; ``wanted``: as in
        forward; ``needed``: which of them are needed now. The values of ``layer.x`` are not read."""
        ...


class Products(Protocol):
    """How the gradient of weights [O, I] is made of that of their product [B, O] and its input [B, I]."""

    def compressed(self, x: Tensor, outputs: int) -> Sequence[Tensor]:
        """Spikes x in little memory."""
        ...

    def decompressed(self, tensors: Sequence[Tensor], rows: int, inputs: int, dtype: torch.dtype) -> Any:
        """The first rows of what was compressed, as ``weight_gradient`` takes them."""
        ...

    def weight_gradient(self, gradient: Tensor, x: Any) -> Tensor:
        """x: the input, or rows of it that are ``decompressed``."""
        ...


@functools.cache
def kernels(engine: str) -> Kernels:
    """Those of "cpp" or "triton"."""
    return importlib.import_module(f"{__package__}.{engine}.recurrent")  # type: ignore[return-value]


def run(
    engine: str,
    equation: Equation,
    neuron: nn.Module,
    weight: nn.Linear,
    x: Tensor,
    state: Any,
    before: Tensor,
    products: Products,
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
    call = _Call(engine, equation, cell, products)
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        out, *last = _Recurrent.apply(call, *tensors)  # type: ignore[misc]
    else:
        out, last, _, call.is_finite = kernels(engine).forward(call.layer(tensors), None)
    return (out, rebuild(last)) if call.is_finite else None


@dataclass
class _Call:
    """The layer and, once forward has run, what it ``wanted``, and whether its weights and last state were finite."""

    engine: str
    equation: Equation
    cell: Cell
    products: Products
    wanted: tuple[bool, ...] = ()
    is_finite: bool = False

    def layer(self, tensors: Sequence[Tensor]) -> Layer:
        """Of (x, *state, before, *parameters, weight, bias or nothing)."""
        x, *rest = tensors
        states, parameters = self.equation.states, self.equation.parameters
        flat = [
            p.reshape(()) if p.numel() == 1 else p.expand(x.shape[1:]).contiguous()
            for p in rest[states + 1 : states + 1 + parameters]
        ]
        weight, bias = (*rest[states + 1 + parameters :], None)[:2]
        x = x if x.stride()[1:] == (x.shape[2], 1) else x.contiguous()
        state = [_side_by_side(s) for s in rest[: states + 1]]
        return Layer(self.equation, x, state[:-1], state[-1], flat, weight, bias)  # type: ignore[arg-type]


class _Recurrent(torch.autograd.Function):
    """(call, x, *state, before, *parameters, weight, bias or nothing) -> (out, *last)."""

    @staticmethod
    def forward(ctx, call: _Call, *tensors: Tensor) -> tuple[Tensor, ...]:
        layer, compiled = call.layer(tensors), kernels(call.engine)
        call.wanted = _wanted(call, ctx.needs_input_grad)
        if hasattr(compiled, "expect_backward"):  # of a compiler that is another process
            compiled.expect_backward(layer, call.wanted)  # type: ignore[attr-defined]
        out, last, saved, call.is_finite = compiled.forward(layer, call.wanted)
        spikes: Sequence[Tensor] = ()
        if call.wanted[-1] and not compiled.has_outputs(call.equation, call.wanted):
            spikes = call.products.compressed(out.flatten(0, 1), out.shape[2])
        every = (*tensors, saved, *spikes)
        ctx.call, ctx.shapes = call, [None if t is None else t.shape for t in every]
        ctx.save_for_backward(*every)
        ctx.set_materialize_grads(False)
        return (out, *last)

    @staticmethod
    @uncompiled
    def backward(ctx, *gradients: Tensor | None):
        call: _Call = ctx.call
        every = ctx.saved_tensors
        for t, shape in zip(every, ctx.shapes, strict=True):
            check_shape(t, shape)
        inputs = len(ctx.needs_input_grad) - 1
        tensors, saved, spikes = every[:inputs], every[inputs], every[inputs + 1 :]
        given = [g for g in gradients if g is not None]
        higher = torch.is_grad_enabled() and any(t.requires_grad for t in (*tensors, *given))
        if higher or is_watched() or foreign(*tensors, *given):
            return (None, *_recorded(call, tensors, gradients, ctx.needs_input_grad[1:]))
        # A hook of autograd's may have given them back in another form.
        layer = call.layer([as_stored(t).to(call.equation.dtype) for t in tensors])
        x, zero = layer.x, layer.x.new_zeros(())
        d = [zero.expand(x.shape[bool(i) :]) if g is None else as_stored(g) for i, g in enumerate(gradients)]
        flags = presence_of(call.equation, x.flatten(1), gradients)
        d_last = [_side_by_side(part) for part in (*d[1:], *(flag.view(x.shape[1:]) for flag in flags))]
        saved = None if saved is None else saved.to(call.equation.dtype).contiguous()
        needed = _wanted(call, ctx.needs_input_grad)
        try:
            results = kernels(call.engine).backward(layer, saved, d[0], d_last, call.wanted, needed)
        except CompilationFailed as error:
            raise RuntimeError(f"the backward pass can't be compiled ({error}); use engine='eager'") from None
        given = tensors[2 + len(layer.state) :]
        d_parameters = [
            None if d is None else d.sum_to_size(p.shape) for d, p in zip(results.parameters, given, strict=False)
        ]
        pairs: Sequence[tuple[Tensor, Any]] = results.weight or ()
        if needed[-1] and results.weight is None:
            first, later = results.x[0], results.x[1:].flatten(0, 1)
            rows, features = later.shape
            pairs = [(first, layer.before), (later, call.products.decompressed(spikes, rows, features, later.dtype))]
        d_weight = sum(call.products.weight_gradient(d, out) for d, out in pairs) if pairs else None
        d_bias = [] if layer.bias is None else [results.x.sum((0, 1))]
        d_state = results.state[: len(layer.state)]
        return (None, results.x, *d_state, results.before, *d_parameters, d_weight, *d_bias)


def _wanted(call: _Call, needs: Sequence[bool]) -> tuple[bool, ...]:
    """Which parameters, and whether the weight, needs a gradient, of those that autograd wants."""
    first = 3 + call.equation.states
    return tuple(needs[first : first + call.equation.parameters + 1])


def _recorded(call: _Call, tensors: Sequence[Tensor], gradients: Sequence[Any], needs: Sequence[bool]):
    """The gradients by PyTorch's operations, step by step, so that they can be differentiated in turn."""
    states = call.equation.states + 1
    names = [*(f"neuron.{name}" for name in tensors_of(call.cell.neuron)), "weight.weight", "weight.bias"]
    names = names[: len(tensors) - 1 - states]
    require_same_step(call.cell.neuron, call.equation, call.cell.rebuild(tensors[1:states]), tensors[0].device)
    how = (Origin(call.cell, tuple), names, call.equation.dtype, tensors[0].dtype, 0)
    return recorded_backward(*how, tensors, (*gradients, None), needs)


def _side_by_side(v: Tensor) -> Tensor:
    """[B, N] side by side in memory, or one value for all."""
    return v if not any(v.stride()) else v.contiguous()
