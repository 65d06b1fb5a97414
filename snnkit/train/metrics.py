"""Running loss, accuracy and spike rate, accumulated on the device to avoid synchronisation; NaN and infinity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from snnkit.device import Precision
from snnkit.loss import accuracy


class MetricsSnapshot(NamedTuple):
    """The state of ``RunningMetrics`` on the host.

    Attributes:
        loss, accuracy, rate: means over samples.
        updates: made so far; if ``stopped``, the loss of the next one was not finite.
        stopped: whether a loss was not finite.
        last_loss: of the latest update, or the one that is not finite.
    """

    loss: float
    accuracy: float
    rate: float
    updates: int
    stopped: bool
    last_loss: float


class RunningMetrics:
    """Sums over samples, and a flag that stays set once a loss was not finite.

    All of it is tensors that are changed in place, so that a CUDA graph can contain the changes; only ``read`` waits.
    The ``totals`` of several ranks may be added.

    Args:
        device: of the model.
    """

    def __init__(self, device: torch.device) -> None:
        # In float64, as an epoch has many samples; MPS has none.
        dtype = torch.float32 if device.type == "mps" else torch.float64
        self.totals = torch.zeros(4, dtype=dtype, device=device)  # of loss, accuracy, output rate; samples
        self.updates = torch.zeros((), dtype=dtype, device=device)  # before the flag was set
        self.stop = torch.zeros((), device=device)  # the flag: 0 or 1, as optimizers take it (``found_inf``)
        self.loss = torch.zeros((), device=device)  # the latest, or the one that set the flag

    def reset(self) -> None:
        """For the next epoch."""
        self.totals.zero_()
        self.updates.zero_()

    def watch(self, loss: Tensor) -> None:
        """Inspect the loss of a batch before its backward pass."""
        loss = loss.detach()
        self.loss.copy_(torch.where(self.stop > 0, self.loss, loss.to(self.loss.dtype)))
        self.stop.copy_(torch.maximum(self.stop, (~loss.isfinite()).to(self.stop.dtype)))

    def add(self, figures: Tensor, samples: int) -> None:
        """Add an update: mean loss, accuracy and output rate [3] over so many samples."""
        self.totals[:3].add_(figures, alpha=samples)
        self.totals[3].add_(samples)
        self.updates.add_(1 - self.stop)

    def read(self) -> MetricsSnapshot:
        """One transfer of everything, after all work that is queued on the device."""
        tensors = torch.cat([self.totals, torch.stack([self.updates, self.stop, self.loss])])
        loss, accuracy, rate, samples, updates, stop, last_loss = tensors.tolist()
        n = max(samples, 1)
        return MetricsSnapshot(loss / n, accuracy / n, rate / n, int(updates), bool(stop), last_loss)


def batch_metrics(loss: Tensor, out: Tensor, labels: Tensor) -> Tensor:
    """Loss, accuracy and mean output of a batch, [3] on its device. TypeError for a loss that is no scalar tensor."""
    check_loss(loss)
    return torch.stack([loss.detach(), accuracy(out, labels), out.detach().mean()])


def check_loss(loss: Tensor) -> None:
    if not isinstance(loss, Tensor) or loss.ndim:
        result = f"shape {list(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        raise TypeError(f"the result of loss must be a scalar tensor, but it is of {result}")


class BatchNormStatistics:
    """The running statistics of a model's batch norms, which a forward pass changes before its loss is known.

    On a CPU, where every loss is inspected, they are saved before each update and restored after a failed one. On an
    accelerator, where it is noticed later, they can't be restored, and ``recover`` says so.
    """

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self.named = {
            f"{name}.{buffer}" if name else buffer: tensor
            for name, module in model.named_modules()
            if isinstance(module, _NormBase)
            for buffer, tensor in module.named_buffers(recurse=False)
        }
        self.on_cpu = device.type == "cpu"
        self.saved: list[Tensor] = []

    def save(self) -> None:
        if self.on_cpu:
            self.saved = [tensor.clone() for tensor in self.named.values()]

    def recover(self) -> str:
        """Restore what was saved. Returns the end of an error message: which are not finite now, or nothing."""
        for tensor, saved in zip(self.named.values(), self.saved, strict=False):
            tensor.copy_(saved)
        if not (spoilt := not_finite(self.named)):
            return ""
        return (
            f". Running statistics of batch norms hold NaN or infinity now ({_listed(spoilt)}): begin with a new "
            "model, or resume from a checkpoint"
        )


def not_finite(tensors: Mapping[str, Tensor]) -> list[str]:
    """Names of the tensors that hold NaN or infinity; a single synchronisation for all of them."""
    if not tensors:
        return []
    sound = torch.stack([tensor.detach().isfinite().all() for tensor in tensors.values()]).tolist()
    return [name for name, finite in zip(tensors, sound, strict=True) if not finite]


def check_weights(model: nn.Module, epoch: int, saved: bool) -> None:
    """FloatingPointError if a trained weight is not finite, although every loss was.

    A gradient can be NaN where the loss is not (the root of 0), and spiking neurons that receive NaN are merely silent.
    ``saved``: whether there is a checkpoint.
    """
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not (weights := not_finite(trained)):
        return
    gradients = not_finite({name: p.grad for name, p in trained.items() if p.grad is not None})
    source = f"the gradient of {_listed(gradients)}" if gradients else "a gradient in an earlier update"
    advice = "the checkpoint is still that of the epoch before, if there was one" if saved else "begin with a new model"
    raise FloatingPointError(
        f"every loss of epoch {epoch + 1} was finite, but these weights hold NaN or infinity after it: "
        f"{_listed(weights)}. What was not finite is {source}; {advice}. Check the derivatives in loss, model and "
        "surrogate, try a lower lr, or set clip"
    )


def loss_not_finite(
    value: float, epoch: int, batch: int, per_epoch: int, optimizer: torch.optim.Optimizer, precision: Precision
) -> str:
    """The error message for a loss that stopped a run."""
    rates = ", ".join(f"{float(group['lr']):g}" for group in optimizer.param_groups)
    half = "" if precision.dtype is None else f"; amp=False (this was {precision.dtype})"
    return (
        f"the loss is {value} in epoch {epoch + 1}, batch {batch + 1} of {per_epoch}; the weights are as they "
        f"were before this batch. Try a lower lr (it is {rates}){half}; and look for NaN or infinity in the data and "
        "in what encode returns"
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
