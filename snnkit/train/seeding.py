"""Random numbers: one seed for all sources, and the generators that user functions hold."""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import nn

from snnkit.checks import integer

_MAX_DEPTH = 4  # a function in a partial in an attribute of a module, and one more


def seed_everything(seed: int) -> int:
    """Seed Python's ``random``, NumPy's global generator, and PyTorch's on all devices; return the seed.

    On a CPU the same seed gives the same weights to the bit. On a GPU some of PyTorch's kernels add in an order that
    varies; ``torch.use_deterministic_algorithms(True)`` forbids those, at a cost in speed.
    """
    seed = check_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    return seed


def check_seed(seed: int) -> int:
    return integer("seed", seed, at_least=0, at_most=2**32 - 1)


def generators_of(*holders: Any) -> list[torch.Generator]:
    """Every ``torch.Generator`` that functions, methods, partials, modules and other objects refer to, each once.

    A run that is resumed or replayed has to restore their states. Searched are arguments of partials, closures,
    defaults, the globals that a function's code names, and attributes. The order depends on the holders alone, so two
    runs of one program find the same list.
    """
    generators: dict[int, torch.Generator] = {}
    seen: set[int] = set()

    def search(value: Any, depth: int) -> None:
        if isinstance(value, torch.Generator):
            generators.setdefault(id(value), value)
        elif depth <= _MAX_DEPTH and id(value) not in seen:
            seen.add(id(value))
            for part in _parts(value):
                search(part, depth + 1)

    for holder in holders:
        for part in holder.modules() if isinstance(holder, nn.Module) else [holder]:
            search(part, 0)
    return list(generators.values())


@contextlib.contextmanager
def generators_restored(*holders: Any) -> Iterator[None]:
    """A context after which the generators of ``generators_of(*holders)`` are in the state of before."""
    states = [(generator, generator.get_state()) for generator in generators_of(*holders)]
    try:
        yield
    finally:
        for generator, state in states:
            generator.set_state(state)


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
            except ValueError:  # a name without a value yet
                continue
        scope = value.__globals__
        yield from (scope[name] for name in _names(value.__code__) if isinstance(scope.get(name), torch.Generator))
    elif isinstance(value, (list, tuple)):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, nn.Module) or _has_plain_attributes(value):
        yield from vars(value).values()


def _names(code: CodeType) -> Iterator[str]:
    """Globals that code names, including functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _has_plain_attributes(value: Any) -> bool:
    """Whether to search the attributes: not those of classes, Python modules and tensors."""
    kind = type(value)
    return hasattr(value, "__dict__") and kind.__module__ not in ("builtins", "torch") and not isinstance(value, type)
