"""What is no finite number: found, told, and kept out of what a run leaves behind."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from snnkit.device.precision import Precision


class RunningStatistics:
    """Those of a model's batch norms. A forward pass changes them before its loss can be looked at.

    On a CPU, where every loss is, ``note`` before an update and ``put_back`` after one that failed leave them as they
    were. On an accelerator, where it is noticed later, there is nothing to go back to, and ``told`` says so.
    """

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self.named = {
            f"{name}.{buffer}" if name else buffer: tensor
            for name, module in model.named_modules()
            if isinstance(module, _NormBase)
            for buffer, tensor in module.named_buffers(recurse=False)
        }
        self.looks = device.type == "cpu"
        self.noted: list[Tensor] = []

    def note(self) -> None:
        if self.looks:
            self.noted = [tensor.clone() for tensor in self.named.values()]

    def put_back(self) -> None:
        for tensor, noted in zip(self.named.values(), self.noted, strict=True):
            tensor.copy_(noted)

    def told(self) -> str:
        """Which of them are spoilt, as a sentence for the end of a message; empty where none is."""
        spoilt = not_finite(self.named)
        if not spoilt:
            return ""
        return (
            f". Running statistics of batch norms hold NaN or infinity now ({_listed(spoilt)}): begin with a new "
            "model, or go on from a checkpoint"
        )


def check_weights(model: nn.Module, epoch: int, kept: bool) -> None:
    """FloatingPointError where a weight that is trained is no finite number, although every loss was one.

    A gradient can be NaN where the loss is not (the root of 0), and spiking neurons that get NaN are merely silent.
    """
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    weights = not_finite(trained)
    if not weights:
        return
    gradients = not_finite({name: p.grad for name, p in trained.items() if p.grad is not None})
    found = f"the gradient of {_listed(gradients)}" if gradients else "a gradient in an earlier update"
    advice = "the checkpoint is still that of the epoch before, if there was one" if kept else "begin with a new model"
    raise FloatingPointError(
        f"every loss of epoch {epoch + 1} was finite, but these weights hold NaN or infinity after it: "
        f"{_listed(weights)}. What was not finite is {found}; {advice}. Look at the derivatives in loss, model and "
        "surrogate, try a lower lr, or set clip"
    )


def not_finite(tensors: Mapping[str, Tensor]) -> list[str]:
    """Names of the tensors in which a number is NaN or infinite; one look at the device for all of them."""
    if not tensors:
        return []
    sound = torch.stack([tensor.detach().isfinite().all() for tensor in tensors.values()]).tolist()
    return [name for name, finite in zip(tensors, sound, strict=True) if not finite]


def loss_not_finite(
    value: float, epoch: int, batch: int, per_epoch: int, optimizer: torch.optim.Optimizer, precision: Precision
) -> str:
    """What to say of a loss that stopped a run."""
    rates = ", ".join(f"{float(group['lr']):g}" for group in optimizer.param_groups)
    half = "" if precision.dtype is None else f"; amp=False (this was {precision.dtype})"
    return (
        f"the loss is {value} in epoch {epoch + 1}, batch {batch + 1} of {per_epoch}; the weights are as they "
        f"were before this batch. Try a lower lr (it is {rates}){half}; and look for NaN or infinity in the data and "
        "in what encode returns"
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
