"""Quantized models in files."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from snnkit.quantize import backend
from snnkit.train.checkpoint import read_archive, writable, write_archive

__all__ = ["load", "save"]

_FORMAT = "snnkit int8 1"


def save(path: str | os.PathLike[str], quantized: nn.Module) -> Path:
    """Write the weights of a quantized model to a file, whole or not at all; return its path."""
    names = [name for name, layer in quantized.named_modules() if backend.is_int8(layer)]
    if not names:
        raise ValueError("quantized has no int8 layer: it must be a model that quantize() gave")
    file = writable(path, "path")
    write_archive(file, {"format": _FORMAT, "layers": names, "state": quantized.state_dict()})
    return file


def load(path: str | os.PathLike[str], model: nn.Module, *, map_location: str | torch.device = "cpu") -> nn.Module:
    """The quantized model that ``save`` wrote, as a copy of ``model``, an unquantized one of the same structure.

    Reads tensors and plain values only: a file from a stranger can't run code here.

    Raises:
        FileNotFoundError: no such file.
        ImportError: without torchao.
        ValueError: it is damaged, something else, or does not fit ``model``.
    """
    backend.torchao()  # registers the classes that the file may hold
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
        if not backend.is_int8(modules[name]):
            raise ValueError(
                f"{path} is a damaged quantized model: it lists the layer {name!r}, which is not int8 there"
            )
        backend.describe(modules[name])
    return small


def _shape(value: Any) -> list[int] | str:
    return list(value.shape) if isinstance(value, Tensor) else f"a {type(value).__name__}"
