"""One update of the weights: gather samples, augment, encode, forward, loss, backward, optimizer."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from snnkit import checks
from snnkit.data import to_unit
from snnkit.device import Precision
from snnkit.device.usage import evaluating
from snnkit.engine import secure_inductor
from snnkit.event_lists import EventList
from snnkit.recording import Activity, neurons_of, recording
from snnkit.train.batches import Batch, Samples, Source, as_sequence
from snnkit.train.metrics import Metric, RunningMetrics, aligned, apply_loss, batch_metrics, scalar
from snnkit.train.pairing import Pairing
from snnkit.train.seeding import generators_restored

Function = Callable[[Any], Tensor]
Regulariser = Callable[[Activity], Tensor]


class Update(NamedTuple):
    """The result of an update, on the device."""

    metrics: Tensor  # means over its samples, as of ``batch_metrics`` [4]
    out: Tensor  # output of its last batch [T, B, ...], detached


@dataclass(frozen=True)
class UpdateConfig:
    """The arguments of ``fit`` that a step needs."""

    model: nn.Module
    data: Source
    encode: Function | None
    loss: Callable[[Tensor, Tensor], Tensor]
    optimizer: torch.optim.Optimizer
    precision: Precision
    metric: Metric
    augment: Function | None = None
    clip: float | None = None
    channels_last: bool = False
    regulariser: Regulariser | None = None
    record_states: bool = False


class PlainStep:
    """Runs an update, operation by operation: ``step(update)`` with one that the data give in an epoch.

    It is processed batch by batch; the gradients are those of the mean loss over all of its samples.

    After a loss that is not finite no step changes the weights. On a CPU the step ends right there; elsewhere looking
    at the loss would wait for the device, so it sets the flag of the metrics, which holds the optimizer back.
    ``forward`` runs instead of ``config.model``, such as a compiled one.
    """

    def __init__(
        self,
        config: UpdateConfig,
        metrics: RunningMetrics,
        scaler: torch.amp.GradScaler,
        forward: Callable | None = None,
    ) -> None:
        self.config, self.metrics, self.scaler = config, metrics, scaler
        self.forward = forward or config.model
        self.on_cpu = config.precision.device.type == "cpu"
        self.pairing = Pairing("loss")
        self.weights = [p for group in config.optimizer.param_groups for p in group["params"]]

    def __call__(self, update: Any) -> Update:
        optimizer, scaler, clip, data = self.config.optimizer, self.scaler, self.config.clip, self.config.data
        optimizer.zero_grad(set_to_none=True)
        metrics: Any = 0.0
        samples = data.size(update)
        for batch in data.batches(update):
            share = len(batch[1]) / samples
            loss, part_metrics, out = self._forward(batch)
            metrics = metrics + part_metrics * share
            if self.on_cpu and self.metrics.stop:
                return Update(metrics, out)
            scaled = scaler.scale(loss * share)
            if scaler.is_enabled() and not self.on_cpu:
                # The scaler's own test for infinite gradients then holds the optimizer back in every further step.
                scaled = scaled * torch.where(self.metrics.stop > 0, math.inf, 1.0)
            scaled.backward()
        if clip is not None:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(self.weights, clip)
        if self.on_cpu or scaler.is_enabled():
            scaler.step(optimizer)
            scaler.update()
        else:
            step_unless(self.metrics.stop, optimizer)
        self.metrics.add(metrics, samples)
        return Update(metrics, out)

    def _forward(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """What is minimised (the loss and the regulariser), metrics and output of a batch."""
        config = self.config
        x = augmented(config.augment, prepared(batch[0]))
        if config.channels_last and x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)

        def run() -> Tensor:
            with config.precision.autocast():
                return run_model(self.forward, config.model, config.encode, x)

        out, penalty = run_regularised(run, config.model, config.regulariser, config.record_states)
        targets = aligned(batch[1], out)
        loss = apply_loss(config.loss, out, targets, self.pairing)
        metrics = batch_metrics(loss, out, targets, config.metric, penalty)
        loss = loss if penalty is None else loss + penalty
        if not loss.requires_grad:
            raise ValueError(
                "the result of loss must depend on the model's parameters, but no gradient leads back to them: is "
                "something detached, or computed under torch.no_grad()?"
            )
        self.metrics.watch(loss)
        return loss, metrics, out.detach()


def prepared(samples: Samples) -> Any:
    """Samples as ``augment`` and ``encode`` get them: images uint8 scaled to [0, 1]."""
    return to_unit(samples) if isinstance(samples, Tensor) and samples.dtype == torch.uint8 else samples


def augmented(augment: Function | None, x: Any) -> Any:
    """``augment(x)``, which must be a tensor where ``x`` is one; recordings may be anything that ``encode`` takes."""
    if augment is None:
        return x
    changed = augment(x)
    return checks.instance("the result of augment", changed, Tensor, "a tensor") if isinstance(x, Tensor) else changed


def check_batch_of_one(
    model: nn.Module, encode: Function | None, sample: Samples, which: str, advice: str, augment: Function | None = None
) -> None:
    """ValueError, naming the layer, if a batch norm of ``model`` can't train on a batch of one sample [1, ...].

    It normalises by mean and variance over batch, space, and in a folded layer time, which takes two values a channel.
    Looked at in evaluation mode, and with every random generator as before: nothing changes. ``which``: such a batch;
    ``advice``: what to do.
    """

    def look(name: str) -> Callable[..., None]:
        def check(layer: nn.Module, arguments: tuple[Any, ...]) -> None:
            x = arguments[0]
            if modes[layer] and x.numel() == x.shape[1]:
                raise ValueError(
                    f"{which} has a single sample, and batch norm {name} of model can't train on one value for each "
                    f"channel: {advice}"
                )

        return check

    modes = {module: module.training for module in model.modules()}
    norms = {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, _BatchNorm) and not isinstance(layer, nn.SyncBatchNorm)
    }
    if not norms:
        return
    hooks = [layer.register_forward_pre_hook(look(name)) for name, layer in norms.items()]
    devices = [sample.device] if isinstance(sample, Tensor) and sample.device.type == "cuda" else []
    try:
        with generators_restored(encode, augment, model), torch.random.fork_rng(devices), evaluating(model):
            run_model(model, model, encode, augmented(augment, prepared(sample)))
    finally:
        for hook in hooks:
            hook.remove()


def use_channels_last(model: nn.Module, requested: bool | None = None) -> bool:
    """Put ``model`` into channels-last memory format, in place, where that is ``requested``; returns whether it is.

    With None it is where the model has 2-D convolutions: PyTorch's own, and its pooling, are faster in it on CPUs and
    GPUs (of Apple's chips we do not know).
    """
    if requested is None:
        requested = any(isinstance(m, nn.Conv2d) for m in model.modules()) and not torch.backends.mps.is_available()
    if requested:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return requested


def match_strides(optimizer: torch.optim.Optimizer) -> None:
    """Put the optimizer's averages into the memory format of their weights, in place.

    Fused optimizers go through both in the order of memory, without a look at strides: where a model or a checkpoint
    has changed its format, they would pair weights with the averages of others, and say nothing.
    """
    for weight, averages in optimizer.state.items():
        for name, average in averages.items():
            if isinstance(average, Tensor) and average.shape == weight.shape and average.stride() != weight.stride():
                averages[name] = torch.empty_like(weight, dtype=average.dtype).copy_(average)


def step_unless(stop: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """``optimizer.step()``, after which the weights are as before where ``stop`` is 1. Decided on the device.

    Fused optimizers (``fused=True``) take the flag and change nothing, as they do for a ``GradScaler``; for others the
    weights are copied before and restored.
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
        for p, old in zip(weights, before, strict=True):
            p.copy_(torch.where(stop > 0, old, p))


def run_model(forward: Callable, model: nn.Module, encode: Function | None, x: Any) -> Tensor:
    """The output ``[T, B, ...]`` of ``forward`` (``model``, or a compiled one) for samples ``[B, ...]``.

    In float32 at least, so that the loss is too.
    """
    sequence = as_sequence(x) if encode is None else encode(x)
    known = isinstance(sequence, (Tensor, EventList))
    if not known or len(sequence.shape) < 2 or sequence.shape[1] != len(x):
        result = list(sequence.shape) if known else type(sequence).__name__
        raise ValueError(f"the result of encode must be a sequence [T, B, ...] with B = {len(x)}, but it is {result}")
    try:
        result = forward(sequence)
    except (RuntimeError, TypeError, ValueError) as error:
        _refuse_batch(sequence, model, error)
        raise
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Tensor)):
        raise TypeError(
            f"the result of model must be (out, state), as of snnkit.nn.Sequential, but it is {checks.shown(result)}"
        )
    out = result[0]
    return out.float() if out.dtype in (torch.float16, torch.bfloat16) else out


def _refuse_batch(sequence: Tensor | EventList, model: nn.Module, error: Exception) -> None:
    """Raise an error that says what to change, where batch size or dtype are why ``model`` raised ``error``."""
    if isinstance(error, ValueError) and "more than 1 value per channel" in str(
        error
    ):  # PyTorch's own words, of batch norms
        raise ValueError(
            f"a batch norm of model can't train on a batch of {sequence.shape[1]}: {str(error)[:1].lower()}"
            f"{str(error)[1:]}. Choose another batch size, or leave out a last batch of one (drop_last=True of a "
            "DataLoader)"
        ) from error
    if isinstance(error, ValueError) or isinstance(sequence, EventList):
        return
    dtypes = {p.dtype for p in model.parameters() if p.is_floating_point()}
    if dtypes and sequence.dtype not in dtypes and not torch.is_autocast_enabled(sequence.device.type):
        raise TypeError(
            f"the samples reach the model as {sequence.dtype}, its parameters are {', '.join(map(str, dtypes))}: "
            f"convert the samples of the data (or what encode returns), or the model ({error})"
        ) from error


def run_regularised(
    run: Callable[[], Tensor], model: nn.Module, regulariser: Regulariser | None, record_states: bool
) -> tuple[Tensor, Tensor | None]:
    """The output of ``run()``, which calls ``model``, and the result of ``regulariser`` for a recording of it."""
    if regulariser is None:
        return run(), None
    with recording(model, states=record_states) as activity:
        out = run()
    with torch.autocast(out.device.type, enabled=False):
        return out, scalar("the result of regulariser", regulariser(activity))


def check_regulariser(model: nn.Module, regulariser: Regulariser | None, compile: bool, record_states: bool) -> None:
    """ValueError where ``model`` has no neurons, is compiled, or nothing reads the states."""
    if regulariser is None:
        if record_states:
            raise ValueError("record_states must be False without a regulariser, as nothing reads the states")
        return
    neurons_of("model, which has a regulariser,", model)
    if compile:
        raise ValueError("compile must be False with a regulariser, as a compiled model can't be recorded")


class Compiled:
    """``model`` under ``torch.compile``, with a fallback: where compiling fails, it warns once and runs uncompiled.

    Sizes are constants of the compiled code: it is compiled for the batch size of the first sequence [T, B, ...], and
    batches of other sizes, such as the last one of an epoch, run uncompiled.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._run: Any = torch.compile(model, dynamic=False)
        self._size: int | None = None
        self._compiled = False

    def __call__(self, x: Tensor) -> Any:
        self._size = x.shape[1] if self._size is None else self._size
        if self._run is self.model or x.shape[1] != self._size:
            return self.model(x)
        from torch._dynamo.exc import BackendCompilerFailed  # here, as torch's compiler takes a second to import
        from torch._functorch import config

        secure_inductor()
        # Backward, too, or its compiling would fail in ``loss.backward()``, where it is too late to run uncompiled.
        early = "force_non_lazy_backward_lowering"
        known = hasattr(config, early)  # not in every version of PyTorch
        try:
            with nullcontext() if self._compiled or not known else config.patch({early: True}):
                result = self._run(x)
            self._compiled = True
            return result
        except BackendCompilerFailed as error:  # errors of the model itself are raised as they are
            reason = str(getattr(error, "inner_exception", error)).strip().partition("\n")[0]
            warnings.warn(f"compile=True, but torch.compile failed ({reason}): the model runs uncompiled", stacklevel=2)
            self._run = self.model
            return self.model(x)
