"""Running loss, accuracy and spike rate, summed on the device to avoid synchronisation; NaN and infinity."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from snnkit.loss import accuracy


class MetricsSnapshot(NamedTuple):
    """The state of ``RunningMetrics`` on the host; loss, accuracy and rate are means over samples."""

    loss: float
    accuracy: float
    rate: float
    updates: int  # made so far
    stopped: bool  # whether the loss of the next one was not finite
    last_loss: float  # of the latest update, or the one that is not finite


@dataclass(frozen=True)
class BatchInfo:
    """The argument of ``on_batch`` of ``fit``, after each update; epochs and batches count from 0.

    ``loss``, ``accuracy`` (a fraction) and ``output_rate`` (mean output per neuron and step), are means over the
    samples of the update. The first use reads them from the device, and waits for an accelerator. ``output`` is valid
    until the next update.
    """

    epoch: int
    batch: int
    batches: int  #: updates per epoch
    samples: int  #: of this update
    metrics: Tensor  #: loss, accuracy and output rate [3]
    output: Tensor  #: [T, B, ...] of the update's last batch, detached

    @cached_property
    def _read(self) -> list[float]:
        return self.metrics.tolist()

    @property
    def loss(self) -> float:
        return self._read[0]

    @property
    def accuracy(self) -> float:
        return self._read[1]

    @property
    def output_rate(self) -> float:
        return self._read[2]


class RunningMetrics:
    """Sums over samples, and a flag that stays set after a loss that was not finite.

    They are tensors that change in place, so that a CUDA graph can contain the changes. Only ``read`` waits.
    The ``totals`` of several ranks may be added.
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

    def add(self, metrics: Tensor, samples: int) -> None:
        """Add an update: mean loss, accuracy and output rate [3] over so many samples."""
        self.totals[:3].add_(metrics, alpha=samples)
        self.totals[3].add_(samples)
        self.updates.add_(1 - self.stop)

    def read(self) -> MetricsSnapshot:
        """Read everything in one transfer, after all work in the queue of the device."""
        tensors = torch.cat([self.totals, torch.stack([self.updates, self.stop, self.loss])])
        loss, accuracy, rate, samples, updates, stop, last_loss = tensors.tolist()
        n = max(samples, 1)
        return MetricsSnapshot(loss / n, accuracy / n, rate / n, int(updates), bool(stop), last_loss)


def apply_loss(loss: Callable[[Tensor, Tensor], Tensor], out: Tensor, labels: Tensor) -> Tensor:
    """``loss(out, labels)`` of an output [T, B, C], a scalar.

    Raises:
        TypeError: it is a loss of PyTorch, which takes no time axis; or its result is no scalar tensor.
        ValueError: PyTorch finds that sizes in it do not fit, as where a function gives all of ``out`` to such a loss.
    """
    called: Any = loss
    while isinstance(called, partial):
        called = called.func
    advice = "use snnkit.loss.rate_cross_entropy, or sum over time first: lambda out, y: F.cross_entropy(out.sum(0), y)"
    if getattr(called, "__module__", None) in ("torch.nn.functional", "torch.nn.modules.loss"):
        name = getattr(called, "__name__", type(called).__name__)
        raise TypeError(f"loss must take (out [T, B, C], labels [B]), but PyTorch's {name} takes no time axis: {advice}")
    try:
        result = loss(out, labels)
    except (RuntimeError, ValueError) as error:
        if not re.search("(?i)batch.size|target size|size of tensor", str(error)):  # PyTorch's own words
            raise
        raise ValueError(
            f"loss must take (out [T, B, C] = {list(out.shape)}, labels [B] = {list(labels.shape)}), but it raised "
            f"{error!r}: {advice}"
        ) from error
    if not isinstance(result, Tensor) or result.ndim:
        kind = f"shape {list(result.shape)}" if isinstance(result, Tensor) else type(result).__name__
        raise TypeError(f"the result of loss must be a scalar tensor, but it is of {kind}")
    return result


def batch_metrics(loss: Tensor, out: Tensor, labels: Tensor) -> Tensor:
    """Loss, accuracy and mean output of a batch, [3] on its device."""
    return torch.stack([loss.detach(), accuracy(out, labels), out.detach().mean()])


def not_finite(tensors: Mapping[str, Tensor]) -> list[str]:
    """Names of the tensors that hold NaN or infinity; a single synchronisation for all of them."""
    if not tensors:
        return []
    sound = torch.stack([tensor.detach().isfinite().all() for tensor in tensors.values()]).tolist()
    return [name for name, finite in zip(tensors, sound, strict=True) if not finite]


def check_weights(model: nn.Module, epoch: int) -> None:
    """Raise FloatingPointError if a trained weight is not finite, although every loss was.

    A gradient can be NaN while the loss is not (the root of 0), and spiking neurons that receive NaN are only silent.
    """
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not (weights := not_finite(trained)):
        return
    gradients = not_finite({name: p.grad for name, p in trained.items() if p.grad is not None})
    source = f"the gradient of {_listed(gradients)}" if gradients else "a gradient in an earlier update"
    raise FloatingPointError(
        f"every loss of epoch {epoch + 1} was finite, but these weights hold NaN or infinity after it: "
        f"{_listed(weights)}. What was not finite is {source}; begin with a new model, or resume from a checkpoint. "
        "Check the derivatives in loss, model and surrogate, try a lower lr, or set clip"
    )


def loss_not_finite(model: nn.Module, value: float, where: str, optimizer: torch.optim.Optimizer) -> FloatingPointError:
    """The error for a loss that stopped a run; ``where`` says in which batch."""
    rates = ", ".join(f"{float(group['lr']):g}" for group in optimizer.param_groups)
    spoilt = not_finite(dict(model.named_buffers()))  # a forward pass changes them before its loss is known
    hint = f". These buffers hold NaN or infinity now, so begin with a new model: {_listed(spoilt)}" if spoilt else ""
    return FloatingPointError(
        f"the loss is {value} in {where}; the weights are as they were before this batch. Try a lower lr (it is "
        f"{rates}) or float32, and look for NaN or infinity in the data and in what encode returns{hint}"
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
