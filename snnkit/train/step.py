"""One update of the weights: gather samples, augment, encode, forward, loss, backward, optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from snnkit.data import to_unit
from snnkit.device.precision import Precision
from snnkit.train.ledger import Ledger, figures_of, step_unless

Function = Callable[[Tensor], Tensor]


class NotFinite(Exception):
    """A loss that is not a finite number; the weights are as they were. ``args``: (the loss,)."""


class Result(NamedTuple):
    """What an update gives, on the device.

    Attributes:
        figures: mean loss, accuracy and output rate of its samples [3].
        out: output of its last batch [T, B, ...], detached.
    """

    figures: Tensor
    out: Tensor


@dataclass(frozen=True)
class Task:
    """What is trained on what, and how; the arguments of ``fit`` that a step needs."""

    model: nn.Module
    samples: Tensor  # [N, ...] on the device
    labels: Tensor  # int64 [N]
    encode: Function
    loss: Callable[[Tensor, Tensor], Tensor]
    optimizer: torch.optim.Optimizer
    precision: Precision
    batch_size: int
    augment: Function | None = None
    clip: float | None = None
    channels_last: bool = False


class PlainStep:
    """Runs an update, operation by operation: ``step(rows)`` with the indices of its samples, int64 [n] on the device.

    More rows than a batch are taken batch by batch, and their gradients are those of the mean loss over all of them.

    On a CPU a loss that is not finite raises ``NotFinite`` before anything is learned from it. Elsewhere a look at the
    loss would wait for the device: there the ledger's flag goes up, and from then on no step changes the weights.

    Args:
        task: what to do.
        ledger: where sums are kept.
        scaler: of ``task.precision``.
        forward: in place of ``task.model`` for batches of full size, such as a compiled one.
    """

    def __init__(
        self,
        task: Task,
        ledger: Ledger,
        scaler: torch.amp.GradScaler,
        forward: Callable | None = None,
    ) -> None:
        self.task, self.ledger, self.scaler = task, ledger, scaler
        self.forward = forward or task.model
        self.looks = task.samples.device.type == "cpu"
        self.weights = [p for group in task.optimizer.param_groups for p in group["params"]]

    def __call__(self, rows: Tensor) -> Result:
        task = self.task
        task.optimizer.zero_grad(set_to_none=True)
        shares, outs = zip(
            *(self._gradients(part, len(part) / len(rows)) for part in rows.split(task.batch_size)), strict=True
        )
        figures = torch.stack(shares).sum(0)
        self._update()
        self.ledger.add(figures, len(rows))
        return Result(figures, outs[-1])

    def _gradients(self, rows: Tensor, share: float) -> tuple[Tensor, Tensor]:
        """Add ``share`` of the gradients of a batch; its figures, times ``share``, and its output."""
        task = self.task
        x, y = task.samples[rows], task.labels[rows]
        if x.dtype == torch.uint8:
            x = to_unit(x)
        if task.augment is not None:
            x = task.augment(x)
        if task.channels_last and x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        forward = self.forward if len(rows) == task.batch_size else task.model
        with task.precision.autocast():
            out = run_model(forward, task.model, task.encode, x)
        loss = task.loss(out, y)
        figures = figures_of(loss, out, y)
        if not loss.requires_grad:
            raise ValueError(
                "loss must return a tensor that depends on the model's parameters, but no gradient leads back "
                "to them: is something detached, or computed under torch.no_grad()?"
            )
        self.ledger.watch(loss)
        if self.looks and self.ledger.stop:
            raise NotFinite(loss.item())
        loss = self.scaler.scale(loss * share)
        if self.scaler.is_enabled() and not self.looks:
            # Its own test for infinite gradients holds the optimizer back, from now on in every step.
            loss = loss * torch.where(self.ledger.stop > 0, math.inf, 1.0)
        loss.backward()
        return figures * share, out.detach()

    def _update(self) -> None:
        optimizer, scaler = self.task.optimizer, self.scaler
        if self.task.clip is not None:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(self.weights, self.task.clip)
        if self.looks or scaler.is_enabled():
            scaler.step(optimizer)
            scaler.update()
        else:
            step_unless(self.ledger.stop, optimizer)


def run_model(forward: Callable, model: nn.Module, encode: Function, x: Tensor) -> Tensor:
    """The output `[T, B, ...]` of `forward` (`model`, or that compiled) for samples `[B, ...]`.

    In float32 at least, so that the loss is too.
    """
    sequence = encode(x)
    if not isinstance(sequence, Tensor) or sequence.ndim < 2 or sequence.shape[1] != len(x):
        got = list(sequence.shape) if isinstance(sequence, Tensor) else type(sequence).__name__
        raise ValueError(f"encode must return a sequence [T, B, ...] with B = {len(x)}; got {got}")
    try:
        result = forward(sequence)
    except RuntimeError as error:
        dtypes = {p.dtype for p in model.parameters() if p.is_floating_point()}
        if sequence.dtype in dtypes or not dtypes or torch.is_autocast_enabled(sequence.device.type):
            raise
        raise TypeError(
            f"the samples reach the model as {sequence.dtype}, its parameters are {', '.join(map(str, dtypes))}: "
            f"convert the samples of the data (or what encode returns), or the model; it said: {error}"
        ) from error
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Tensor)):
        raise TypeError(
            f"the model must return (out, state), as snnkit.nn.Sequential does; got {type(result).__name__}"
        )
    out = result[0]
    return out.float() if out.dtype in (torch.float16, torch.bfloat16) else out
