"""The equation of a step, traced once, and again when anything that the step reads has changed.

Steps with equal readings share one equation.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor, nn

from snnkit import checks
from snnkit.engine.memory_gate import tensors_of
from snnkit.engine.reading import Opaque, Reading, reading_of
from snnkit.engine.trace import Equation, NotElementwise, locked, renew_in_children, thread, trace

# Equations by key, the least recently used first; a text is the reason why there is none.
_MOST_EQUATIONS = 256
_equations: OrderedDict[Hashable, Equation | str] = OrderedDict()
_lock = threading.RLock()
renew_in_children(globals(), _lock=threading.RLock)


@checks.arguments
def equation_of(
    step: Callable | nn.Module, state: tuple[Tensor, ...], dtype: torch.dtype, device: torch.device
) -> Equation:
    """The traced equation of ``step``; traced once, and again only when a constant in it has changed.

    Args:
        step: a neuron, or a function ``step(x, state) -> (out, state)``.
        state: any state of it, for its structure.
        dtype: of state and arithmetic.
        device: of the data.

    Raises:
        NotElementwise: the step can't be compiled neuron by neuron.
        Disturbed: nothing can be traced now (no thread can be started, or another has been tracing for long).
    """
    if thread.tracing:
        raise NotElementwise("it asks for the equation of another step")
    try:
        reading = reading_of(step)
    except Opaque:
        return trace(step, state, list(tensors_of(step)), dtype, device)
    equation = equation_by_reading(reading, step, state, dtype, device)
    if isinstance(equation, str):
        raise NotElementwise(equation)
    return equation


def equation_by_reading(
    reading: Reading, step: Callable | nn.Module, state: Any, dtype: torch.dtype, device: torch.device
) -> Equation | str:
    """As ``equation_of``, with the step's reading; a text is the reason why there is none."""
    if reading.impure:
        return reading.impure
    names = tuple(tensors_of(step))
    key = (reading.key, names, type(state), len(state), dtype, device.type)
    with locked(_lock):
        if key not in _equations:
            try:
                equation = trace(step, state, names, dtype, device)
            except NotElementwise as reason:
                # Only its text: an exception holds its frames, and they hold the data.
                equation = str(reason)
            if reading.restore():
                equation = "it changes a list, a dict, a set or an object that it holds"
            _equations[key] = equation
        return recent(_equations, key, _MOST_EQUATIONS)


def recent(entries: OrderedDict[Any, Any], key: Any, most: int) -> Any:
    """``entries[key]``, now the most recently used; above ``most`` entries, the oldest are dropped."""
    entries.move_to_end(key)
    while len(entries) > most:
        entries.popitem(last=False)
    return entries[key]
