"""Callbacks for Lightning's Trainer: firing rates, and the history of a run."""

from __future__ import annotations

import time
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor, nn

from snnkit.neuron import Neuron
from snnkit.train.history import History
from snnkit.train.lit.data import Batch

_MANY_DEAD = 0.9  # share of silent neurons of a layer, above which a warning says so, once per layer


class FiringRates(Callback):
    """Logs for each layer of spiking neurons ``rate/<layer>``, spikes per neuron and step, and ``dead/<layer>``, the
    share of its neurons that did not fire once, counted over all of the validation data and all ranks.

    A layer is named as in ``model.named_modules()``.

    Attributes:
        rates, dead: for each layer a list with a number per validation.
    """

    def __init__(self) -> None:
        self.rates: dict[str, list[float]] = {}
        self.dead: dict[str, list[float]] = {}
        self._counts: dict[str, _SpikeCount] = {}
        self._hooks: list[Any] = []
        self._warned: set[str] = set()

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.sanity_checking:
            return
        model: nn.Module = getattr(pl_module, "model", pl_module)  # type: ignore[assignment]
        neurons = {name: layer for name, layer in model.named_modules() if isinstance(layer, Neuron) and layer.spiking}
        self._counts = {name: _SpikeCount() for name in neurons}
        self._hooks = [layer.register_forward_hook(self._counts[name]) for name, layer in neurons.items()]

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        for count in self._counts.values():
            count.counts = not (isinstance(batch, Batch) and batch.weight == 0)  # else another rank counts the sample

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
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
            if dead > _MANY_DEAD and name not in self._warned:
                self._warned.add(name)
                rank_zero_warn(
                    f"{dead:.0%} of the neurons of layer {name} did not fire once: no gradient reaches the weights "
                    "before them where the surrogate's derivative is 0 as well. Larger initial weights, a lower "
                    "threshold or loss.spike_rate_regulariser wake them"
                )

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._remove_hooks()

    def state_dict(self) -> dict[str, Any]:
        return {"rates": self.rates, "dead": self.dead}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.rates, self.dead = state_dict["rates"], state_dict["dead"]

    def _remove_hooks(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []


class _SpikeCount:
    """A forward hook that adds up the spikes of each neuron of a layer."""

    def __init__(self) -> None:
        self.spikes: Tensor | None = None  # of each neuron [...]
        self.seen = 0  # steps times samples
        self.counts = True

    def __call__(self, layer: nn.Module, args: tuple, result: Any) -> None:
        # A rank without a sample of its own adds zeros, as all ranks have to exchange the same layers.
        out = result[0].detach()
        spikes = (out if self.counts else torch.zeros_like(out)).sum((0, 1), dtype=torch.float32)
        self.spikes = spikes if self.spikes is None else self.spikes + spikes
        self.seen += self.counts * out.shape[0] * out.shape[1]


class HistoryCallback(Callback):
    """Writes each epoch into ``history``, the same on all ranks, and into checkpoints.

    The figures are those of a ``SpikingModule`` with a data module of the kit over all ranks; its validation data are
    called test data here, as in ``fit``. The seconds of an epoch that was interrupted are those of its parts; work
    after the last checkpoint that was lost by a kill is not counted.
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
        self._clock = 0.0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._clock = time.perf_counter()  # in the middle of an epoch, where the run is resumed there

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._clock = time.perf_counter()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.is_last_batch and pl_module.device.type == "cuda":
            torch.cuda.synchronize(pl_module.device)  # the last updates may still be under way
        now = time.perf_counter()
        self._seconds += now - self._clock
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
