"""All that a step reads: attributes, methods, closures, defaults, globals, and the functions that they call.

Numbers in an equation (``tau``, ``v_threshold``, a surrogate's slope, a global that a notebook cell defined) are
constants of the compiled kernel. So ``reading_of`` follows a step through all that it reads, in this package or in a
notebook. The result is a key that is equal if all of this is equal, and the ``Places`` that were read: ``plan`` asks
them at every call whether all is still the same.

An object that can't be followed (with ``__slots__`` or written in C) is ``Opaque``: its step is traced at every call.
A step that uses something else than its arguments and what it holds, such as the time, the environment or an iterator,
is impure: it is never compiled, as it can give another result at each step.
"""

from __future__ import annotations

import dis
import functools
import sys
import threading
from collections.abc import Callable, Hashable, Mapping, Set
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from snnkit.engine.trace import is_computed_once
from snnkit.surrogate import Surrogate

# Attributes of every module. Parameters and buffers are arguments of the graphs, submodules are followed.
_BOOKKEEPING = frozenset(vars(nn.Module())) - {"training"}

_TEXTS = {"__doc__", "__module__", "__qualname__", "__firstlineno__"}
# No fact depends on these attributes of a module. Its ``_modules`` may be another dict one day.
_UNREAD = _TEXTS | _BOOKKEEPING - {"_modules"} | {"engine"}

# Their code does not change while a program runs.
_LIBRARIES = {"torch", "numpy", *sys.stdlib_module_names} - {"__main__"}
# Those of them whose functions, and objects, give the same at each step and in each thread.
_PURE = {"torch", "numpy", "math", "cmath", "operator", "functools", "itertools", "collections", "typing", "enum"}
_PURE |= {"dataclasses", "abc", "types", "copy", "numbers", "fractions", "decimal", "re", "statistics", "bisect"}
_PURE |= {"builtins", "contextlib", "inspect", "warnings", "string"}
# With these exceptions, by module.
_GRAD_MODE = {"is_grad_enabled", "is_inference_mode_enabled", "is_autocast_enabled", "get_autocast_dtype"}
_CHANGING = {
    "torch": _GRAD_MODE | {"get_default_dtype", "get_default_device", "initial_seed", "get_num_threads"},
    "numpy": {"random"},
    "builtins": {"globals", "eval", "exec", "open", "input", "print", "__import__"},
}
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, type(Ellipsis))
_METHODS = (FunctionType, staticmethod, classmethod, property)
_CONSTRUCTORS = {"__init__", "__new__", "__post_init__"}

# A step with so many facts is opaque: it holds more than an equation.
_MOST_FACTS = 5000


class Opaque(Exception):
    """This step holds something whose changes can't be seen."""


class Places:
    """Where something was read, and the object that was there. In columns, so that they can be compared in C."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, str]] = set()
        self.held = ([], [], [])  # a mapping, a key, and its item
        self.parts = ([], [], [])  # an object, the name of an attribute, and its value
        self.absent = ([], [])  # a mapping, and a key that it does not have
        self.sizes = ([], [])  # a mapping, and how many items it has

    def item(self, mapping: Mapping[str, Any], key: str) -> None:
        """Watch what ``mapping`` has under ``key``, or that it has nothing."""
        known = (mapping, key, mapping[key]) if key in mapping else (mapping, key)
        self._note(self.held if key in mapping else self.absent, key, *known)

    def part(self, holder: Any, name: str) -> Any:
        """Watch an attribute, and return it."""
        value = getattr(holder, name)
        self._note(self.parts, name, holder, name, value)
        return value

    def size(self, mapping: Mapping[str, Any]) -> None:
        """Watch how many items ``mapping`` has."""
        self._note(self.sizes, "", mapping, len(mapping))

    def _note(self, columns: tuple[list, ...], name: str, *row: Any) -> None:
        if (place := (id(row[0]), name)) not in self._seen:
            self._seen.add(place)
            for column, value in zip(columns, row, strict=True):
                column.append(value)


class Reading:
    """All that a step reads."""

    def __init__(self) -> None:
        self.key: Hashable = None  # equal as long as everything read is equal
        self.quick = True  # whether ``places`` show every change; else the step must be read again at each call
        self.places = Places()
        self.impure = ""  # why it is no function of all this, so that it can't be compiled
        # Lists, dicts and sets that were read, a copy of each, and the object whose attributes they are.
        self.contents: list[tuple[Any, Any, Any]] = []

    def restore(self) -> bool:
        """Whether something in ``contents`` is no longer as it was read; then it is again."""
        changed = [(held, before) for held, before, of in self.contents if not _same(held, before, of)]
        for held, before in changed:
            held.clear()
            held.extend(before) if isinstance(held, list) else held.update(before)
        return bool(changed)


def _same(held: Any, before: Any, of: Any) -> bool:
    if isinstance(held, dict):
        same = all(held.get(name, held) is item for name, item in before.items())
        return same and all(name in before or is_computed_once(of, name) for name in held)
    if isinstance(held, list):
        return len(held) == len(before) and all(a is b for a, b in zip(held, before, strict=True))
    return held == before


def reading_of(step: Callable | nn.Module) -> Reading:
    """Follow a step through all that it reads; Opaque: something in it can't be followed."""
    return _Follower(step).reading


def owner_of(step: Any) -> Any:
    """The object that a step belongs to; the code of a function, as those of a closure are made again and again."""
    while isinstance(step, functools.partial):
        step = step.func
    if isinstance(step, MethodType):
        return step.__self__
    return step.__code__ if isinstance(step, FunctionType) else step


class _Follower:
    """Collects facts: hashable values that, in order, tell two steps apart."""

    def __init__(self, step: Callable | nn.Module) -> None:
        self.reading, self.owner = Reading(), owner_of(step)
        self.facts: list[Hashable] = []
        self.seen: dict[int, int] = {}
        self.alive: list[Any] = []  # or an id in ``seen`` might be given out twice
        self.names: set[str] = set()  # of attributes that code reads
        self.classes: dict[type, set[str]] = {}  # and further methods that may be called; empty: only by name
        self.follow(step)
        if isinstance(step, nn.Module):
            self._start(type(step))
        # Methods that are called by name, until none of them names another.
        done: set[tuple[type, str]] = set()
        while pending := [c for c in self._called() if c not in done]:
            for kind, name in pending:
                done.add((kind, name))
                self.facts.append(name)
                self.reading.places.item(vars(kind), name)
                self.follow(_function_in(vars(kind)[name]))
        self.reading.key = tuple(self.facts)
        try:
            hash(self.reading.key)
        except TypeError as error:
            raise Opaque(str(error)) from None

    def _start(self, kind: type) -> None:
        """Note what makes a neuron's state at rest: ``plan`` keeps that, too."""
        for name in ("initial_state", "State", "resting"):
            for part in kind.__mro__:
                if name in vars(part):
                    self.reading.places.item(vars(part), name)
                    item = vars(part)[name]
                    if isinstance(item, dict):
                        self._watch(item)
                        item = tuple(item.items())
                    self.facts.append(item)
                    break

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
        if isinstance(value, Tensor):
            # It is an argument of the graphs; the tracer refuses one that is neither parameter nor buffer.
            self.facts.append(Tensor)
            return
        if isinstance(value, BuiltinFunctionType):
            self.facts.append(value)
            owner = value.__self__
            if isinstance(owner, type) or owner is None or isinstance(owner, ModuleType):
                self._library(value.__module__ or "builtins", {value.__name__})
            else:
                self.follow(owner)
            return
        if id(value) in self.seen:
            self.facts.append(("again", self.seen[id(value)]))
            return
        if len(self.facts) > _MOST_FACTS:
            raise Opaque("more than an equation")
        self.seen[id(value)] = len(self.seen)
        self.alive.append(value)
        if isinstance(value, (tuple, list)):
            self._contents(value)
            self.facts.append((kind, len(value)))
            for item in value:
                self.follow(item)
        elif isinstance(value, dict):
            self._contents(value)
            self._named("dict", value)
        elif isinstance(value, (set, frozenset)):
            self._contents(value)
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
            self._library(value.__name__)
        else:
            self._object(value)

    def _contents(self, container: Any, of: Any = None) -> None:
        if isinstance(container, (list, dict, set)):
            self.reading.quick &= of is not None  # then ``places`` are enough
            self.reading.contents.append((container, container.copy(), of))

    def _library(self, module: str, names: Set[str] = frozenset()) -> None:
        """Note that something of a library's module is used: attributes of these ``names``, or an object."""
        root = module.partition(".")[0].lstrip("_")
        if root not in _LIBRARIES:
            return
        changing = sorted(names & _CHANGING.get(root, set()))
        if changing:
            module = f"{root}.{changing[0]}" if root != "builtins" else changing[0]
        if changing or root not in _PURE or module.startswith("numpy.random"):
            self._impure(module)

    def _impure(self, what: str) -> None:
        self.reading.impure = f"it uses {what}, which can be different at each step or in each thread"

    def _object(self, value: Any) -> None:
        kind = type(value)
        self.facts.append(kind)
        if value is not self.owner:  # which the places must not hold: it would never be forgotten
            self.reading.places.part(value, "__class__")
        if isinstance(value, threading.local):
            self._impure("a variable of a thread")
        if _is_library(kind.__module__):
            self._library(kind.__module__)
            if hasattr(kind, "__next__"):
                self._impure(f"a {kind.__name__}")
            if self.reading.impure:
                return
        if hasattr(kind, "tobytes") and hasattr(kind, "dtype"):  # NumPy's scalars and arrays
            self.reading.quick &= not hasattr(kind, "__setitem__")
            self.facts.append((str(value.dtype), value.tobytes()))
        elif isinstance(value, nn.Module):
            self._class(kind, _called_of(kind, value, _methods(kind)))
            self._watch(vars(value), _UNREAD)
            own = {name: item for name, item in vars(value).items() if name not in _BOOKKEEPING and name != "engine"}
            self._named("module", own)
            self._watch(value._modules)
            self._named("modules", value._modules)
        elif hasattr(value, "__dict__") and not any("__slots__" in vars(c) for c in kind.__mro__[:-1]):
            self._class(kind, _called_of(kind, value, _methods(kind)))
            self._watch(vars(value))
            if not isinstance(value, Surrogate):
                self._contents(vars(value), value)
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

    def _watch(self, mapping: Mapping[str, Any], unread: Set[str] = _TEXTS) -> None:
        self.reading.places.size(mapping)
        for name in mapping.keys() - unread:
            self.reading.places.item(mapping, name)

    def _class(self, kind: type, methods: set[str]) -> None:
        """Note the classes that are not a library's: their plain attributes, and which methods may be called."""
        for part in kind.__mro__:
            if _is_library(part.__module__):
                continue
            if part in self.classes:
                self.classes[part] |= methods
                continue
            self.classes[part] = set(methods)
            plain = {n: item for n, item in vars(part).items() if isinstance(item, _PLAIN) and n not in _TEXTS}
            self.reading.places.size(vars(part))
            for name in plain:
                self.reading.places.item(vars(part), name)
            self.facts.append(part)
            self._named("class", plain)

    def _function(self, function: FunctionType) -> None:
        if _is_library(function.__module__) or getattr(function, "_dynamo_marked_constant", False):
            self.facts.append(function)
            self._library(function.__module__ or "", {function.__name__})
            return
        code = function.__code__
        self.facts.append(code)
        self.reading.places.part(function, "__code__")
        if function.__defaults__:  # whoever gives some to a function without any adds none that a call needs
            self.reading.places.part(function, "__defaults__")
        self.follow(function.__defaults__)
        if keywords := function.__kwdefaults__:
            self.reading.places.part(function, "__kwdefaults__")
            self._watch(keywords)
            self._named("keywords", keywords)
        for cell in function.__closure__ or ():
            try:
                self.follow(self.reading.places.part(cell, "cell_contents"))
            except ValueError:  # a cell that is still empty
                self.reading.quick = False
        if vars(function):
            self._watch(vars(function))
            self._named("function", vars(function))
        variables, names, imports, assigned = _names_in(code)
        self.names |= names
        self._globals(function.__globals__, variables, names)
        for name in imports:
            for module in _possible(name, function.__globals__.get("__package__")):
                self._globals(sys.modules, (module,), names)  # type: ignore[arg-type]
        if assigned:
            self._impure(f"{assigned[0]!r}, a variable that it assigns outside")

    def _globals(self, of_module: dict[str, Any], variables: tuple[str, ...], names: frozenset[str]) -> None:
        for name in variables:
            item = of_module.get(name)
            self.reading.places.item(of_module, name)
            if name not in of_module:
                self._library("builtins", {name})
                continue
            self.facts.append(name)
            self.follow(item)
            if isinstance(item, ModuleType):
                self._library(item.__name__, names)
                if not _is_library(item.__name__):
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


class _Names(NamedTuple):
    """Names in a piece of code, and in the lambdas, comprehensions and functions inside it; all but attributes sorted.

    Attributes:
        variables: global ones that it reads.
        attributes: names that may be attributes.
        imports: modules that it imports, as they are written.
        assigned: global variables, or those of a function around it, that it assigns.
    """

    variables: tuple[str, ...]
    attributes: frozenset[str]
    imports: tuple[str, ...]
    assigned: tuple[str, ...]


@functools.lru_cache(maxsize=4096)
def _names_in(code: CodeType) -> _Names:
    by_operation: dict[str, set[Any]] = {}
    for instruction in dis.get_instructions(code):
        by_operation.setdefault(instruction.opname, set()).add(instruction.argval)

    def of(*operations: str) -> set[str]:
        return set().union(*(by_operation.get(name, ()) for name in operations))

    inside = [_names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    texts = (constant for constant in code.co_consts if isinstance(constant, str))
    assigned = of("STORE_GLOBAL", "DELETE_GLOBAL") | (of("STORE_DEREF", "DELETE_DEREF") & set(code.co_freevars))
    # A variable of this code that a function inside assigns is not outside.
    assigned |= {name for names in inside for name in names.assigned} - set(code.co_cellvars)
    return _Names(
        tuple(sorted(of("LOAD_GLOBAL", "LOAD_NAME").union(*(names.variables for names in inside)))),
        frozenset({*code.co_names, *texts}.union(*(names.attributes for names in inside))),
        tuple(sorted(of("IMPORT_NAME").union(*(names.imports for names in inside)))),
        tuple(sorted(assigned)),
    )


def _possible(name: str, package: str | None) -> list[str]:
    """The full names of modules that an import of ``name``, perhaps a relative one, can mean."""
    parents = (package or "").split(".")
    prefixes = (".".join(parents[:n]) for n in range(len(parents), 0, -1))
    return [name, *(f"{prefix}.{name}".strip(".") for prefix in prefixes)] if package else [name]


def _is_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _LIBRARIES
