"""On which device a model is, and on which one it could be."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from snnkit.data import resolve_device


def choose_device(device: str | torch.device = "auto") -> torch.device:
    """As ``data.resolve_device``, except that "auto" also takes Apple's GPU (MPS) where there is one and no CUDA.

    Raises ValueError for a device that PyTorch does not know or can't use here.
    """
    if (
        isinstance(device, str)
        and device == "auto"
        and not torch.cuda.is_available()
        and torch.backends.mps.is_available()
    ):
        return torch.device("mps")
    return resolve_device(device)


def check_module(model: Any, name: str = "model") -> nn.Module:
    """``model`` if it is a module, else TypeError."""
    if isinstance(model, type) and issubclass(model, nn.Module):
        raise TypeError(f"{name} must be an instance: {model.__name__}(...), not the class {model.__name__}")
    if not isinstance(model, nn.Module):
        raise TypeError(f"{name} must be a torch.nn.Module, but it is a {type(model).__name__}")
    return model


def device_of(model: nn.Module, *, parameters: bool = False) -> torch.device | None:
    """Where all parameters and buffers of ``model`` are; None if it has none.

    Args:
        model: any module.
        parameters: refuse a model without parameters.

    Raises:
        ValueError: they are on several devices; or there are no parameters, where some are asked for.
    """
    if parameters and next(model.parameters(), None) is None:
        raise ValueError(
            f"model has no parameters: {type(model).__name__} holds nothing to train or move; "
            "put it into a network, or move its inputs with device.move_tensors_to_device"
        )
    first: dict[torch.device, str] = {}
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        first.setdefault(tensor.device, name)
    if len(first) > 1:
        found = " and ".join(f"{where} ({name!r})" for where, name in first.items())
        raise ValueError(f"model is on mixed devices, {found}; move it to one first, with model.to(...)")
    return next(iter(first), None)


def check_together(model: nn.Module, x: Tensor, name: str = "x") -> None:
    """ValueError unless ``x`` is on the device of ``model``."""
    where = device_of(model)
    if where is not None and x.device != where:
        raise ValueError(
            f"model is on {where} and {name} on {x.device}; move one of them, for example with "
            "device.move_tensors_to_device"
        )
