"""The loop of ``Recurrent`` in a model under ``torch.compile``, for sequences that would take minutes to inline."""

from collections.abc import Callable

import torch

from snnkit.engine.ops import INLINED
from snnkit.neuron.around import loop

#: ``loop``, left to Python; each step is compiled by itself.
uncompiled_loop: Callable = torch.compiler.disable(
    loop, recursive=False, reason=f"Recurrent is compiled step by step, for more than {INLINED} steps"
)
