"""A spiking network as a LightningModule: loss, metrics, optimizer, schedule, and exact seeds for every batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor, nn

from snnkit import checks
from snnkit import loss as losses
from snnkit.checks import choice, instance, integer, number, shown
from snnkit.data import to_unit
from snnkit.train.checkpoint import keep_kernels
from snnkit.train.lit.data import Batch, SharedBatches, seed_of
from snnkit.train.lit.resume import epoch_in_progress
from snnkit.train.loop import check_trainable
from snnkit.train.metrics import RunningMetrics, batch_metrics, check_loss, check_weights, loss_not_finite
from snnkit.train.recipe import (
    ENCODERS,
    LOSSES,
    OPTIMIZERS,
    SCHEDULES,
    OneCycle,
    make_encoder,
    make_optimizer,
    make_scheduler,
)
from snnkit.train.seeding import check_seed, generators_of
from snnkit.train.step import Compiled, match_strides, run_model, use_channels_last

_TOTALS = "snnkit_figures"  # in a checkpoint: the totals of the metrics of the epoch so far


@checks.arguments
class SpikingModule(LightningModule):
    """Any network of this kit, with everything that trains it, for ``lightning.pytorch.Trainer``::

        module = SpikingModule(models.mlp(), encoder="repeat", steps=25, loss="count_cross_entropy", lr=2e-3)
        Trainer(max_epochs=3, devices=2, strategy="ddp").fit(module, MNISTDataModule(global_batch_size=128))
        module.model                                    # the plain network, trained

    A batch is a pair (samples [B, ...], labels int64 [B]) of any data loader, or a ``Batch`` of ``SharedBatches``, with
    which gradients are those of the mean loss over all samples of an update, on any number of ranks. Samples of uint8
    are scaled to [0, 1]. No state is carried from batch to batch: the network starts each one at rest.

    Logged for each of the stages train, val and test, over all ranks: ``<stage>/loss``, ``<stage>/acc`` (as
    ``loss.accuracy``) and ``<stage>/rate``, the mean output per neuron and step; and ``train/loss_step``, of this rank,
    every ``log_every_n_steps`` of the trainer.

    Before each batch PyTorch's generators, and those that the given functions hold, are seeded from (``seed``, epoch,
    batch, rank). So augmentation, dropout and random encoders need no state in a checkpoint, and a resumed run draws
    the same numbers as an unbroken one. Validation and tests draw the same every time. PyTorch's generator is
    seeded before each epoch, too, so a DataLoader that shuffles has the same order after a resume between epochs.
    Within an epoch, or with a generator of its own, such a loader can't continue: the first checkpoint warns of it.

    On a CPU a loss that is not finite raises FloatingPointError before its backward pass. On an accelerator, reading
    the loss waits for the device. There it raises some updates later, but always before a checkpoint is written.

    Args:
        model: called ``out, state = model(sequence)``, with out [T, B, classes].
        encoder: samples [B, ...] to a sequence [T, B, ...]: "repeat", "poisson", "latency", "constant_current_lif" of
            ``snnkit.encode``, "sequence" for samples that are sequences [B, T, ...], or a function.
        steps: T, for an encoder with a name.
        loss: name of a loss of ``snnkit.loss``, or a function (out, labels) -> scalar. Computed in float32.
        optimizer: "adam", "adamw", "sgd" (with momentum 0.9), or a function of the model that returns an optimizer.
        lr: of an optimizer with a name, and the highest of "one-cycle".
        scheduler: "constant", "cosine" (falls to 0 from epoch to epoch), "one-cycle" (rises and falls with every
            update). For another one, override ``configure_optimizers``.
        augment: images [B, ...] to images; in training only.
        seed: seed of everything random in training, except initial weights and the order of samples.
        channels_last: weights and images in that memory format. None: if the model has 2-D convolutions, which are
            fastest in it.
        compile: run the network under ``torch.compile``, for training batches of full size. If that fails, a warning
            says why.

    Attributes:
        model: the network.
        step_loss: mean loss of the latest training batch of this rank, detached; None before the first.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        encoder: str | Callable[[Tensor], Tensor] = "repeat",
        steps: int = 25,
        loss: str | Callable[[Tensor, Tensor], Tensor] = "rate_cross_entropy",
        optimizer: str | Callable[[nn.Module], torch.optim.Optimizer] = "adam",
        lr: float = 1e-3,
        scheduler: str = "constant",
        augment: Callable[[Tensor], Tensor] | None = None,
        seed: int = 0,
        channels_last: bool | None = None,
        compile: bool = False,
    ) -> None:
        super().__init__()
        check_trainable(model)
        integer("steps", steps, at_least=1)
        for name, given, names in (
            ("encoder", encoder, ENCODERS),
            ("loss", loss, LOSSES),
            ("optimizer", optimizer, OPTIMIZERS),
        ):
            if not callable(given):
                choice(f"{name}, if it is no function,", given, names)
        self.encoder = make_encoder(encoder, steps) if isinstance(encoder, str) else encoder
        self.criterion = getattr(losses, loss) if isinstance(loss, str) else loss
        self.augment = augment
        self.optimizer, self.scheduler = optimizer, choice("scheduler", scheduler, SCHEDULES)
        self.lr, self.seed = number("lr", lr, above=0), check_seed(seed)
        self.channels_last = use_channels_last(model, channels_last)
        self.model = model
        self._metrics: dict[str, RunningMetrics] = {}  # by stage
        self._compiled = Compiled(model) if compile else None
        self._generators = generators_of(self.encoder, augment, self.criterion, model)
        self._totals: Tensor | None = None  # of the metrics, from a checkpoint
        self._positions: list[dict[str, Any]] = []  # of the data loader, from a checkpoint
        self._first_epoch = 0  # of this run, from a checkpoint
        self._warned_of_order = False
        self.step_loss: Tensor | None = None

    def forward(self, samples: Tensor) -> Tensor:
        """Samples [B, ...] to the network's output [T, B, classes]."""
        return run_model(self.model, self.model, self.encoder, self._prepared(samples))

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        samples, labels, weight = self._unpacked(batch)
        self._seed("train", batch_idx)
        x = self._prepared(samples)
        if self.augment is not None:
            x = self.augment(x)
        out = run_model(self._compiled or self.model, self.model, self.encoder, x)
        loss = self._loss(out, labels)
        self._check_loss(loss.detach(), batch_idx)
        self._count("train", loss, out, labels, weight)
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

    def configure_optimizers(self) -> Any:
        if isinstance(self.optimizer, str):
            # Lightning refuses a fused optimizer where it clips gradients in mixed precision.
            clips = "mixed" in str(self.trainer.precision_plugin.precision) and self.trainer.gradient_clip_val
            optimizer = make_optimizer(self.optimizer, self.model, self.lr, fused=not clips)
        else:
            optimizer = self.optimizer(self.model)
            instance("the result of optimizer", optimizer, torch.optim.Optimizer, "a torch.optim.Optimizer")
        optimizer.register_load_state_dict_pre_hook(keep_kernels)  # for a checkpoint from another device
        if self.scheduler == "one-cycle":
            rate = OneCycle(optimizer, self.lr, int(self.trainer.estimated_stepping_batches)).rate
            for group in optimizer.param_groups:
                group["lr"] = self.lr
            factors = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: rate(update) / self.lr)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": factors, "interval": "step"}}
        schedule = make_scheduler(self.scheduler, optimizer, self.trainer.max_epochs or 1)
        return optimizer if schedule is None else {"optimizer": optimizer, "lr_scheduler": schedule}

    def on_fit_start(self) -> None:
        self._seed_order(self._first_epoch)  # the loader's first iterator is made after this
        self._first_epoch = 0

    def on_train_start(self) -> None:
        for optimizer in self.trainer.optimizers:
            match_strides(optimizer)
        if self._totals is not None and self.global_rank == 0:
            self._metrics_of("train").totals.copy_(self._totals)
        self._totals = None
        # Lightning forgets the position in the epoch where a schedule reads the number of updates in advance, for which
        # it makes the loader before it reads the position.
        loader = self.trainer.train_dataloader
        if self._positions and isinstance(loader, SharedBatches):
            loader.load_state_dict(self._positions[0])
        self._positions = []

    def on_train_epoch_start(self) -> None:  # not called where a run is resumed within an epoch
        if self.current_epoch and not self.trainer.fit_loop.is_resuming:  # each further one after this
            self._seed_order(self.current_epoch)
        self._metrics_of("train").reset()

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        every = self.trainer.log_every_n_steps  # type: ignore[attr-defined]
        if every and batch_idx % every == 0:
            self._check_flag()
        if self.trainer.is_last_batch:  # here, so that every callback sees them when the epoch ends
            self._log_metrics("train")

    def on_train_epoch_end(self) -> None:
        self._check_flag()

    def on_validation_epoch_end(self) -> None:
        self._log_metrics("val")

    def on_test_epoch_end(self) -> None:
        self._log_metrics("test")

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Lightning calls it on every rank: the metrics of the epoch so far are added up over ranks."""
        self._check_flag()
        check_weights(self.model, self.current_epoch)
        self._warn_of_order(checkpoint)
        checkpoint[_TOTALS] = self.trainer.strategy.reduce(self._metrics_of("train").totals.clone(), reduce_op="sum")

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        loops = checkpoint.get("loops")  # none in a file of weights only
        if loops is not None:
            fit = loops["fit_loop"]
            done = epoch_in_progress(loops) and fit["epoch_loop.batch_progress"]["is_last_batch"]
            self._first_epoch = fit["epoch_progress"]["current"]["processed"] + done
        if loops is not None and epoch_in_progress(loops):
            self._positions = loops["fit_loop"]["state_dict"].get("combined_loader", [])
            self._totals = checkpoint.get(_TOTALS)

    def _evaluate(self, stage: str, batch: Any, batch_idx: int) -> None:
        samples, labels, weight = self._unpacked(batch)
        self._seed(stage, batch_idx)
        out = self(samples)
        self._count(stage, self._loss(out, labels), out, labels, weight)

    def _unpacked(self, batch: Any) -> tuple[Tensor, Tensor, float]:
        if isinstance(batch, Batch):
            return batch
        if not (isinstance(batch, (tuple, list)) and len(batch) == 2 and all(isinstance(b, Tensor) for b in batch)):
            raise TypeError(f"batch must be a pair of tensors, samples and labels, but it is {shown(batch)}")
        samples, labels = batch
        return samples, labels, 1.0

    def _prepared(self, samples: Tensor) -> Tensor:
        instance("samples", samples, Tensor, "a torch.Tensor")
        x = to_unit(samples).to(self.dtype) if samples.dtype == torch.uint8 else samples
        if self.channels_last and x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        return x

    def _loss(self, out: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast(out.device.type, enabled=False):
            loss = self.criterion(out, labels)
        check_loss(loss)
        return loss

    def _check_loss(self, loss: Tensor, batch_idx: int) -> None:
        """On a CPU FloatingPointError for a loss that is not finite; elsewhere set a flag that is read later."""
        if loss.device.type != "cpu":
            self._metrics_of("train").watch(loss)
            return
        value = loss.item()
        if value - value == 0:  # neither NaN nor infinity
            return
        where = f"epoch {self.current_epoch + 1}, batch {batch_idx + 1} of {self.trainer.num_training_batches}"
        raise loss_not_finite(self.model, value, where, self.trainer.optimizers[0])

    def _check_flag(self) -> None:
        """Raise FloatingPointError if a loss on an accelerator was not finite."""
        if self._metrics_of("train").stop.item():
            raise FloatingPointError(
                f"a loss of epoch {self.current_epoch + 1} was not finite, and the weights are meaningless since: "
                "resume from the last checkpoint, which is older, with a lower lr or in float32; and look for NaN or "
                "infinity in the data"
            )

    def _seed(self, stage: str, batch_idx: int) -> None:
        epoch = self.current_epoch if stage == "train" else 0
        seed = seed_of(stage, self.seed, epoch, batch_idx, self.global_rank)
        # Not torch.manual_seed, which seeds unused devices, too, and takes a millisecond for it.
        torch.default_generator.manual_seed(seed)
        if self.device.type != "cpu":
            torch.get_device_module(self.device).manual_seed(seed)
        for i, generator in enumerate(self._generators):
            generator.manual_seed(seed ^ (i + 1))

    def _seed_order(self, epoch: int) -> None:
        """Before a loader draws its order from PyTorch's generator; ``SharedBatches`` has its own."""
        torch.default_generator.manual_seed(seed_of("order of a loader", self.seed, epoch, self.global_rank))

    def _warn_of_order(self, checkpoint: dict[str, Any]) -> None:
        """At a checkpoint from which a resumed run would see other samples than an unbroken one."""
        loader: Any = self.trainer.train_dataloader
        if hasattr(loader, "state_dict") or loader is None or self._warned_of_order or "loops" not in checkpoint:
            return
        trainer = self.trainer
        ended = trainer.is_last_batch and (trainer.validating or not trainer.enable_validation)
        within = epoch_in_progress(checkpoint["loops"]) and not ended
        drawing = (getattr(each, "generator", None) for each in (loader, getattr(loader, "sampler", None)))
        if within or any(isinstance(each, torch.Generator) for each in drawing):
            self._warned_of_order = True
            where = "within an epoch" if within else "with a generator of its own"
            rank_zero_warn(
                "a run that is resumed from this checkpoint sees the samples in another order than an unbroken one: "
                f"{where} a {type(loader).__name__} can't continue where it was. lit.TensorDataModule can"
            )

    def _metrics_of(self, stage: str) -> RunningMetrics:
        metrics = self._metrics.get(stage)
        if metrics is None or metrics.totals.device != self.device:
            metrics = self._metrics[stage] = RunningMetrics(self.device)
        return metrics

    def _count(self, stage: str, loss: Tensor, out: Tensor, labels: Tensor, weight: float) -> None:
        if weight:  # else the samples are those of another rank
            self._metrics_of(stage).add(batch_metrics(loss, out, labels), len(labels))

    def _log_metrics(self, stage: str) -> None:
        """Means over the samples of all ranks, which all have to call this."""
        metrics = self._metrics_of(stage)
        loss, accuracy, rate, samples = self.trainer.strategy.reduce(metrics.totals.clone(), reduce_op="sum")
        metrics.reset()
        if samples:
            options: dict[str, Any] = {"on_step": False, "on_epoch": True, "sync_dist": True, "batch_size": 1}
            for name, total in (("loss", loss), ("acc", accuracy), ("rate", rate)):
                self.log(f"{stage}/{name}", total / samples, prog_bar=name != "rate", **options)
