"""A training loop to read from top to bottom."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from snnkit.data import batches, resolve_device, to_device, to_unit
from snnkit.data._batches import check_data, check_positive_int
from snnkit.device.precision import Precision
from snnkit.train.archive import writable
from snnkit.train.arguments import check_arguments, check_callables, check_same_dtype, check_update
from snnkit.train.callbacks import finish
from snnkit.train.compiling import Compiled
from snnkit.train.finite import RunningStatistics, check_weights, loss_not_finite
from snnkit.train.generators import generators_of
from snnkit.train.graphed import GraphedStep
from snnkit.train.history import History
from snnkit.train.ledger import Ledger, Reading, figures_of
from snnkit.train.resume import resume_run, save_run
from snnkit.train.seed import seed_everything
from snnkit.train.step import NotFinite, PlainStep, Task, run_model

Data = tuple[Tensor, Tensor]

# On an accelerator the running figures are read so often: each look waits until the device has done all its work.
SECONDS_BETWEEN_LOOKS = 0.5


@dataclass(frozen=True)
class BatchInfo:
    """What `fit` tells `on_batch` after each update; epochs and batches count from 0.

    `loss`, `accuracy` (a fraction) and `output_rate` (mean output per neuron and step), means over the samples of the
    update, are read from the device when they are asked for: on an accelerator that waits for it. `output` is valid
    until the next update.
    """

    epoch: int
    batch: int
    batches: int  # updates per epoch
    samples: int  # of this update
    figures: Tensor  # loss, accuracy and output rate [3]
    output: Tensor  # [T, B, ...] of the update's last batch, detached

    @cached_property
    def _read(self) -> list[float]:
        return self.figures.tolist()

    @property
    def loss(self) -> float:
        return self._read[0]

    @property
    def accuracy(self) -> float:
        return self._read[1]

    @property
    def output_rate(self) -> float:
        return self._read[2]


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
    channels_last: bool = False,
    compile: bool = False,
    graphed: bool = False,
    seed: int | None = None,
    progress: bool = True,
    on_epoch: Callable[[History, nn.Module], Any] | None = None,
    on_batch: Callable[[BatchInfo], Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
) -> History:
    """Train `model` in place and return what happened.

    - `train_data`, `test_data`: samples `[N, ...]` and labels int64 `[N]`. Images as uint8 are scaled to [0, 1] batch
      by batch; floats are used as they are. The whole set lives on the device as one tensor.
    - `encode`: samples `[B, ...]` to a sequence `[T, B, ...]`, e.g. `lambda x: encode.repeat(x, 25)`.
    - `model`: called as `out, state = model(sequence)`, with `out` `[T, B, classes]`; `loss(out, labels)` is a scalar.
    - `optimizer`: Adam with `lr` if None. `scheduler`: stepped once per epoch; it needs its `optimizer`.
    - `amp`: forward in bfloat16 where the device computes in it, else (older GPUs) in float16 with a scaled loss.
      The loss is always computed in float32.
    - `augment`: images `[B, ...]`, scaled to [0, 1] where they came as uint8, to images, on the device; in training
      only. `clip`: largest norm of all gradients together; longer ones are shortened to it.
    - `accumulate`: batches per update. Their gradients are averaged over samples, so without a batch norm
      `accumulate=4, batch_size=32` is `batch_size=128` in the memory of 32.
    - `channels_last`: weights and images in that memory format, which convolutions are fastest with; the model stays
      in it. `compile`: the model under `torch.compile` (a smaller last batch runs uncompiled, so that there is one
      compilation). `graphed`: whole updates, from the gathering of the batch to the optimizer, as one CUDA graph: the
      model, `encode`, `augment` and `loss` must not wait for the device and do the same operations in each call.
      Where `compile` or `graphed` can't be had, a warning says why, and training runs without it.
    - `seed`: seeds everything (see `seed_everything`), the order of the samples included. With None, the order follows
      PyTorch's global generator.
    - `progress`: a bar, unless `on_batch` shows how far it is, as that of a `viz.LivePanel` does.
    - `on_batch(info)` after each update, `on_epoch(history, model)` after each epoch. If `on_epoch` has a method
      `finish`, it is called when training is over, however it ends.
    - `checkpoint`: a file written after each epoch. With `resume`, training goes on from it where it exists, exactly
      as if it had never stopped: on a CPU, the weights are the same to the bit (unless a callback draws from PyTorch's
      global generator). `epochs` is the total.

    Ctrl-C (the stop button in Jupyter) ends the training and returns the history so far, with `interrupted` set.
    Raises FloatingPointError for the first loss that is not a finite number; the weights are as before its update. On
    an accelerator that is noticed some updates later, none of which has changed the weights (running statistics of
    batch norms may have, and the error says so). Weights that are not finite after an epoch raise it, too, before the
    checkpoint is written.
    """
    check_arguments(model, optimizer, scheduler, lr, epochs, batch_size, checkpoint, resume)
    check_callables(encode=encode, loss=loss)
    check_callables(optional=True, on_epoch=on_epoch, on_batch=on_batch, augment=augment)
    check_update(clip, accumulate, channels_last=channels_last, compile=compile, graphed=graphed)
    file = None if checkpoint is None else writable(checkpoint, "checkpoint")
    target = resolve_device(device)
    if seed is not None:
        seed_everything(seed)
    order = torch.Generator().manual_seed(int(torch.randint(2**31, ())))
    model.to(target)
    if channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    samples, labels = _place(train_data, "train_data", target)
    if test_data is not None:
        test_data = _place(test_data, "test_data", target)
        check_same_dtype(samples, test_data[0])
    optimizer = optimizer or _adam(model, lr, target, graphed)
    precision = Precision.choose(target, amp)
    scaler = precision.scaler()
    generators = generators_of(encode, augment, loss, model)
    history = History()
    if file is not None and resume and file.exists():
        history = resume_run(file, model, optimizer, scheduler, scaler, order, generators)

    task = Task(model, samples, labels, encode, loss, optimizer, precision, batch_size, augment, clip, channels_last)
    ledger, statistics = Ledger(target), RunningStatistics(model, target)
    step = PlainStep(task, ledger, scaler, Compiled(model) if compile else None)
    size = batch_size * accumulate
    if graphed:
        step = GraphedStep(step, size)
    per_epoch = -(-len(labels) // size)
    shown_elsewhere = getattr(on_batch, "shows_progress", False)
    bar = _progress_bar(epochs * per_epoch, history.epochs * per_epoch, progress and not shown_elsewhere)
    try:
        for epoch in range(history.epochs, epochs):
            model.train()
            ledger.reset()
            started = looked = time.perf_counter()
            updates = torch.randperm(len(labels), generator=order).to(target).split(size)
            for i, rows in enumerate(updates):
                statistics.note()
                try:
                    figures, out = step(rows)
                except NotFinite as error:
                    statistics.put_back()
                    message = loss_not_finite(error.args[0], epoch, i, per_epoch, optimizer, precision)
                    raise FloatingPointError(message) from None
                bar.update()
                last = i + 1 == per_epoch
                if target.type == "cpu" or last or time.perf_counter() - looked > SECONDS_BETWEEN_LOOKS:
                    seen = ledger.read()
                    if seen.stopped:
                        message = loss_not_finite(seen.loss, epoch, seen.updates, per_epoch, optimizer, precision)
                        raise FloatingPointError(message + statistics.told())
                    _show(bar, epoch, seen)
                    looked = time.perf_counter()
                if on_batch is not None:
                    on_batch(BatchInfo(epoch, i, per_epoch, len(rows), figures.clone(), out))
            if target.type == "cuda":
                torch.cuda.synchronize(target)  # the last update may still be on its way
            seconds = time.perf_counter() - started
            mean_loss, mean_accuracy, rate = ledger.read().means
            check_weights(model, epoch, kept=file is not None)
            if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
                scheduler.step(mean_loss)
            elif scheduler is not None:
                scheduler.step()
            tested = None
            if test_data is not None:
                tested = evaluate(model, test_data, encode=encode, loss=loss, device=target)

            history.train_loss.append(mean_loss)
            history.train_accuracy.append(mean_accuracy)
            history.output_rate.append(rate)
            history.seconds.append(seconds)
            history.samples_per_second.append(len(labels) / seconds)
            if tested is not None:
                history.test_loss.append(tested["loss"])
                history.test_accuracy.append(tested["accuracy"])
            if file is not None:
                save_run(file, model, optimizer, scheduler, scaler, order, history, generators)
            if on_epoch is not None:
                on_epoch(history, model)
    except KeyboardInterrupt:
        history.interrupted = True
    finally:
        bar.close()
        finish(on_epoch)
        finish(on_batch)
    return history


@torch.no_grad()
def evaluate(
    model: nn.Module,
    data: Data,
    *,
    encode: Callable[[Tensor], Tensor],
    loss: Callable[[Tensor, Tensor], Tensor] | None = None,
    batch_size: int = 256,
    device: str | torch.device = "auto",
) -> dict[str, Any]:
    """Measure `model` on samples and labels, in evaluation mode and without gradients.

    Returns "accuracy" (fraction), "loss" (None without a loss function) and "spikes", the mean output per neuron and
    step (the spike rate, if the output spikes). Every module goes back to the mode it was in. The model is moved to
    `device`. Arguments as for `fit`.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module; got {type(model).__name__}")
    check_positive_int("batch_size", batch_size)
    check_callables(encode=encode)
    check_callables(optional=True, loss=loss)
    target = resolve_device(device)
    model.to(target)
    samples, labels = _place(data, "data", target)
    ledger = Ledger(target)
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        for x, y in batches(samples, labels, batch_size, shuffle=False):
            out = run_model(model, model, encode, to_unit(x) if x.dtype == torch.uint8 else x)
            ledger.add(figures_of(out.new_zeros(()) if loss is None else loss(out, y), out, y), len(y))
    finally:
        for module, training in modes:
            module.training = training
    mean_loss, mean_accuracy, rate = ledger.read().means
    return {"accuracy": mean_accuracy, "loss": None if loss is None else mean_loss, "spikes": rate}


def _adam(model: nn.Module, lr: float, device: torch.device, graphed: bool) -> torch.optim.Optimizer:
    """On CUDA in its fused form, one kernel for all weights, which can be told on the device to change nothing."""
    weights = [p for p in model.parameters() if p.requires_grad]
    if device.type != "cuda":
        return torch.optim.Adam(weights, lr=lr)
    return torch.optim.Adam(weights, lr=lr, fused=True, capturable=graphed)


def _place(data: Data, name: str, device: torch.device) -> Data:
    if not (isinstance(data, (tuple, list)) and len(data) == 2):
        raise TypeError(f"{name} must be a pair (samples, labels); got {type(data).__name__}")
    samples, labels = data
    check_data(samples, labels, name)
    if samples.dtype != torch.uint8 and not samples.is_floating_point():
        raise TypeError(f"{name}: the samples must be uint8 or floating point; got {samples.dtype}")
    return to_device(samples, labels, device)


def _progress_bar(total: int, done: int, progress: bool) -> Any:
    from tqdm.auto import tqdm

    hidden = not progress or os.environ.get("SNNKIT_HEADLESS") == "1"
    return tqdm(total=total, initial=done, desc="training", unit="batch", mininterval=1, disable=hidden)


def _show(bar: Any, epoch: int, seen: Reading) -> None:
    mean_accuracy = f"{seen.means[1]:.1%}"
    bar.set_postfix(epoch=epoch + 1, loss=f"{seen.loss:.3f}", acc=mean_accuracy, refresh=False)
