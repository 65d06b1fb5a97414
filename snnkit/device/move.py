"""Moving whatever holds tensors: modules, dataclasses, named tuples, dicts, lists, and any nest of them."""

from __future__ import annotations

import copy
import dataclasses
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from .. import checks
from .placement import choose_device


def move_tensors_to_device(obj: Any, device: str | torch.device = "auto", *, non_blocking: bool = False) -> Any:
    """``obj`` with every tensor in it on ``device``.

    Goes through dicts, lists, tuples, NamedTuples, sets and dataclasses (frozen ones, too), nested in any way, and
    rebuilds those in which something moved; what is there already is returned as it is, not copied. Modules are
    moved in place, as ``.to`` does. Tensors that are the same, or overlap in memory, do so afterwards as well, and so
    do containers. Anything else (numbers, text, arrays, objects of other classes) stays what it is, and so do
    attributes of a dataclass that are not fields.

    As with ``.to``, gradients of a tensor go back to where it came from, so a leaf does not stay one; a parameter does.
    What shares memory with a parameter or buffer of a module in the nest is copied by itself.

    Args:
        obj: a tensor, a module, or a nest.
        device: "auto" (CUDA, else MPS, else CPU) or what PyTorch calls a device.
        non_blocking: don't wait for copies from pinned memory to a GPU.

    Raises:
        ValueError: an unknown device, a container that holds itself (says where), or a nest too deep for Python.
        TypeError: a container that can't be rebuilt from its parts.
    """
    checks.flag("non_blocking", non_blocking)
    return move(obj, choose_device(device), non_blocking)


def move(obj: Any, device: torch.device, non_blocking: bool = False, *, share: bool = True) -> Any:
    """As ``move_tensors_to_device``, on any device; without ``share``, each tensor gets memory of its own."""
    contents = _Contents()
    try:
        contents.look(obj, "obj", ())
        mover = _Mover(device, non_blocking, _Overlaps(contents.tensors.values() if share else ()))
        mover.modules(contents.modules.values())
        return mover.moved(obj)
    except RecursionError:
        raise ValueError("obj is nested too deeply to be walked through; move its parts one by one") from None


class _Contents:
    """All tensors and modules in a nest, each once."""

    def __init__(self) -> None:
        self.tensors: dict[int, Tensor] = {}
        self.modules: dict[int, nn.Module] = {}
        self._seen: set[int] = set()

    def look(self, obj: Any, path: str, above: tuple[int, ...]) -> None:
        if isinstance(obj, nn.Module):
            self.modules[id(obj)] = obj
        elif isinstance(obj, Tensor):
            self.tensors[id(obj)] = obj
        elif _is_container(obj):
            if id(obj) in above:
                raise ValueError(
                    f"obj has a cycle: {path} is a {type(obj).__name__} that holds itself; move its parts one by one"
                )
            if id(obj) not in self._seen:
                for name, part in _parts(obj):
                    self.look(part, f"{path}{name}", (*above, id(obj)))
                self._seen.add(id(obj))


class _Mover:
    def __init__(self, device: torch.device, non_blocking: bool, overlaps: _Overlaps) -> None:
        self.device, self.non_blocking = device, non_blocking
        self._done: dict[int, Any] = {}  # by the id of what was moved, which the nest keeps alive
        self._overlaps = overlaps

    def modules(self, modules: Iterable[nn.Module]) -> None:
        """First, so that a parameter or buffer that is also in a list is the one in the module."""
        places = [
            (tensors, name, tensor)
            for module in modules
            for part in module.modules()
            for tensors in (part._parameters, part._buffers)
            for name, tensor in tensors.items()
            if tensor is not None
        ]
        for module in modules:
            module.to(self.device, non_blocking=self.non_blocking)
        for tensors, name, before in places:
            # Buffers, and on some devices parameters, are new tensors now: once for all that had the same.
            tensors[name] = self._done.setdefault(id(before), tensors[name])

    def moved(self, obj: Any) -> Any:
        if isinstance(obj, nn.Module) or not (isinstance(obj, Tensor) or _is_container(obj)):
            return obj
        if id(obj) not in self._done:
            self._done[id(obj)] = self._tensor(obj) if isinstance(obj, Tensor) else self._container(obj)
        return self._done[id(obj)]

    def _tensor(self, x: Tensor) -> Tensor:
        if _is_there(x.device, self.device):
            return x
        if isinstance(x, nn.Parameter):  # of no module in the nest
            there = nn.Parameter(x.detach().to(self.device, non_blocking=self.non_blocking), x.requires_grad)
            there.grad = None if x.grad is None else self.moved(x.grad)
            return there
        shared = self._overlaps.moved(x, self.device, self.non_blocking)
        return x.to(self.device, non_blocking=self.non_blocking) if shared is None else shared

    def _container(self, obj: Any) -> Any:
        parts = [part for _, part in _parts(obj)]
        new = [self.moved(part) for part in parts]
        if all(a is b for a, b in zip(parts, new, strict=True)):
            return obj
        try:
            return _rebuilt(obj, new)
        except Exception as error:
            kind = type(obj).__name__
            raise TypeError(f"obj holds a {kind}, which can't be rebuilt from its parts: {error}") from error


def _rebuilt(obj: Any, new: list[Any]) -> Any:
    """A container as ``obj``, of ``new`` parts."""
    if isinstance(obj, dict):
        half = len(obj)
        result = copy.copy(obj)
        result.clear()
        result.update(zip(new[:half], new[half:], strict=True))
        return result
    if isinstance(obj, list):
        result = copy.copy(obj)
        result[:] = new
        return result
    if isinstance(obj, tuple):
        if hasattr(obj, "_make"):
            return obj._make(new)  # type: ignore[attr-defined]
        if hasattr(obj, "n_sequence_fields"):  # as torch.return_types are
            return type(obj)(new)
        result = tuple.__new__(type(obj), new)  # its own __new__ may want something else
        if hasattr(obj, "__dict__"):
            vars(result).update(vars(obj))
        return result
    if isinstance(obj, (set, frozenset)):
        return type(obj)(new)
    result = copy.copy(obj)
    for name, value in zip(_fields(obj), new, strict=True):
        object.__setattr__(result, name, value)  # a frozen one refuses setattr
    return result


def _is_container(obj: Any) -> bool:
    if isinstance(obj, (dict, list, tuple, set, frozenset)):
        return True
    return dataclasses.is_dataclass(obj) and not isinstance(obj, type)


def _parts(obj: Any) -> list[tuple[str, Any]]:
    """(how to get there, part)."""
    if isinstance(obj, dict):
        keys = [(f" key {key!r}" if not isinstance(key, Tensor) else " key", key) for key in obj]
        return [*keys, *((f"[{key!r}]", value) for key, value in obj.items())]
    if isinstance(obj, (list, tuple, set, frozenset)):
        return [(f"[{i}]", part) for i, part in enumerate(obj)]
    return [(f".{name}", getattr(obj, name)) for name in _fields(obj)]


def _fields(obj: Any) -> list[str]:
    """Of a dataclass, those that are set."""
    return [field.name for field in dataclasses.fields(obj) if hasattr(obj, field.name)]


def _is_there(now: torch.device, target: torch.device) -> bool:
    """ "cuda" means the current one."""
    if now.type != target.type:
        return False
    if target.index is None and now.type == "cuda":
        return now.index == torch.cuda.current_device()
    return target.index is None or now.index == target.index or now.type == "cpu"


# A stretch begins at a multiple of this many bytes, so that values of any dtype are aligned.
_ALIGNED = 16


class _Overlaps:
    """Stretches of memory that several of ``tensors`` lie in, from the first byte of one to the last of another.

    Only what is connected counts: two slices of a data set that do not touch are two tensors.
    """

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self._stretches: dict[int, tuple[int, int]] = {}  # of the tensor with this id, which its owner keeps alive
        self._moved: dict[tuple[int, int], Tensor] = {}
        by_storage: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for x in tensors:
            if _is_shareable(x):
                by_storage[x.untyped_storage()._cdata].append((*_bytes_of(x), id(x)))
        for users in by_storage.values():
            together: list[int] = []
            start = stop = 0
            for first, last, user in [*sorted(users), (2**63, 2**63, 0)]:
                if first >= stop:
                    if len(together) > 1:
                        self._stretches.update(dict.fromkeys(together, (start, stop)))
                    together, start, stop = [], first, last
                together.append(user)
                stop = max(stop, last)

    def moved(self, x: Tensor, device: torch.device, non_blocking: bool) -> Tensor | None:
        """``x`` as a view of its stretch on ``device``; None if it overlaps with no other."""
        if id(x) not in self._stretches:
            return None
        start, stop = self._stretches[id(x)]
        key = (x.untyped_storage()._cdata, start)
        start -= start % _ALIGNED
        if key not in self._moved:
            here = torch.empty(0, dtype=torch.uint8, device=x.device)
            here.set_(x.untyped_storage(), start, (stop - start,), (1,))
            self._moved[key] = here.to(device, non_blocking=non_blocking, copy=True)
        memory = self._moved[key].untyped_storage()
        offset = x.storage_offset() - start // x.element_size()
        return torch.empty(0, dtype=x.dtype, device=device).set_(memory, offset, x.shape, x.stride())


def _is_shareable(x: Tensor) -> bool:
    """Whether its memory may be moved instead of it: not where a gradient would have to flow back, or where the
    memory holds other numbers than the tensor (a conjugate)."""
    plain = type(x) is Tensor and x.layout == torch.strided and not x.requires_grad
    return plain and x.numel() > 0 and not x.is_conj() and not x.is_neg()


def _bytes_of(x: Tensor) -> tuple[int, int]:
    """(first, behind the last) in its storage."""
    first = int(x.storage_offset())
    last = first + sum((n - 1) * stride for n, stride in zip(x.shape, x.stride(), strict=True))
    return first * x.element_size(), (last + 1) * x.element_size()
