"""Engines run one step of an equation over a whole sequence.

``unroll(step, x, state)`` is the loop over time. Each engine implements it differently, and all give the same result:

==========  ==================================================================================
``eager``   a Python loop: the reference, for reading and debugging
``block``   K steps at once compiled by ``torch.compile``; forward and backward, CPU and CUDA
``cpp``     all steps in one C++ loop generated from the equation; CPU
``triton``  all steps in one Triton kernel generated from the equation; CUDA
``auto``    a compiled engine if that pays (``plan``), else ``eager``
==========  ==================================================================================

Engines never fall back silently: a fallback warns once and says why, and ``explain(model, x)`` shows the engine of each
layer. ``equation_of`` and ``programs`` show what is compiled. ``engine.js`` writes the same program in JavaScript, for
pages that run without Python.
"""

from __future__ import annotations

from snnkit import lazy
from snnkit.engine.autograd import CompilationFailed
from snnkit.engine.block import BLOCKS
from snnkit.engine.code_cache import secure_inductor
from snnkit.engine.cpp.toolchain import cpp_compiler, missing_compiler
from snnkit.engine.eager import in_dtype
from snnkit.engine.explanation import explain
from snnkit.engine.memory_gate import inside_functional_transform
from snnkit.engine.ops import handle_of
from snnkit.engine.over_time import check_sequence, unroll
from snnkit.engine.page_pool import limit_kept_memory
from snnkit.engine.plan import AUTO, ENGINES, Plan, check_engine, plan_for, state_dtype
from snnkit.engine.program import Untranslatable, programs
from snnkit.engine.trace import NotElementwise
from snnkit.engine.trace_cache import equation_of

__all__ = [
    "AUTO",
    "BLOCKS",
    "ENGINES",
    "CompilationFailed",
    "NotElementwise",
    "Plan",
    "Untranslatable",
    "check_engine",
    "check_sequence",
    "cpp_compiler",
    "equation_of",
    "explain",
    "handle_of",
    "in_dtype",
    "inside_functional_transform",
    "js",  # pyright: ignore[reportUnsupportedDunderAll] - loaded when it is named
    "limit_kept_memory",
    "missing_compiler",
    "plan_for",
    "programs",
    "secure_inductor",
    "state_dtype",
    "unroll",
]
__getattr__ = lazy.attach(__name__, "js")[0]


def __dir__() -> list[str]:
    return sorted(__all__)
