"""What each layer of a network costs: shape, parameters, neurons, floating-point operations; as a table."""

from __future__ import annotations

import copy
import html
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from ..neuron import Neuron
from ..nn import Sequential, TimeBatched, is_stateful, is_static

_HEAD = ("", "layer", "output", "runs", "parameters", "neurons", "FLOPs", "share")
_TEXTS = 3  # the first columns; the others are numbers


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
    """What ``layer_costs`` gives: text with ``print``, a table in a notebook.

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
        rows = [_HEAD, *self._rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
        lines = [
            "  ".join(cell.ljust(widths[i]) if i < _TEXTS else cell.rjust(widths[i]) for i, cell in enumerate(row))
            for row in rows
        ]
        return "\n".join([self._about(), *(line.rstrip() for line in lines)])

    def _repr_html_(self) -> str:
        *rows, total = self._rows()
        lines = [_line(_HEAD, "th", "font-weight:normal;opacity:.7"), *(_line(row, "td") for row in rows)]
        lines.append(_line(total, "td", "font-weight:600"))
        table = f'<table style="border-collapse:collapse;margin:0">{"".join(lines)}</table>'
        box = "overflow-x:auto;line-height:1.4;font-size:13px;margin:.4em 0"
        about = f'<div style="margin-top:.5em">{self._about()}</div>'
        return f'<div class="snnkit-layers" style="{box}">{table}{about}</div>'

    def _about(self) -> str:
        samples = "one sample" if self.batch == 1 else f"{self.batch} samples"
        return f"forward pass of {samples}, T = {self.steps}"

    def _rows(self) -> list[tuple[str, ...]]:
        rows = [
            (
                str(layer.index),
                layer.name,
                " × ".join(map(str, layer.shape)),
                f"{layer.runs} ×",
                f"{layer.parameters:,}" if layer.parameters else "",
                f"{layer.neurons:,}" if layer.neurons else "",
                _short(layer.flops),
                f"{layer.flops / self.flops:.1%}" if layer.flops else "",
            )
            for layer in self.layers
        ]
        total = ("", "all", "", "", f"{self.parameters:,}", f"{self.neurons:,}", _short(self.flops), "")
        return [*rows, total]


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
    if not isinstance(net, Sequential):
        raise TypeError(f"net must be a snnkit.nn.Sequential, but it is a {type(net).__name__}")
    if not isinstance(x, Tensor):
        raise TypeError(f"x must be a tensor [T, B, ...], but it is a {type(x).__name__}")
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
        shape = tuple(out.shape[2:])
        layers.append(
            Layer(
                index,
                _name(layer),
                shape,
                1 if is_static(out) else steps,
                sum(p.numel() for p in layer.parameters()),
                math.prod(shape) if is_stateful(layer) else 0,
                counter.get_total_flops(),
            )
        )
        x = out
    return LayerCosts(tuple(layers), steps, batch)


def _line(cells: tuple[str, ...], tag: str, look: str = "") -> str:
    style = f"padding:.12em .8em .12em 0;white-space:nowrap;border:none;background:none;{look}"
    sides = ("left" if i < _TEXTS else "right" for i in range(len(cells)))
    row = (
        f'<{tag} style="{style};text-align:{side}">{html.escape(cell)}</{tag}>'
        for cell, side in zip(cells, sides, strict=True)
    )
    return f"<tr>{''.join(row)}</tr>"


def _name(layer: nn.Module) -> str:
    kind = type(layer).__name__
    if isinstance(layer, TimeBatched):
        return f"{kind}({_name(layer.module)})"
    if isinstance(layer, nn.Linear):
        return f"{kind} {layer.in_features} → {layer.out_features}"
    if isinstance(layer, nn.Conv2d):
        return f"{kind} {layer.in_channels} → {layer.out_channels}, {_size(layer.kernel_size)}"
    if isinstance(layer, (nn.MaxPool2d, nn.AvgPool2d)):
        return f"{kind} {_size(layer.kernel_size)}"
    return kind


def _size(value: Any) -> str:
    """ "3 × 3" of 3 or (3, 3)."""
    return " × ".join(map(str, value if isinstance(value, tuple) else (value, value)))


def _short(count: int) -> str:
    """ "1.8 M" and the like; nothing for nothing."""
    for unit, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count}" if count else ""
