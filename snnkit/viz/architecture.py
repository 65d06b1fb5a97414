"""Networks as tables: every tensor in a module and what ``.to(device)`` leaves behind, and what each layer costs."""

from __future__ import annotations

import copy
import dataclasses
import html
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils.flop_counter import FlopCounterMode

from .. import checks
from ..neuron import Neuron
from ..nn import Sequential, TimeBatched, is_stateful, is_static
from ..tables import html_table, size_of, text_table
from . import theme

# What torch itself stores in every module; anything else in vars(module) is a plain attribute.
_OF_TORCH = frozenset(vars(nn.Module()))
KINDS = {
    "parameter": theme.BLUE,
    "buffer": theme.GREEN,
    "unsaved buffer": theme.SKY,
    "state": theme.PURPLE,
    "plain attribute": theme.VERMILION,
}
_PARTS = ("part", "kind", "shape", "dtype", "device", "size", "")
_LAYERS = ("layer", "output", "runs", "parameters", "neurons", "FLOPs", "share")


@dataclass(frozen=True)
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

    def cells(self) -> tuple[str, ...]:
        """What its row shows."""
        name, notes = "  " * self.depth + self.name, ", ".join(self.notes)
        if self.kind == "module":
            return (f"{name}: {self.type}" if self.name else self.type, "", "", "", "", "", notes)
        if self.stays:
            notes = ", ".join(["⚠ stays behind", *self.notes])
        shape = "?" if self.shape is None else str(list(self.shape))
        dtype = str(self.dtype).removeprefix("torch.")
        return (name, self.kind, shape, dtype, str(self.device), size_of(self.bytes), notes)


@dataclass(frozen=True)
class ModuleTree:
    """Result of ``module_tree``: text with ``print``, a table in a notebook.

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
        checks.choice("kind", kind, (None, *KINDS))
        return sum(part.bytes for part in self.parts if kind in (None, part.kind))

    def summary(self) -> list[str]:
        """Bytes by kind and device, and what stays behind."""
        tensors = [part for part in self.parts if part.kind != "module"]
        count = Counter((part.kind, str(part.device)) for part in tensors)
        groups = sorted(count, key=lambda group: list(KINDS).index(group[0]))
        sizes = {(k, d): sum(p.bytes for p in tensors if (p.kind, str(p.device)) == (k, d)) for k, d in groups}
        words = [f"{kind}: {count[kind, where]} on {where}, {size_of(sizes[kind, where])}" for kind, where in groups]
        lines = [" · ".join(words) or "no tensors"]
        if self.left_behind:
            lines.append(f"⚠ neither moved by .to() nor saved by state_dict(): {', '.join(self.left_behind)}")
        return lines

    def __repr__(self) -> str:
        rows = [part.cells() for part in self.parts]
        return "\n".join([*text_table(_PARTS, rows, left=len(_PARTS), always=6), "", *self.summary()])

    def _repr_html_(self) -> str:
        """Kinds have a word as well as a colour."""
        cell = "text-align:left;padding:.12em .8em .12em 0;white-space:nowrap;border:none"
        head = "".join(f'<th style="{cell};font-weight:normal;opacity:.7">{title}</th>' for title in _PARTS)
        rows = []
        for part in self.parts:
            name, kind, *others = (html.escape(value) for value in part.cells())
            colour = KINDS.get(part.kind, theme.TEXT)
            look = f"background:{theme.faint(colour, 0.22)};border-left:3px solid {colour};padding:0 .5em"
            weight = f"font-weight:{'600' if part.kind == 'module' else '400'};font-family:monospace"
            cells = [
                f'<td style="{cell};padding-left:{0.4 + 1.3 * part.depth:.1f}em;{weight}">{name.strip()}</td>',
                f'<td style="{cell}">{f"""<span style="{look}">{kind}</span>""" if kind else ""}</td>',
                *(f'<td style="{cell}">{value}</td>' for value in others),
            ]
            ground = theme.faint(colour, 0.14) if part.stays else "none"
            rows.append(f'<tr style="background:{ground}">{"".join(cells)}</tr>')
        table = f'<table style="border-collapse:collapse;margin:0"><tr>{head}</tr>{"".join(rows)}</table>'
        below = "<br>".join(map(html.escape, self.summary()))
        box = "overflow-x:auto;line-height:1.4;font-size:13px;margin:.4em 0"
        return f'<div class="snnkit-modules" style="{box}">{table}<div style="margin-top:.5em">{below}</div></div>'


def module_tree(module: nn.Module, state: Any = None) -> ModuleTree:
    """List every module and tensor in ``module``: kind, shape, dtype, device, bytes.

    A *plain attribute* is a tensor (or a module with tensors) in an attribute, list, tuple, dict or dataclass, where
    ``nn.Module`` does not look: it is neither moved by ``.to()`` nor saved by ``state_dict()``. A parameter that is
    also in a list is listed once, as a parameter.

    Args:
        module: anything with parameters, buffers and submodules.
        state: as a call of ``module`` returned it: None, a tensor, or tuples and dicts of such. A part is shown with
            the module that it belongs to where that is clear: an entry of a ``Sequential``'s state, one entry for each
            of the modules that have a state, a field named like a submodule.

    Raises:
        TypeError: ``module`` is no ``nn.Module``, or ``state`` holds something else.
    """
    walk = _Walk(checks.instance("module", module, nn.Module, "a torch.nn.Module"))
    walk.module(module, "", "", 0, state)
    home = None
    for kinds in (("state",), ("parameter", "buffer", "unsaved buffer")):
        devices = Counter(part.device for part in walk.parts if part.kind in kinds)
        home = devices.most_common(1)[0][0] if devices else home
    away = {i: part for i, part in enumerate(walk.parts) if part.device not in (None, home)}
    for i, part in away.items():
        walk.parts[i] = dataclasses.replace(part, notes=(f"not on {home}", *part.notes)) if home else part
    return ModuleTree(tuple(walk.parts), home)


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
        inner, own = _distributed(module, state)
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
            for suffix, inner in _inside(value, set()):
                name = attribute + suffix
                if id(inner) in self.registered:
                    continue
                if isinstance(inner, Tensor):
                    self._add(inner, path, name, depth, "plain attribute")
                elif any(True for _ in (*inner.parameters(), *inner.buffers())):
                    where = f"unseen: in a {type(value).__name__}" if suffix else "unseen: not registered"
                    self.module(inner, path, name, depth, None, where)

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
        shape = None if unknown else tuple(tensor.shape)
        size = 0 if unknown or first != path else tensor.numel() * tensor.element_size()
        stays = kind == "plain attribute"
        self.parts.append(
            Part(path, name, depth, kind, "", shape, tensor.dtype, tensor.device, size, tuple(notes), stays)
        )


def _inside(value: Any, entered: set[int], suffix: str = "") -> Iterator[tuple[str, Any]]:
    """Tensors and modules in a value, and in the containers within it, each with its place in it."""
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


def _distributed(module: nn.Module, state: Any) -> tuple[dict[str, Any], list[tuple[str, Tensor]]]:
    """The parts of a state that belong to submodules, by name, and the tensors of the module's own with their names."""
    children = module._modules
    if isinstance(state, tuple) and not hasattr(state, "_fields"):
        if _has_states(module, len(state)):
            return dict(zip(children, state, strict=True)), []
        holders = [name for name, child in children.items() if _has_states(child, len(state))]
        if len(holders) == 1:
            return {holders[0]: state}, []
        # Other modules tend to have one entry for each part with a state.
        stateful = [name for name, child in children.items() if child is not None and is_stateful(child)]
        if stateful and len(stateful) == len(state):
            return dict(zip(stateful, state, strict=True)), []
    named = _named(state) or {}
    inner = {name: part for name, part in named.items() if name in children and not isinstance(part, Tensor)}
    rest = {name: part for name, part in named.items() if name not in inner} if named else state
    return inner, [(name.lstrip("."), tensor) for name, tensor in _state_tensors(rest, "")]


def _has_states(module: nn.Module | None, count: int) -> bool:
    """Whether a module is a sequence whose ``count`` entries have one entry each in a state."""
    if isinstance(module, nn.ModuleList):
        return len(module) == count and all(is_stateful(child) for child in module)
    return isinstance(module, Sequential) and len(module) == count


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
        raise TypeError(f"state must hold tensors, tuples, dicts and None only, but it holds {checks.shown(state)}")


def _named(state: Any) -> dict[str, Any] | None:
    """A dict or a NamedTuple as a dict; None for anything else."""
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        return dict(zip(getattr(state, "_fields"), state, strict=True))  # noqa: B009
    return {str(key): part for key, part in state.items()} if isinstance(state, dict) else None


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


@dataclass(frozen=True)
class Layer:
    """One layer.

    Attributes:
        index: in the network.
        name: its kind and sizes, such as "Conv2d 1 → 128, 3 × 3".
        shape: of its output, for one sample and step.
        runs: for how many steps it is computed: 1 where its input is static, else T.
        parameters: how many numbers it learns.
        neurons: with a state, per sample.
        flops: of convolutions and matrix products in the forward pass, a multiplication and an addition being two.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    runs: int
    parameters: int
    neurons: int
    flops: int


@dataclass(frozen=True)
class LayerCosts:
    """Result of ``layer_costs``: text with ``print``, a table in a notebook.

    Attributes:
        layers: in order.
        steps, batch: T and B of the input that all of it is for.
    """

    layers: tuple[Layer, ...]
    steps: int
    batch: int

    @property
    def parameters(self) -> int:
        return sum(layer.parameters for layer in self.layers)

    @property
    def neurons(self) -> int:
        return sum(layer.neurons for layer in self.layers)

    @property
    def flops(self) -> int:
        return sum(layer.flops for layer in self.layers)

    def __repr__(self) -> str:
        return "\n".join([self._about(), *text_table(_LAYERS, self._rows(), left=2, always=len(_LAYERS))])

    def _repr_html_(self) -> str:
        return html_table(_LAYERS, self._rows(), [self._about()])

    def _about(self) -> str:
        samples = "one sample" if self.batch == 1 else f"{self.batch} samples"
        return f"forward pass of {samples}, T = {self.steps}"

    def _rows(self) -> list[tuple[str, ...]]:
        rows = [
            (
                f"{layer.index}  {layer.name}",
                " × ".join(map(str, layer.shape)),
                f"{layer.runs} ×",
                f"{layer.parameters:,}" if layer.parameters else "",
                f"{layer.neurons:,}" if layer.neurons else "",
                _short(layer.flops),
                f"{layer.flops / self.flops:.1%}" if layer.flops else "",
            )
            for layer in self.layers
        ]
        return [*rows, ("all", "", "", f"{self.parameters:,}", f"{self.neurons:,}", _short(self.flops), "")]


def layer_costs(net: Sequential, x: Tensor) -> LayerCosts:
    """Count what a forward pass of ``net`` on ``x`` takes, layer by layer, without running it.

    Nothing is computed: copies of the layers on the "meta" device, which has shapes and no numbers, are called, and
    PyTorch counts the operations.

    Args:
        net: on any device; it stays as it is.
        x: [T, B, ...] on any device. A static one (``encode.repeat``) is computed once by layers without state.

    Raises:
        TypeError: ``net`` is no ``snnkit.nn.Sequential``, or ``x`` no tensor.
    """
    checks.instance("net", net, Sequential, "a snnkit.nn.Sequential")
    checks.instance("x", x, Tensor, "a tensor [T, B, ...]")
    steps, batch = x.shape[:2]
    x = x[:1].to("meta").expand(x.shape) if is_static(x) else x.to("meta")
    layers = []
    for index, layer in enumerate(copy.deepcopy(net).to("meta")):
        assert layer is not None
        for module in layer.modules():
            if isinstance(module, Neuron):
                module.engine = "eager"  # there is nothing to compile
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            out, _ = Sequential(layer)(x)
        shape, runs = tuple(out.shape[2:]), 1 if is_static(out) else steps
        parameters = sum(p.numel() for p in layer.parameters())
        neurons = math.prod(shape) if is_stateful(layer) else 0
        layers.append(Layer(index, _name(layer), shape, runs, parameters, neurons, counter.get_total_flops()))
        x = out
    return LayerCosts(tuple(layers), steps, batch)


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


def _short(count: int) -> str:
    """ "1.8 M" and the like; nothing for nothing."""
    for unit, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count}" if count else ""
