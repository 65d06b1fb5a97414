"""Whether a function left its arguments as they were: tensors, arrays, lists, dicts and what is in them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from torch import Tensor

BYTES = 1 << 20  # of larger tensors and arrays the values are not compared
DEPTH, ITEMS = 4, 1000


def fingerprint(value: Any, depth: int = DEPTH) -> Any:
    """Something that is equal to an earlier fingerprint of ``value`` as long as ``value`` was not changed in place."""
    if isinstance(value, Tensor):
        # An in-place operation counts even where it changes no value; bytes show what goes past PyTorch (x.numpy()).
        return ("tensor", None if value.is_inference() else value._version, _bytes(value))
    if isinstance(value, np.ndarray):
        return ("array", value.shape, value.dtype.str, value.tobytes() if value.nbytes <= BYTES else None)
    if isinstance(value, dict) and depth and len(value) <= ITEMS:
        return ("dict", tuple((key, fingerprint(item, depth - 1)) for key, item in value.items()))
    if isinstance(value, (list, tuple)) and depth and len(value) <= ITEMS:
        return ("list", tuple(fingerprint(item, depth - 1) for item in value))
    if isinstance(value, (set, frozenset)) and len(value) <= ITEMS:
        return ("set", frozenset(value))
    if isinstance(value, (bytearray, str, int, float, complex, bool)):
        return (type(value).__name__, repr(value) if isinstance(value, (bytearray, float, complex)) else value)
    return ("object", id(value))


def _bytes(tensor: Tensor) -> bytes | None:
    """The bytes behind a plain tensor, read without an operation: checks may trace what is computed."""
    if type(tensor) is not Tensor or tensor.device.type != "cpu":
        return None
    try:
        storage = tensor.untyped_storage()
        size = storage.nbytes()
        return ctypes.string_at(storage.data_ptr(), size) if 0 < size <= BYTES else None
    except (RuntimeError, NotImplementedError):  # sparse, or a tracer's stand-in: it has no storage of its own
        return None
