"""A training loop to read from top to bottom."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from snnkit.data import batches, resolve_device, to_device, to_unit
from snnkit.data._batches import check_data, check_positive_int
from snnkit.loss import accuracy
from snnkit.train.arguments import check_arguments, check_callables, check_same_dtype
from snnkit.train.checkpoint import writable
from snnkit.train.history import History
from snnkit.train.precision import Precision
from snnkit.train.resume import resume_run, save_run
from snnkit.train.seed import seed_everything

Data = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class BatchInfo:
    """What `fit` tells `on_batch` after each update; epochs and batches count from 0."""

    epoch: int
    batch: int
    batches: int  # per epoch
    loss: float
    accuracy: float  # fraction of this batch
    output: Tensor  # [T, B, ...], detached


class Sums:
    """Loss, accuracy and output rate, averaged over samples."""

    def __init__(self) -> None:
        self.sums = [0.0, 0.0, 0.0]
        self.count = 0

    def add(self, value: Tensor, out: Tensor, y: Tensor) -> tuple[float, float]:
        """Add a batch; its loss and accuracy. All three numbers leave the device at once: each wait costs time."""
        if not isinstance(value, Tensor) or value.ndim:
            got = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise TypeError(f"loss must return a scalar tensor; got {got}")
        figures = torch.stack([value.detach(), accuracy(out, y), out.detach().mean()]).tolist()
        self.sums = [total + figure * len(y) for total, figure in zip(self.sums, figures, strict=True)]
        self.count += len(y)
        return figures[0], figures[1]

    def means(self) -> list[float]:
        return [total / self.count for total in self.sums]


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
    - `seed`: seeds everything (see `seed_everything`), the order of the samples included. With None, the order follows
      PyTorch's global generator.
    - `on_batch(info)` after each update, `on_epoch(history, model)` after each epoch.
    - `checkpoint`: a file written after each epoch. With `resume`, training goes on from it where it exists, exactly
      as if it had never stopped: on a CPU, the weights are the same to the bit (unless a callback draws from PyTorch's
      global generator). `epochs` is the total.

    Ctrl-C (the stop button in Jupyter) ends the training and returns the history so far, with `interrupted` set.
    Raises FloatingPointError, before the weights are touched, at the first loss that is not a finite number.
    """
    check_arguments(model, optimizer, scheduler, lr, epochs, batch_size, checkpoint, resume)
    check_callables(encode=encode, loss=loss)
    check_callables(optional=True, on_epoch=on_epoch, on_batch=on_batch)
    file = None if checkpoint is None else writable(checkpoint, "checkpoint")
    target = resolve_device(device)
    if seed is not None:
        seed_everything(seed)
    order = torch.Generator().manual_seed(int(torch.randint(2**31, ())))
    model.to(target)
    samples, labels = _place(train_data, "train_data", target)
    if test_data is not None:
        test_data = _place(test_data, "test_data", target)
        check_same_dtype(samples, test_data[0])
    optimizer = optimizer or torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=lr)
    precision = Precision.choose(target, amp)
    scaler = precision.scaler()
    history = History()
    if file is not None and resume and file.exists():
        history = resume_run(file, model, optimizer, scheduler, scaler, order)

    per_epoch = -(-len(labels) // batch_size)
    bar = _progress_bar(epochs * per_epoch, history.epochs * per_epoch, progress)
    try:
        for epoch in range(history.epochs, epochs):
            model.train()
            started = time.perf_counter()
            sums = Sums()
            for i, (x, y) in enumerate(batches(samples, labels, batch_size, generator=order)):
                with precision.autocast():
                    out = _forward(model, encode, x)
                value = loss(out, y)
                batch_loss, batch_accuracy = sums.add(value, out, y)
                if not math.isfinite(batch_loss):
                    raise FloatingPointError(_not_finite(batch_loss, epoch, i, per_epoch, optimizer, precision))
                if not value.requires_grad:
                    raise ValueError(
                        "loss must return a tensor that depends on the model's parameters, but no gradient leads back "
                        "to them: is something detached, or computed under torch.no_grad()?"
                    )

                optimizer.zero_grad()
                scaler.scale(value).backward()
                scaler.step(optimizer)
                scaler.update()

                bar.set_postfix(epoch=epoch + 1, loss=f"{batch_loss:.3f}", acc=f"{batch_accuracy:.1%}", refresh=False)
                bar.update()
                if on_batch is not None:
                    on_batch(BatchInfo(epoch, i, per_epoch, batch_loss, batch_accuracy, out.detach()))
            if target.type == "cuda":
                torch.cuda.synchronize(target)  # the last update may still be on its way
            seconds = time.perf_counter() - started
            mean_loss, mean_accuracy, rate = sums.means()
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
                save_run(file, model, optimizer, scheduler, scaler, order, history)
            if on_epoch is not None:
                on_epoch(history, model)
    except KeyboardInterrupt:
        history.interrupted = True
    finally:
        bar.close()
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
    sums = Sums()
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        for x, y in batches(samples, labels, batch_size, shuffle=False):
            out = _forward(model, encode, x)
            sums.add(out.new_zeros(()) if loss is None else loss(out, y), out, y)
    finally:
        for module, training in modes:
            module.training = training
    mean_loss, mean_accuracy, rate = sums.means()
    return {"accuracy": mean_accuracy, "loss": None if loss is None else mean_loss, "spikes": rate}


def _forward(model: nn.Module, encode: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The model's output `[T, B, ...]` for samples `[B, ...]`, in float32 at least, so that the loss is too."""
    sequence = encode(to_unit(x) if x.dtype == torch.uint8 else x)
    if not isinstance(sequence, Tensor) or sequence.ndim < 2 or sequence.shape[1] != len(x):
        got = list(sequence.shape) if isinstance(sequence, Tensor) else type(sequence).__name__
        raise ValueError(f"encode must return a sequence [T, B, ...] with B = {len(x)}; got {got}")
    try:
        result = model(sequence)
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


def _not_finite(
    value: float, epoch: int, batch: int, per_epoch: int, optimizer: torch.optim.Optimizer, precision: Precision
) -> str:
    rates = ", ".join(f"{float(group['lr']):g}" for group in optimizer.param_groups)
    half = "" if precision.dtype is None else f"; amp=False (this was {precision.dtype})"
    return (
        f"the loss is {value} in epoch {epoch + 1}, batch {batch + 1} of {per_epoch}; the weights are as they "
        f"were before this batch. Try a lower lr (it is {rates}){half}; and look for NaN or infinity in the data and "
        "in what encode returns"
    )
