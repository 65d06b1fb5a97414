"""The kernels as operations of PyTorch: ``snnkit::triton_forward`` and ``snnkit::triton_backward``.

``torch.compile`` looks into them: it sees the launch and the tensors that it fills, plans their memory, and can put the
launch into a CUDA graph. An operation takes tensors and plain values only, so the equation goes by the name that
``engine.ops.register`` gave it. In Triton's interpreter there is nothing to look into; an opaque operation stands in.
"""

# Annotations are read by torch.library, so they are not postponed here.

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..layout import side_by_side
from ..ops import equation_named
from . import launch
from .kernel import interpreting


@torch.library.triton_op("snnkit::triton_forward", mutates_args=())
def triton_forward(
    x: Tensor, state: list[Tensor], parameters: list[Tensor], equation: str, uint8: bool, keep: bool
) -> list[Tensor]:
    """Run over x [T, N]: [out, *last, *kept]; kept, with ``keep``, is what saves backward a second run."""
    if interpreting():
        return torch.ops.snnkit.triton_forward_interpreted(x, state, parameters, equation, uint8, keep)
    return _forward(x, state, parameters, equation, uint8, keep, torch.library.wrap_triton)


@torch.library.triton_op("snnkit::triton_backward", mutates_args=())
def triton_backward(
    x: Tensor,
    state: list[Tensor],
    kept: list[Tensor],
    parameters: list[Tensor],
    d_out: Tensor,
    d_last: list[Tensor],
    equation: str,
    needs: list[bool],
) -> list[Tensor]:
    """[d_x, *d_state, *d_parameters] without those that x and the parameters, by ``needs``, do not want."""
    if interpreting():
        return torch.ops.snnkit.triton_backward_interpreted(x, state, kept, parameters, d_out, d_last, equation, needs)
    return _backward(x, state, kept, parameters, d_out, d_last, equation, needs, torch.library.wrap_triton)


def _forward(
    x: Tensor,
    state: list[Tensor],
    parameters: list[Tensor],
    equation: str,
    uint8: bool,
    keep: bool,
    wrap: Callable[[Any], Any],
) -> list[Tensor]:
    out_dtype = torch.uint8 if uint8 else x.dtype
    out, last, kept = launch.forward(equation_named(equation), x, state, parameters, out_dtype, keep, wrap)
    return [out, *last, *kept]


def _backward(
    x: Tensor,
    state: list[Tensor],
    kept: list[Tensor],
    parameters: list[Tensor],
    d_out: Tensor,
    d_last: list[Tensor],
    equation: str,
    needs: list[bool],
    wrap: Callable[[Any], Any],
) -> list[Tensor]:
    d_x, d_state, d_parameters = launch.backward(
        equation_named(equation), x, state, kept, parameters, d_out, d_last, needs, wrap=wrap
    )
    return [d for d in (d_x, *d_state, *d_parameters) if d is not None]


def _setup_context(ctx: Any, inputs: Any, output: list[Tensor]) -> None:
    x, state, parameters, ctx.equation, _, _ = inputs
    kept = output[1 + len(state) :]
    ctx.states, ctx.parameters = len(state), len(parameters)
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*kept)
    ctx.save_for_backward(x, *state, *parameters, *kept)


def _gradients(ctx: Any, gradients: list[Tensor | None]) -> tuple[Any, ...]:
    x, *rest = ctx.saved_tensors
    state, rest = rest[: ctx.states], rest[ctx.states :]
    parameters, kept = rest[: ctx.parameters], rest[ctx.parameters :]
    d_out, *d_last = gradients[: 1 + ctx.states]
    d_out = x.new_zeros(x.shape[1]).expand(x.shape) if d_out is None else side_by_side(d_out)
    d_last = [torch.zeros_like(s) if d is None else d.contiguous() for d, s in zip(d_last, state, strict=True)]
    needs = [ctx.needs_input_grad[0], *ctx.needs_input_grad[2]]
    every = iter(torch.ops.snnkit.triton_backward(x, state, kept, parameters, d_out, d_last, ctx.equation, needs))
    d_x = next(every) if needs[0] else None
    d_state = [next(every) for _ in state]
    return d_x, d_state, [next(every) if need else None for need in needs[1:]], None, None, None


triton_forward.register_autograd(_gradients, setup_context=_setup_context)


@torch.library.custom_op("snnkit::triton_forward_interpreted", mutates_args=())
def _interpreted_forward(
    x: Tensor, state: list[Tensor], parameters: list[Tensor], equation: str, uint8: bool, keep: bool
) -> list[Tensor]:
    return _forward(x, state, parameters, equation, uint8, keep, launch.plainly)


@torch.library.custom_op("snnkit::triton_backward_interpreted", mutates_args=())
def _interpreted_backward(
    x: Tensor,
    state: list[Tensor],
    kept: list[Tensor],
    parameters: list[Tensor],
    d_out: Tensor,
    d_last: list[Tensor],
    equation: str,
    needs: list[bool],
) -> list[Tensor]:
    return _backward(x, state, kept, parameters, d_out, d_last, equation, needs, launch.plainly)


@_interpreted_forward.register_fake
def _(x, state, parameters, equation, uint8, keep):
    return _forward(x, state, parameters, equation, uint8, keep, launch.nowhere)


@_interpreted_backward.register_fake
def _(x, state, kept, parameters, d_out, d_last, equation, needs):
    return _backward(x, state, kept, parameters, d_out, d_last, equation, needs, launch.nowhere)
