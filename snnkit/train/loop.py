"""A training loop to read from top to bottom."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from snnkit import checks
from snnkit.checks import counts, number
from snnkit.data import batches, resolve_device, to_device, to_unit
from snnkit.data.tensors import check_data
from snnkit.device import Precision
from snnkit.device.usage import evaluating
from snnkit.train.checkpoint import RunState, checkpoint_file
from snnkit.train.graphed import GraphedStep
from snnkit.train.history import CallbackList, History
from snnkit.train.metrics import BatchInfo, RunningMetrics, apply_loss, batch_metrics, check_weights, loss_not_finite
from snnkit.train.recipe import make_optimizer
from snnkit.train.seeding import generators_of, seed_everything
from snnkit.train.step import (
    Compiled,
    PlainStep,
    UpdateConfig,
    check_batch_of_one,
    match_strides,
    run_model,
    use_channels_last,
)

Data = tuple[Tensor, Tensor] | list[Tensor]  # a list of two, as a DataLoader gives it

# Seconds between two reads of the running metrics on an accelerator: each waits until the device has caught up.
SECONDS_BETWEEN_READS = 0.5


@checks.arguments
def fit(
    model: nn.Module,
    train_data: Data,
    test_data: Data | None = None,
    *,
    encode: Callable[[Tensor], Tensor],
    loss: Callable[[Tensor, Tensor], Tensor],
    optimizer: torch.optim.Optimizer | None = None,
    scheduler: torch.optim.lr_scheduler.LRScheduler | None = None,
    lr: float = 1e-3,
    epochs: int = 1,
    batch_size: int = 64,
    device: str | torch.device = "auto",
    amp: bool = False,
    augment: Callable[[Tensor], Tensor] | None = None,
    clip: float | None = None,
    accumulate: int = 1,
    channels_last: bool | None = None,
    compile: bool = False,
    graphed: bool = False,
    seed: int | None = None,
    progress: bool = True,
    on_epoch: Callable[[History, nn.Module], Any] | None = None,
    on_batch: Callable[[BatchInfo], Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
) -> History:
    """Train ``model`` in place and return its history.

    Ctrl-C (the stop button in Jupyter) ends the training and returns the history so far, with ``interrupted`` set.

    Args:
        model: called as ``out, state = model(sequence)``, with ``out`` ``[T, B, classes]``.
        train_data, test_data: samples ``[N, ...]`` and labels int64 ``[N]``. Images as uint8 are scaled to [0, 1] batch
            by batch; floats are not changed. The whole set is on the device as one tensor.
        encode: samples ``[B, ...]`` to a sequence ``[T, B, ...]``, e.g. ``lambda x: encode.repeat(x, 25)``.
        loss: ``(out, labels)`` to a scalar; always computed in float32.
        optimizer: Adam with ``lr`` if None.
        scheduler: stepped once per epoch; it needs its ``optimizer``.
        amp: forward in bfloat16 if the device computes in it, otherwise (older GPUs) in float16 with a scaled loss.
        augment: changes images ``[B, ...]`` (scaled to [0, 1] if they are uint8) on the device, in training only.
        clip: largest norm of all gradients together; larger ones are scaled down to it.
        accumulate: batches per update. Their gradients are averaged over samples, so without a batch norm
            ``accumulate=4, batch_size=32`` is ``batch_size=128`` in the memory of 32.
        channels_last: weights and images in that memory format; the model stays in it. None: if the model has 2-D
            convolutions, which are fastest in it.
        compile: run the model under ``torch.compile``. A smaller last batch runs uncompiled, so that there is one
            compilation. If compiling fails, a warning says why, and training runs without it.
        graphed: run each update, from the gathering of the batch to the optimizer, as one CUDA graph. Then the model,
            ``encode``, ``augment`` and ``loss`` must not wait for the device, and must do the same operations in each
            call. If it is impossible, a warning says why, and training runs without it.
        seed: seeds everything (see ``seed_everything``), the order of the samples included. With None, the order
            follows PyTorch's global generator.
        progress: show a bar, unless ``on_batch`` shows the progress, as that of a ``viz.LivePanel`` does.
        on_epoch: called as ``on_epoch(history, model)`` after each epoch; its method ``finish``, if any, at the end.
        on_batch: called as ``on_batch(info)`` after each update.
        checkpoint: a file written after each epoch.
        resume: continue from ``checkpoint`` if it exists, exactly as if the run had never stopped: on a CPU, the
            weights are the same to the bit (unless a callback draws from PyTorch's global generator). ``epochs`` is the
            total.

    Raises:
        ValueError: ``checkpoint`` is not one of such a run, or was changed; the last batch has one sample, which a
            batch norm can't train on. Then nothing has been changed.
        FloatingPointError: a loss is not finite; the weights are as before its update. On an accelerator it is raised
            some updates later, and these do not change the weights. Running statistics of batch norms may have changed;
            then the error says so. It is also raised for weights that are not finite after an epoch, before the
            checkpoint is written.
    """
    _check_optimizer(model, optimizer, scheduler)
    counts(epochs=epochs, batch_size=batch_size, accumulate=accumulate)
    for name, size in (("lr", lr), ("clip", 1.0 if clip is None else clip)):
        number(name, size, above=0)
    file = checkpoint_file(checkpoint, resume)

    target = resolve_device(device)
    model.to(target)
    channels_last = use_channels_last(model, channels_last)
    samples, labels = _to_device(train_data, "train_data", target)
    if test_data is not None:
        test_data = _to_device(test_data, "test_data", target)

    _check_smallest_batch(model, encode, augment, samples, batch_size)

    optimizer = optimizer or make_optimizer("adam", model, lr, capturable=graphed)
    precision = Precision.choose(target, amp)
    scaler = precision.scaler()
    order = torch.Generator()
    state = RunState(model, optimizer, scheduler, scaler, order, generators_of(encode, augment, loss, model))
    saved = state.read(file) if file is not None and resume and file.exists() else None
    if seed is not None:
        seed_everything(seed)
    order.manual_seed(int(torch.randint(2**31, ())))
    history = History() if saved is None else state.restore(saved)
    match_strides(optimizer)

    metrics = RunningMetrics(target)
    config = UpdateConfig(
        model, samples, labels, encode, loss, optimizer, precision, batch_size, augment, clip, channels_last
    )
    step: PlainStep | GraphedStep = PlainStep(config, metrics, scaler, Compiled(model) if compile else None)
    size = batch_size * accumulate  # samples of an update
    if graphed:
        step = GraphedStep(step, size)
    per_epoch = -(-len(labels) // size)
    shown_elsewhere = getattr(on_batch, "shows_progress", False)
    bar = _progress_bar(per_epoch, history.epochs, epochs, progress and not shown_elsewhere)

    try:
        for epoch in range(history.epochs, epochs):
            model.train()
            metrics.reset()
            started = last_read = time.perf_counter()
            for i, indices in enumerate(torch.randperm(len(labels), generator=order).to(target).split(size)):
                of_batch, out = step(indices)
                bar.update()
                waited = time.perf_counter() - last_read
                if target.type == "cpu" or waited > SECONDS_BETWEEN_READS or i + 1 == per_epoch:
                    now = metrics.read()
                    if now.stopped:
                        where = f"epoch {epoch + 1}, batch {now.updates + 1} of {per_epoch}"
                        raise loss_not_finite(model, now.last_loss, where, optimizer)
                    bar.set_postfix(
                        epoch=epoch + 1, loss=f"{now.last_loss:.3f}", acc=f"{now.accuracy:.1%}", refresh=False
                    )
                    last_read = time.perf_counter()
                if on_batch is not None:
                    on_batch(BatchInfo(epoch, i, per_epoch, len(indices), of_batch.clone(), out))
            if target.type == "cuda":
                torch.cuda.synchronize(target)  # the last update may still be under way
            seconds = time.perf_counter() - started

            means = metrics.read()
            check_weights(model, epoch)
            if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
                scheduler.step(means.loss)
            elif scheduler is not None:
                scheduler.step()
            tested = None
            if test_data is not None:
                tested = evaluate(model, test_data, encode=encode, loss=loss, device=target)

            history.train_loss.append(means.loss)
            history.train_accuracy.append(means.accuracy)
            history.output_rate.append(means.rate)
            history.seconds.append(seconds)
            history.samples_per_second.append(len(labels) / seconds)
            if tested is not None:
                history.test_loss.append(tested["loss"])
                history.test_accuracy.append(tested["accuracy"])
            if file is not None:
                state.save(file, history)
            if on_epoch is not None:
                on_epoch(history, model)
    except KeyboardInterrupt:
        history.interrupted = True
    finally:
        bar.close()
        CallbackList("on_epoch", on_epoch, on_batch).finish()
    return history


@checks.arguments
def evaluate(
    model: nn.Module,
    data: Data,
    *,
    encode: Callable[[Tensor], Tensor],
    loss: Callable[[Tensor, Tensor], Tensor] | None = None,
    batch_size: int = 256,
    device: str | torch.device = "auto",
) -> dict[str, Any]:
    """Measure ``model`` on samples and labels, in evaluation mode and without gradients.

    Returns "accuracy" (fraction), "loss" (None without a loss function) and "spikes", the mean output per neuron and
    step (the spike rate, if the output spikes). Every module returns to the mode it was in. The model is moved to
    ``device``. Arguments as for ``fit``.
    """
    counts(batch_size=batch_size)
    target = resolve_device(device)
    model.to(target)
    samples, labels = _to_device(data, "data", target)
    metrics = RunningMetrics(target)
    with evaluating(model):
        for x, y in batches(samples, labels, batch_size, shuffle=False):
            out = run_model(model, model, encode, to_unit(x) if x.dtype == torch.uint8 else x)
            value = out.new_zeros(()) if loss is None else apply_loss(loss, out, y)
            metrics.add(batch_metrics(value, out, y), len(y))
    means = metrics.read()
    return {"accuracy": means.accuracy, "loss": None if loss is None else means.loss, "spikes": means.rate}


def _check_smallest_batch(
    model: nn.Module, encode: Callable, augment: Callable | None, samples: Tensor, batch_size: int
) -> None:
    """ValueError, saying what to do, where the smallest batch has one sample, and a batch norm can't train on it."""
    n = len(samples)
    if 1 not in (n, batch_size, n % batch_size):
        return
    advice = f"choose another batch_size than {batch_size}, or leave one of the {n} samples out"
    advice = "give at least 2" if n == 1 else "choose a batch_size of at least 2" if batch_size == 1 else advice
    model.train()
    which = "each batch" if batch_size == 1 else "the last batch"
    check_batch_of_one(model, encode, samples[:1], which, advice, augment)


def check_samples(data: Any, name: str) -> None:
    """Raise unless ``data`` is a pair of samples, uint8 or floating point ``[N, ...]``, and labels int64 ``[N]``."""
    if not (isinstance(data, (tuple, list)) and len(data) == 2):
        raise TypeError(f"{name} must be a pair (samples, labels), but it is of type {type(data).__name__}")
    samples, labels = data
    check_data(samples, labels, name)
    if samples.dtype != torch.uint8 and not samples.is_floating_point():
        raise TypeError(f"samples of {name} must be uint8 or floating point, but their dtype is {samples.dtype}")


def check_trainable(model: nn.Module) -> None:
    """Raise ValueError unless ``model`` has a parameter to train."""
    if not any(p.requires_grad for p in model.parameters()):
        raise ValueError("model must have parameters to train, but none of them has requires_grad")


def _check_optimizer(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    scheduler: torch.optim.lr_scheduler.LRScheduler | None,
) -> None:
    check_trainable(model)
    if optimizer is not None:
        if isinstance(optimizer, torch.optim.LBFGS):
            raise ValueError("optimizer must be able to step without a closure, but LBFGS is not")
        own = {id(p) for p in model.parameters()}
        if not any(id(p) in own for group in optimizer.param_groups for p in group["params"]):
            raise ValueError("optimizer must hold parameters of the model, but it has none: was it made for another?")
    if scheduler is not None and (optimizer is None or scheduler.optimizer is not optimizer):
        raise ValueError("scheduler must come with the optimizer it was made for: pass that as optimizer=")


def _to_device(data: Data, name: str, device: torch.device) -> Data:
    check_samples(data, name)
    samples, labels = data
    return to_device(samples, labels, device)


def _progress_bar(per_epoch: int, done: int, epochs: int, progress: bool) -> Any:
    from tqdm.auto import tqdm

    hidden = not progress or os.environ.get("SNNKIT_HEADLESS") == "1"
    total, initial = epochs * per_epoch, done * per_epoch
    return tqdm(total=total, initial=initial, desc="training", unit="batch", mininterval=1, disable=hidden)
