"""Callbacks for Lightning's Trainer: firing rates, throughput, the history of a run, a progress bar."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar, RichProgressBar, TQDMProgressBar
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor, nn

from snnkit.checks import choice, integer, number
from snnkit.neuron import Neuron
from snnkit.train.history import History
from snnkit.train.lit.data import Batch


class FiringRates(Callback):
    """Logs for each layer of spiking neurons ``rate/<layer>``, spikes per neuron and step, and ``dead/<layer>``, the
    share of its neurons that did not fire once, counted over all of the validation data and all ranks.

    It does not change training: it counts in validation only. In an epoch without validation it shows the network the
    last batch once more, in evaluation mode. A layer is named as in ``model.named_modules()``.

    Args:
        warn_above: share of silent neurons of a layer, above which a warning says so, once per layer; None: never.

    Attributes:
        layers: names of the layers.
        rates, dead: for each layer a list with a number per measurement.
    """

    def __init__(self, warn_above: float | None = 0.9) -> None:
        if warn_above is not None:
            number("warn_above", warn_above, at_least=0, at_most=1)
        self.warn_above = warn_above
        self.rates: dict[str, list[float]] = {}
        self.dead: dict[str, list[float]] = {}
        self._counts: dict[str, _SpikeCount] = {}
        self._hooks: list[Any] = []
        self._validated = False
        self._last: Any = None
        self._warned: set[str] = set()

    @property
    def layers(self) -> list[str]:
        return list(self.rates)

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            self._start(pl_module)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            self._validated = True
            self._finish(trainer, pl_module)

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        for count in self._counts.values():
            count.paused = isinstance(batch, Batch) and batch.weight == 0  # a sample that another rank has counted

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._validated = False

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.is_last_batch:
            self._last = batch

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self._validated and self._last is not None:
            self._start(pl_module)
            with _evaluating(pl_module):
                pl_module(_samples(self._last))
            self._finish(trainer, pl_module)
        self._last = None

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._remove_hooks()

    def state_dict(self) -> dict[str, Any]:
        return {"rates": self.rates, "dead": self.dead}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for own, name in ((self.rates, "rates"), (self.dead, "dead")):
            own.clear()
            own.update({layer: list(values) for layer, values in state_dict[name].items()})

    def _start(self, pl_module: LightningModule) -> None:
        self._remove_hooks()
        layers = {name: layer for name, layer in _neurons(pl_module).items() if layer.spiking}
        self._counts = {name: _SpikeCount() for name in layers}
        self._hooks = [layer.register_forward_hook(self._counts[name]) for name, layer in layers.items()]

    def _remove_hooks(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _finish(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._remove_hooks()
        counts = {name: count for name, count in self._counts.items() if count.spikes is not None}
        self._counts = {}
        if not counts:
            return
        spikes = [count.spikes for count in counts.values() if count.spikes is not None]
        seen = torch.tensor([float(count.seen) for count in counts.values()], device=spikes[0].device)
        # One exchange between ranks, and one wait for the device, whatever the number of layers.
        total = trainer.strategy.reduce(torch.cat([seen, *(part.flatten() for part in spikes)]), reduce_op="sum")
        seen, *parts = total.split([len(spikes), *(part.numel() for part in spikes)])
        figures = torch.stack(
            [torch.stack([(part / n).mean(), (part == 0).float().mean()]) for part, n in zip(parts, seen, strict=True)]
        ).tolist()
        for name, (rate, dead) in zip(counts, figures, strict=True):
            self.rates.setdefault(name, []).append(rate)
            self.dead.setdefault(name, []).append(dead)
            # All ranks hold the same numbers already.
            pl_module.log_dict({f"rate/{name}": rate, f"dead/{name}": dead}, on_step=False, on_epoch=True, batch_size=1)
            if self.warn_above is not None and dead > self.warn_above and name not in self._warned:
                self._warned.add(name)
                rank_zero_warn(
                    f"{dead:.0%} of the neurons of layer {name} did not fire once: no gradient reaches the weights "
                    "before them where the surrogate's derivative is 0 as well. Larger initial weights, a lower "
                    "threshold or loss.spike_rate_regulariser wake them"
                )


class _SpikeCount:
    """A forward hook that adds up the spikes of each neuron of a layer."""

    def __init__(self) -> None:
        self.spikes: Tensor | None = None  # of each neuron [...]
        self.seen = 0  # steps times samples
        self.paused = False

    def __call__(self, layer: nn.Module, args: tuple, result: Any) -> None:
        if self.paused:
            return
        out = result[0].detach()
        spikes = out.sum((0, 1), dtype=torch.float32)
        self.spikes = spikes if self.spikes is None else self.spikes + spikes
        self.seen += out.shape[0] * out.shape[1]


class Throughput(Callback):
    """Logs ``speed/samples_per_second`` and ``speed/neuron_steps_per_second`` of all ranks together, for each epoch,
    and with ``_step`` at their ends every ``every`` updates.

    A neuron-step is one neuron updated for one time step of one sample; a network has so many per sample
    (``neuron_steps``). Time for validation does not count; that for checkpoints and callbacks within an epoch does.
    The figures ``_step`` assume that all ranks have had as many samples as this one.

    Args:
        every: updates between two measurements. It does not wait for the device, which keeps up in the long run.

    Attributes:
        samples_per_second, seconds: for each epoch that this process began and finished.
        neuron_steps: per sample; None before the first batch.
    """

    def __init__(self, every: int = 50) -> None:
        self.every = integer("every", every, at_least=1)
        self.samples_per_second: list[float] = []
        self.seconds: list[float] = []
        self.neuron_steps: int | None = None
        self._epoch, self._part = _Stopwatch(), _Stopwatch()
        self._update = 0

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._epoch, self._part = _Stopwatch(), _Stopwatch()
        self._update = trainer.global_step

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self.neuron_steps is None:
            self.neuron_steps = neuron_steps(pl_module, _samples(batch))

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        count = 0 if isinstance(batch, Batch) and batch.weight == 0 else len(_samples(batch))
        self._epoch.samples += count
        self._part.samples += count
        if trainer.global_step - self._update >= self.every:
            self._update = trainer.global_step
            self._log(pl_module, "_step", self._part.samples * trainer.world_size / self._part.seconds())
            self._part = _Stopwatch()

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._epoch.pause()
        self._part.pause()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._epoch.resume()
        self._part.resume()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        device = pl_module.device
        if device.type != "cpu":
            torch.get_device_module(device).synchronize()  # the last updates may still be under way
        counted = torch.tensor([self._epoch.samples, self._epoch.seconds()], dtype=torch.float32, device=device)
        samples, total = trainer.strategy.reduce(counted, reduce_op="sum").tolist()
        seconds = total / trainer.world_size
        if samples:
            self.seconds.append(seconds)
            self.samples_per_second.append(samples / seconds)
            self._log(pl_module, "", samples / seconds)

    def _log(self, pl_module: LightningModule, suffix: str, samples_per_second: float) -> None:
        figures = {f"speed/samples_per_second{suffix}": samples_per_second}
        if self.neuron_steps:
            figures[f"speed/neuron_steps_per_second{suffix}"] = samples_per_second * self.neuron_steps
        pl_module.log_dict(figures, on_step=bool(suffix), on_epoch=not suffix, batch_size=1)


class _Stopwatch:
    """Samples, and seconds since it was made, without those between ``pause`` and ``resume``."""

    def __init__(self) -> None:
        self.samples = 0
        self._start = time.perf_counter()
        self._paused: float | None = None

    def seconds(self) -> float:
        return (time.perf_counter() if self._paused is None else self._paused) - self._start

    def pause(self) -> None:
        self._paused = time.perf_counter()

    def resume(self) -> None:
        if self._paused is not None:
            self._start += time.perf_counter() - self._paused
            self._paused = None


def neuron_steps(module: LightningModule, samples: Tensor) -> int:
    """How many neurons times steps the network updates for one sample, counted for the first of ``samples``.

    In evaluation mode; every module then returns to the mode it was in.
    """
    total = 0

    def count(layer: nn.Module, args: tuple, result: Any) -> None:
        nonlocal total
        total += result[0].numel()

    hooks = [layer.register_forward_hook(count) for layer in _neurons(module).values()]
    try:
        with _evaluating(module):
            module(samples[:1])
    finally:
        for hook in hooks:
            hook.remove()
    return total


class HistoryCallback(Callback):
    """Writes each epoch into ``history``, the same on all ranks, and into checkpoints.

    The figures are those of a ``SpikingModule`` over all ranks; its validation data are called test data here, as in
    ``fit``. The seconds of an epoch that was interrupted are those of its parts; work after the last checkpoint that
    was lost by a kill is not counted.
    """

    state_key = "Chronicle"  # type: ignore[assignment]  # its name in checkpoints, since the first release
    _LOGGED = {  # noqa: RUF012
        "train_loss": "train/loss",
        "train_accuracy": "train/acc",
        "output_rate": "train/rate",
        "test_loss": "val/loss",
        "test_accuracy": "val/acc",
    }

    def __init__(self) -> None:
        self.history = History()
        self._seconds = 0.0  # of this epoch, up to the last batch
        self._clock: float | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._clock = time.perf_counter()

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._clock = time.perf_counter()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        now = time.perf_counter()
        self._seconds += now - (now if self._clock is None else self._clock)
        self._clock = now

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # On every rank, as metrics are added up over ranks when they are read.
        logged, history = trainer.callback_metrics, self.history
        for name, key in self._LOGGED.items():
            if key in logged:
                getattr(history, name).append(float(logged[key]))
        samples = len(trainer.train_dataloader.labels)  # type: ignore[union-attr]  # of all ranks together
        history.seconds.append(self._seconds)
        history.samples_per_second.append(samples / max(self._seconds, 1e-9))
        self._seconds = 0.0

    def state_dict(self) -> dict[str, Any]:
        return {"history": self.history.to_dict(), "seconds": self._seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.history, self._seconds = History.from_dict(state_dict["history"]), state_dict["seconds"]


def progress_bar(kind: str = "auto", every: int = 20) -> ProgressBar:
    """A progress bar for ``Trainer(callbacks=[...])``, with the loss of the latest batch and what ``module.log`` marks.

    Lightning's own reads the loss in each batch when it shows it, which on a GPU waits for all queued work; this one
    reads it when it is drawn.

    Args:
        kind: "rich", "tqdm", "none", or "auto": tqdm, in a notebook as a widget; none where SNNKIT_HEADLESS=1.
        every: batches from one drawing to the next.

    Raises:
        ValueError: another kind; ``every`` below 1.
        ModuleNotFoundError: "rich" without rich.
    """
    choice("kind", kind, ("auto", "rich", "tqdm", "none"))
    integer("every", every, at_least=1)
    if kind == "none" or (kind == "auto" and os.environ.get("SNNKIT_HEADLESS", "") not in ("", "0")):
        return _NoBar()
    return _RichBar(refresh_rate=every) if kind == "rich" else _TqdmBar(refresh_rate=every)


class _ShowsLoss(ProgressBar):
    def get_metrics(self, trainer: Trainer, pl_module: LightningModule) -> dict[str, Any]:  # type: ignore[override]
        metrics: dict[str, Any] = super().get_metrics(trainer, pl_module)  # type: ignore[assignment]
        metrics.pop("v_num", None)
        loss = getattr(pl_module, "step_loss", None)
        return metrics if loss is None else {"loss": float(loss), **metrics}


class _TqdmBar(_ShowsLoss, TQDMProgressBar):
    pass


class _RichBar(_ShowsLoss, RichProgressBar):
    pass


class _NoBar(ProgressBar):
    """In the list of callbacks, it prevents Lightning from adding a bar of its own."""

    def disable(self) -> None:
        pass

    def enable(self) -> None:
        pass


def _neurons(pl_module: LightningModule) -> dict[str, Neuron]:
    model: nn.Module = getattr(pl_module, "model", pl_module)  # type: ignore[assignment]
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, Neuron)}


def _samples(batch: Any) -> Tensor:
    return batch if isinstance(batch, Tensor) else batch[0]


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; every module then returns to the mode it was in."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in modes:
            part.training = training
