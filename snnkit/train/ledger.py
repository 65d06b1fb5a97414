"""What a run has come to, kept on the device so that nobody waits for it, and a brake for losses without a value."""

from __future__ import annotations

import torch
from torch import Tensor

from snnkit.loss import accuracy


class Ledger:
    """Sums over samples, and a flag that stays up once a loss was not finite.

    All of it is tensors that are changed in place, so that a CUDA graph may hold the changes; ``read`` is what waits.

    Args:
        device: of the model.
    """

    def __init__(self, device: torch.device) -> None:
        # In float64, as an epoch has many samples; MPS has none.
        dtype = torch.float32 if device.type == "mps" else torch.float64
        self.sums = torch.zeros(3, dtype=dtype, device=device)  # loss, accuracy, output rate
        self.samples = torch.zeros((), dtype=dtype, device=device)
        self.updates = torch.zeros((), dtype=dtype, device=device)  # before the flag went up
        self.stop = torch.zeros((), device=device)  # the flag: 0 or 1, as optimizers take it (``found_inf``)
        self.loss = torch.zeros((), device=device)  # the latest, or the one that raised the flag

    def reset(self) -> None:
        """For the next epoch."""
        for tensor in (self.sums, self.samples, self.updates):
            tensor.zero_()

    def watch(self, loss: Tensor) -> None:
        """Look at the loss of a batch, before anything is learned from it."""
        loss = loss.detach()
        self.loss.copy_(torch.where(self.stop > 0, self.loss, loss.to(self.loss.dtype)))
        self.stop.copy_(torch.maximum(self.stop, (~loss.isfinite()).to(self.stop.dtype)))

    def add(self, figures: Tensor, samples: int) -> None:
        """Add an update: its mean loss, accuracy and output rate [3], and how many samples they are of."""
        self.sums.add_(figures, alpha=samples)
        self.samples.add_(samples)
        self.updates.add_(1 - self.stop)

    def read(self) -> Reading:
        """All of it in one transfer, after everything that the device still has to do."""
        every = torch.cat([self.sums, torch.stack([self.samples, self.updates, self.stop, self.loss])])
        loss, correct, rate, samples, updates, stop, last = every.tolist()
        return Reading([loss, correct, rate], samples, int(updates), bool(stop), last)


class Reading:
    """A look into a ledger.

    Attributes:
        updates: that were made; the next one's loss was not finite, if ``stopped``.
        loss: of the latest update, or the one that is not finite.
    """

    def __init__(self, sums: list[float], samples: float, updates: int, stopped: bool, loss: float) -> None:
        self._sums, self._samples = sums, samples
        self.updates, self.stopped, self.loss = updates, stopped, loss

    @property
    def means(self) -> list[float]:
        """Loss, accuracy and output rate per sample."""
        return [total / max(self._samples, 1) for total in self._sums]


def figures_of(loss: Tensor, out: Tensor, labels: Tensor) -> Tensor:
    """Loss, accuracy and mean output of a batch, [3] on its device. TypeError for a loss that is no scalar tensor."""
    if not isinstance(loss, Tensor) or loss.ndim:
        got = list(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        raise TypeError(f"loss must return a scalar tensor; got {got}")
    return torch.stack([loss.detach(), accuracy(out, labels), out.detach().mean()])


def step_unless(stop: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """``optimizer.step()``, after which the weights are as before where ``stop`` is 1. Decided on the device.

    Fused optimizers (``fused=True``) take the flag and change nothing, as they do for a ``GradScaler``; for others the
    weights are copied before and put back.
    """
    if getattr(optimizer, "_step_supports_amp_scaling", False):
        optimizer.found_inf = stop  # type: ignore[attr-defined]
        try:
            optimizer.step()
        finally:
            del optimizer.found_inf  # type: ignore[attr-defined]
        return
    weights = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    with torch.no_grad():
        before = [p.clone() for p in weights]
        optimizer.step()
        stopped = stop > 0
        for p, old in zip(weights, before, strict=True):
            p.copy_(torch.where(stopped, old, p))
