"""The equation of a step, traced once and remembered until a constant in it changes."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .fingerprint import Opaque, fingerprint, owner
from .trace import Equation, NotElementwise, trace

# Versions of one equation (its constants change) to keep; the least recently used one goes first.
_VERSIONS = 8

# Equations by what their steps are remembered by; a text is the reason why there is none.
_equations: weakref.WeakKeyDictionary[Any, OrderedDict[Any, Equation | str]] = weakref.WeakKeyDictionary()
_lock = threading.RLock()


def equation_of(step: Callable | nn.Module, state: Any, dtype: torch.dtype, device: torch.device) -> Equation:
    """The traced equation of ``step``; traced once and again only when a constant in it changes.

    Raises:
        NotElementwise: the step can't be compiled neuron by neuron.
    """
    try:
        key = (fingerprint(step), type(state), len(state), dtype, device.type)
        known = _equations.setdefault(owner(step), OrderedDict())
    except (Opaque, TypeError):  # TypeError: neither hashable nor open to weak references
        return trace(step, state, list(tensors_of(step)), dtype, device)
    with _lock:
        if key not in known:
            try:
                known[key] = trace(step, state, list(tensors_of(step)), dtype, device)
            except NotElementwise as reason:
                # Its text only: an exception holds the frames that it came through, and they hold the data.
                known[key] = str(reason)
        found = recent(known, key, _VERSIONS)
    if isinstance(found, str):
        raise NotElementwise(found)
    return found


def tensors_of(step: Callable | nn.Module) -> dict[str, Tensor]:
    """A module's floating-point parameters and buffers, which become arguments of the kernel."""
    if not isinstance(step, nn.Module):
        return {}
    if any(child is not None for child in step._modules.values()):
        named = (*step.named_parameters(), *step.named_buffers())
    else:  # the same for a neuron alone, ten times as fast
        named = (*step._parameters.items(), *step._buffers.items())
    return {name: tensor for name, tensor in named if tensor is not None and tensor.is_floating_point()}


def recent(entries: OrderedDict[Any, Any], key: Any, most: int) -> Any:
    """``entries[key]``, now the most recently used; of more than ``most`` entries the oldest are dropped."""
    entries.move_to_end(key)
    while len(entries) > most:
        entries.popitem(last=False)
    return entries[key]
