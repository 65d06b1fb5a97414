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

from snnkit.engine.program import Untranslatable
from snnkit.engine.trace import Equation
from snnkit.engine.triton.launch import backward, forward, interpreting
from snnkit.engine.triton.triton_source import backward_source, forward_source

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


def source_of(equation: Equation) -> str:
    """The generated forward kernel of an equation, as ``engine.equation_of`` gives it, to be read."""
    return forward_source(equation, (1,) * equation.parameters, save=False).text
