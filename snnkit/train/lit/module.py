"""A spiking network as a LightningModule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule
from torch import Tensor, nn

from snnkit.data import to_unit
from snnkit.data._batches import check_positive_int
from snnkit.train.arguments import check_callables, check_update
from snnkit.train.compiling import Compiled
from snnkit.train.generators import generators_of
from snnkit.train.lit import choices
from snnkit.train.lit.brake import Brake
from snnkit.train.lit.figures import Figures
from snnkit.train.lit.loader import Batch, SharedBatches, seed_of
from snnkit.train.lit.rates import FiringRates
from snnkit.train.lit.restart import within_epoch
from snnkit.train.resume import in_its_own_way
from snnkit.train.seed import check_seed
from snnkit.train.step import run_model

__all__ = ["SpikingModule"]

_STAGES = ("train", "val", "test")
_FIGURES = "snnkit_figures"  # in a checkpoint: what was counted of an epoch that is not over


class SpikingModule(LightningModule):
    """Any network of this kit, with what trains it, for ``lightning.pytorch.Trainer``::

        module = SpikingModule(models.mlp(), encoder="repeat", steps=25, loss="count_cross_entropy", lr=2e-3)
        Trainer(max_epochs=3, devices=2, strategy="ddp").fit(module, MNISTDataModule(global_batch_size=128))
        module.model                                    # the plain network, trained

    A batch is a pair (samples [B, ...], labels int64 [B]) of any data loader, or a ``Batch`` of ``SharedBatches``, with
    which gradients are those of the mean loss over all samples of an update, on any number of ranks. Samples of uint8
    are scaled to [0, 1]. Nothing is kept between batches: the network starts each one at rest.

    Logged for each of the stages train, val and test, over all ranks: ``<stage>/loss``, ``<stage>/acc`` (by
    torchmetrics) and ``<stage>/rate``, the mean output per neuron and step; ``train/loss_step``, of this rank, every
    ``log_every_n_steps`` of the trainer; and with ``rates`` each layer's spikes per neuron and step, and its share of
    neurons that are silent (``FiringRates``).

    Before each batch PyTorch's generators, and those that the given functions hold, are seeded from (``seed``, epoch,
    batch, rank). So augmentation, dropout and random encoders need no state in a checkpoint, and a run that is resumed
    draws what an unbroken run draws. Validation and tests draw the same every time.

    On a CPU a loss that is no finite number raises FloatingPointError before anything is learned from it. On an
    accelerator, where looking at it waits for the device, that is found some updates later, before a checkpoint is
    written in any case.

    Args:
        model: called ``out, state = model(sequence)``, with out [T, B, classes].
        encoder: samples [B, ...] to a sequence [T, B, ...]: "repeat", "poisson", "latency", "constant_current_lif" of
            ``snnkit.encode``, "sequence" for samples [B, T, ...] that are one already, or a function.
        steps: T, for an encoder with a name.
        loss: name of a loss of ``snnkit.loss``, or a function (out, labels) -> scalar. Computed in float32.
        optimizer: "adam", "adamw", "sgd" (with momentum 0.9); a class, called (parameters, lr=lr); a function of the
            parameters.
        lr, weight_decay: of an optimizer with a name; ``lr`` is the highest of "one-cycle".
        scheduler: "constant", "cosine" (falls to 0 from epoch to epoch), "one-cycle" (rises and falls with every
            update); a function of the optimizer that gives a scheduler, stepped after each epoch, or Lightning's dict.
            None: constant.
        classes: number of classes.
        augment: images [B, ...] to images; in training only.
        seed: of all that is random in training, but for initial weights and the order of samples.
        checkpoint_activations: True: ``device.optimize_memory_usage`` with what it does by itself; a number: computes
            so many time steps at once, and again in backward (its ``steps``).
        channels_last: weights and images in the memory format in which convolutions are fastest.
        compile: the network under ``torch.compile``, for training batches of full size; where that fails, a warning
            says why.
        rates: whether to log firing rates of layers, in validation.

    Attributes:
        model: the network.
        step_loss: mean loss of the latest training batch of this rank, detached; None before the first.

    Raises:
        TypeError, ValueError: arguments of another kind; unknown names; a model without parameters to train.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        encoder: str | Callable[[Tensor], Tensor] = "repeat",
        steps: int = 25,
        loss: str | Callable[[Tensor, Tensor], Tensor] = "rate_cross_entropy",
        optimizer: str | Callable[..., torch.optim.Optimizer] = "adam",
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        scheduler: str | Callable[[torch.optim.Optimizer], Any] | None = None,
        classes: int = 10,
        augment: Callable[[Tensor], Tensor] | None = None,
        seed: int = 0,
        checkpoint_activations: bool | int = False,
        channels_last: bool = False,
        compile: bool = False,
        rates: bool = True,
    ) -> None:
        super().__init__()
        choices.check_model(model)
        for name, value in (("steps", steps), ("classes", classes)):
            check_positive_int(name, value)
        choices.check_numbers(lr, weight_decay)
        check_update(None, 1, channels_last=channels_last, compile=compile, rates=rates)
        check_callables(optional=True, augment=augment)
        choices.check_optimizer(optimizer)
        choices.check_scheduler(scheduler)
        self.encoder = choices.encoder_of(encoder, steps)
        self.criterion = choices.loss_of(loss)
        self.augment = augment
        self.optimizer, self.scheduler = optimizer, scheduler
        self.lr, self.weight_decay = float(lr), float(weight_decay)
        self.seed = check_seed(seed)
        self.channels_last, self.rates = channels_last, rates
        choices.economise(model, checkpoint_activations)
        self.model = model.to(memory_format=torch.channels_last) if channels_last else model  # type: ignore[call-overload]
        self.figures = nn.ModuleList(Figures(classes) for _ in _STAGES)
        self._compile = compile
        self._compiled: tuple[int, Compiled] | None = None  # the size of batches, and what runs them
        self._generators = generators_of(self.encoder, augment, self.criterion, model)
        self._brake = Brake(model)
        self._logged = False  # the figures of this epoch
        self._resumed = False  # the figures are those from a checkpoint, of an epoch that goes on
        self._places: list[dict[str, Any]] = []  # in the data, of a checkpoint
        self.step_loss: Tensor | None = None

    def forward(self, samples: Tensor) -> Tensor:
        """Samples [B, ...] to the network's output [T, B, classes]."""
        return self._run(self.model, self._prepared(samples))

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        samples, labels, weight = self._unpacked(batch)
        self._seed("train", batch_idx)
        x = self._prepared(samples)
        if self.augment is not None:
            x = self.augment(x)
        out = self._run(self._forward_of(len(x)), x)
        loss = self._loss(out, labels)
        self._brake.watch(loss, self, batch_idx)
        self._figures("train").add(loss, out, labels, counts=weight > 0)
        self.step_loss = loss.detach()
        every = self.trainer.log_every_n_steps  # type: ignore[attr-defined]
        if every and (self.global_step + 1) % every == 0:  # when loggers write, as a call takes long
            # Not for Lightning's bar (prog_bar), which would make each batch wait for the device.
            self.log("train/loss_step", self.step_loss, on_step=True, on_epoch=False, batch_size=len(labels))
        return loss if weight == 1.0 else loss * weight

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self._evaluate("val", batch, batch_idx)

    def test_step(self, batch: Any, batch_idx: int) -> None:
        self._evaluate("test", batch, batch_idx)

    def predict_step(self, batch: Any, batch_idx: int) -> Tensor:
        """The output summed over time, [B, classes]; the largest is the answer. Takes samples without labels, too."""
        samples = batch if isinstance(batch, Tensor) else self._unpacked(batch)[0]
        self._seed("predict", batch_idx)
        return self(samples).sum(0)

    def configure_optimizers(self) -> Any:
        fused = self.device.type == "cuda" and not _unscales_itself(self.trainer)
        optimizer = choices.optimizer_of(self.optimizer, self.model, self.lr, self.weight_decay, fused=fused)
        optimizer.register_load_state_dict_pre_hook(in_its_own_way)  # for a checkpoint from another device
        epochs, updates = self.trainer.max_epochs or 1, 0
        if self.scheduler == "one-cycle":
            updates = int(self.trainer.estimated_stepping_batches)
        schedule = choices.schedule_of(self.scheduler, optimizer, self.lr, epochs, updates)
        return optimizer if schedule is None else {"optimizer": optimizer, "lr_scheduler": schedule}

    def configure_callbacks(self) -> list[Callback]:
        given = any(isinstance(callback, FiringRates) for callback in self.trainer.callbacks)  # type: ignore[attr-defined]
        return [FiringRates()] if self.rates and not given else []

    def on_train_start(self) -> None:
        # Lightning forgets the place in the epoch where a schedule has asked how many updates there will be, for which
        # it makes the loader before it reads where that was.
        loader = self.trainer.train_dataloader
        if self._places and isinstance(loader, SharedBatches):
            loader.load_state_dict(self._places[0])
        self._places = []

    def on_train_epoch_start(self) -> None:
        if not self._resumed:  # within this epoch, which Lightning 2.4 starts again, and 2.6 does not
            self._figures("train").reset()
        self._logged = False

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._resumed = False
        every = self.trainer.log_every_n_steps  # type: ignore[attr-defined]
        if every and batch_idx % every == 0:
            self._brake.look(self)
        if self.trainer.is_last_batch:  # here, so that every callback finds them when the epoch ends
            self._log_figures("train")
            self._logged = True

    def on_train_epoch_end(self) -> None:
        self._brake.look(self)
        if not self._logged:  # stopped within the epoch
            self._log_figures("train")

    def on_validation_epoch_end(self) -> None:
        self._log_figures("val")

    def on_test_epoch_end(self) -> None:
        self._log_figures("test")

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Lightning calls it on every rank: the figures of the epoch so far are added up over ranks."""
        self._brake.check(self)
        checkpoint[_FIGURES] = self.trainer.strategy.reduce(self._figures("train").sums(), reduce_op="sum")

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        loops = checkpoint.get("loops")  # none in a file of weights only
        if loops is not None and within_epoch(loops):
            self._resumed = True
            self._places = loops["fit_loop"]["state_dict"].get("combined_loader", [])
        if self.global_rank == 0 and _FIGURES in checkpoint:
            self._figures("train").put(checkpoint[_FIGURES])

    def _evaluate(self, stage: str, batch: Any, batch_idx: int) -> None:
        samples, labels, weight = self._unpacked(batch)
        self._seed(stage, batch_idx)
        out = self(samples)
        self._figures(stage).add(self._loss(out, labels), out, labels, counts=weight > 0)

    def _unpacked(self, batch: Any) -> tuple[Tensor, Tensor, float]:
        if isinstance(batch, Batch):
            return batch
        if not (isinstance(batch, (tuple, list)) and len(batch) == 2 and all(isinstance(b, Tensor) for b in batch)):
            raise TypeError(f"a batch must be a pair of tensors, samples and labels; got {_kind(batch)}")
        samples, labels = batch
        return samples, labels, 1.0

    def _prepared(self, samples: Tensor) -> Tensor:
        x = to_unit(samples).to(self.dtype) if samples.dtype == torch.uint8 else samples
        if self.channels_last and x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        return x

    def _run(self, forward: Callable, x: Tensor) -> Tensor:
        return run_model(forward, self.model, self.encoder, x)

    def _forward_of(self, size: int) -> Callable:
        if not self._compile:
            return self.model
        if self._compiled is None:
            self._compiled = size, Compiled(self.model)
        full, compiled = self._compiled
        return compiled if size == full else self.model

    def _loss(self, out: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast(out.device.type, enabled=False):
            loss = self.criterion(out, labels)
        if not isinstance(loss, Tensor) or loss.ndim:
            raise TypeError(f"loss must return a scalar tensor; got {_kind(loss)}")
        return loss

    def _seed(self, stage: str, batch_idx: int) -> None:
        epoch = self.current_epoch if stage == "train" else 0
        seed = seed_of(stage, self.seed, epoch, batch_idx, self.global_rank)
        # Not torch.manual_seed, which seeds devices that nobody uses, too, and takes a millisecond for it.
        torch.default_generator.manual_seed(seed)
        if self.device.type != "cpu":
            torch.get_device_module(self.device).manual_seed(seed)
        for i, generator in enumerate(self._generators):
            generator.manual_seed(seed ^ (i + 1))

    def _figures(self, stage: str) -> Figures:
        return self.figures[_STAGES.index(stage)]  # type: ignore[return-value]

    def _log_figures(self, stage: str) -> None:
        for name, metric in self._figures(stage).metrics().items():
            if metric.update_called:
                self.log(f"{stage}/{name}", metric, on_step=False, on_epoch=True, prog_bar=name != "rate")


def _unscales_itself(trainer: Any) -> bool:
    """Whether a fused optimizer could not be had: float16 with a limit on gradients, which Lightning refuses then."""
    return getattr(trainer.precision_plugin, "scaler", None) is not None and trainer.gradient_clip_val is not None


def _kind(value: Any) -> str:
    return f"a tensor {list(value.shape)}" if isinstance(value, Tensor) else f"{type(value).__name__}"
