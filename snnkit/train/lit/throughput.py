"""How fast training is: samples, and updates of neurons, per second."""

from __future__ import annotations

import time
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn

from snnkit.data._batches import check_positive_int
from snnkit.neuron import Neuron
from snnkit.train.lit.loader import Batch

__all__ = ["Throughput", "neuron_steps"]


class Throughput(Callback):
    """Logs ``speed/samples_per_second`` and ``speed/neuron_steps_per_second`` of all ranks together, for each epoch,
    and with ``_step`` at their ends every ``every`` updates.

    A neuron-step is one neuron updated for one time step of one sample; a network has so many per sample
    (``neuron_steps``). Time for validation does not count; that for checkpoints and callbacks within an epoch does.
    In the figures ``_step`` all ranks are taken to have had as many samples as this one.

    Args:
        every: updates between two measurements. No device is waited for: it has to keep up in the long run.

    Attributes:
        samples_per_second, seconds: for each epoch that this process began and finished.
        neuron_steps: per sample; None before the first batch.
    """

    def __init__(self, every: int = 50) -> None:
        check_positive_int("every", every)
        self.every = every
        self.samples_per_second: list[float] = []
        self.seconds: list[float] = []
        self.neuron_steps: int | None = None
        self._whole, self._part = _Watch(), _Watch()
        self._update = 0

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._whole, self._part = _Watch(), _Watch()
        self._update = trainer.global_step

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self.neuron_steps is None:
            self.neuron_steps = neuron_steps(pl_module, _samples(batch))

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        count = 0 if isinstance(batch, Batch) and batch.weight == 0 else len(_samples(batch))
        self._whole.samples += count
        self._part.samples += count
        if trainer.global_step - self._update >= self.every:
            self._update = trainer.global_step
            self._log(pl_module, "_step", self._part.samples * trainer.world_size / self._part.seconds())
            self._part = _Watch()

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for watch in (self._whole, self._part):
            watch.pause()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for watch in (self._whole, self._part):
            watch.go_on()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        device = pl_module.device
        if device.type != "cpu":
            torch.get_device_module(device).synchronize()  # the last updates may still be on their way
        seconds = self._whole.seconds()
        counted = torch.tensor([self._whole.samples, seconds], dtype=torch.float32, device=device)
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


class _Watch:
    """Seconds since it was made, without those between ``pause`` and ``go_on``."""

    def __init__(self) -> None:
        self.samples = 0
        self._from = time.perf_counter()
        self._paused: float | None = None

    def seconds(self) -> float:
        return (time.perf_counter() if self._paused is None else self._paused) - self._from

    def pause(self) -> None:
        self._paused = time.perf_counter()

    def go_on(self) -> None:
        if self._paused is not None:
            self._from += time.perf_counter() - self._paused
            self._paused = None


@torch.no_grad()
def neuron_steps(module: LightningModule, samples: Tensor) -> int:
    """How many neurons times steps the network updates for one sample, found by showing it the first of ``samples``.

    In evaluation mode, after which every module is in the mode that it was in.
    """
    model: nn.Module = getattr(module, "model", module)  # type: ignore[assignment]
    total = 0

    def count(layer: nn.Module, args: tuple, result: Any) -> None:
        nonlocal total
        total += result[0].numel()

    modes = [(part, part.training) for part in module.modules()]
    hooks = [layer.register_forward_hook(count) for layer in model.modules() if isinstance(layer, Neuron)]
    module.eval()
    try:
        module(samples[:1])
    finally:
        for hook in hooks:
            hook.remove()
        for part, training in modes:
            part.training = training
    return total


def _samples(batch: Any) -> Tensor:
    return batch if isinstance(batch, Tensor) else batch[0]
