"""A model on the fastest device of this machine, in a precision that suits it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from snnkit import checks
from snnkit.data import resolve_device
from snnkit.device.batch_processing import batch_process, check_batch_size
from snnkit.device.optimize import MemoryReport, optimize_memory_usage
from snnkit.device.placement import Precision, device_of, move_tensors_to_device

PRECISIONS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Accelerated:
    """A model with its device and precision. Call it like the model: it moves inputs, and uses autocast if that was
    chosen."""

    model: nn.Module  #: the same object that was given, moved in place
    device: torch.device
    precision: str  #: "fp32", "bf16" or "fp16", that of convolutions and linear layers; weights stay float32
    channels_last: bool  #: whether the weights of 2-D convolutions are in that memory format
    batch_size: int | str  #: for ``process``
    memory: MemoryReport | None  #: what ``optimize_memory`` did
    reasons: tuple[str, ...] = field(repr=False)  #: a sentence for each choice

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = move_tensors_to_device((args, kwargs), self.device)
        with self.autocast():
            return self.model(*args, **kwargs)

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """A context for your own training loop: run forward inside it, loss and backward outside."""
        return Precision(self.device, PRECISIONS[self.precision]).autocast()

    def scaler(self) -> torch.amp.GradScaler:
        """Scales the loss if float16 is used; otherwise it does nothing."""
        return Precision(self.device, PRECISIONS[self.precision]).scaler()

    @checks.arguments
    def process(self, inputs: Tensor, fn: Callable[[nn.Module, Tensor], Any] | None = None, **options: Any) -> Any:
        """``batch_process`` in this precision, with this batch size."""

        def run(model: nn.Module, batch: Any) -> Any:
            with self.autocast():
                return model(batch) if fn is None else fn(model, batch)

        return batch_process(self.model, inputs, run, **{"batch_size": self.batch_size, **options})


@checks.arguments
def accelerate(
    model: nn.Module,
    device: str | torch.device = "auto",
    optimize_memory: bool = False,
    batch_size: int | str | None = None,
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto",
) -> Accelerated:
    """Put ``model`` on a device, in place, and choose how to run it there::

        fast = device.accelerate(net)
        out, state = fast(x)                    # x is moved, autocast is on if that pays
        train.fit(net, …, device=fast.device)   # net is the same model, moved

    Args:
        model: a network with parameters, all of them on one device.
        device: "auto" (CUDA, else CPU), or PyTorch's name of a device.
        optimize_memory: also ``optimize_memory_usage(model)``.
        batch_size: of ``process``; None or "auto": as much as fits.
        precision: "fp32", "bf16", "fp16", or "auto": bf16 on CUDA chips that compute in it, fp16 on other CUDA chips,
            fp32 elsewhere.
    """
    device_of(model, parameters=True)
    batch_size = check_batch_size("auto" if batch_size is None else batch_size)
    where = resolve_device(device)
    chosen, why = _precision(precision, where)
    model.to(where)
    convolutions = any(isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)) for m in model.modules())
    channels_last = convolutions and where.type in ("cpu", "cuda")
    layout = "weights keep their layout: " + ("unknown on this device" if convolutions else "no 2-D convolutions")
    if channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        layout = "channels-last: convolutions and pooling are faster in it"
    memory = optimize_memory_usage(model) if optimize_memory else None
    why_there = "requested" if device != "auto" else "the fastest device that PyTorch sees here"
    reasons = (f"{where}: {why_there}", f"{chosen}: {why}", layout)
    return Accelerated(model, where, chosen, channels_last, batch_size, memory, reasons)


setup_gpu_acceleration = accelerate  # the name that earlier toolkits gave it


def _precision(precision: str, device: torch.device) -> tuple[str, str]:
    """("fp32" | "bf16" | "fp16", why)."""
    if precision != "auto":
        return precision, "requested"
    if device.type != "cuda":
        return "fp32", f"bf16 is faster only on a {device.type} with instructions for it; ask by precision='bf16'"
    if Precision.choose(device, amp=True).dtype == torch.float16:
        return "fp16", "this GPU has no bfloat16 units; scale the loss (scaler())"
    return "bf16", "this GPU computes in it, and it has the range of float32"
