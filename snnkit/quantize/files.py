"""Quantized models in files."""

from __future__ import annotations

import copy
import os
from pathlib import Path

import torch
from torch import Tensor, nn

from snnkit.data._files import replacing
from snnkit.quantize import backend
from snnkit.train.checkpoint import writable

__all__ = ["load", "save"]

_FORMAT = "snnkit int8 1"


def save(path: str | os.PathLike[str], quantized: nn.Module) -> Path:
    """Write the weights of a quantized model to a file, whole or not at all; return its path."""
    names = [name for name, layer in quantized.named_modules() if backend.is_int8(layer)]
    if not names:
        raise ValueError("quantized has no int8 layer: it must be a model that quantize() gave")
    file = writable(path, "path")
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as stream:
        torch.save({"format": _FORMAT, "layers": names, "state": quantized.state_dict()}, stream)
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
    if not path.is_file():
        raise FileNotFoundError(f"no quantized model at {path}")
    try:
        content = torch.load(path, map_location=map_location, weights_only=True)
    except Exception as error:
        raise ValueError(f"{path} can't be read as a quantized model: {type(error).__name__}") from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError(f"{path} is not a file that quantize.save wrote ({_FORMAT!r})")
    small = copy.deepcopy(model).eval().to(map_location).requires_grad_(False)
    own = small.state_dict()
    saved = content["state"]
    problems = [f"missing in the file: {name}" for name in own if name not in saved]
    problems += [f"not in the model: {name}" for name in saved if name not in own]
    problems += [
        f"{name}: {list(saved[name].shape)} in the file, {list(own[name].shape)} in the model"
        for name in own
        if isinstance(own[name], Tensor) and name in saved and saved[name].shape != own[name].shape
    ]
    if problems:
        raise ValueError(f"{path} does not fit the model:\n  " + "\n  ".join(problems))
    small.load_state_dict(saved, assign=True)
    for parameter in small.parameters():
        parameter.requires_grad_(False)
    for name in content["layers"]:
        backend.describe(small.get_submodule(name))
    return small
