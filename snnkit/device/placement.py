"""The device of a model, the devices it could use, and its precision."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .. import checks
from ..data import resolve_device


@dataclass(frozen=True)
class Precision:
    """How to run the forward pass on a device: ``dtype`` None is plain float32, else autocast to that dtype."""

    device: torch.device
    dtype: torch.dtype | None

    @classmethod
    def choose(cls, device: torch.device, amp: bool) -> Precision:
        """bfloat16 on CPUs and on GPUs that compute in it; float16 on older GPUs."""
        if not checks.flag("amp", amp):
            return cls(device, None)
        if device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
            return cls(device, torch.float16)
        return cls(device, torch.bfloat16)

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        if self.dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)

    def scaler(self) -> torch.amp.GradScaler:
        """Scales the loss so that gradients do not vanish in float16's narrow range; with other dtypes it does
        nothing."""
        return torch.amp.GradScaler(self.device.type, enabled=self.dtype == torch.float16)


def choose_device(device: str | torch.device = "auto") -> torch.device:
    """As ``data.resolve_device``, but without CUDA "auto" also takes Apple's GPU (MPS) if there is one.

    Raises ValueError for a device that PyTorch does not know or can't use here.
    """
    if str(device) == "auto" and not torch.cuda.is_available() and torch.backends.mps.is_available():
        return torch.device("mps")
    return resolve_device(device)


def device_of(model: nn.Module, *, parameters: bool = False) -> torch.device | None:
    """The device of all parameters and buffers of ``model``; None if it has none, which ``parameters`` refuses."""
    if parameters and next(model.parameters(), None) is None:
        raise ValueError(
            f"model has no parameters: {type(model).__name__} holds nothing to train or move; "
            "put it into a network, or move its inputs with device.move_tensors_to_device"
        )
    first: dict[torch.device, str] = {}
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        first.setdefault(tensor.device, name)
    if len(first) > 1:
        places = " and ".join(f"{where} ({name!r})" for where, name in first.items())
        raise ValueError(f"model is on mixed devices, {places}; move it to one first, with model.to(...)")
    return next(iter(first), None)


def check_together(model: nn.Module, x: Tensor, name: str = "x") -> None:
    """Raise ValueError unless ``x`` is on the device of ``model``."""
    where = device_of(model)
    if where is not None and x.device != where:
        raise ValueError(
            f"model is on {where} and {name} on {x.device}; move one of them, for example with "
            "device.move_tensors_to_device"
        )
