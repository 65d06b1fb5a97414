"""The Triton engine: one launch for all T steps on a GPU, generated from the equation.

The step and its vector-Jacobian product are traced (``trace``), written as Triton (``source``) and launched. The state
stays in registers from the first step to the last; backward reads x and the state before every few steps, and computes
the rest again. A pass moves as many bytes as it takes to read its input and write its output, and few more.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Sequence

import torch
from torch import Tensor

from ..program import Untranslatable
from ..trace import Equation
from . import launch
from .source import backward_source, forward_source

__all__ = ["backward", "forward", "source_of", "supports"]


def supports(equation: Equation, device: torch.device) -> str:
    """An empty string, or the reason why this engine can't run ``equation``."""
    if not _installed():
        return "the Triton engine needs Triton, which is not installed (pip install triton)"
    if device.type != "cuda":
        from .kernel import interpreting

        if not (device.type == "cpu" and interpreting()):
            return f"the Triton engine is made for CUDA devices, not for {device.type!r} ones"
    if os.environ.get("TORCH_COMPILE_DISABLE") == "1":
        return "TORCH_COMPILE_DISABLE=1 forbids compiling"
    dims = (1,) * equation.parameters
    try:
        forward_source(equation, dims, True)
        backward_source(equation, dims, (True, *map(bool, dims)))
    except Untranslatable as reason:
        return f"its step can't be written in Triton: {reason}"
    return ""


@functools.cache
def _installed() -> bool:
    return importlib.util.find_spec("triton") is not None


def forward(
    equation: Equation,
    x: Tensor,
    state: Sequence[Tensor],
    parameters: Sequence[Tensor],
    out_dtype: torch.dtype,
    keep: bool,
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Run over x [T, N]. See ``compiled.Kernels``."""
    return launch.forward(equation, x, state, parameters, out_dtype, keep)


def backward(
    equation: Equation,
    x: Tensor,
    state: Sequence[Tensor],
    kept: Sequence[Tensor],
    parameters: Sequence[Tensor],
    d_out: Tensor,
    d_last: Sequence[Tensor],
    needs: tuple[bool, ...],
    summed: bool = False,
) -> tuple[Tensor | None, list[Tensor], list[Tensor | None]]:
    """Gradients from those of out and of the last state. See ``compiled.Kernels``."""
    return launch.backward(equation, x, state, kept, parameters, d_out, d_last, needs, summed)


def source_of(equation: Equation, backward: bool = False, dims: tuple[int, ...] | None = None) -> str:
    """The generated kernel as text, to be read.

    Args:
        equation: of the neuron, as ``equations.equation_of`` gives it.
        backward: the kernel of the gradients of x and all parameters, instead of the forward one.
        dims: for each parameter, 0 if all neurons share it and 1 (the default) if each has its own.

    Raises:
        Untranslatable: the step has an operation that Triton has no expression for.
    """
    dims = (1,) * equation.parameters if dims is None else dims
    if backward:
        return backward_source(equation, dims, (True,) * (1 + len(dims))).text
    return forward_source(equation, dims, keep=False).text
