"""A copy of a model with int8 weights."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import nn

from snnkit.quantize import backend
from snnkit.quantize.report import QuantizedLayer, Report

__all__ = ["Quantized", "quantize"]


class Quantized(NamedTuple):
    """What ``quantize`` gives.

    Attributes:
        model: a copy in evaluation mode, for inference only.
        report: which layers are int8 now, which are not and why, bytes before and after.
    """

    model: nn.Module
    report: Report


def quantize(model: nn.Module, layers: Iterable[str] | None = None) -> Quantized:
    """A copy of ``model`` whose Linear layers have int8 weights; ``model`` stays as it is.

    Args:
        model: trained; on any device.
        layers: names as in ``model.named_modules()``; None: all that torchao supports.

    Raises:
        ImportError: without torchao.
        TypeError, ValueError: no module; a name that is not in the model or of a layer that can't be int8, with the
            reason; no layer that can; a weight with NaN or infinity.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, but it is a {type(model).__name__}")
    reasons = _reasons_against(model)
    chosen = _chosen(model, layers, reasons)
    small = copy.deepcopy(model).eval()
    for parameter in small.parameters():
        parameter.requires_grad_(False)
    for name in chosen:
        backend.convert(small.get_submodule(name))
    notes = {**reasons, **dict.fromkeys(chosen, "int8 weight")}
    held = _bytes_by_layer(small)
    layers_of = [
        QuantizedLayer(
            name or "(model)",
            type(model.get_submodule(name)).__name__,
            name in chosen,
            notes.get(name, "not asked for"),
            before,
            held[name],
        )
        for name, before in _bytes_by_layer(model).items()
    ]
    return Quantized(small, Report(tuple(layers_of)))


def _reasons_against(model: nn.Module) -> dict[str, str]:
    """Why a layer can't be int8, for each that can't and has a tensor of its own."""
    owners = Counter(id(layer.weight) for layer in model.modules() if isinstance(layer, nn.Linear))
    reasons = {name: _reason_against(layer, owners) for name, layer in model.named_modules() if _holds_tensors(layer)}
    return {name: reason for name, reason in reasons.items() if reason}


def _reason_against(layer: nn.Module, owners: Counter[int]) -> str:
    if backend.is_int8(layer):
        return "is int8 already"
    if type(layer) is not nn.Linear:
        a_kind_of = " (a subclass of it may use its weight in a way of its own)" if isinstance(layer, nn.Linear) else ""
        return f"torchao has int8 weights for Linear only, not for {type(layer).__name__}{a_kind_of}"
    if layer.weight.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return f"its weight is {layer.weight.dtype}, not float32, bfloat16 or float16"
    if layer.weight.is_meta:
        return "its weight is on the meta device and has no values"
    if owners[id(layer.weight)] > 1:
        return "its weight is another layer's as well"
    return ""


def _chosen(model: nn.Module, layers: Iterable[str] | None, reasons: dict[str, str]) -> set[str]:
    modules = dict(model.named_modules())
    if layers is None:
        names = [name for name, layer in modules.items() if isinstance(layer, nn.Linear) and name not in reasons]
        if not names:
            why = "; ".join(f"{name}: {reason}" for name, reason in reasons.items()) or "it holds no weights"
            raise ValueError(f"model has no layer whose weights could be int8: {why}")
    else:
        names = _asked_for(layers, modules, reasons)
    for name in names:
        weight = modules[name].weight
        if not torch.isfinite(weight).all():  # type: ignore[arg-type]
            raise ValueError(f"the weight of layer {name!r} must be finite, but it holds NaN or infinity")
    return set(names)


def _asked_for(layers: Iterable[str], modules: dict[str, nn.Module], reasons: dict[str, str]) -> list[str]:
    if isinstance(layers, str):
        raise TypeError(f"layers must be several names, such as [{layers!r}], but it is the str {layers!r}")
    names = list(layers)
    if not names:
        raise ValueError("layers must hold at least one name, but it is empty; None takes all that can be int8")
    for name in names:
        if name not in modules:
            raise ValueError(
                f"layers must hold names of modules, but {name!r} is none; they are "
                f"{', '.join(repr(other) for other in modules if other)}"
            )
        reason = reasons.get(name)
        if reason is None and not isinstance(modules[name], nn.Linear):
            reason = f"a {type(modules[name]).__name__} has no weight of its own"
        if reason:
            raise ValueError(f"layer {name!r} can't have int8 weights: {reason}")
    return names


def _holds_tensors(layer: nn.Module) -> bool:
    return next(layer.parameters(False), None) is not None or next(layer.buffers(False), None) is not None


def _bytes_by_layer(model: nn.Module) -> dict[str, int]:
    """Of every module with tensors of its own; a tensor that two of them share counts at the first."""
    counted: set[int] = set()
    held = {}
    for name, layer in model.named_modules():
        if not _holds_tensors(layer):
            continue
        own = [*layer.parameters(False), *layer.buffers(False)]
        held[name] = sum(backend.bytes_of(tensor) for tensor in own if id(tensor) not in counted)
        counted.update(map(id, own))
    return held
