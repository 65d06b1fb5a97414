"""The equation of a step, traced once, and again when anything that the step reads has changed.

Numbers in an equation (``tau``, ``v_threshold``, a surrogate's slope, a global that a notebook cell defined) are
constants of the compiled kernel. So ``reading_of`` follows a step through all that it reads: attributes, methods,
closures, defaults, globals, and the functions that they call, in this package or in a notebook. The result is a key
that is equal if all of this is equal; steps with equal keys share one equation. The result also lists the places that
were read, so that ``plan`` can quickly compare identities and see that nothing has changed.

An object that can't be followed (with ``__slots__`` or written in C) is ``Opaque``: its step is traced at every call.
"""

from __future__ import annotations

import dis
import functools
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from snnkit import checks
from snnkit.engine.autograd import tensors_of
from snnkit.engine.trace import Equation, NotElementwise, renew_in_children, trace
from snnkit.surrogate import Surrogate

# Attributes of every module. Parameters and buffers are arguments of the graphs, submodules are followed.
_BOOKKEEPING = frozenset(vars(nn.Module())) - {"training"}

_TEXTS = {"__doc__", "__module__", "__qualname__", "__firstlineno__"}
# No fact depends on them. Parameters and the like may get another dict.
_UNREAD = _TEXTS | _BOOKKEEPING - {"_parameters", "_buffers", "_modules"}

# Their code does not change while a program runs.
_LIBRARIES = {"torch", "numpy", *sys.stdlib_module_names} - {"__main__"}
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, type(Ellipsis))
_METHODS = (FunctionType, staticmethod, classmethod, property)
_CONSTRUCTORS = {"__init__", "__new__", "__post_init__"}

# A step with so many facts is opaque: it holds more than an equation.
_MOST_FACTS = 5000

# Equations by key, the least recently used first; a text is the reason why there is none.
_MOST_EQUATIONS = 256
_equations: OrderedDict[Hashable, Equation | str] = OrderedDict()
_lock = threading.RLock()
renew_in_children(globals(), _lock=threading.RLock)


class Opaque(Exception):
    """This step holds something whose changes can't be seen."""


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
    """
    try:
        key = reading_of(step).key
    except Opaque:
        return trace(step, state, list(tensors_of(step)), dtype, device)
    equation = equation_by_key(key, step, state, dtype, device)
    if isinstance(equation, str):
        raise NotElementwise(equation)
    return equation


def equation_by_key(
    key: Hashable, step: Callable | nn.Module, state: Any, dtype: torch.dtype, device: torch.device
) -> Equation | str:
    """As ``equation_of``, with the key of the step's reading; a text is the reason why there is none."""
    names = tuple(tensors_of(step))
    key = (key, names, type(state), len(state), dtype, device.type)
    with _lock:
        if key not in _equations:
            try:
                _equations[key] = trace(step, state, names, dtype, device)
            except NotElementwise as reason:
                # Only its text: an exception holds its frames, and they hold the data.
                _equations[key] = str(reason)
        return recent(_equations, key, _MOST_EQUATIONS)


def recent(entries: OrderedDict[Any, Any], key: Any, most: int) -> Any:
    """``entries[key]``, now the most recently used; above ``most`` entries, the oldest are dropped."""
    entries.move_to_end(key)
    while len(entries) > most:
        entries.popitem(last=False)
    return entries[key]


class Reading:
    """All that a step reads."""

    def __init__(self) -> None:
        self.key: Hashable = None  # equal as long as everything read is equal
        self.quick = True  # whether ``places`` show every change; else the step must be read again at each call
        # (function, argument, result): if each still returns the same object, nothing has changed.
        self.places: list[tuple[Callable, Any, Any]] = []


def reading_of(step: Callable | nn.Module) -> Reading:
    """Follow a step through all that it reads; Opaque: something in it can't be followed."""
    return _Follower(step).reading


class _Follower:
    """Collects facts: hashable values that, in order, tell two steps apart."""

    def __init__(self, step: Callable | nn.Module) -> None:
        self.reading = Reading()
        self.facts: list[Hashable] = []
        self.seen: dict[int, int] = {}
        self.alive: list[Any] = []  # or an id in ``seen`` might be given out twice
        self.names: set[str] = set()  # of attributes that code reads
        self.classes: dict[type, set[str]] = {}  # and further methods that may be called; empty: only by name
        self.follow(step)
        # Methods that are called by name, until none of them names another.
        done: set[tuple[type, str]] = set()
        while pending := [c for c in self._called() if c not in done]:
            for kind, name in pending:
                done.add((kind, name))
                self.facts.append(name)
                self.follow(_function_in(vars(kind)[name]))
        self.reading.key = tuple(self.facts)
        try:
            hash(self.reading.key)
        except TypeError as error:
            raise Opaque(str(error)) from None

    def _called(self) -> list[tuple[type, str]]:
        return [
            (kind, name)
            for kind, more in list(self.classes.items())
            for name, item in vars(kind).items()
            if (name in self.names and not isinstance(item, _PLAIN)) or (name in more and isinstance(item, _METHODS))
        ]

    def follow(self, value: Any) -> None:
        kind = type(value)
        if isinstance(value, _PLAIN):
            # The type belongs to it, as 1 == 1.0 == True, and a text can tell 0.0 from -0.0 and NaN from NaN.
            self.facts.append((kind, repr(value) if isinstance(value, (float, complex)) else value))
            return
        if isinstance(value, (Tensor, BuiltinFunctionType)):
            # A tensor is an argument of the graphs; the tracer refuses one that is neither parameter nor buffer.
            self.facts.append(Tensor if isinstance(value, Tensor) else value)
            return
        if id(value) in self.seen:
            self.facts.append(("again", self.seen[id(value)]))
            return
        if len(self.facts) > _MOST_FACTS:
            raise Opaque("more than an equation")
        self.seen[id(value)] = len(self.seen)
        self.alive.append(value)
        if isinstance(value, (tuple, list)):
            self.reading.quick &= isinstance(value, tuple)
            self.facts.append((kind, len(value)))
            for item in value:
                self.follow(item)
        elif isinstance(value, dict):
            self.reading.quick = False
            self._named("dict", value)
        elif isinstance(value, (set, frozenset)):
            self.reading.quick &= isinstance(value, frozenset)
            if not all(isinstance(item, _PLAIN) for item in value):
                raise Opaque("a set of objects")
            self.facts.append((kind, frozenset((type(item), repr(item)) for item in value)))
        elif isinstance(value, functools.partial):
            self.facts.append("partial")
            self.follow((value.func, value.args, *value.keywords.items()))
        elif isinstance(value, MethodType):
            self.names.add(value.__func__.__name__)
            self.follow(value.__func__)
            self.follow(value.__self__)
        elif isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, type):
            self.facts.append(value)
            self._class(value, _called_of(value, value, _methods(value) | _CONSTRUCTORS))
        elif isinstance(value, ModuleType):
            self.facts.append(value.__name__)
        else:
            self._object(value)

    def _object(self, value: Any) -> None:
        kind = type(value)
        self.facts.append(kind)
        if hasattr(kind, "tobytes") and hasattr(kind, "dtype"):  # NumPy's scalars and arrays
            self.reading.quick &= not hasattr(kind, "__setitem__")
            self.facts.append((str(value.dtype), value.tobytes()))
        elif isinstance(value, nn.Module):
            self._class(kind, _called_of(kind, value, _methods(kind)))
            self._watch(vars(value))
            own = {name: item for name, item in vars(value).items() if name not in _BOOKKEEPING and name != "engine"}
            self._named("module", own)
            self._watch(value._modules)
            self.reading.places += [(len, store, len(store)) for store in (value._parameters, value._buffers)]
            self._named("modules", value._modules)
        elif hasattr(value, "__dict__") and not any("__slots__" in vars(c) for c in kind.__mro__[:-1]):
            self._class(kind, _called_of(kind, value, _methods(kind)))
            self._watch(vars(value))
            # A surrogate makes its function from the rest.
            own = {n: item for n, item in vars(value).items() if not (n == "_spike" and isinstance(value, Surrogate))}
            self._named("object", own)
        elif kind.__module__.partition(".")[0] in _LIBRARIES and isinstance(value, Hashable):
            self.facts.append(value)
        else:
            raise Opaque(f"a {kind.__name__}")

    def _named(self, what: str, items: Mapping[Any, Any]) -> None:
        self.facts.append((what, len(items)))
        for name, item in items.items():
            self.follow(name)
            self.follow(item)

    def _watch(self, mapping: Mapping[str, Any]) -> None:
        self.reading.places.append((len, mapping, len(mapping)))
        self.reading.places += [(mapping.get, name, item) for name, item in mapping.items() if name not in _UNREAD]

    def _class(self, kind: type, methods: set[str]) -> None:
        """Note the classes that are not a library's: their plain attributes, and which methods may be called."""
        for part in kind.__mro__:
            if _is_library(part.__module__):
                continue
            if part in self.classes:
                self.classes[part] |= methods
                continue
            self.classes[part] = set(methods)
            self._watch(vars(part))
            plain = {n: item for n, item in vars(part).items() if isinstance(item, _PLAIN) and n not in _TEXTS}
            self.facts.append(part)
            self._named("class", plain)

    def _function(self, function: FunctionType) -> None:
        if _is_library(function.__module__) or getattr(function, "_dynamo_marked_constant", False):
            self.facts.append(function)
            return
        code = function.__code__
        self.facts.append(code)
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            self._part(function, name)
        self.follow(function.__defaults__)
        self.follow(tuple((function.__kwdefaults__ or {}).items()))
        for cell in function.__closure__ or ():
            try:
                self.follow(self._part(cell, "cell_contents"))
            except ValueError:  # a cell that is still empty
                self.reading.quick = False
        variables, names = _names_in(code)
        self.names |= names
        self._globals(function.__globals__, variables, names)

    def _part(self, holder: Any, name: str) -> Any:
        part = getattr(holder, name)
        self.reading.places.append((functools.partial(getattr, holder), name, part))
        return part

    def _globals(self, of_module: dict[str, Any], variables: tuple[str, ...], names: frozenset[str]) -> None:
        for name in variables:
            item = of_module.get(name)
            self.reading.places.append((of_module.get, name, item))
            if name in of_module:
                self.facts.append(name)
                self.follow(item)
                if isinstance(item, ModuleType) and not _is_library(item.__name__):
                    self._globals(vars(item), tuple(sorted(names & vars(item).keys())), names)


def _called_of(kind: type, value: Any, others: set[str]) -> set[str]:
    """Called methods that no code names: a neuron's step, a surrogate's derivative."""
    if issubclass(kind, Surrogate):
        return {"__call__", "derivative"}
    return {"step"} if issubclass(kind, nn.Module) and hasattr(value, "step") else others


def _methods(kind: type) -> set[str]:
    """The methods that may be called on an existing object."""
    return {name for part in kind.__mro__ for name in vars(part)} - _CONSTRUCTORS


def _function_in(item: Any) -> Any:
    """The attribute of a class with the name of a method."""
    if isinstance(item, (staticmethod, classmethod)):
        return item.__func__
    return item.fget if isinstance(item, property) else item


@functools.lru_cache(maxsize=4096)
def _names_in(code: CodeType) -> tuple[tuple[str, ...], frozenset[str]]:
    """Names of global variables that ``code`` reads, sorted, and names that may be attributes; also in lambdas,
    comprehensions and functions inside."""
    variables = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    names = {*code.co_names, *(constant for constant in code.co_consts if isinstance(constant, str))}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            more, further = _names_in(constant)
            variables.update(more)
            names |= further
    return tuple(sorted(variables)), frozenset(names)


def _is_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _LIBRARIES
