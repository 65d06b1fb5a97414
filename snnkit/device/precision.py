"""Mixed precision: which number format a device is good at, and what training in it needs."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Precision:
    """How to run the forward pass on a device: `dtype` None is plain float32, else autocast to that dtype."""

    device: torch.device
    dtype: torch.dtype | None

    @classmethod
    def choose(cls, device: torch.device, amp: bool) -> Precision:
        """bfloat16 on CPUs and on GPUs that compute in it; float16 on older GPUs."""
        if not amp:
            return cls(device, None)
        if device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
            return cls(device, torch.float16)
        return cls(device, torch.bfloat16)

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        if self.dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)

    def scaler(self) -> torch.amp.GradScaler:
        """Scales the loss where gradients would vanish in float16's narrow range; elsewhere it does nothing."""
        return torch.amp.GradScaler(self.device.type, enabled=self.dtype == torch.float16)
