"""Arguments are checked here, so that every error reads alike: ``tau of LIF must be greater than 0, but it is -1``.

Each function returns the value in its plain type, or raises

- TypeError: the value is of the wrong kind;
- ValueError: the kind is right, but not the value.

``name`` is what the caller calls the argument; of a class it is "tau of LIF".
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import operator
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
REPOSITORY = "https://github.com/snnkit/snnkit"  # that of pyproject.toml, as a test compares
_LONGEST = 200
_LEAST, _MOST = 1.2e-38, 3.4e38  # normal numbers of float32, in size
_INT64 = 2**63 - 1
_DEEPEST = 50  # a copy of modules takes several calls for each level, and Python allows 1000
_BRACKETS = {list: "[]", tuple: "()", dict: "{}", set: "{}"}


def cut(text: str, longest: int = _LONGEST) -> str:
    """``text`` without what is beyond ``longest`` characters."""
    return text if len(text) <= longest else f"{text[:longest]}…"


def with_article(name: str) -> str:
    """``name`` with its article."""
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"


def pip_install(extra: str) -> str:
    """The command for an optional part of the kit, which is on no package index."""
    return f'pip install "snnkit[{extra}] @ git+{REPOSITORY}"'


def shown(value: Any) -> str:
    """``value`` as an error message quotes it: arrays by their shape, long texts cut, however large it is."""
    text = ""
    for piece in _pieces(value):
        text += piece
        if len(text) > _LONGEST:
            break
    return cut(text)


def _pieces(value: Any) -> Iterator[str]:
    """``repr(value)`` bit by bit: the whole of it could be larger than memory where a list holds others many times."""
    kind = type(value)
    if kind in _BRACKETS and value:
        opening, closing = _BRACKETS[kind]
        for i, item in enumerate(value.items() if kind is dict else value):
            yield ", " if i else opening
            if kind is dict:
                key, item = item
                yield from _pieces(key)
                yield ": "
            yield from _pieces(item)
        yield ",)" if kind is tuple and len(value) == 1 else closing
    elif kind in (str, bytes):
        yield repr(value[: _LONGEST + 1])
    elif kind is int and value.bit_length() > _LONGEST * 4:  # Python refuses to print those of thousands of digits
        yield f"an int of {value.bit_length()} bits"
    else:
        try:
            shape = [*(getattr(value, "shape", None) or ())]
            text = f"{with_article(kind.__name__)} of shape {shape}" if shape else repr(value)
        except Exception:  # any error that another class raises
            text = with_article(kind.__name__)
        yield text


def number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    finite: bool = True,
) -> float:
    """A real number within its bounds, as a float. Numbers of NumPy and tensors without axes count, booleans do not.

    It has to be one of float32, the dtype of nearly all arithmetic: 1e39 would be infinite there, and 1e-40 may be 0,
    which counts where it has to be above that.
    """
    value = _without_axes(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, but it is {shown(value)}")
    try:
        infinite = math.isinf(value)
    except OverflowError:  # of an int beyond all floats
        infinite = finite = True
    if (finite and infinite) or value != value:
        raise ValueError(f"{name} must be finite, but it is {shown(value)}")
    _within(name, value, above, at_least, below, at_most)
    if finite:
        most = _INT64 if type(value) is int else _MOST  # PyTorch takes no int beyond 64 bits for a number
        _within(name, value, None, _LEAST if above == 0 else -most, None, most)
    return float(value)


def integer(name: str, value: Any, *, at_least: int | None = None, at_most: int | None = None) -> int:
    """A whole number of 64 bits within its bounds, as an int. 3.0 is none, as it may come of a rounding error."""
    value = _without_axes(value)
    try:
        if isinstance(value, bool):
            raise TypeError
        value = operator.index(value)
    except (TypeError, RuntimeError):  # arrays have the method, and raise
        raise TypeError(f"{name} must be an integer, but it is {shown(value)}") from None
    _within(name, value, None, -_INT64 if at_least is None else at_least, None, _INT64 if at_most is None else at_most)
    return value


def counts(**values: Any) -> None:
    """Each of them an integer of at least 1."""
    for name, value in values.items():
        integer(name, value, at_least=1)


def flag(name: str, value: Any) -> bool:
    """True or False; nothing that merely counts as one."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, but it is {shown(value)}")
    return value


def fits(name: str, value: int, size: float) -> None:
    """So many things of ``size`` bytes each have to fit into the memory that this machine has left."""
    if value * size > (left := free_memory()):
        most = int(left // size)
        raise ValueError(f"{name} must be at most {most}, which is what memory holds here, but it is {value}")


def free_memory() -> float:
    """Bytes that could be allocated now, as far as the machine and ``ulimit`` say; infinity where it is not known."""
    try:
        import resource  # Unix has it

        with open("/proc/meminfo", encoding="utf-8") as memory, open("/proc/self/statm", encoding="utf-8") as used:
            left = next(float(line.split()[1]) for line in memory if line.startswith("MemAvailable")) * 1024
            pages = int(used.read().split()[0])
    except (ImportError, OSError, StopIteration):  # no Linux
        try:
            import psutil
        except ImportError:  # it comes with the notebooks
            return math.inf
        return psutil.virtual_memory().available
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return left if limit == resource.RLIM_INFINITY else min(left, limit - pages * resource.getpagesize())


def choice(name: str, value: Any, choices: Iterable[T]) -> T:
    """One of a few values, compared by type and value."""
    choices = tuple(choices)
    for known in choices:
        if type(value) is type(known) and value == known:
            return known
    listed = ", ".join(map(repr, choices))
    error = ValueError if any(isinstance(value, type(known)) for known in choices) else TypeError
    raise error(f"{name} must be one of {listed}, but it is {shown(value)}")


def instance(name: str, value: Any, kinds: type | tuple[type, ...], what: str, *, optional: bool = False) -> Any:
    """An object of the given class or classes, no sparse tensor. ``what`` says so in words: "a torch.Tensor"."""
    if not (optional and value is None) and (_sparse(value) or not isinstance(value, kinds)):
        hint = f"{'the class ' if isinstance(value, type) else _sparse(value)}{shown(value)}"
        raise TypeError(f"{name} must be {what}{' or None' if optional else ''}, but it is {hint}{proxy_hint(value)}")
    return value


def proxy_hint(value: Any) -> str:
    """What to do with a proxy of a symbolic trace, which can't follow a loop over time; "" for other values."""
    proxy = any(kind.__module__ == "torch.fx.proxy" for kind in type(value).__mro__)
    return "; torch.fx must take this module as a leaf: override is_leaf_module of torch.fx.Tracer" if proxy else ""


def _sparse(value: Any) -> str:
    """What a message says first of a sparse tensor; of anything else, nothing."""
    return "sparse, " if getattr(value, "is_sparse", 0) is True or getattr(value, "is_sparse_csr", 0) is True else ""


def values(name: str, value: Any) -> None:
    """A tensor with values, or a module all of whose tensors have them."""
    is_module = hasattr(value, "named_parameters")
    for part, tensor in (*value.named_parameters(), *value.named_buffers()) if is_module else [("it", value)]:
        if tensor.is_meta or type(tensor).__name__.startswith("Uninitialized"):
            raise ValueError(f"{name} must have values, but {part} has none yet (a lazy layer, or the meta device)")


def copyable(name: str, value: Any) -> None:
    """A module that can be copied, and whose weights are those that it stores: none is computed before each call."""
    from torch import Tensor
    from torch.nn.utils.prune import BasePruningMethod
    from torch.nn.utils.spectral_norm import SpectralNorm
    from torch.nn.utils.weight_norm import WeightNorm

    todo: list[tuple[Any, tuple[int, ...]]] = [(value, ())]
    while todo:  # no recursion: PyTorch's own has no end where a module is inside itself
        module, around = todo.pop()
        if id(module) in around:
            raise ValueError(f"no module of {name} must hold itself, but a {cut(type(module).__name__)} does")
        if len(around) > _DEEPEST:
            raise ValueError(f"modules of {name} must be nested at most {_DEEPEST} deep")
        todo += [(part, (*around, id(module))) for part in module._modules.values() if part is not None]
    hooks: dict[type, tuple[str, str]] = {
        BasePruningMethod: ("pruned", "prune.remove"),
        WeightNorm: ("under weight_norm", "remove_weight_norm"),
        SpectralNorm: ("under spectral_norm", "remove_spectral_norm"),
    }
    for place, module in value.named_modules():
        where = f"{name} at {place}" if place else name
        for hook in module._forward_pre_hooks.values():
            for kind, (state, cure) in hooks.items():
                if isinstance(hook, kind):
                    weight = vars(hook).get("_tensor_name") or vars(hook)["name"]
                    raise ValueError(
                        f"{where} must have plain weights, but its {weight} is {state}: call "
                        f"torch.nn.utils.{cure}(layer, {weight!r}) first"
                    )
        for key, part in (*vars(module).items(), *module._buffers.items()):
            if isinstance(part, Tensor) and not part.is_leaf:
                raise ValueError(f"{where} can't be copied, as its {key} is part of a graph of gradients: detach it")


def function(name: str, value: Any) -> Any:
    """Something that can be called."""
    if not callable(value):
        raise TypeError(f"{name} must be a function, but it is {shown(value)}")
    return value


def mapping(name: str, value: Any, what: str) -> Mapping[str, Any]:
    """A dict or the like. ``what`` it holds: "name to height"."""
    return instance(name, value, Mapping, f"a dict of {what}")


def _without_axes(value: Any) -> Any:
    """The number in an array or tensor without axes."""
    try:
        return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value
    except RuntimeError:  # a tensor without values, on the device "meta"
        return value


def _within(
    name: str, value: Any, above: float | None, at_least: float | None, below: float | None, at_most: float | None
) -> None:
    for holds, bound in (
        (above is None or value > above, f"greater than {above}"),
        (at_least is None or value >= at_least, f"at least {at_least}"),
        (below is None or value < below, f"less than {below}"),
        (at_most is None or value <= at_most, f"at most {at_most}"),
    ):
        if not holds:
            raise ValueError(f"{name} must be {bound}, but it is {shown(value)}")


# --- by annotation ----------------------------------------------------------------------------------------------------


def arguments(function: F) -> F:
    """A function that compares its arguments with their annotations first; of a class, those of ``__init__``.

    TypeError: ``x must be a torch.Tensor, but it is None``. Bounds, shapes and whatever an annotation can't say are
    checked in the function. Elements of lists, tuples and dicts are compared, too; those of iterators are left alone.
    A class that only type checkers import is known by its name, a protocol by its members; type variables are not
    compared.
    """
    if not isinstance(function, type):
        return typing.cast(F, _compared(function))
    function.__init__ = _compared(function.__init__)  # type: ignore[misc]
    return typing.cast(F, function)


def all_arguments(module: str) -> None:
    """``arguments`` for all public functions and classes of a module: ``checks.all_arguments(__name__)`` at its end."""
    names = vars(sys.modules[module])
    for name, thing in list(names.items()):
        if name.startswith("_") or getattr(thing, "__module__", None) != module:
            continue
        if isinstance(thing, type):
            plain = issubclass(thing, BaseException) or getattr(thing, "_is_protocol", False)
            if "__init__" in vars(thing) and not plain:
                arguments(thing)
        elif inspect.isfunction(thing) or hasattr(thing, "__wrapped__"):
            names[name] = arguments(thing)


def _compared(function: Callable[..., Any]) -> Callable[..., Any]:
    owner = f" of {function.__qualname__.split('.')[-2]}" if function.__name__ == "__init__" else ""

    @functools.cache  # at the first call: annotations name what is defined further down, and imports stay fast
    def parameters() -> tuple[list[str], list[tuple[str, Any, Any]]]:
        """Names in order, and what each may be; flags first, as their mistakes are the least seen."""
        kinds, all_of_them = _annotations(function), inspect.signature(function).parameters.values()
        single = [p for p in all_of_them if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        compared = [(p.name, kinds[p.name], p.default) for p in single if p.name in kinds]
        compared.sort(key=lambda entry: bool not in (entry[1], *_read(entry[1])[0]))
        return [p.name for p in single if p.kind is not p.KEYWORD_ONLY], compared

    @functools.wraps(function)
    def checked(*args: Any, **named: Any) -> Any:
        order, compared = parameters()
        given = {**dict(zip(order, args, strict=False)), **named}
        for name, kind, default in compared:
            if name in given and given[name] is not default:
                _compare(f"{name}{owner}", given[name], kind)
        return function(*args, **named)

    return checked


class _ByName:
    """Base of the stand-ins for classes that only type checkers import: values are compared with the class's name."""

    def __class_getitem__(cls, _: Any) -> type:
        return cls


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    stand_ins: dict[str, Any] = {}
    while True:
        try:
            return typing.get_type_hints(function, localns=stand_ins)
        except NameError as error:
            stand_ins[str(error.name)] = type(str(error.name), (_ByName,), {})
        except AttributeError as error:  # of a module that only type checkers import
            if _ByName not in getattr(error.obj, "__mro__", ()):
                raise
            setattr(error.obj, str(error.name), type(str(error.name), (_ByName,), {}))


def _compare(name: str, value: Any, kind: Any) -> None:
    wrong = _wrong_part(name, value, kind)
    if wrong is not None:
        name, value, kind = wrong
        if typing.get_origin(kind) is typing.Literal:
            choice(name, value, typing.get_args(kind))
        raise TypeError(f"{name} must be {_in_words(kind)}, but it is {_sparse(value)}{shown(value)}")


def _wrong_part(name: str, value: Any, kind: Any) -> tuple[str, Any, Any] | None:
    """Name, value and annotation of the first part of a value, or of all of it, that is not as annotated."""
    kinds, origin, inner = _read(kind)
    wrongs = []
    for one in kinds:
        wrongs.append(_wrong_part(name, value, one))
        if wrongs[-1] is None:
            return None
    if kinds:
        return next((wrong for wrong in wrongs if wrong[0] != name), (name, value, kind))
    if not _is_a(value, origin, inner):
        return name, value, kind
    for where, part, part_kind in _parts(value, origin, inner) if inner else ():
        if _wrong_part(name, part, part_kind) is not None:  # once more, by its own name
            inside = f"each key of {name}" if where is _KEY else f"{name}[{shown(where)}]"
            return _wrong_part(inside, part, part_kind)
    return None


@functools.cache
def _read(kind: Any) -> tuple[tuple[Any, ...], Any, tuple[Any, ...]]:
    """Of an annotation the alternatives, if there are several, or its class and what is in the brackets."""
    origin, inner = typing.get_origin(kind) or kind, typing.get_args(kind)
    return (inner, None, ()) if origin in (typing.Union, types.UnionType) else ((), origin, inner)


_KEY = object()


def _parts(value: Any, origin: Any, inner: tuple[Any, ...]) -> Iterable[tuple[Any, Any, Any]]:
    """Of each element of a list, tuple or dict its index or key (of a key ``_KEY``), itself and its annotation."""
    if isinstance(value, Mapping) and len(inner) == 2:
        return itertools.chain(((_KEY, key, inner[0]) for key in value), ((key, value[key], inner[1]) for key in value))
    each = inner if _is_fixed(origin, inner) else itertools.repeat(inner[0])
    return zip(itertools.count(), value, each, strict=False) if isinstance(value, (list, tuple)) else ()


def _is_fixed(origin: Any, inner: tuple[Any, ...]) -> bool:
    """Whether it is a tuple of so many elements, such as a pair."""
    return origin is tuple and bool(inner) and inner[-1] is not ...


def _is_a(value: Any, origin: Any, inner: tuple[Any, ...]) -> bool:
    """Whether a value is what an annotation says, but for its elements; where that can't be seen, yes."""
    if origin in (str, bool):
        return isinstance(value, origin)
    if origin is typing.Literal:
        return any(type(value) is type(known) and value == known for known in inner)
    if origin in (int, float):
        number = _without_axes(value)
        return isinstance(number, Integral if origin is int else Real) and not isinstance(number, bool)
    if origin is Callable:
        return callable(value)
    if origin is Any or not isinstance(origin, type):
        return True
    if getattr(origin, "_is_protocol", False):
        members = {*vars(origin), *vars(origin).get("__annotations__", ())}
        return all(hasattr(value, name) for name in members if name == "__call__" or not name.startswith("_"))
    if issubclass(origin, _ByName):
        return origin.__name__ in (one.__name__ for one in type(value).__mro__)
    if not isinstance(value, origin) or _sparse(value) or (isinstance(value, str) and inner):
        return False  # a sequence of letters is never what is meant
    return not _is_fixed(origin, inner) or len(value) == len(inner)


_WORDS = {
    bool: "True or False", int: "an integer", float: "a number", str: "a text", bytes: "bytes", None: "None",
    type(None): "None", os.PathLike: "a path", Path: "a Path", Callable: "a function", Mapping: "a dict",
    dict: "a dict", list: "a list", Sequence: "a list or tuple", Iterable: "an iterable", tuple: "a tuple",
    type: "a class",
}  # fmt: skip


def _in_words(kind: Any) -> str:
    """ "a list or tuple of integers", "a number or None"."""
    words, kinds = [], _read(kind)[0] or (kind,)
    paths = any(typing.get_origin(one) is os.PathLike for one in kinds)
    for one in kinds:
        origin, inner = typing.get_origin(one) or one, typing.get_args(one)
        if one is str and paths:
            continue
        if origin is typing.Literal:
            words += map(repr, inner)
        elif origin in _WORDS:
            plain = origin not in (os.PathLike, Callable) and Any not in inner
            parts = [*dict.fromkeys(_in_words(part) for part in inner if part is not ...)] if plain else []
            many = " to ".join(" or ".join(map(_plural, part.split(" or "))) for part in parts)
            pair = origin is tuple and len(inner) == 2 and ... not in inner
            if pair and len(parts) > 1:
                words.append(f"a pair ({', '.join(parts)})")
            else:
                word = "a pair" if pair else _WORDS[origin]
                words.append(f"{word} of {many}" if many else word)
        else:
            torchs = origin.__module__.partition(".")[0] == "torch"
            inside = "nn." if ".nn." in origin.__module__ else ""
            place = "snnkit.nn." if origin.__module__ == "snnkit.nn" else f"torch.{inside}" if torchs else ""
            words.append(with_article(f"{place}{origin.__name__}"))
    return " or ".join(words).replace("True or False or", "True, False or")


_ENDS, _ALONE = "s'", ("True", "False", "None")


def _plural(word: str) -> str:
    """ "a pair of integers" -> "pairs of integers"."""
    head, of, rest = word.removeprefix("an ").removeprefix("a ").partition(" of ")
    return f"{head}{'' if head[-1] in _ENDS or head in _ALONE else 's'}{of}{rest}"
