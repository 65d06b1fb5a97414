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
# The same of the kit's own neurons, by what makes them equal: tracing takes a tenth of a second, and a network has
# several layers of the same neuron.
_siblings: OrderedDict[Any, Equation | str] = OrderedDict()
_SIBLINGS = 256
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
            known[key] = _of_sibling(step, key) or _traced(step, state, dtype, device)
            if is_ours(step):
                _siblings[_kind(step, key)] = known[key]
                recent(_siblings, _kind(step, key), _SIBLINGS)
        found = recent(known, key, _VERSIONS)
    if isinstance(found, str):
        raise NotElementwise(found)
    return found


def is_known(step: Callable | nn.Module, state: Any, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether ``equation_of`` has nothing to trace."""
    try:
        key = (fingerprint(step), type(state), len(state), dtype, device.type)
        return key in _equations.get(owner(step), ()) or _of_sibling(step, key) is not None
    except (Opaque, TypeError):
        return False


def is_ours(step: Any) -> bool:
    """A neuron of the kit, whose code does not change while a program runs."""
    return isinstance(step, nn.Module) and type(step).__module__.partition(".")[0] == __name__.partition(".")[0]


def _kind(step: Any, key: Any) -> Any:
    return type(step), tuple(tensors_of(step)), key


def _of_sibling(step: Any, key: Any) -> Equation | str | None:
    return _siblings.get(_kind(step, key)) if is_ours(step) else None


def _traced(step: Callable | nn.Module, state: Any, dtype: torch.dtype, device: torch.device) -> Equation | str:
    try:
        return trace(step, state, list(tensors_of(step)), dtype, device)
    except NotElementwise as reason:
        # Its text only: an exception holds the frames that it came through, and they hold the data.
        return str(reason)


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
