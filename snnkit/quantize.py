"""Inference with int8 weights, by torchao (extra ``snnkit[quantize]``).

A weight of four bytes becomes one byte, with a float32 scale per output: weight ≈ scale * int8. Neurons, biases,
convolutions and norms do not change, and training is not supported: quantize a trained network::

    small, report = quantize.quantize(net)
    print(report)
    torch.save(small.state_dict(), "small.pt")
    small, _ = quantize.quantize(models.mlp())
    small.load_state_dict(torch.load("small.pt"), assign=True)

torchao has int8 weights for ``torch.nn.Linear`` only.
"""

from __future__ import annotations

import copy
import importlib
import importlib.metadata
import inspect
import logging
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from snnkit import checks
from snnkit.tables import text_table


@dataclass(frozen=True)
class QuantizedLayer:
    """One layer with weights, before and after; bytes are those of its own parameters and buffers."""

    name: str  #: as in ``model.named_modules()``
    kind: str  #: its class
    done: bool  #: whether its weight is int8 now
    note: str  #: what was done, or why not
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True)
class Report:
    """What ``quantize`` did to every layer that holds parameters or buffers, in order; printed, it is a table."""

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


@checks.arguments
def quantize(model: nn.Module) -> Quantized:
    """A copy of a trained ``model``, on any device, whose Linear layers have int8 weights; ``model`` does not
    change."""
    checks.copyable("model", model)
    owners = Counter(id(layer.weight) for layer in model.modules() if isinstance(layer, nn.Linear))
    sizes = _bytes_by_layer(model)
    notes = {name: _reason_against(model.get_submodule(name), owners) or "int8 weight" for name in sizes}
    chosen = [name for name, note in notes.items() if note == "int8 weight"]
    if not chosen:
        why = "; ".join(f"{name}: {reason}" for name, reason in notes.items()) or "it holds no weights"
        raise ValueError(f"model has no layer whose weights could be int8: {why}")
    small = copy.deepcopy(model).eval().requires_grad_(False)
    for name in chosen:
        if not torch.isfinite(model.get_submodule(name).weight).all():  # type: ignore[arg-type]
            raise ValueError(f"the weight of layer {name!r} must be finite, but it holds NaN or infinity")
        _to_int8(small.get_submodule(name))
    after = _bytes_by_layer(small)
    kinds = {name: type(model.get_submodule(name)).__name__ for name in sizes}
    layers = (
        QuantizedLayer(name or "(model)", kinds[name], name in chosen, notes[name], before, after[name])
        for name, before in sizes.items()
    )
    return Quantized(small, Report(tuple(layers)))


def _reason_against(layer: nn.Module, owners: Counter[int]) -> str:
    if type(getattr(layer, "weight", None)).__module__.startswith("torchao."):
        return "is int8 already"
    if parametrize.is_parametrized(layer):
        return "its weight is parametrized: call torch.nn.utils.parametrize.remove_parametrizations(layer, name) first"
    if type(layer) is not nn.Linear:
        return f"torchao has int8 weights for Linear only, not for {type(layer).__name__}"
    if layer.weight.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return f"its weight is {layer.weight.dtype}, not float32, bfloat16 or float16"
    if layer.weight.is_meta:
        return "its weight is on the meta device and has no values"
    if owners[id(layer.weight)] > 1:
        return "its weight is another layer's as well"
    return ""


def _bytes_by_layer(model: nn.Module) -> dict[str, int]:
    """Of every module with tensors of its own; a tensor that two of them share counts at the first."""
    counted: set[int] = set()
    sizes = {}
    for name, layer in model.named_modules():
        if own := [*layer.parameters(False), *layer.buffers(False)]:
            sizes[name] = sum(_bytes_of(tensor) for tensor in own if id(tensor) not in counted)
            counted.update(map(id, own))
    return sizes


def _bytes_of(tensor: Tensor) -> int:
    """Of a tensor, or of the plain tensors that one of torchao's consists of."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        return tensor.numel() * tensor.element_size()
    return sum(_bytes_of(getattr(tensor, name)) for name in flatten()[0])


# --- torchao ----------------------------------------------------------------------------------------------------------


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
            f"{checks.pip_install('quantize')} (its error: {error})"
        ) from error
    return module


def _to_int8(layer: nn.Module) -> None:
    """Make the weight of a Linear int8, in place: per output, symmetric."""
    ao = _torchao()
    # What torchao recommends for Inductor would change settings of the whole process.
    config = ao.Int8WeightOnlyConfig(version=2, set_inductor_config=False)
    with _quiet():
        ao.quantize_(layer, config)
    # What torchao sets can't be pickled.
    layer.extra_repr = partial(str, f"{type(layer).extra_repr(layer)}, int8 weight")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without torchao's messages on kernels for other GPUs and on deprecations inside it."""
    with ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in map(logging.getLogger, ("torchao", "torch.utils._pytree")):
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.ERROR)
        yield
