"""What a module is made of: every tensor in it, on which device, and whether ``.to(device)`` would take it along."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ..nn import Sequential, is_stateful

# What torch itself keeps in every module; anything else in vars(module) is a plain attribute.
_OF_TORCH = frozenset(vars(nn.Module()))

KINDS = ("parameter", "buffer", "unsaved buffer", "plain attribute", "state")


@dataclasses.dataclass(frozen=True)
class Part:
    """One row of a tree: a module (``kind`` "module"), or a tensor.

    Attributes:
        path: where it is, such as "2.weight"; "" for the outermost module.
        name: what the module around it calls it, such as "weight"; "" for the outermost module.
        depth: how deeply it is nested, 0 for the outermost module.
        kind: "module" or one of ``KINDS``.
        type: the class of a module.
        shape, dtype, device: of a tensor, else None; ``shape`` is also None for a parameter without a shape as yet.
        bytes: of a tensor, numel × element size (on "meta" what it would take); 0 if counted elsewhere.
        notes: what is special about it.
        stays: whether ``.to()`` of the outermost module leaves it where it is.
    """

    path: str
    name: str
    depth: int
    kind: str
    type: str = ""
    shape: tuple[int, ...] | None = None
    dtype: torch.dtype | None = None
    device: torch.device | None = None
    bytes: int = 0
    notes: tuple[str, ...] = ()
    stays: bool = False


@dataclasses.dataclass(frozen=True)
class ModuleTree:
    """What ``module_tree`` gives: text with ``print``, a table in a notebook.

    Attributes:
        parts: modules and tensors, from outside to inside.
        home: where most parameters and buffers are (without any: most of the state); None without tensors.
    """

    parts: tuple[Part, ...]
    home: torch.device | None

    @property
    def left_behind(self) -> tuple[str, ...]:
        """Paths of the tensors that ``.to()`` would not move: plain attributes."""
        return tuple(part.path for part in self.parts if part.stays)

    def bytes(self, kind: str | None = None) -> int:
        """Bytes of all tensors, or of those of one kind of ``KINDS``."""
        if kind is not None and kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)} or None, but it is {kind!r}")
        return sum(part.bytes for part in self.parts if kind in (None, part.kind))

    def __repr__(self) -> str:
        from .module_table import text

        return text(self)

    def _repr_html_(self) -> str:
        from .module_table import page

        return page(self)


def module_tree(module: nn.Module, state: Any = None) -> ModuleTree:
    """List every module and tensor in ``module``: kind, shape, dtype, device, bytes.

    A *plain attribute* is a tensor (or a module with tensors) that is kept in an attribute, list, tuple, dict or
    dataclass, where ``nn.Module`` does not look: it is neither moved by ``.to()`` nor saved by ``state_dict()``. A
    parameter that is also in a list is listed once, as a parameter.

    Args:
        module: anything with parameters, buffers and submodules.
        state: as a call of ``module`` returned it: None, a tensor, or tuples and dicts of such. A part is shown with
            the module that it belongs to where that is clear: an entry of a ``Sequential``'s state, one entry for each
            of the modules that have a state, a field named like a submodule.

    Raises:
        TypeError: ``module`` is no ``nn.Module``, or ``state`` holds something else.
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"module must be a torch.nn.Module, but it is {_a(module)}")
    walk = _Walk(module)
    walk.module(module, "", "", 0, state)
    return ModuleTree(tuple(_with_distance(walk.parts, home := _home(walk.parts))), home)


class _Walk:
    """Collects the rows; each tensor's bytes are counted where it is met first."""

    def __init__(self, root: nn.Module) -> None:
        self.parts: list[Part] = []
        self.seen: dict[int, str] = {}
        self.registered = {id(m) for m in root.modules()} | {id(p) for p in root.parameters()}

    def module(self, module: nn.Module, around: str, name: str, depth: int, state: Any, unseen: str = "") -> None:
        path = _join(around, name)
        first = self.seen.setdefault(id(module), path or "the outermost module")
        again = first != (path or "the outermost module")
        notes = tuple(note for note in (unseen, f"the same as {first}" if again else "") if note)
        self.parts.append(Part(path, name, depth, "module", type(module).__name__, notes=notes))
        inner, own = _share(module, state)
        if not again:
            self._tensors(module, path, depth + 1, bool(unseen))
        for field, tensor in own:
            self._add(tensor, path, field, depth + 1, "state")
        for field, child in module._modules.items():
            if child is not None and (not again or inner.get(field) is not None):
                self.module(child, path, field, depth + 1, inner.get(field), unseen)

    def _tensors(self, module: nn.Module, path: str, depth: int, unseen: bool) -> None:
        unsaved = module._non_persistent_buffers_set
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is None:
                continue
            kind = "parameter" if name in module._parameters else "unsaved buffer" if name in unsaved else "buffer"
            if unseen:
                self._add(tensor, path, name, depth, "plain attribute", f"unseen {kind}")
            else:
                self._add(tensor, path, name, depth, kind)
        for attribute, value in vars(module).items():
            if attribute in _OF_TORCH:
                continue
            for suffix, found in _inside(value, set()):
                name = attribute + suffix
                if id(found) in self.registered:
                    continue
                if isinstance(found, Tensor):
                    self._add(found, path, name, depth, "plain attribute")
                elif any(True for _ in (*found.parameters(), *found.buffers())):
                    where = f"unseen: in a {type(value).__name__}" if suffix else "unseen: not registered"
                    self.module(found, path, name, depth, None, where)

    def _add(self, tensor: Tensor, around: str, name: str, depth: int, kind: str, note: str = "") -> None:
        path = _join(around, name)
        unknown = is_lazy(tensor)
        notes = [note] if note else []
        first = self.seen.setdefault(id(tensor), path)
        if first != path:
            notes.append(f"the same as {first}")
        if unknown:
            notes.append("gets its shape in the first call")
        if kind == "parameter" and not tensor.requires_grad:
            notes.append("frozen")
        self.parts.append(
            Part(
                path,
                name,
                depth,
                kind,
                shape=None if unknown else tuple(tensor.shape),
                dtype=tensor.dtype,
                device=tensor.device,
                bytes=0 if unknown or first != path else tensor.numel() * tensor.element_size(),
                notes=tuple(notes),
                stays=kind == "plain attribute",
            )
        )


def _inside(value: Any, entered: set[int], suffix: str = "") -> Iterator[tuple[str, Any]]:
    """Tensors and modules in a value, and in containers that are its value, each with its place in it."""
    if isinstance(value, (Tensor, nn.Module)):
        yield suffix, value
        return
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = [(f".{field.name}", getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    elif isinstance(value, dict):
        items = [(f"[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        names = getattr(value, "_fields", None)
        items = [(f".{names[i]}" if names else f"[{i}]", item) for i, item in enumerate(value)]
    else:
        return
    if id(value) not in entered:
        entered.add(id(value))
        for name, item in items:
            yield from _inside(item, entered, suffix + name)


def _share(module: nn.Module, state: Any) -> tuple[dict[str, Any], list[tuple[str, Tensor]]]:
    """The parts of a state that belong to submodules, by name, and the tensors of the module's own with their names."""
    children = module._modules
    if isinstance(state, tuple) and not hasattr(state, "_fields"):
        holders = [name for name, child in children.items() if _holds(child, len(state))]
        if _holds(module, len(state)):
            return dict(zip(children, state, strict=True)), []
        if len(holders) == 1:
            return {holders[0]: state}, []
        # Other modules tend to keep one entry for each part that has a state.
        stateful = [name for name, child in children.items() if child is not None and is_stateful(child)]
        if stateful and len(stateful) == len(state):
            return dict(zip(stateful, state, strict=True)), []
    named = _named(state) or {}
    inner = {name: part for name, part in named.items() if name in children and not isinstance(part, Tensor)}
    rest = {name: part for name, part in named.items() if name not in inner} if named else state
    return inner, [(name.lstrip("."), tensor) for name, tensor in _state_tensors(rest, "")]


def _state_tensors(state: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(state, Tensor):
        yield name or "state", state
    elif (named := _named(state)) is not None:
        for key, part in named.items():
            yield from _state_tensors(part, f"{name}.{key}")
    elif isinstance(state, (tuple, list)):
        for i, part in enumerate(state):
            yield from _state_tensors(part, f"{name or 'state'}[{i}]")
    elif state is not None:
        raise TypeError(f"state must hold tensors, tuples, dicts and None only, but it holds {_a(state)}")


def _holds(module: nn.Module | None, count: int) -> bool:
    """Whether a module is a sequence whose ``count`` entries have one entry each in a state."""
    if isinstance(module, nn.ModuleList):
        return len(module) == count and all(is_stateful(child) for child in module)
    return isinstance(module, Sequential) and len(module) == count


def _named(state: Any) -> dict[str, Any] | None:
    """A dict or a NamedTuple as a dict; None for anything else."""
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        return dict(zip(getattr(state, "_fields"), state, strict=True))  # noqa: B009
    return {str(key): part for key, part in state.items()} if isinstance(state, dict) else None


def _home(parts: list[Part]) -> torch.device | None:
    for kinds in (("parameter", "buffer", "unsaved buffer"), ("state",)):
        devices = Counter(part.device for part in parts if part.kind in kinds)
        if devices:
            return devices.most_common(1)[0][0]
    return None


def _with_distance(parts: list[Part], home: torch.device | None) -> Iterator[Part]:
    for part in parts:
        if part.device is not None and home is not None and part.device != home:
            part = dataclasses.replace(part, notes=(f"not on {home}", *part.notes))
        yield part


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _a(value: Any) -> str:
    name = type(value).__name__
    return f"an {name}" if name[0].lower() in "aeiou" else f"a {name}"
