"""Has an equation changed since it was traced?

Numbers in an equation (``tau``, ``v_threshold``, a surrogate's slope, a global that a notebook cell defined) are
constants of the compiled kernel. ``fingerprint`` collects all that a step can read, so that a change is noticed: the
equation is then traced anew instead of running with the old number. What it can't look into, it does not vouch for:
it raises ``Opaque``, and the step is traced at every call.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Hashable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

# What every module has of its own accord; parameters and buffers are arguments of the graphs, submodules are walked.
_BOOKKEEPING = frozenset(vars(nn.Module())) - {"training"}

# Their code does not change while a program runs, so it need not be looked through at every call.
_FIXED = ("torch", "snnkit", "numpy")
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, type(Ellipsis))
_EXACT = frozenset({bool, int, str, bytes, type(None), torch.dtype, torch.device})

_UNCHANGING = _EXACT | {float}

# What a module held when it was last looked at, and its fingerprint then.
_seen: weakref.WeakKeyDictionary[nn.Module, tuple[tuple, Hashable]] = weakref.WeakKeyDictionary()

# The parts of a class that are written by the user, by class: looked up at every call.
_written: weakref.WeakKeyDictionary[type, tuple[type, ...]] = weakref.WeakKeyDictionary()


class Opaque(Exception):
    """There is something in this step whose changes can't be seen."""


def owner(step: Callable) -> Any:
    """What to remember a step by: functions made anew at each call (closures, partials) share their code."""
    if isinstance(step, functools.partial):
        return owner(step.func)
    if isinstance(step, MethodType):
        return step.__self__
    return step.__code__ if isinstance(step, FunctionType) else step


def fingerprint(step: Callable | nn.Module) -> Hashable:
    """A value that stays equal as long as everything that ``step`` reads does.

    Raises:
        Opaque: it holds something of which that can't be said.
    """
    if not (isinstance(step, nn.Module) and _is_fixed(type(step).__module__)):
        return _freeze(step, frozenset())
    # A neuron of ours that holds only what can't change from within is the same as long as it holds the same.
    held = tuple(vars(step).values())
    before, known = _seen.get(step, ((), None))
    if len(before) != len(held) or any(a is not b for a, b in zip(before, held, strict=True)):
        known = _freeze(step, frozenset())
        own = (v for name, v in vars(step).items() if name not in _BOOKKEEPING)
        if not step._modules and all(type(v) in _UNCHANGING or _is_frozen_surrogate(v) for v in own):
            _seen[step] = held, known
    return known


def _is_frozen_surrogate(value: Any) -> bool:
    """One of ours; a notebook's own may be changed from within."""
    return type(value).__module__ == "snnkit.surrogate"


def _freeze(value: Any, seen: frozenset[int]) -> Hashable:
    kind = type(value)
    if kind in _EXACT or (kind is float and value and value == value):
        return kind, value
    if isinstance(value, _PLAIN):
        # The type belongs to it, as 1 == 1.0 == True, and the text tells 0.0 from -0.0 and NaN from nothing.
        return type(value), repr(value) if isinstance(value, (float, complex)) else value
    if isinstance(value, (Tensor, BuiltinFunctionType)):
        # A tensor is an argument of the graphs; the tracer refuses those that are neither parameter nor buffer.
        return None if isinstance(value, Tensor) else value
    if id(value) in seen:
        return "again"
    seen = seen | {id(value)}
    if isinstance(value, (tuple, list)):
        return type(value), tuple(_freeze(item, seen) for item in value)
    if isinstance(value, dict):
        return "dict", tuple((_freeze(key, seen), _freeze(item, seen)) for key, item in value.items())
    if isinstance(value, (set, frozenset)):
        return type(value), frozenset(_freeze(item, seen) for item in value)
    if isinstance(value, functools.partial):
        return "partial", _freeze((value.func, value.args, value.keywords), seen)
    if isinstance(value, MethodType):
        return _freeze(value.__func__, seen), _freeze(value.__self__, seen)
    if isinstance(value, FunctionType):
        return value if _is_fixed(value.__module__) else _freeze_function(value, seen)
    if isinstance(value, type):
        return _freeze_class(value, seen)
    if isinstance(value, ModuleType):
        return value.__name__
    return _freeze_object(value, seen)


def _freeze_object(value: Any, seen: frozenset[int]) -> Hashable:
    kind = _freeze_class(type(value), seen)
    if isinstance(value, nn.Module):
        own = {name: item for name, item in vars(value).items() if name not in _BOOKKEEPING and name != "engine"}
        return kind, _freeze(own, seen), _freeze(value._modules, seen)
    if hasattr(value, "tobytes") and hasattr(value, "dtype"):  # NumPy's scalars and arrays
        return kind, str(value.dtype), value.tobytes()
    if hasattr(value, "__dict__") and not any("__slots__" in vars(c) for c in type(value).__mro__[:-1]):
        return kind, _freeze(vars(value), seen)
    if type(value).__module__ in sys.stdlib_module_names or type(value).__module__.startswith("torch"):
        return kind, value if isinstance(value, Hashable) else _opaque(value)
    return _opaque(value)


def _opaque(value: Any) -> Hashable:
    raise Opaque(f"a {type(value).__name__}")


def _freeze_class(kind: type, seen: frozenset[int]) -> Hashable:
    """The class itself, and for those written by the user what is written in them."""
    written = _written.get(kind)
    if written is None:
        written = _written[kind] = tuple(c for c in kind.__mro__ if not _is_fixed(c.__module__))
    if not written:
        return kind
    bodies = []
    for part in written:
        if id(part) in seen and part is not kind:
            continue
        for name, item in vars(part).items():
            if isinstance(item, (FunctionType, *_PLAIN)) and name not in ("__doc__", "__module__", "__qualname__"):
                bodies.append((name, _freeze(item, seen)))
            elif isinstance(item, (staticmethod, classmethod)):
                bodies.append((name, _freeze(item.__func__, seen)))
            elif isinstance(item, property) and item.fget is not None:
                bodies.append((name, _freeze(item.fget, seen)))
    return kind, tuple(bodies)


def _freeze_function(function: FunctionType, seen: frozenset[int]) -> Hashable:
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(_freeze(cell.cell_contents, seen))
        except ValueError:  # a cell that is still empty
            cells.append(None)
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    read = []
    for name in sorted(names):
        if name not in function.__globals__:
            continue
        item = function.__globals__[name]
        read.append((name, _freeze(item, seen)))
        if isinstance(item, ModuleType) and not _is_fixed(item.__name__):
            of_module = [attribute for attribute in sorted(names) if attribute in vars(item)]
            read.append((name, tuple(_freeze(vars(item)[attribute], seen) for attribute in of_module)))
    defaults = (function.__defaults__, function.__kwdefaults__)
    return function.__code__, tuple(cells), tuple(read), _freeze(defaults, seen)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """``code`` and the code of what is defined inside: lambdas, comprehensions, inner functions."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _is_fixed(module: str | None) -> bool:
    root = (module or "").partition(".")[0]
    return root in _FIXED or (root in sys.stdlib_module_names and root != "__main__")
