"""Has an equation changed since it was compiled?

Numbers in an equation (``tau``, ``v_threshold``, a surrogate's slope, a global that a notebook cell defined) are
constants of the compiled kernel. ``fingerprint`` collects them, so that changing one is noticed: the equation is then
traced and compiled anew instead of running with the old number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable
from types import FunctionType, MethodType, ModuleType
from typing import Any

from torch import Tensor, nn

# Attributes of a module that can't change what its step computes.
_IRRELEVANT = {"training", "engine"}


def fingerprint(step: Callable | nn.Module) -> Hashable:
    """A value that is equal as long as the numbers and functions that ``step`` is made of are the same."""
    return _freeze(step, frozenset())


def _freeze(value: Any, seen: frozenset[int]) -> Hashable:
    # The type is part of it, as 1 == 1.0 == True.
    if value is None or isinstance(value, (bool, int, float, str, complex)):
        return type(value), value
    if isinstance(value, (Tensor, ModuleType, type)):
        # Tensors are arguments of a kernel, not constants; the tracer refuses those that a module does not own.
        return None if isinstance(value, Tensor) else id(value)
    if id(value) in seen:
        return "again"
    seen = seen | {id(value)}
    if isinstance(value, (tuple, list)):
        return type(value), tuple(_freeze(item, seen) for item in value)
    if isinstance(value, dict):
        return "dict", tuple((key, _freeze(item, seen)) for key, item in value.items())
    if isinstance(value, nn.Module):
        return _freeze_module(value, seen)
    if dataclasses.is_dataclass(value):
        return type(value), tuple(_freeze(getattr(value, f.name), seen) for f in dataclasses.fields(value))
    if isinstance(value, MethodType):
        return _freeze(value.__func__, seen), _freeze(value.__self__, seen)
    if isinstance(value, FunctionType):
        return _freeze_function(value, seen)
    return type(value), id(value)


def _freeze_module(module: nn.Module, seen: frozenset[int]) -> Hashable:
    own = tuple(
        (name, _freeze(item, seen))
        for name, item in vars(module).items()
        if not name.startswith("_") and name not in _IRRELEVANT
    )
    children = tuple((name, _freeze(child, seen)) for name, child in module.named_children())
    step = getattr(type(module), "step", None)
    code = _freeze_function(step, seen) if isinstance(step, FunctionType) else None
    return type(module), own, children, code


def _freeze_function(function: FunctionType, seen: frozenset[int]) -> Hashable:
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(_freeze(cell.cell_contents, seen))
        except ValueError:  # a cell that is still empty
            cells.append(None)
    read = (n for n in function.__code__.co_names if n in function.__globals__)
    names = tuple((n, _freeze(function.__globals__[n], seen)) for n in read)
    return function.__code__, tuple(cells), names, _freeze(function.__defaults__, seen)
