"""Networks as tables: every tensor in a module and the tensors that ``.to(device)`` does not move, and the cost of each
layer."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils.flop_counter import FlopCounterMode

from snnkit import checks
from snnkit.engine import check_sequence
from snnkit.neuron import Neuron
from snnkit.nn import Sequential, TimeBatched, is_stateful, is_static
from snnkit.tables import html_table, size_of, text_table

# What torch itself stores in every module; anything else in vars(module) is a plain attribute.
_OF_TORCH = frozenset(vars(nn.Module()))
KINDS = ("parameter", "buffer", "unsaved buffer", "state", "plain attribute")
_PARTS = ("part", "kind", "shape", "dtype", "device", "size", "")


@dataclass(frozen=True)
class Part:
    """One row of a tree: a module (``kind`` "module"), or a tensor."""

    path: str  # such as "2.weight"; "" for the outermost module
    kind: str  # "module" or one of KINDS
    type: str = ""  # the class of a module
    shape: tuple[int, ...] | None = None  # of a tensor; None for a parameter without a shape as yet
    dtype: torch.dtype | None = None
    device: torch.device | None = None
    bytes: int = 0  # of a tensor, on "meta" what it would take; 0 if counted elsewhere
    notes: tuple[str, ...] = ()
    owner: str = ""  # path of the module that it is in

    def cells(self, indent: str = "  ") -> tuple[str, ...]:
        """The cells of its row; its name within its module is further to the right than that of the module."""
        around = f"{self.owner}." if self.owner else ""
        depth = 0 if self.kind == "module" and not self.path else around.count(".") + 1
        name, notes = indent * depth + self.path.removeprefix(around), list(self.notes)
        if self.kind == "module":
            return (f"{name}: {self.type}" if self.path else self.type, "", "", "", "", "", ", ".join(notes))
        if self.kind == "plain attribute":
            notes = ["⚠ stays behind", *notes]
        shape = "?" if self.shape is None else str(list(self.shape))
        dtype = str(self.dtype).removeprefix("torch.")
        return (name, self.kind, shape, dtype, str(self.device), size_of(self.bytes), ", ".join(notes))


@dataclass(frozen=True)
class ModuleTree:
    """Result of ``module_tree``: text with ``print``, a table in a notebook.

    Attributes:
        parts: modules and tensors, from outside to inside.
        home: the device of most parameters and buffers (without any: of most of the state); None without tensors.
    """

    parts: tuple[Part, ...]
    home: torch.device | None

    @property
    def left_behind(self) -> tuple[str, ...]:
        """Paths of the tensors that ``.to()`` would not move: plain attributes."""
        return tuple(part.path for part in self.parts if part.kind == "plain attribute")

    def bytes(self, kind: str | None = None) -> int:
        """Bytes of all tensors, or of those of one kind of ``KINDS``."""
        checks.choice("kind", kind, (None, *KINDS))
        return sum(part.bytes for part in self.parts if kind in (None, part.kind))

    def summary(self) -> list[str]:
        """Bytes by kind and device, and the tensors that stay behind."""
        sizes: dict[tuple[str, str], list[int]] = {}
        for part in sorted((part for part in self.parts if part.kind in KINDS), key=lambda one: KINDS.index(one.kind)):
            sizes.setdefault((part.kind, str(part.device)), []).append(part.bytes)
        words = [f"{kind}: {len(each)} on {where}, {size_of(sum(each))}" for (kind, where), each in sizes.items()]
        lines = [" · ".join(words) or "no tensors"]
        if self.left_behind:
            lines.append(f"⚠ neither moved by .to() nor saved by state_dict(): {', '.join(self.left_behind)}")
        return lines

    def __repr__(self) -> str:
        rows = [part.cells() for part in self.parts]
        return "\n".join([*text_table(_PARTS, rows, left=len(_PARTS), always=6), "", *self.summary()])

    def _repr_html_(self) -> str:
        return html_table(_PARTS, [part.cells("\u2003") for part in self.parts], self.summary())


@checks.arguments
def module_tree(module: nn.Module, state: Any = None) -> ModuleTree:
    """List every module and tensor in ``module``: kind, shape, dtype, device, bytes.

    A *plain attribute* is a tensor (or a tensor of a module) in an attribute, list, tuple, dict or dataclass, where
    ``nn.Module`` does not look: it is neither moved by ``.to()`` nor saved by ``state_dict()``. A parameter that is
    also in a list is listed once, as a parameter.

    Args:
        module: anything with parameters, buffers and submodules.
        state: the state that a call of ``module`` returned: None, a tensor, or tuples and dicts of tensors. Listed at
            the end.
    """
    parts: list[Part] = []
    seen: dict[int, str] = {}
    registered = {id(one) for one in (*module.modules(), *module.parameters(), *module.buffers())}

    def add(path: str, kind: str, one: Tensor | nn.Module, owner: str = "") -> bool:
        """Whether it is met for the first time."""
        first = seen.setdefault(id(one), path)
        notes = [f"the same as {first or 'the outermost module'}"] if first != path else []
        if isinstance(one, nn.Module):
            parts.append(Part(path, kind, type(one).__name__, notes=tuple(notes), owner=owner))
            return first == path
        unknown = is_lazy(one)
        notes += ["gets its shape in the first call"] if unknown else []
        notes += ["frozen"] if kind == "parameter" and not one.requires_grad else []
        size = 0 if unknown or first != path else one.numel() * one.element_size()
        shape = None if unknown else tuple(one.shape)
        parts.append(Part(path, kind, "", shape, one.dtype, one.device, size, tuple(notes), owner))
        return first == path

    for name, part in module.named_modules(remove_duplicate=False):
        if not add(name, "module", part, name.rpartition(".")[0]):
            continue
        around = f"{name}." if name else ""
        for field, tensor in part.named_parameters(recurse=False):
            add(around + field, "parameter", tensor, name)
        for field, tensor in part.named_buffers(recurse=False):
            kind = "unsaved buffer" if field in part._non_persistent_buffers_set else "buffer"
            add(around + field, kind, tensor, name)
        for field, value in vars(part).items():
            for place, tensor in _inside(value, set()) if field not in _OF_TORCH else ():
                if id(tensor) not in registered:
                    add(around + field + place, "plain attribute", tensor, name)
    for place, tensor in _inside(state, set()):
        add(f"state{place}", "state", tensor)
    home = None
    for kinds in (("state",), ("parameter", "buffer", "unsaved buffer")):
        devices = Counter(part.device for part in parts if part.kind in kinds)
        home = devices.most_common(1)[0][0] if devices else home
    for i, part in enumerate(parts):
        if part.device not in (None, home):
            parts[i] = replace(part, notes=(f"not on {home}", *part.notes) if home else part.notes)
    return ModuleTree(tuple(parts), home)


def _inside(value: Any, entered: set[int], place: str = "") -> Iterator[tuple[str, Tensor]]:
    """Tensors in a value, in the modules and containers within it, each with its place in it."""
    items: list[tuple[str, Any]] = []
    if isinstance(value, Tensor):
        yield place, value
    elif isinstance(value, nn.Module):
        items = [(f".{name}", one) for name, one in (*value.named_parameters(), *value.named_buffers())]
    elif is_dataclass(value) and not isinstance(value, type):
        items = [(f".{field.name}", getattr(value, field.name, None)) for field in fields(value)]
    elif isinstance(value, dict):
        items = [(f"[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        names = getattr(value, "_fields", None)
        items = [(f".{names[i]}" if names else f"[{i}]", item) for i, item in enumerate(value)]
    if id(value) not in entered:
        entered.add(id(value))
        for name, item in items:
            yield from _inside(item, entered, place + name)


class Layer(NamedTuple):
    """One layer.

    Attributes:
        name: its kind and sizes, such as "Conv2d 1 → 128, 3 × 3".
        shape: shape of its output, for one sample and step.
        runs: number of steps for which it is computed: 1 if its input is static, else T.
        parameters: how many numbers it learns.
        neurons: with a state, per sample.
        flops: operations of convolutions and matrix products in the forward pass; a multiplication and an addition are
            two.
    """

    name: str
    shape: tuple[int, ...]
    runs: int
    parameters: int
    neurons: int
    flops: int


class LayerCosts(tuple[Layer, ...]):
    """Result of ``layer_costs``, in order: text with ``print``, a table in a notebook."""

    def __repr__(self) -> str:
        return "\n".join(text_table(Layer._fields, self._rows(), always=len(Layer._fields)))

    def _repr_html_(self) -> str:
        return html_table(Layer._fields, self._rows())

    def _rows(self) -> list[tuple[str, ...]]:
        total = Layer("all", (), 0, *(sum(getattr(layer, name) for layer in self) for name in Layer._fields[3:]))
        return [
            (layer.name, " × ".join(map(str, layer.shape)), *(f"{count:,}" if count else "" for count in layer[2:]))
            for layer in (*self, total)
        ]


@checks.arguments
def layer_costs(net: Sequential, x: Tensor) -> LayerCosts:
    """Count the operations of a forward pass of ``net`` on ``x``, layer by layer, without running it.

    It calls copies of the layers on the "meta" device, which has shapes and no numbers, and PyTorch counts the
    operations.

    Args:
        net: the network, on any device; it does not change.
        x: [T, B, ...] on any device. A static one (``encode.repeat``) is computed once by layers without state.
    """
    check_sequence(x, "layer_costs")
    checks.copyable("net", net)
    steps = len(x)
    x = x.detach()  # gradients are not counted, and the counter refuses inputs that would have one
    x = x[:1].to("meta").expand(x.shape) if is_static(x) else x.to("meta")
    layers = []
    for layer in copy.deepcopy(net).to("meta"):
        assert layer is not None
        for module in layer.modules():
            if isinstance(module, Neuron):
                module.engine = "eager"  # there is nothing to compile
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            out, _ = Sequential(layer)(x)
        shape, runs = tuple(out.shape[2:]), 1 if is_static(out) else steps
        parameters = sum(p.numel() for p in layer.parameters())
        neurons = math.prod(shape) if is_stateful(layer) else 0
        layers.append(Layer(_name(layer), shape, runs, parameters, neurons, counter.get_total_flops()))
        x = out
    return LayerCosts(layers)


def _name(layer: nn.Module) -> str:
    kind = type(layer).__name__
    if isinstance(layer, TimeBatched):
        return f"{kind}({_name(layer.module)})"
    if isinstance(layer, nn.Linear):
        return f"{kind} {layer.in_features} → {layer.out_features}"
    if isinstance(layer, (nn.Conv2d, nn.MaxPool2d, nn.AvgPool2d)):
        size = layer.kernel_size if isinstance(layer.kernel_size, tuple) else (layer.kernel_size,) * 2
        channels = f" {layer.in_channels} → {layer.out_channels}," if isinstance(layer, nn.Conv2d) else ""
        return f"{kind}{channels} {' × '.join(map(str, size))}"
    return kind
