"""A training loop to read from top to bottom."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn

from snnkit import checks
from snnkit.checks import counts, number
from snnkit.data import resolve_device
from snnkit.device import Precision
from snnkit.device.placement import computes_in_bfloat16
from snnkit.device.usage import evaluating
from snnkit.recording import Activity
from snnkit.train.batches import Data, HeldData, LoadedData, Source, source_of, warn_of_order
from snnkit.train.checkpoint import RunState, checkpoint_file
from snnkit.train.graphed import GraphedStep
from snnkit.train.history import CallbackList, History, add_epoch
from snnkit.train.metrics import (
    BatchInfo,
    Metric,
    MetricsSnapshot,
    RunningMetrics,
    aligned,
    apply_loss,
    batch_metrics,
    check_weights,
    loss_not_finite,
)
from snnkit.train.pairing import Pairing
from snnkit.train.recipe import make_optimizer
from snnkit.train.seeding import generators_of, seed_everything
from snnkit.train.step import (
    Compiled,
    PlainStep,
    UpdateConfig,
    check_batch_of_one,
    check_regulariser,
    match_strides,
    prepared,
    run_model,
    use_channels_last,
)

# Seconds between two reads of the running metrics on an accelerator: each waits until the device has caught up.
SECONDS_BETWEEN_READS = 0.5

_WATCHED = 200  # updates of a new run, after which its loss should have moved
_EVALUATED = 256  # samples of a batch that is only evaluated


@checks.arguments
def fit(
    model: nn.Module,
    train_data: Data,
    test_data: Data | None = None,
    *,
    encode: Callable[[Any], Tensor] | None,
    loss: Callable[[Tensor, Tensor], Tensor],
    metric: Callable[..., Any] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    scheduler: torch.optim.lr_scheduler.LRScheduler | None = None,
    lr: float = 1e-3,
    epochs: int = 1,
    batch_size: int | None = None,
    device: str | torch.device = "auto",
    amp: bool | Literal["auto"] = False,
    augment: Callable[[Any], Any] | None = None,
    clip: float | None = None,
    regulariser: Callable[[Activity], Tensor] | None = None,
    record_states: bool = False,
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
        train_data, test_data: a pair (samples ``[N, ...]``, targets ``[N, ...]``) of tensors or NumPy arrays, or a
            ``TensorDataset`` of two, which come to the device as a whole; a list of ``data.events.Events`` and their
            targets; another ``Dataset`` of pairs; or a ``DataLoader``, or anything else that gives pairs of batches
            each time it is iterated over. Images as uint8 are scaled to [0, 1] batch by batch; floats are not changed.
            Targets are class labels (integers) or numbers (floating point) per sample, or per time step
            ``[N, T, ...]``, which then have as many dimensions as the output (labels one fewer).
        encode: samples ``[B, ...]`` (or a list of B recordings) to a sequence ``[T, B, ...]``, e.g.
            ``lambda x: encode.repeat(x, 25)``; None: the samples are sequences ``[B, T, ...]``.
        loss: ``(out, targets)`` to a scalar, with ``out`` ``[T, B, ...]`` and targets as they are given, or
            ``[T, B, ...]`` if they are per time step; always computed in float32. A loss of PyTorch that broadcasts
            outputs ``[B, 1]`` and targets ``[B]`` to ``[B, B]`` in it is refused.
        metric: what is shown and recorded in place of the accuracy: a function ``(out, targets)`` to a number, whose
            mean over samples counts, or a metric of torchmetrics, which gets the output summed over time (for targets
            per time step, the output) and the targets. None: the accuracy, where targets are labels, of the answer that
            the loss asks for (with ``population_size`` and ``ignore_index`` of a ``functools.partial``).
        optimizer: Adam with ``lr`` if None, of the parameters of ``model``. One of yours may hold others, too, as of a
            loss that learns.
        scheduler: stepped once per epoch, ``ReduceLROnPlateau`` with the training loss; it needs its ``optimizer``.
        batch_size: 64 if None; left out for a loader, which makes the batches.
        amp: forward in bfloat16 if the device computes in it, otherwise (older GPUs) in float16 with a scaled loss.
            "auto": where that is faster (see ``Precision.choose``).
        augment: changes images ``[B, ...]`` (scaled to [0, 1] if they are uint8) on the device, in training only.
        clip: largest norm of all gradients together; larger ones are scaled down to it.
        regulariser: of a ``snnkit.nn.recording`` of each pass in training, a scalar that is added to what is minimised,
            e.g. ``lambda rec: spike_rate_regulariser(rec.spikes.values(), target=0.1, weight=0.01)`` with that of
            ``snnkit.loss``. It is reported apart from the loss.
        record_states: whether the recording has the states after every step, too, which takes memory and time.
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
            weights are the same to the bit (unless a callback draws from PyTorch's global generator, or a loader has an
            order that no checkpoint holds, of which a warning tells). ``epochs`` is the total. Learning rate and order
            are those of the file; a warning tells if ``lr``, ``seed``, ``batch_size`` or ``accumulate`` differ.

    Raises:
        TypeError: a batch is no pair of samples and targets.
        ValueError: ``checkpoint`` is not one of such a run, or was changed; the last batch has one sample, which a
            batch norm can't train on; there are no batches, or of different kinds; a metric that is not finite. The
            first two are raised before anything is changed.
        FloatingPointError: a loss is not finite; the weights are as before its update. On an accelerator it is raised
            some updates later, and these do not change the weights. Running statistics of batch norms may have changed;
            then the error says so. It is also raised for weights that are not finite after an epoch, before the
            checkpoint is written.
    """
    _check_optimizer(model, optimizer, scheduler)
    counts(epochs=epochs, batch_size=1 if batch_size is None else batch_size, accumulate=accumulate)
    for name, size in (("lr", lr), ("clip", 1.0 if clip is None else clip)):
        number(name, size, above=0)
    check_regulariser(model, regulariser, compile, record_states)
    file = checkpoint_file(checkpoint, resume)

    target = resolve_device(device)
    model.to(target)
    channels_last = use_channels_last(model, channels_last)
    for name, given in (("train_data", train_data), ("test_data", test_data)):
        if isinstance(given, Iterator) and epochs > 1:
            raise ValueError(f"{name} must last for {epochs} epochs, but a {type(given).__name__} is used up after one")
    order = torch.Generator()
    source: Source = source_of(train_data, "train_data", target, batch_size, 64, accumulate, order)
    test_source = None if test_data is None else source_of(test_data, "test_data", target, None, _EVALUATED)
    if file is not None and isinstance(source, LoadedData):
        warn_of_order(train_data, "train_data")
    if isinstance(source, HeldData):
        _check_smallest_batch(model, encode, augment, source)

    optimizer = optimizer or make_optimizer("adam", model, lr, capturable=graphed)
    _warn_of_untrained(model, optimizer, encode=encode, augment=augment, loss=loss, regulariser=regulariser)
    precision = Precision.choose(target, amp)
    if amp is True and target.type == "cpu":
        _warn_if_slow(target)
    scaler = precision.scaler()
    loader = source.loader if isinstance(source, LoadedData) else None
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    lrs = rates[0] if len(rates) == 1 else rates
    settings = {"lr": lrs, "seed": seed, "batch_size": batch_size, "accumulate": accumulate}
    generators = [one for one in generators_of(encode, augment, loss, regulariser, model, loader) if one is not order]
    measure = Metric(metric, target, loss)
    named, regularised = None if metric is None else measure.name, regulariser is not None
    state = RunState(model, optimizer, scheduler, scaler, order, generators, settings, named, regularised)
    saved = state.read(file) if file is not None and resume and file.exists() else None
    if seed is not None:
        seed_everything(seed)
    order.manual_seed(int(torch.randint(2**31, ())))
    history = History() if saved is None else state.restore(saved)
    match_strides(optimizer)

    metrics = RunningMetrics(target)
    options = augment, clip, channels_last, regulariser, record_states
    config = UpdateConfig(model, source, encode, loss, optimizer, precision, measure, *options)
    step: PlainStep | GraphedStep = PlainStep(config, metrics, scaler, Compiled(model) if compile else None)
    if graphed:
        step = GraphedStep(step)
    shown_elsewhere = getattr(on_batch, "shows_progress", False)
    bar = _progress_bar(source.updates, history.epochs, epochs, progress and not shown_elsewhere)

    watched: list[Tensor] = [torch.zeros(())] * (_WATCHED if history.epochs else 0)  # a new run's first updates
    samples_watched = 0
    try:
        for epoch in range(history.epochs, epochs):
            model.train()
            metrics.reset()
            measure.reset()
            started = last_read = time.perf_counter()
            for i, update in enumerate(source.epoch(order)):
                of_batch, out = step(update)
                bar.update()
                if len(watched) < _WATCHED:
                    watched.append(of_batch[:2].clone())
                    samples_watched += source.size(update)
                    if len(watched) == _WATCHED:
                        _warn_if_still(torch.stack(watched), measure.classes_of(out), samples_watched)
                if target.type == "cpu" or time.perf_counter() - last_read > SECONDS_BETWEEN_READS:
                    now = _read(metrics, model, optimizer, epoch, source)
                    shown = {} if measure.name is None else {measure.name[:12]: measure.in_words(now.metric)}
                    bar.set_postfix(epoch=epoch + 1, loss=f"{now.last_loss:.3f}", **shown, refresh=False)
                    last_read = time.perf_counter()
                if on_batch is not None:
                    samples = source.size(update)
                    on_batch(BatchInfo(epoch, i, source.updates, samples, of_batch.clone(), out, measure.name))
            if target.type == "cuda":
                torch.cuda.synchronize(target)  # the last update may still be under way
            seconds = time.perf_counter() - started

            means = _read(metrics, model, optimizer, epoch, source)
            check_weights(model, epoch)
            reached = measure.of_epoch(means.metric)
            if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
                scheduler.step(means.loss)
            elif scheduler is not None:
                scheduler.step()
            tested = None if test_source is None else _measured(model, test_source, encode, loss, metric, target)
            add_epoch(history, means, measure.name, reached, tested, seconds, regularised)
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


def _warn_if_slow(device: torch.device) -> None:
    if not computes_in_bfloat16(device):
        warnings.warn(
            "amp=True computes in bfloat16, for which this processor has no instructions, and takes several times as "
            'long as float32; amp="auto" uses it where it is faster',
            stacklevel=4,
        )


def _warn_if_still(watched: Tensor, classes: int | None, samples: int) -> None:
    """Warn if a new run learns nothing: its last losses are as high as its first, or, in a classification, as those in
    the middle, with an accuracy that chance explains.

    ``watched``: losses and metrics of its updates [N, 2], which had so many samples.
    """
    losses, metrics = watched.unflatten(0, (5, -1)).mean(1).T.tolist()
    still = losses[0] - losses[-1] < 0.01 * abs(losses[0])
    if classes is not None and not still:
        chance = 1 / classes
        spread = math.sqrt(chance * (1 - chance) / (samples / len(metrics)))
        still = losses[2] - losses[-1] < 0.01 * abs(losses[2]) and metrics[-1] < chance + 3 * spread
    if still:
        warnings.warn(
            f"the network has learned nothing in {len(watched)} updates (loss {losses[0]:.4g} to {losses[-1]:.4g}); "
            "this says why: print(train.diagnose(model, samples, targets, encode=..., loss=...))",
            stacklevel=4,
        )


def _read(
    metrics: RunningMetrics, model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int, source: Source
) -> MetricsSnapshot:
    """The metrics so far; FloatingPointError if a loss was not finite."""
    now = metrics.read()
    if now.stopped:
        of = f" of {source.updates}" if source.updates else ""
        where = f"epoch {epoch + 1}, batch {now.updates + 1}{of}"
        raise loss_not_finite(model, now.last_loss, where, optimizer)
    return now


@checks.arguments
def evaluate(
    model: nn.Module,
    data: Data,
    *,
    encode: Callable[[Any], Tensor] | None,
    loss: Callable[[Tensor, Tensor], Tensor] | None = None,
    metric: Callable[..., Any] | None = None,
    batch_size: int | None = None,
    device: str | torch.device = "auto",
) -> dict[str, Any]:
    """Measure ``model`` on data, in evaluation mode and without gradients.

    Every module returns to the mode it was in. The model is moved to ``device``. Arguments as for ``fit``; batches have
    256 samples where nothing else is said.

    Returns:
        "accuracy" (a fraction; with a metric the value of that, under its name; nothing for targets that are not
        labels), "loss" (None without a loss function) and "spikes", the mean output per neuron and step (the spike
        rate, if the output spikes).
    """
    counts(batch_size=1 if batch_size is None else batch_size)
    target = resolve_device(device)
    model.to(target)
    return _measured(model, source_of(data, "data", target, batch_size, _EVALUATED), encode, loss, metric, target)


def _measured(
    model: nn.Module,
    source: Source,
    encode: Callable | None,
    loss: Callable | None,
    metric: Callable | None,
    device: torch.device,
) -> dict[str, Any]:
    metrics, measure, pairing = RunningMetrics(device), Metric(metric, device, loss), Pairing("loss")
    with evaluating(model):
        for samples, targets in source:
            out = run_model(model, model, encode, prepared(samples))
            targets = aligned(targets, out)
            value = out.new_zeros(()) if loss is None else apply_loss(loss, out, targets, pairing)
            metrics.add(batch_metrics(value, out, targets, measure), len(targets))
    means = metrics.read()
    measured = {} if measure.name is None else {measure.name: measure.of_epoch(means.metric)}
    return measured | {"loss": None if loss is None else means.loss, "spikes": means.rate}


def _check_smallest_batch(
    model: nn.Module, encode: Callable | None, augment: Callable | None, source: HeldData
) -> None:
    """ValueError, saying what to do, where the smallest batch has one sample, and a batch norm can't train on it."""
    samples, n, batch_size = source.samples, len(source.samples), source.batch_size
    if 1 not in (n, batch_size, n % batch_size):
        return
    advice = f"choose another batch_size than {batch_size}, or leave one of the {n} samples out"
    advice = "give at least 2" if n == 1 else "choose a batch_size of at least 2" if batch_size == 1 else advice
    model.train()
    which = "each batch" if batch_size == 1 else "the last batch"
    check_batch_of_one(model, encode, samples[:1], which, advice, augment)


def check_trainable(model: nn.Module) -> None:
    """Raise ValueError unless ``model`` has a parameter to train."""
    if not any(p.requires_grad for p in model.parameters()):
        raise ValueError("model must have parameters to train, but none of them has requires_grad")


def _check_optimizer(
    model: nn.Module, optimizer: torch.optim.Optimizer | None, scheduler: torch.optim.lr_scheduler.LRScheduler | None
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
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau) and scheduler.mode != "min":
        raise ValueError(
            f"scheduler must have mode='min', as it gets the training loss of each epoch, but it is {scheduler.mode!r}"
        )


def _warn_of_untrained(model: nn.Module, optimizer: torch.optim.Optimizer, **functions: Any) -> None:
    """Warn of functions with parameters that would stay as they are."""
    known = {id(p) for group in optimizer.param_groups for p in group["params"]} | {id(p) for p in model.parameters()}
    for name, function in functions.items():
        own = function.parameters() if isinstance(function, nn.Module) else ()
        if any(p.requires_grad and id(p) not in known for p in own):
            warnings.warn(
                f"{name} has parameters that are not trained: give optimizer= one that holds them, too, or set their "
                "requires_grad to False",
                stacklevel=4,
            )


def _progress_bar(per_epoch: int | None, done: int, epochs: int, progress: bool) -> Any:
    from tqdm.auto import tqdm

    hidden = not progress or os.environ.get("SNNKIT_HEADLESS") == "1"
    total, initial = (None, 0) if per_epoch is None else (epochs * per_epoch, done * per_epoch)
    return tqdm(total=total, initial=initial, desc="training", unit="batch", mininterval=1, disable=hidden)
