"""Moving whatever holds tensors: modules, dataclasses, named tuples, dicts, lists, and any nest of them."""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from .place import choose_device


def move_tensors_to_device(obj: Any, device: str | torch.device = "auto", *, non_blocking: bool = False) -> Any:
    """``obj`` with every tensor in it on ``device``.

    Goes through dicts, lists, tuples, NamedTuples, sets and dataclasses (frozen ones, too), nested in any way, and
    rebuilds those in which something moved; what is there already is handed back as it is, not copied. Modules are
    moved in place, as ``.to`` does. Tensors that are the same, or share memory, do so afterwards as well, and so do
    containers. Anything else (numbers, text, arrays, objects of other classes) stays what it is.

    Args:
        obj: a tensor, a module, or a nest.
        device: "auto" (CUDA, else MPS, else CPU) or what PyTorch calls a device.
        non_blocking: don't wait for copies from pinned memory to a GPU.

    Raises:
        ValueError: an unknown device, or a container that holds itself; says where.
    """
    if not isinstance(non_blocking, bool):
        raise TypeError(f"non_blocking must be True or False, but it is {non_blocking!r}")
    return move(obj, choose_device(device), non_blocking)


def move(obj: Any, device: torch.device, non_blocking: bool = False) -> Any:
    """As ``move_tensors_to_device``, on any device."""
    found = _Contents()
    found.look(obj, "obj", ())
    mover = _Mover(device, non_blocking, found)
    mover.modules(found.modules.values())
    return mover.moved(obj)


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
    def __init__(self, device: torch.device, non_blocking: bool, found: _Contents) -> None:
        self.device, self.non_blocking = device, non_blocking
        self._done: dict[int, Any] = {}  # by the id of what was moved, which the nest keeps alive
        self._storages: dict[int, Tensor] = {}
        self._users = Counter(_storage(t) for t in found.tensors.values() if _shareable(t))

    def modules(self, modules: Iterable[nn.Module]) -> None:
        """First, so that a parameter or buffer that also stands in a list is the one in the module."""
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
            return nn.Parameter(x.detach().to(self.device, non_blocking=self.non_blocking), x.requires_grad)
        if _shareable(x) and self._users[_storage(x)] > 1:
            return self._memory(x).as_strided(x.shape, x.stride(), x.storage_offset())
        return x.to(self.device, non_blocking=self.non_blocking)

    def _memory(self, x: Tensor) -> Tensor:
        """All that ``x`` shares with others, moved once, in values of its dtype."""
        key = _storage(x)
        if key not in self._storages:
            whole = torch.empty(0, dtype=x.dtype, device=x.device).set_(x.untyped_storage())
            self._storages[key] = whole.to(self.device, non_blocking=self.non_blocking)
        whole = self._storages[key]
        return whole if whole.dtype == x.dtype else whole.view(x.dtype)

    def _container(self, obj: Any) -> Any:
        parts = [part for _, part in _parts(obj)]
        new = [self.moved(part) for part in parts]
        if all(a is b for a, b in zip(parts, new, strict=True)):
            return obj
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
            return obj._make(new) if hasattr(obj, "_make") else type(obj)(new)  # type: ignore[attr-defined]
        if isinstance(obj, (set, frozenset)):
            return type(obj)(new)
        result = copy.copy(obj)
        for field, value in zip(dataclasses.fields(obj), new, strict=True):
            object.__setattr__(result, field.name, value)  # a frozen one refuses setattr
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
    return [(f".{field.name}", getattr(obj, field.name)) for field in dataclasses.fields(obj)]


def _storage(x: Tensor) -> int:
    return x.untyped_storage()._cdata


def _shareable(x: Tensor) -> bool:
    """Whether its memory may be moved instead of it: not where a gradient would have to find its way back."""
    return type(x) is Tensor and x.layout == torch.strided and not x.requires_grad


def _is_there(now: torch.device, target: torch.device) -> bool:
    """ "cuda" means the current one."""
    if now.type != target.type:
        return False
    if target.index is None and now.type == "cuda":
        return now.index == torch.cuda.current_device()
    return target.index is None or now.index == target.index or now.type == "cpu"
