"""The kernels as operations of PyTorch: ``snnkit::triton_forward`` and ``snnkit::triton_backward``.

``torch.compile`` looks into them: it sees the launch and the tensors that it fills, plans their memory, and can put the
launch into a CUDA graph. The equation goes by the name that ``engine.ops.register`` gave it. In Triton's interpreter
there is nothing to look into; opaque operations replace them.
"""

# Annotations are read by torch.library, so they are not postponed here. The module is imported when it is needed, as
# registering these operations imports Triton.

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from snnkit.engine.autograd import Gradients, Pass, presence_of, side_by_side
from snnkit.engine.ops import by_argument, equation_named
from snnkit.engine.triton import launch


def _forward(x, state, parameters, equation: str, uint8: bool, save: bool, wrap: Callable) -> list[Tensor]:
    out_dtype = torch.uint8 if uint8 else x.dtype
    run = Pass(equation_named(equation), x, state, parameters)
    done = launch.forward(run, out_dtype, save, wrap=wrap)
    return [done.out, *done.last, *done.saved]


def _backward(x, state, saved, parameters, d_out, d_last, equation: str, needs, wrap: Callable) -> list[Tensor]:
    run = Pass(equation_named(equation), x, state, parameters)
    d_x, d_state, d_parameters = launch.backward(run, saved, Gradients(d_out, d_last, tuple(needs)), wrap)
    return [d for d in (d_x, *d_state[: len(state)], *d_parameters) if d is not None]


@torch.library.triton_op("snnkit::triton_forward", mutates_args=())
def _forward_op(
    x: Tensor, state: list[Tensor], parameters: list[Tensor], equation: str, uint8: bool, save: bool
) -> list[Tensor]:
    """Run over x [T, N]: [out, *last, *saved]; what is saved, with ``save``, spares backward a second run."""
    if launch.interpreting():
        return torch.ops.snnkit.triton_forward_interpreted(x, state, parameters, equation, uint8, save)
    return _forward(x, state, parameters, equation, uint8, save, torch.library.wrap_triton)


@torch.library.triton_op("snnkit::triton_backward", mutates_args=())
def _backward_op(
    x: Tensor,
    state: list[Tensor],
    saved: list[Tensor],
    parameters: list[Tensor],
    d_out: Tensor,
    d_last: list[Tensor],
    equation: str,
    needs: list[bool],
) -> list[Tensor]:
    """[d_x, *d_state, *d_parameters] without those of x and the parameters that, by ``needs``, are not needed."""
    arguments = (x, state, saved, parameters, d_out, d_last, equation, needs)
    if launch.interpreting():
        return torch.ops.snnkit.triton_backward_interpreted(*arguments)
    return _backward(*arguments, torch.library.wrap_triton)


def _context(ctx: Any, inputs: Any, output: list[Tensor]) -> None:
    x, state, parameters, ctx.equation, _, _ = inputs
    saved = output[1 + len(state) :]
    ctx.states, ctx.parameters = len(state), len(parameters)
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*saved)
    ctx.save_for_backward(x, *state, *parameters, *saved)


def _gradients(ctx: Any, gradients: list[Tensor | None]) -> tuple[Any, ...]:
    x, *rest = ctx.saved_tensors
    state, rest = rest[: ctx.states], rest[ctx.states :]
    parameters, saved = rest[: ctx.parameters], rest[ctx.parameters :]
    d_out, *d_last = gradients[: 1 + ctx.states]
    d_out = x.new_zeros(x.shape[1]).expand(x.shape) if d_out is None else side_by_side(d_out)
    flags = presence_of(equation_named(ctx.equation), x, gradients[: 1 + ctx.states])
    d_last = [torch.zeros_like(s) if d is None else d.contiguous() for d, s in zip(d_last, state, strict=True)]
    d_last += [flag.contiguous() for flag in flags]
    needs = [ctx.needs_input_grad[0], *ctx.needs_input_grad[2]]
    results = torch.ops.snnkit.triton_backward(x, state, saved, parameters, d_out, d_last, ctx.equation, needs)
    return *by_argument(results, needs, ctx.states), None, None, None


_forward_op.register_autograd(_gradients, setup_context=_context)


def _opaque(name: str, like: Any, run: Callable[..., list[Tensor]]) -> None:
    """An operation with the schema of ``like`` that hides the launches of ``run``."""
    schema = str(like._opoverload._schema).partition("(")[2]
    operation = torch.library.custom_op(
        name, lambda *arguments: run(*arguments, lambda kernel: kernel), mutates_args=(), schema=f"({schema}"
    )
    operation.register_fake(lambda *arguments: run(*arguments, _Nowhere))


class _Nowhere:
    """Takes a grid and arguments like a kernel, and does nothing with them."""

    def __init__(self, kernel: Any) -> None: ...

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *arguments, **options: None


_opaque("snnkit::triton_forward_interpreted", _forward_op, _forward)
_opaque("snnkit::triton_backward_interpreted", _backward_op, _backward)
