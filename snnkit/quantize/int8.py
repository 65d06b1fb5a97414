"""Copies of models with int8 weights, by torchao, and files of them."""

from __future__ import annotations

import copy
import importlib
import importlib.metadata
import inspect
import logging
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .. import checks
from ..tables import text_table
from ..train.checkpoint import read_archive, writable, write_archive

_FORMAT = "snnkit int8 1"


@dataclass(frozen=True)
class QuantizedLayer:
    """One layer with weights, before and after.

    Attributes:
        name, kind: as in ``model.named_modules()``, and its class.
        done: whether its weight is int8 now.
        note: what was done, or why not.
        bytes_before, bytes_after: of its own parameters and buffers.
    """

    name: str
    kind: str
    done: bool
    note: str
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True)
class Report:
    """What ``quantize`` did; printed, it is a table.

    Attributes:
        layers: every layer that holds parameters or buffers, in order.
    """

    layers: tuple[QuantizedLayer, ...]

    @property
    def bytes_before(self) -> int:
        return sum(layer.bytes_before for layer in self.layers)

    @property
    def bytes_after(self) -> int:
        return sum(layer.bytes_after for layer in self.layers)

    def __str__(self) -> str:
        ratio = f"{self.bytes_before / max(self.bytes_after, 1):.2f} times smaller"
        rows = [(one.name, one.kind, f"{one.bytes_before:,}", f"{one.bytes_after:,}", one.note) for one in self.layers]
        rows.append(("", "all", f"{self.bytes_before:,}", f"{self.bytes_after:,}", ratio))
        width = max(len(row[4]) for row in rows)
        padded = [(*row[:4], row[4].ljust(width)) for row in rows]
        return "\n".join(text_table(("layer", "kind", "bytes before", "after", ""), padded, left=2, always=5))


class Quantized(NamedTuple):
    """The result of ``quantize``: a copy in evaluation mode, for inference only, and the report on its layers."""

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
    checks.instance("model", model, nn.Module, "a torch.nn.Module")
    reasons = _reasons_against(model)
    chosen = _chosen(model, layers, reasons)
    small = copy.deepcopy(model).eval()
    for parameter in small.parameters():
        parameter.requires_grad_(False)
    for name in chosen:
        _to_int8(small.get_submodule(name))
    notes = {**reasons, **dict.fromkeys(chosen, "int8 weight")}
    after = _bytes_by_layer(small)
    layers_of = [
        QuantizedLayer(
            name or "(model)",
            type(model.get_submodule(name)).__name__,
            name in chosen,
            notes.get(name, "not requested"),
            before,
            after[name],
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
    if _is_int8(layer):
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
        names = _requested(layers, modules, reasons)
    for name in names:
        weight = modules[name].weight
        if not torch.isfinite(weight).all():  # type: ignore[arg-type]
            raise ValueError(f"the weight of layer {name!r} must be finite, but it holds NaN or infinity")
    return set(names)


def _requested(layers: Iterable[str], modules: dict[str, nn.Module], reasons: dict[str, str]) -> list[str]:
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
    sizes = {}
    for name, layer in model.named_modules():
        if not _holds_tensors(layer):
            continue
        own = [*layer.parameters(False), *layer.buffers(False)]
        sizes[name] = sum(_bytes_of(tensor) for tensor in own if id(tensor) not in counted)
        counted.update(map(id, own))
    return sizes


def save(path: str | os.PathLike[str], quantized: nn.Module) -> Path:
    """Write the weights of a quantized model to a file, whole or not at all; return its path."""
    names = [name for name, layer in quantized.named_modules() if _is_int8(layer)]
    if not names:
        raise ValueError("quantized must be a model that quantize() returned, but it has no int8 layer")
    file = writable(path, "path")
    write_archive(file, {"format": _FORMAT, "layers": names, "state": quantized.state_dict()})
    return file


def load(path: str | os.PathLike[str], model: nn.Module, *, map_location: str | torch.device = "cpu") -> nn.Module:
    """The quantized model that ``save`` wrote, as a copy of ``model``, an unquantized one of the same structure.

    Reads tensors and plain values only, so a file can't run code.

    Raises:
        FileNotFoundError: no such file.
        ImportError: without torchao.
        ValueError: it is damaged, something else, or does not fit ``model``.
    """
    _torchao()  # registers the classes that the file may hold
    path = Path(path).expanduser()
    content = read_archive(path, "quantized model", map_location)
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError(f"{path} is not a file that quantize.save wrote ({_FORMAT!r})")
    small = copy.deepcopy(model).eval().to(map_location).requires_grad_(False)
    own = small.state_dict()
    saved, layers = content.get("state"), content.get("layers")
    if not isinstance(saved, dict) or not isinstance(layers, list):
        raise ValueError(f"{path} is a damaged quantized model: it needs a dict (state) and a list (layers)")
    problems = [f"missing in the file: {name}" for name in own if name not in saved]
    problems += [f"not in the model: {name}" for name in saved if name not in own]
    problems += [
        f"{name}: {_shape(saved[name])} in the file, {_shape(own[name])} in the model"
        for name in own
        if name in saved and _shape(saved[name]) != _shape(own[name])
    ]
    modules = dict(small.named_modules())
    problems += [f"not a layer of the model: {name!r}" for name in layers if name not in modules]
    if problems:
        raise ValueError(f"{path} does not fit the model:\n  " + "\n  ".join(problems))
    small.load_state_dict(saved, assign=True)
    for parameter in small.parameters():
        parameter.requires_grad_(False)
    for name in layers:
        if not _is_int8(modules[name]):
            raise ValueError(
                f"{path} is a damaged quantized model: it lists the layer {name!r}, which is not int8 there"
            )
        _describe(modules[name])
    return small


def _shape(value: Any) -> list[int] | str:
    return list(value.shape) if isinstance(value, Tensor) else f"a {type(value).__name__}"


def _torchao() -> Any:
    """``torchao.quantization``; ImportError saying what to install."""
    try:
        with _quiet():
            module = importlib.import_module("torchao.quantization")
        if "version" not in inspect.signature(module.Int8WeightOnlyConfig).parameters:  # Colab ships 0.10
            raise ImportError(f"torchao {importlib.metadata.version('torchao')} is too old")
    except ImportError as error:
        raise ImportError(
            "int8 weights need torchao, which is not installed or does not work with this PyTorch: "
            f"pip install 'snnkit[quantize]' (its error: {error})"
        ) from error
    return module


def _to_int8(layer: nn.Module) -> None:
    """Make the weight of a Linear int8, in place: per output, symmetric."""
    ao = _torchao()
    # What torchao recommends for Inductor would change settings of the whole process.
    config = ao.Int8WeightOnlyConfig(version=2, set_inductor_config=False)
    with _quiet():
        ao.quantize_(layer, config)
    _describe(layer)


def _is_int8(layer: nn.Module) -> bool:
    """Whether its weight is one of torchao's."""
    weight = getattr(layer, "weight", None)
    return isinstance(weight, Tensor) and type(weight).__module__.startswith("torchao.")


def _describe(layer: nn.Module) -> None:
    """Set the text of the layer; what torchao sets can't be pickled."""
    layer.extra_repr = partial(str, f"{type(layer).extra_repr(layer)}, int8 weight")


def _bytes_of(tensor: Tensor) -> int:
    """Of a tensor, or of the plain tensors that one of torchao's consists of."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        return tensor.numel() * tensor.element_size()
    return sum(_bytes_of(getattr(tensor, name)) for name in flatten()[0])


@contextmanager
def _quiet() -> Iterator[None]:
    """Without torchao's messages on kernels for other GPUs and on deprecations inside it."""
    loggers = [logging.getLogger("torchao"), logging.getLogger("torch.utils._pytree")]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
