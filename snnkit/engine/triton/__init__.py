"""The Triton engine: one launch for all T steps on a GPU, generated from the equation.

The step and its vector-Jacobian product are traced (``trace``), written as Triton (``triton_source``) and launched
(``launch``). The state stays in registers from the first step to the last; backward reads x and the state before every
few steps, and computes the rest again. A pass moves as many bytes as it takes to read its input and write its output,
and few more.
"""

from __future__ import annotations

import functools
import importlib.util
import os

import torch

from ..program import Untranslatable
from ..trace import Equation
from .launch import backward, forward, interpreting
from .triton_source import backward_source, forward_source

__all__ = ["backward", "forward", "source_of", "supports"]


def supports(equation: Equation, device: torch.device) -> str:
    """An empty string, or the reason why this engine can't run ``equation``."""
    if not _installed():
        return "the Triton engine needs Triton, which is not installed (pip install triton)"
    if device.type != "cuda" and not (device.type == "cpu" and interpreting()):
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


def source_of(equation: Equation, backward: bool = False, dims: tuple[int, ...] | None = None) -> str:
    """The generated kernel as text, to be read.

    Args:
        equation: of the neuron, as ``engine.equation_of`` gives it.
        backward: the kernel of the gradients of x and all parameters, instead of the forward one.
        dims: for each parameter, 0 if all neurons share it and 1 (the default) if each has its own.

    Raises:
        Untranslatable: the step has an operation that Triton has no expression for.
    """
    dims = (1,) * equation.parameters if dims is None else dims
    if backward:
        return backward_source(equation, dims, (True,) * (1 + len(dims))).text
    return forward_source(equation, dims, save=False).text
