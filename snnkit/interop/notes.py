"""A note in a node's metadata: which of our neurons it was, with the arguments it was made with.

Numbers that went through seconds and back differ in their last digit, and NIR can't say that a neuron fires at its
threshold. The note brings back the very same neuron. It is believed only where that neuron, written once more, has the
numbers that the node has: after somebody else has changed these, or at another ``dt``, the numbers alone count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..neuron import IF, LI, LIF, PLIF, CubaLIF, Leaky, Neuron
from .numbers import described

KEY = "snnkit"

# The arguments on which the output of each depends.
_ARGUMENTS: dict[type[Neuron], tuple[str, ...]] = {
    IF: ("v_threshold", "v_reset"),
    LIF: ("tau", "v_threshold", "v_reset", "decay_input"),
    PLIF: ("w", "v_threshold", "v_reset", "decay_input"),
    Leaky: ("beta", "threshold", "reset_mechanism", "reset_delay"),
    CubaLIF: ("tau_mem_inv", "tau_syn_inv", "v_leak", "v_th", "v_reset", "dt"),
    LI: ("tau_mem_inv", "tau_syn_inv", "v_leak", "dt"),
}
_CLASSES = {kind.__name__: kind for kind in _ARGUMENTS}


def note_on(neuron: Neuron) -> dict[str, Any]:
    """The metadata of the node of ``neuron``."""
    names = _ARGUMENTS.get(type(neuron))
    if names is None:
        return {}
    return {KEY: type(neuron).__name__, **{name: _stored(getattr(neuron, name)) for name in names}}


def neuron_of(
    metadata: dict[str, Any], kind: str, numbers: dict[str, np.ndarray], dt: float, surrogate: Callable[..., Tensor]
) -> Neuron | None:
    """The neuron that the note tells of; None if there is no note, or if it does not fit the node's numbers."""
    owner = _CLASSES.get(str(metadata.get(KEY)))
    if owner is None:
        return None
    try:
        arguments = {name: _restored(metadata[name]) for name in _ARGUMENTS[owner]}
        again = _made(owner, arguments, surrogate)
        found = described(again, dt)
    except (KeyError, TypeError, ValueError):  # a note that somebody changed
        return None
    if found.kind != kind:
        return None
    for name, array in numbers.items():
        try:
            wanted = np.broadcast_to(found.numbers[name], array.shape)
        except ValueError:
            return None
        if not np.allclose(wanted, array, rtol=1e-6, atol=1e-12):
            return None
    return again


def _made(owner: type[Neuron], arguments: dict[str, Any], surrogate: Callable[..., Tensor]) -> Neuron:
    if owner is PLIF:
        w = arguments.pop("w")
        neuron = PLIF(**arguments, shape=tuple(w.shape), surrogate=surrogate)
        with torch.no_grad():
            neuron.w = torch.nn.Parameter(w)
        return neuron
    if owner is not LI:
        arguments["surrogate"] = surrogate
    return owner(**arguments)


def _stored(value: Any) -> Any:
    """As HDF5 keeps it: a tensor of no dimension becomes one of one value, which differs from a float's arithmetic."""
    return np.atleast_1d(value.detach().cpu().numpy()) if isinstance(value, Tensor) else value


def _restored(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, np.generic):
        return value.item()
    return torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray) else value
