"""Loss, metric and spike rate of updates, summed on the device to avoid synchronisation; NaN and infinity."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from snnkit import checks, loss as losses
from snnkit.engine import state_dtype
from snnkit.train.pairing import Pairing

ACCURACY = "accuracy"
_IGNORED = -100  # of PyTorch's cross-entropy, which a loss may call; never a class
MEASURED = 4  # of each update: loss, metric, mean output, regulariser


def aligned(targets: Tensor, out: Tensor) -> Tensor:
    """Targets as a loss takes them, for an output [T, B, ...]: those per time step [B, T, ...] become [T, B, ...].

    They are per time step if they have as many dimensions as the output (class labels, which have no axis of classes:
    one fewer). Floating-point targets come to the dtype of the output.
    """
    if targets.is_floating_point():
        targets = targets.to(out.dtype)
    if targets.ndim < 2 or targets.ndim != out.ndim - (not targets.is_floating_point()):
        return targets
    if targets.shape[1] != len(out):
        advice = "targets.argmax(1) makes labels of these" if targets.shape == out.shape[1:] else "labels are [B]"
        raise ValueError(
            f"targets per time step must be [B, T, ...] with T = {len(out)}, as the output is {list(out.shape)}, but "
            f"their shape is {list(targets.shape)}"
            + ("" if targets.is_floating_point() else f"; for each sample, {advice}, and numbers are floating point")
        )
    return targets.transpose(0, 1).contiguous()  # as some metrics view it


class Metric:
    """What is measured beside the loss: the share of right answers, or what the user gives.

    Args:
        given: a function (out, targets) -> number, a metric of torchmetrics, which gets (prediction, targets) with
            the output summed over time as prediction, or, for targets per time step, the output; None: the accuracy
            where targets are class labels, else nothing.
        device: of a metric of torchmetrics, of which a copy is used.
        loss: the accuracy is of the answer that it asks for: by largest sum, highest membrane or first spike; with the
            ``population_size`` and ``ignore_index`` of a ``functools.partial``.

    Attributes:
        name: "accuracy", or that of the function or class; None: nothing is measured.
        stateful: whether it is a metric of torchmetrics, which collects by itself.
    """

    def __init__(
        self, given: Callable[..., Any] | None, device: torch.device, loss: Callable[..., Any] | None = None
    ) -> None:
        self.stateful = all(hasattr(given, name) for name in ("update", "compute", "reset"))
        if self.stateful:
            checks.instance("metric", given, nn.Module, "a function (out, targets), or a metric of torchmetrics")
            given = copy.deepcopy(given).to(device)  # type: ignore[attr-defined]
        inner = getattr(given, "func", given)  # of a partial
        self.name: str | None
        name = str(getattr(inner, "__name__", type(inner).__name__)).replace("<lambda>", "metric")
        self.name = ACCURACY if given is None else name
        self.given = given
        self.loss = loss
        self._pairing = Pairing("metric")

    def __call__(self, out: Tensor, targets: Tensor) -> Tensor:
        """Of a batch: a scalar on the device of ``out`` [T, B, ...]; NaN if nothing is measured."""
        if self.given is None and (targets.is_floating_point() or out.ndim != 3):
            self.name = None  # no labels, or no output of classes [T, B, C]
        if self.name is None:
            return out.new_full((), math.nan)
        if self.given is None:
            # A batch of labels per time step is as many samples as it has labels.
            if targets.ndim > 1:
                out, targets = out.flatten(0, 1).unsqueeze(0), targets.flatten()
            ignored = _keywords(self.loss).get("ignore_index", _IGNORED)
            return losses.accuracy(class_scores(out, self.loss)[None], targets, ignore_index=ignored)
        with torch.no_grad():
            per_step = targets.shape[:2] == out.shape[:2] and targets.ndim >= out.ndim - 1
            with self._pairing(out, targets):
                value = self.given(out if per_step or not self.stateful else out.sum(0), targets)
        if not isinstance(value, Tensor):  # made on the device: a copy from the CPU would wait for it
            value = out.new_full((), checks.number("the result of metric", value))
        if value.numel() != 1:
            raise TypeError(f"the result of metric must be a single number, but its shape is {list(value.shape)}")
        return value.detach().reshape(()).to(out)

    def classes_of(self, out: Tensor) -> int | None:
        """How many classes the accuracy distinguishes, for an output [T, B, C]; None for another metric."""
        counts = self.given is None and self.name is not None
        return out.shape[-1] // _keywords(self.loss).get("population_size", 1) if counts else None

    def reset(self) -> None:
        """For the next epoch."""
        if self.stateful:
            self.given.reset()  # type: ignore[union-attr]

    def in_words(self, value: float) -> str:
        """For a progress bar."""
        return f"{value:.1%}" if self.name == ACCURACY else f"{value:.4g}"

    def of_epoch(self, mean: float) -> float:
        """The value of an epoch, given the mean over the samples of its batches; NaN if nothing is measured.

        Raises ValueError if it is not finite.
        """
        if self.name is None:
            return mean
        value = float(self.given.compute()) if self.stateful else mean  # type: ignore[union-attr]
        if not math.isfinite(value):
            raise ValueError(f"the result of metric ({self.name}) must be a finite number, but it is {value}")
        return value


def readout_of(loss: Callable[..., Any] | None) -> Literal["sum", "highest", "first"]:
    """What of an output over time the answer is that a loss asks for: the largest sum, highest value or first spike."""
    called = loss.func if isinstance(loss, partial) else loss
    if called in (losses.first_spike_cross_entropy, losses.first_spike_mse):
        return "first"
    return "highest" if called is losses.membrane_max_cross_entropy else "sum"


@torch.no_grad()
def class_scores(out: Tensor, loss: Callable[..., Any] | None) -> Tensor:
    """Scores [B, C] of an output [T, B, C P], of which the largest is the answer that a loss asks for (``readout_of``).

    They are sums over time, the highest values, or minus the steps of the first spikes. P is the ``population_size`` of
    a ``functools.partial``. If scores are equal, the lowest class is the answer.
    """
    readout = readout_of(loss)
    if readout == "first":
        return -losses.first_spike_times(out)
    by_class = losses.pooled(out.to(state_dtype(out)), _keywords(loss).get("population_size", 1))
    return by_class.amax(0) if readout == "highest" else by_class.sum(0)


def _keywords(loss: Callable[..., Any] | None) -> dict[str, Any]:
    return loss.keywords if isinstance(loss, partial) else {}


class MetricsSnapshot(NamedTuple):
    """The state of ``RunningMetrics`` on the host; the first four are means over samples."""

    loss: float
    metric: float
    rate: float
    regulariser: float
    samples: int
    updates: int  # made so far
    stopped: bool  # whether the loss of the next one was not finite
    last_loss: float  # of the latest update, or the one that is not finite


@dataclass(frozen=True)
class BatchInfo:
    """The argument of ``on_batch`` of ``fit``, after each update; epochs and batches count from 0.

    ``loss``, ``metric`` (of the name ``metric_name``) and ``output_rate`` (mean output per neuron and step), are means
    over the samples of the update; ``accuracy`` (a fraction) is the metric where it has that name, else NaN. The first
    use reads them from the device, and waits for an accelerator. ``output`` is valid until the next update.
    """

    epoch: int
    batch: int
    batches: int | None  #: updates per epoch; None before a loader without a length has ended
    samples: int  #: of this update
    metrics: Tensor  #: loss, metric, output rate and regulariser [4]
    output: Tensor  #: [T, B, ...] of the update's last batch, detached
    metric_name: str | None = ACCURACY

    @cached_property
    def _read(self) -> list[float]:
        return self.metrics.tolist()

    @property
    def loss(self) -> float:
        return self._read[0]

    @property
    def metric(self) -> float:
        return self._read[1]

    @property
    def accuracy(self) -> float:
        return self.metric if self.metric_name == ACCURACY else math.nan

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
        self.totals = torch.zeros(MEASURED + 1, dtype=dtype, device=device)  # of what is measured; samples
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
        """Add an update: the means of ``batch_metrics`` [4] over so many samples."""
        self.totals[:-1].add_(metrics, alpha=samples)
        self.totals[-1].add_(samples)
        self.updates.add_(1 - self.stop)

    def read(self) -> MetricsSnapshot:
        """Read everything in one transfer, after all work in the queue of the device."""
        tensors = torch.cat([self.totals, torch.stack([self.updates, self.stop, self.loss])])
        *measured, samples, updates, stop, last_loss = tensors.tolist()
        means = [total / max(samples, 1) for total in measured]
        loss, metric, rate, regulariser = means
        return MetricsSnapshot(loss, metric, rate, regulariser, int(samples), int(updates), bool(stop), last_loss)


def batch_metrics(
    loss: Tensor, out: Tensor, targets: Tensor, metric: Metric, regulariser: Tensor | None = None
) -> Tensor:
    """Loss, metric, mean output and regulariser (0 without one) of a batch, [4] on its device."""
    out = out.detach()
    values = [loss.detach(), metric(out, targets), out.mean(), regulariser]
    return torch.stack([loss.new_zeros(()) if value is None else value.detach().to(loss) for value in values])


def apply_loss(
    loss: Callable[[Tensor, Tensor], Tensor], out: Tensor, targets: Tensor, pairing: Pairing | None = None
) -> Tensor:
    """``loss(out, targets)`` of an output [T, B, ...] and ``aligned`` targets, a scalar.

    Raises:
        TypeError: it is a loss of PyTorch, which takes no time axis, and there is no target for each output; or its
            result is no scalar tensor.
        ValueError: PyTorch finds that sizes in it do not fit, as where a function gives all of ``out`` to such a loss;
            or ``pairing`` does.
    """
    called: Any = loss
    while isinstance(called, partial):
        called = called.func
    torchs = getattr(called, "__module__", None) in ("torch.nn.functional", "torch.nn.modules.loss")
    if torchs and targets.shape != out.shape:
        name = getattr(called, "__name__", type(called).__name__)
        raise TypeError(
            f"loss must take (out [T, B, C], targets [B, ...]), but PyTorch's {name} takes no time axis: "
            f"{_advice(targets)}"
        )
    try:
        with nullcontext() if pairing is None else pairing(out, targets):
            result = loss(out, targets)
    except (RuntimeError, ValueError) as error:
        if not re.search("(?i)batch.size|target size|size of tensor", str(error)):  # PyTorch's own words
            raise
        raise ValueError(
            f"loss must take (out [T, B, C] = {list(out.shape)}, targets [B, ...] = {list(targets.shape)}), but it "
            f"raised {error!r}: {_advice(targets)}"
        ) from error
    return scalar("the result of loss", result)


def _advice(targets: Tensor) -> str:
    if targets.is_floating_point():
        return (
            "use snnkit.loss.membrane_mse, or take the mean over time first: lambda out, y: F.mse_loss(out.mean(0), y)"
        )
    return "use snnkit.loss.rate_cross_entropy, or sum over time first: lambda out, y: F.cross_entropy(out.sum(0), y)"


def scalar(name: str, result: Any) -> Tensor:
    """``result``, if it is a scalar tensor; else TypeError."""
    if not isinstance(result, Tensor) or result.ndim:
        kind = f"shape {list(result.shape)}" if isinstance(result, Tensor) else type(result).__name__
        raise TypeError(f"{name} must be a scalar tensor, but it is of {kind}")
    return result


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
