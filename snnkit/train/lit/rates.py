"""How much each layer fires, and which neurons never do."""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor, nn

from snnkit.neuron import Neuron
from snnkit.train.lit.loader import Batch


class FiringRates(Callback):
    """Logs for each layer of spiking neurons ``rate/<layer>``, spikes per neuron and step, and ``dead/<layer>``, the
    share of its neurons that did not fire once, counted over all of the validation data and all ranks.

    Training runs as without it: it listens in validation only. In an epoch without validation it shows the network the
    last batch once more, in evaluation mode. A layer is named as in ``model.named_modules()``.

    Args:
        warn_above: share of silent neurons of a layer, above which a warning says so, once per layer; None: never.

    Attributes:
        layers: names of the layers.
        rates, dead: for each layer a list with a number per measurement.
    """

    def __init__(self, warn_above: float | None = 0.9) -> None:
        if warn_above is not None and not (
            isinstance(warn_above, (int, float)) and not isinstance(warn_above, bool) and 0 <= warn_above <= 1
        ):
            raise ValueError(f"warn_above must be a share in [0, 1], or None; got {warn_above!r}")
        self.warn_above = warn_above
        self.rates: dict[str, list[float]] = {}
        self.dead: dict[str, list[float]] = {}
        self._counts: dict[str, _Count] = {}
        self._hooks: list[Any] = []
        self._validated = False
        self._last: Any = None
        self._warned: set[str] = set()

    @property
    def layers(self) -> list[str]:
        return list(self.rates)

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            self._listen(pl_module)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            self._validated = True
            self._finish(trainer, pl_module)

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        again = isinstance(batch, Batch) and batch.weight == 0  # a sample that another rank has looked at
        for count in self._counts.values():
            count.deaf = again

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._validated = False

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.is_last_batch:
            self._last = batch

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self._validated and self._last is not None:
            self._look_once(trainer, pl_module, self._last)
        self._last = None

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._stop_listening()

    def state_dict(self) -> dict[str, Any]:
        return {"rates": self.rates, "dead": self.dead}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for own, name in ((self.rates, "rates"), (self.dead, "dead")):
            own.clear()
            own.update({layer: list(values) for layer, values in state_dict[name].items()})

    def _look_once(self, trainer: Trainer, pl_module: LightningModule, batch: Any) -> None:
        samples = batch if isinstance(batch, Tensor) else batch[0]
        modes = [(module, module.training) for module in pl_module.modules()]
        pl_module.eval()
        self._listen(pl_module)
        try:
            with torch.no_grad():
                pl_module(samples)
        finally:
            for module, training in modes:
                module.training = training
        self._finish(trainer, pl_module)

    def _listen(self, pl_module: LightningModule) -> None:
        self._stop_listening()
        self._counts = {name: _Count() for name, _ in _spiking(pl_module)}
        self._hooks = [layer.register_forward_hook(self._counts[name]) for name, layer in _spiking(pl_module)]

    def _stop_listening(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _finish(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._stop_listening()
        heard = {name: count for name, count in self._counts.items() if count.spikes is not None}
        self._counts = {}
        if not heard:
            return
        spikes = [count.spikes for count in heard.values() if count.spikes is not None]
        seen = torch.tensor([float(count.seen) for count in heard.values()], device=spikes[0].device)
        # One exchange between ranks, and one wait for the device, whatever the number of layers.
        total = trainer.strategy.reduce(torch.cat([seen, *(part.flatten() for part in spikes)]), reduce_op="sum")
        seen, *parts = total.split([len(spikes), *(part.numel() for part in spikes)])
        figures = torch.stack(
            [torch.stack([(part / n).mean(), (part == 0).float().mean()]) for part, n in zip(parts, seen, strict=True)]
        ).tolist()
        for name, (rate, dead) in zip(heard, figures, strict=True):
            self.rates.setdefault(name, []).append(rate)
            self.dead.setdefault(name, []).append(dead)
            # All ranks hold the same numbers already.
            pl_module.log_dict({f"rate/{name}": rate, f"dead/{name}": dead}, on_step=False, on_epoch=True, batch_size=1)
            self._warn(name, dead)

    def _warn(self, name: str, dead: float) -> None:
        if self.warn_above is None or dead <= self.warn_above or name in self._warned:
            return
        self._warned.add(name)
        rank_zero_warn(
            f"{dead:.0%} of the neurons of layer {name} did not fire once: no gradient reaches the weights before them "
            "where the surrogate's derivative is 0 as well. Larger initial weights, a lower threshold or "
            "loss.spike_rate_regulariser wake them"
        )


class _Count:
    """A forward hook that adds up the spikes of each neuron of a layer."""

    def __init__(self) -> None:
        self.spikes: Tensor | None = None  # of each neuron [...]
        self.seen = 0  # steps times samples
        self.deaf = False

    def __call__(self, layer: nn.Module, args: tuple, result: Any) -> None:
        if self.deaf:
            return
        out = result[0].detach()
        spikes = out.sum((0, 1), dtype=torch.float32)
        self.spikes = spikes if self.spikes is None else self.spikes + spikes
        self.seen += out.shape[0] * out.shape[1]


def _spiking(pl_module: LightningModule) -> list[tuple[str, Neuron]]:
    model: nn.Module = getattr(pl_module, "model", pl_module)  # type: ignore[assignment]
    return [(name, layer) for name, layer in model.named_modules() if isinstance(layer, Neuron) and layer.spiking]
