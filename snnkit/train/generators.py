"""Find the random generators that functions hold: a run that is resumed or replayed has to know their states."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch
from torch import nn

_DEEPEST = 4  # a function in a partial in an attribute of a module, and one more


def generators_of(*holders: Any) -> list[torch.Generator]:
    """Every ``torch.Generator`` in reach of functions, methods, partials, modules and other objects, each once.

    Looked at are arguments of partials, closures, defaults, the globals that a function's code names, and attributes.
    The order depends on the holders alone, so that two runs of one program find the same.
    """
    found: dict[int, torch.Generator] = {}
    seen: set[int] = set()

    def search(value: Any, depth: int) -> None:
        if isinstance(value, torch.Generator):
            found.setdefault(id(value), value)
            return
        if depth > _DEEPEST or id(value) in seen:
            return
        seen.add(id(value))
        for part in _parts(value):
            search(part, depth + 1)

    for holder in holders:
        if isinstance(holder, nn.Module):
            for module in holder.modules():
                search(module, 0)
        else:
            search(holder, 0)
    return list(found.values())


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, FunctionType):
        yield from value.__defaults__ or ()
        yield from (value.__kwdefaults__ or {}).values()
        for cell in value.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # a name that has no value yet
                continue
        known = value.__globals__
        yield from (known[name] for name in _names(value.__code__) if isinstance(known.get(name), torch.Generator))
    elif isinstance(value, (list, tuple)):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, nn.Module) or _is_plain_object(value):
        yield from vars(value).values()


def _names(code: CodeType) -> Iterator[str]:
    """Globals that code names, with that of functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_plain_object(value: Any) -> bool:
    """Whether its attributes may be looked at: neither a class, a module of Python nor a tensor."""
    kind = type(value)
    return hasattr(value, "__dict__") and kind.__module__ not in ("builtins", "torch") and not isinstance(value, type)
