"""Whether a neuron may be run again, some samples at a time: its step has to be pure and elementwise."""

from __future__ import annotations

import torch

from snnkit.engine.equations import equation_of
from snnkit.engine.trace import NotElementwise
from snnkit.neuron import Neuron
from snnkit.surrogate import Surrogate

# What makes a neuron of this package another one, if it is set on the instance.
_PATCHED = {"step", "spike", "forward", "initial_state"}


def is_ours(neuron: Neuron) -> bool:
    """Whether it is a neuron of this package, as it was made."""
    return type(neuron).__module__.startswith("snnkit.neuron.") and not _PATCHED & vars(neuron).keys()


def why_not_again(neuron: Neuron) -> str:
    """Why a second run, on a part of the batch, may differ from the first; empty if it can't.

    A step that draws random numbers, mixes samples or asks for values in an ``if`` can't be traced; what can be traced
    is computed neuron by neuron. A state at rest of somebody's own may do the same, and nothing traces that.
    """
    if is_ours(neuron) and type(neuron.surrogate).__module__ == Surrogate.__module__:
        return ""
    at_rest = getattr(neuron.initial_state, "__func__", None)
    if not getattr(at_rest, "__module__", "").startswith("snnkit.neuron."):
        return "its initial_state is its own, which may differ when it is asked again"
    try:
        state = neuron.State(*(torch.zeros(()) for _ in neuron.State._fields))
        equation_of(neuron, state, torch.float32, torch.device("cpu"))
    except NotElementwise as reason:
        return f"its step can't be computed again: {reason}"
    return ""
