"""A spiking network as a LightningModule: loss, metrics, optimizer, schedule, and exact seeds for every batch."""

from __future__ import annotations

import copy
import inspect
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.callbacks import GradientAccumulationScheduler
from lightning.pytorch.plugins.precision import DoublePrecision, HalfPrecision
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor, nn

from snnkit import checks, loss as losses
from snnkit.checks import choice, instance, integer, mapping, number, shown
from snnkit.recording import Activity
from snnkit.train.batches import as_samples, checked_pair
from snnkit.train.checkpoint import LIGHTNING_KEY, keep_kernels, read_archive
from snnkit.train.history import History, check_measured
from snnkit.train.lit.data import Batch, SharedBatches, SharedDataModule, seed_of
from snnkit.train.lit.resume import epoch_in_progress
from snnkit.train.loop import check_trainable
from snnkit.train.matching import check_like, check_weights_fit, kind, like, matched, naming, with_names
from snnkit.train.metrics import (
    ACCURACY,
    MEASURED,
    Metric,
    RunningMetrics,
    aligned,
    apply_loss,
    batch_metrics,
    check_weights,
    class_scores,
    loss_not_finite,
)
from snnkit.train.pairing import Pairing
from snnkit.train.recipe import (
    ENCODERS,
    LOSSES,
    OPTIMIZERS,
    SCHEDULES,
    OneCycle,
    Recipe,
    make_encoder,
    make_optimizer,
    make_scheduler,
)
from snnkit.train.seeding import check_seed, generators_of
from snnkit.train.step import (
    Compiled,
    augmented,
    check_batch_of_one,
    check_regulariser,
    match_strides,
    prepared,
    run_model,
    run_regularised,
    use_channels_last,
)

if TYPE_CHECKING:
    from typing_extensions import Self

# In a checkpoint: the totals of the metrics of the epoch so far, and the length of the run that a schedule knows.
_TOTALS, _LENGTH = "snnkit_figures", "snnkit_schedule"
# There, too: the name of the metric if one was given, and whether there was a regulariser.
_MEASURED = "snnkit_measured"
# There, too: the names of the arguments that were functions, and the recipe that was run, if it was one.
_FUNCTIONS, _RECIPE = "snnkit_functions", "snnkit_recipe"


def arguments_of(recipe: Recipe, network: nn.Module) -> dict[str, Any]:
    """Arguments of the ``SpikingModule`` that trains the network of a recipe as it says."""
    return {
        "encoder": recipe.encoder(network),
        "loss": recipe.criterion(),
        "optimizer": recipe.optimizer,
        "lr": recipe.lr,
        "scheduler": recipe.schedule,
        "augment": recipe.augmentation(),
        "seed": recipe.seed,
        "channels_last": recipe.channels_last,
        "compile": recipe.compile,
    }


@checks.arguments
class SpikingModule(LightningModule):
    """Any network of this kit, with everything that trains it, for ``lightning.pytorch.Trainer``::

        module = SpikingModule(models.mlp(), encoder="repeat", steps=25, loss="count_cross_entropy", lr=2e-3)
        Trainer(max_epochs=3, devices=2, strategy="ddp").fit(module, MNISTDataModule(global_batch_size=128))
        module.model                                    # the plain network, trained

    A batch is a pair (samples [B, ...], targets [B, ...]) of any data loader, or a ``Batch`` of ``SharedBatches``, with
    which gradients are those of the mean loss over all samples of an update, on any number of ranks. Samples of uint8
    are scaled to [0, 1]. Targets are class labels or numbers, per sample or per time step, as for ``train.fit``. No
    state is carried from batch to batch: the network starts each one at rest.

    Logged for each of the stages train, val and test, over all ranks: ``<stage>/loss``, ``<stage>/acc`` (as
    for ``train.fit``; not for targets without classes; with ``metric``, ``<stage>/<its name>`` instead) and
    ``<stage>/rate``, the mean output per neuron and step; and ``train/loss_step``, of this rank, every
    ``log_every_n_steps`` of the trainer.

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
            ``snnkit.encode``, "sequence" or None for samples that are sequences [B, T, ...], or a function.
        steps: T, for an encoder with a name.
        loss: name of a loss of ``snnkit.loss``, or a function (out, targets) -> scalar. Computed in float32.
        metric: what is logged in place of the accuracy: a function (out, targets) -> number, or a metric of
            torchmetrics, as for ``train.fit``. Values of all ranks are averaged over their samples.
        optimizer: "adam", "adamw", "sgd" (with momentum 0.9), or a function of the model that returns an optimizer.
        lr: of an optimizer with a name, and the highest of "one-cycle".
        scheduler: "constant"; "cosine", which falls to 0 from epoch to epoch, or with every update where the trainer's
            ``max_steps`` end the run; "one-cycle", which rises and falls with every update. The last two need to know
            how long the run is, and are resumed with the same length only. For another one, override
            ``configure_optimizers``.
        augment: images [B, ...] to images; in training only.
        regulariser, record_states: as for ``train.fit``; logged as ``train/regulariser``.
        seed: seed of everything random in training, except initial weights and the order of samples.
        channels_last: weights and images in that memory format. None: if the model has 2-D convolutions, which are
            fastest in it.
        compile: run the network under ``torch.compile``, for training batches of full size. If that fails, a warning
            says why.

    Attributes:
        model: the network.
        recipe: of which this is a run (``run_recipe``); None for others.
        step_loss: mean loss of the latest training batch of this rank, detached; None before the first.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        encoder: str | Callable[[Any], Tensor] | None = "repeat",
        steps: int = 25,
        loss: str | Callable[[Tensor, Tensor], Tensor] = "rate_cross_entropy",
        metric: Callable[..., Any] | None = None,
        optimizer: str | Callable[[nn.Module], torch.optim.Optimizer] = "adam",
        lr: float = 1e-3,
        scheduler: str = "constant",
        augment: Callable[[Tensor], Tensor] | None = None,
        regulariser: Callable[[Activity], Tensor] | None = None,
        record_states: bool = False,
        seed: int = 0,
        channels_last: bool | None = None,
        compile: bool = False,
    ) -> None:
        super().__init__()
        check_trainable(model)
        check_regulariser(model, regulariser, compile, record_states)
        integer("steps", steps, at_least=1)
        encoder = "sequence" if encoder is None else encoder
        for name, given, names in (
            ("encoder", encoder, ENCODERS),
            ("loss", loss, LOSSES),
            ("optimizer", optimizer, OPTIMIZERS),
        ):
            if not callable(given):
                choice(f"{name}, if it is no function,", given, names)
        self.encoder = make_encoder(encoder, steps) if isinstance(encoder, str) else encoder
        self.criterion = getattr(losses, loss) if isinstance(loss, str) else loss
        self.augment, self.regulariser, self.record_states = augment, regulariser, record_states
        self.optimizer, self.scheduler = optimizer, choice("scheduler", scheduler, SCHEDULES)
        self.lr, self.seed = number("lr", lr, above=0), check_seed(seed)
        self.channels_last = use_channels_last(model, channels_last)
        self.model = model
        self.metric = metric
        self._pairing = Pairing("loss")
        self._metrics: dict[str, tuple[RunningMetrics, Metric]] = {}  # by stage
        self._compiled = Compiled(model) if compile else None
        given = {"encoder": encoder, "loss": loss, "optimizer": optimizer, "augment": augment, "metric": metric}
        given["regulariser"] = regulariser
        self._functions = [name for name, value in given.items() if callable(value)]  # not in a checkpoint
        given |= {"steps": steps, "lr": lr, "scheduler": scheduler, "seed": seed}
        given |= {"channels_last": channels_last, "compile": compile, "record_states": record_states}
        self._settings = self._settings_to_store({n: value for n, value in given.items() if n not in self._functions})
        self._generators = generators_of(self.encoder, augment, self.criterion, regulariser, model)
        self._totals: Tensor | None = None  # of the metrics, from a checkpoint
        self._positions: list[dict[str, Any]] = []  # of the data loader, from a checkpoint
        self._first_epoch = 0  # of this run, from a checkpoint
        self.recipe: Recipe | None = None
        self._warned_of_order = False
        self._length: tuple[int, str] | None = None  # of the run that the schedule knows, in "epoch" or "step"
        self.step_loss: Tensor | None = None

    def _settings_to_store(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Those that ``load_from_checkpoint`` needs: of a subclass with ``**``, the settings that it was called with.

        It sets the others itself, and would get them twice.
        """
        code = getattr(type(self).__init__, "__code__", None)
        frame = sys._getframe(2)
        while frame is not None and frame.f_code is not code:
            frame = frame.f_back
        if frame is None or code is None or type(self) is SpikingModule or not code.co_flags & inspect.CO_VARKEYWORDS:
            return settings
        named = code.co_argcount + code.co_kwonlyargcount
        through = frame.f_locals[code.co_varnames[named + bool(code.co_flags & inspect.CO_VARARGS)]]
        return {name: value for name, value in settings.items() if name in (*code.co_varnames[:named], *through)}

    @classmethod
    def load_from_checkpoint(
        cls,
        checkpoint_path: str | Path,
        map_location: Any = None,
        hparams_file: str | Path | None = None,
        strict: bool | None = None,
        weights_only: bool | None = None,
        **kwargs: Any,
    ) -> Self:
        """The module of a checkpoint, with its weights and the settings that the file holds.

        For a run of a recipe (``run_recipe``, `snnkit train`) the path is enough. Otherwise a file holds names and
        numbers, but neither layers nor functions: give ``model=`` and those arguments that were functions.

        Args:
            checkpoint_path: a file of this machine.
            map_location, hparams_file, strict: as for Lightning.
            weights_only: False leaves everything to Lightning, which may then run code of the file.
            kwargs: arguments of the class, in place of those of the file.

        Raises:
            FileNotFoundError: there is no file.
            ValueError: it is damaged, or no checkpoint of Lightning's Trainer; it does not fit the model; an argument
                is missing, which the message names.
        """
        checks.instance("checkpoint_path", checkpoint_path, (str, os.PathLike), "the path of a file")
        if weights_only is False:
            return super().load_from_checkpoint(checkpoint_path, map_location, hparams_file, strict, False, **kwargs)
        path, content = read_archive(checkpoint_path, "checkpoint", "cpu")
        recipe = None
        with naming(path, "loaded"), torch.random.fork_rng(devices=[]):  # initial weights are drawn, and replaced
            if not isinstance(content, dict) or LIGHTNING_KEY not in content:
                raise ValueError("it is no checkpoint of Lightning's Trainer")
            if (saved := content.get(_RECIPE)) is not None:
                recipe = Recipe(**mapping("recipe", saved, "settings"))
                network = kwargs["model"] if "model" in kwargs else recipe.build()
                kwargs = {"model": network, **arguments_of(recipe, network), **kwargs}
            elif "model" not in kwargs and "model" in inspect.signature(cls).parameters:
                raise ValueError("it holds weights, but not the layers they belong to: give the network as model=")
            elif missing := [name for name in content.get(_FUNCTIONS, []) if name not in kwargs]:
                raise ValueError(f"{missing[0]} was a function, which no file holds: give it as {missing[0]}=")
            made = super().load_from_checkpoint(path, map_location, hparams_file, strict, weights_only, **kwargs)
            made.recipe = recipe
            return made

    @property
    def metric_name(self) -> str | None:
        """The name of what is logged beside loss and rate: "accuracy" (as "acc"), that of ``metric``, or None."""
        return self._measures("train")[1].name

    def forward(self, samples: Tensor) -> Tensor:
        """Samples [B, ...] to the network's output [T, B, classes]."""
        return run_model(self.model, self.model, self.encoder, self._prepared(samples))

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        samples, targets, weight = self._unpacked(batch)
        self._seed("train", batch_idx)
        x = augmented(self.augment, self._prepared(samples))
        out, penalty = run_regularised(
            lambda: run_model(self._compiled or self.model, self.model, self.encoder, x),
            self.model, self.regulariser, self.record_states,
        )  # fmt: skip
        plain = self._loss(out, targets)
        loss = plain if penalty is None else plain + penalty
        self._check_loss(loss.detach(), batch_idx)
        self._count("train", plain, out, targets, weight, penalty)
        self.step_loss = loss.detach()
        every = self.trainer.log_every_n_steps  # type: ignore[attr-defined]
        if every and (self.global_step + 1) % every == 0:  # when loggers write, as a call takes long
            # Not for Lightning's bar (prog_bar), which would make each batch wait for the device.
            self.log("train/loss_step", self.step_loss, on_step=True, on_epoch=False, batch_size=len(targets))
        return loss if weight == 1.0 else loss * weight

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self._evaluate("val", batch, batch_idx)

    def test_step(self, batch: Any, batch_idx: int) -> None:
        self._evaluate("test", batch, batch_idx)

    def predict_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Scores [B, classes], of which the largest is the answer that the loss asks for, also without labels.

        They are sums over time; of "membrane_max_cross_entropy" the highest potentials, and of a loss of first spikes
        minus the steps at which these occur.
        """
        alone = isinstance(batch, (tuple, list)) and len(batch) == 1
        samples = batch if isinstance(batch, Tensor) else batch[0] if alone else self._unpacked(batch)[0]
        self._seed("predict", integer("batch_idx", batch_idx, at_least=0))
        scores = class_scores(self(samples), self.criterion)
        return scores[:0] if isinstance(batch, Batch) and not batch.weight else scores  # that sample is another rank's

    def configure_optimizers(self) -> Any:
        if isinstance(self.optimizer, str):
            # Lightning refuses a fused optimizer where it clips gradients in mixed precision.
            clips = "mixed" in str(self.trainer.precision_plugin.precision) and self.trainer.gradient_clip_val
            optimizer = make_optimizer(self.optimizer, self.model, self.lr, fused=not clips)
        else:
            optimizer = self.optimizer(self.model)
            instance("the result of optimizer", optimizer, torch.optim.Optimizer, "a torch.optim.Optimizer")
        optimizer.register_load_state_dict_pre_hook(keep_kernels)  # for a checkpoint from another device
        if self.scheduler == "constant":
            return optimizer
        self._length = length, interval = self._run_length()
        if self.scheduler == "one-cycle":
            rate = OneCycle(optimizer, self.lr, length).rate
            for group in optimizer.param_groups:
                group["lr"] = self.lr
            schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: rate(update) / self.lr)
        else:
            schedule = make_scheduler(self.scheduler, optimizer, length)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": interval}}

    def _run_length(self) -> tuple[int, str]:
        """Epochs and "epoch" for a cosine where ``max_epochs`` ends the run; elsewhere updates and "step"."""
        trainer, cosine = self.trainer, self.scheduler == "cosine"
        epochs, steps = trainer.max_epochs or 0, math.inf if trainer.max_steps == -1 else trainer.max_steps
        if cosine and epochs != -1 and steps == math.inf:
            return max(epochs, 1), "epoch"
        updates = float(trainer.estimated_stepping_batches)  # makes the loader
        if epochs != -1:
            batches = trainer.num_training_batches
            changing = [each for each in trainer.callbacks if isinstance(each, GradientAccumulationScheduler)]  # type: ignore[attr-defined]
            if batches == math.inf:
                updates = math.inf
            elif changing:
                per_epoch = (-(-batches // changing[0].get_accumulate_grad_batches(epoch)) for epoch in range(epochs))
                updates = min(sum(per_epoch), steps)
            if cosine and updates < steps:
                return max(epochs, 1), "epoch"
        if updates == math.inf:
            raise ValueError(
                f"scheduler {self.scheduler!r} must know how long the run is: give the Trainer max_epochs or max_steps "
                "(max_time does not say it); for a loader without a length limit_train_batches, or max_steps alone"
            )
        return max(int(updates), 1), "step"

    def on_fit_start(self) -> None:
        self._seed_order(self._first_epoch)  # the loader's first iterator is made after this
        self._first_epoch = 0

    def on_train_start(self) -> None:
        for optimizer in self.trainer.optimizers:
            match_strides(optimizer)
        if self._totals is not None and self.global_rank == 0:
            totals, saved = self._measures("train")[0].totals, self._totals
            # Files of before have no regulariser.
            totals.copy_(saved if len(saved) == len(totals) else torch.cat([saved[:3], saved.new_zeros(1), saved[3:]]))
        self._totals = None
        # Lightning forgets the position in the epoch where a schedule reads the number of updates in advance, for which
        # it makes the loader before it reads the position.
        loader = self.trainer.train_dataloader
        if self._positions and isinstance(loader, SharedBatches):
            loader.load_state_dict(self._positions[0])
        self._positions = []
        if isinstance(loader, SharedBatches) and loader.smallest_share(self.trainer.num_training_batches) == 1:
            which = "a batch" if loader.world == 1 else "a rank's share of a batch"
            advice = f"choose another batch size than {loader.batch_size}, or leave samples out"
            check_batch_of_one(self.model, self.encoder, loader.samples[:1], which, advice, self.augment)

    def on_train_epoch_start(self) -> None:  # not called where a run is resumed within an epoch
        if self.current_epoch and not self.trainer.fit_loop.is_resuming:  # each further one after this
            self._seed_order(self.current_epoch)
        self._reset("train")

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
        if "optimizer_states" in checkpoint and not self._is_sharded():
            states = zip(checkpoint["optimizer_states"], self.trainer.optimizers, strict=True)
            checkpoint["optimizer_states"] = [with_names(state, optimizer, self) for state, optimizer in states]
        if self._length is not None:
            checkpoint[_LENGTH] = list(self._length)
        settings = self.CHECKPOINT_HYPER_PARAMS_KEY
        checkpoint[settings] = self._settings | dict(checkpoint.get(settings, {}))  # first those of a subclass
        checkpoint[_FUNCTIONS], checkpoint[_RECIPE] = self._functions, self.recipe and self.recipe.settings()
        checkpoint[_MEASURED] = self._measured()
        checkpoint[_TOTALS] = self.trainer.strategy.reduce(self._measures("train")[0].totals.clone(), reduce_op="sum")

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Before anything of it is restored. ValueError, naming the file, unless all of it can be."""
        if self._trainer is None:
            check_weights_fit(checkpoint["state_dict"], self.state_dict(), strict=False)  # names are Lightning's matter
        if self._trainer is None or self._is_sharded():
            return
        trainer = self.trainer
        fitting = trainer.state.fn == "fit"
        with naming(trainer.ckpt_path, "resumed from" if fitting else "loaded"):
            if isinstance(trainer.precision_plugin, (DoublePrecision, HalfPrecision)):
                trainer.precision_plugin.convert_module(self)  # Lightning does so later, and rounds the weights before
            weights = instance("state_dict", checkpoint.get("state_dict"), dict, "a dict")
            check_weights_fit(weights, self.state_dict(), strict=self.strict_loading)
            if fitting:
                self._check_run(checkpoint)
        if not fitting:
            return
        fit = checkpoint["loops"]["fit_loop"]
        within = epoch_in_progress(checkpoint["loops"])
        done = within and fit["epoch_loop.batch_progress"]["is_last_batch"]
        self._first_epoch = fit["epoch_progress"]["current"]["processed"] + done
        if within:
            self._positions = fit["state_dict"].get("combined_loader", [])
            self._totals = checkpoint.get(_TOTALS)

    def _check_run(self, checkpoint: dict[str, Any]) -> None:
        """Compare all else that ``Trainer.fit`` would take over, and put averages into the order of the parameters."""
        trainer = self.trainer
        if missing := [name for name in ("loops", "optimizer_states", "lr_schedulers") if name not in checkpoint]:
            raise ValueError(f"it has no {missing[0]}, as a file of weights only; load_from_checkpoint reads it")
        own_loop = trainer.fit_loop.state_dict() | {"state_dict": {}}  # those of loaders are compared below
        check_like("loops", checkpoint["loops"], {"fit_loop": own_loop})
        # Those that train are made later, on their device.
        trainer.strategy.setup_optimizers(trainer)
        for name, current in (
            ("optimizer_states", trainer.optimizers),
            ("lr_schedulers", trainer.lr_scheduler_configs),
        ):
            if not isinstance(checkpoint[name], list) or len(checkpoint[name]) != len(current):
                raise ValueError(f"{name} must be a list of {len(current)}, but it is {shown(checkpoint[name])}")
        started = integer("global_step", checkpoint.get("global_step"), at_least=0) > 0
        checkpoint["optimizer_states"] = [
            matched(saved, optimizer, self, started=started)
            for saved, optimizer in zip(checkpoint["optimizer_states"], trainer.optimizers, strict=True)
        ]
        checkpoint["lr_schedulers"] = [
            like("scheduler", saved, config.scheduler.state_dict())
            for saved, config in zip(checkpoint["lr_schedulers"], trainer.lr_scheduler_configs, strict=True)
        ]
        if self._length is not None and (saved := checkpoint.get(_LENGTH)) not in (None, list(self._length)):
            raise ValueError(
                f"the run, over which the learning rate falls, must be as long as that which wrote it, {shown(saved)}, "
                f"but it is {list(self._length)}; to begin a new one with its weights, use load_from_checkpoint"
            )
        plugin = trainer.precision_plugin
        if (name := type(plugin).__qualname__) in checkpoint and (current := plugin.state_dict()):
            check_like(name, checkpoint[name], current)
        sizes = [f"{dtype} [{n}]" for dtype in ("float64", "float32") for n in (MEASURED, MEASURED + 1)]
        if (totals := checkpoint.get(_TOTALS)) is not None and kind(totals) not in sizes:
            raise ValueError(f"{_TOTALS} must be a tensor of {MEASURED + 1} numbers, but it is {shown(totals)}")
        if epoch_in_progress(checkpoint["loops"]) and (saved := checkpoint.get(_MEASURED)) is not None:
            check_measured(*saved, *self._measured())  # the totals go on
        positions = checkpoint["loops"]["fit_loop"]["state_dict"].get("combined_loader", [])
        data = getattr(trainer, "datamodule", None)
        if instance("combined_loader", positions, list, "a list") and isinstance(data, SharedDataModule):
            data.train_dataloader().load_state_dict(positions[0])
        states = instance("callbacks", checkpoint.get("callbacks", {}), dict, "a dict")
        if "Chronicle" in states:  # the callback's name in checkpoints until November 2026
            states["HistoryCallback"] = states.pop("Chronicle")
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            state = states.get(callback.state_key)
            if state is not None and type(callback).__module__.startswith("snnkit."):
                (trial := copy.copy(callback)).load_state_dict(state)
                if isinstance(history := getattr(trial, "history", None), History):
                    history.check_continued(*self._measured())

    def _is_sharded(self) -> bool:
        """Whether no rank has the whole network: Lightning then restores after it has distributed it."""
        return self.trainer.strategy.restore_checkpoint_after_setup

    def _evaluate(self, stage: str, batch: Any, batch_idx: int) -> None:
        samples, targets, weight = self._unpacked(batch)
        self._seed(stage, batch_idx)
        out = self(samples)
        self._count(stage, self._loss(out, targets), out, targets, weight)

    def _unpacked(self, batch: Any) -> tuple[Any, Tensor, float]:
        if isinstance(batch, Batch):
            return batch
        if not isinstance(batch, (tuple, list)) or len(batch) != 2:
            raise TypeError(f"batch must be a pair (samples, targets), but it is {shown(batch)}")
        samples, targets = checked_pair(batch[0], batch[1], "a batch")
        return samples, targets.to(self.device), 1.0

    def _prepared(self, samples: Any) -> Any:
        x = prepared(as_samples(samples, "a batch"))
        if x is not samples:
            x = x.to(self.dtype)  # images
        if self.channels_last and isinstance(x, Tensor) and x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        return x

    def _loss(self, out: Tensor, targets: Tensor) -> Tensor:
        with torch.autocast(out.device.type, enabled=False):
            return apply_loss(self.criterion, out, aligned(targets, out), self._pairing)

    def _check_loss(self, loss: Tensor, batch_idx: int) -> None:
        """On a CPU FloatingPointError for a loss that is not finite; elsewhere set a flag that is read later."""
        if loss.device.type != "cpu":
            self._measures("train")[0].watch(loss)
            return
        value = loss.item()
        if value - value == 0:  # neither NaN nor infinity
            return
        where = f"epoch {self.current_epoch + 1}, batch {batch_idx + 1} of {self.trainer.num_training_batches}"
        raise loss_not_finite(self.model, value, where, self.trainer.optimizers[0])

    def _check_flag(self) -> None:
        """Raise FloatingPointError if a loss on an accelerator was not finite."""
        if self._measures("train")[0].stop.item():
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

    def _measures(self, stage: str) -> tuple[RunningMetrics, Metric]:
        known = self._metrics.get(stage)
        if known is None or known[0].totals.device != self.device:
            known = self._metrics[stage] = RunningMetrics(self.device), Metric(self.metric, self.device, self.criterion)
        return known

    def _measured(self) -> list[Any]:
        return [None if self.metric is None else self.metric_name, self.regulariser is not None]

    def _reset(self, stage: str) -> None:
        for part in self._measures(stage):
            part.reset()

    def _count(
        self, stage: str, loss: Tensor, out: Tensor, targets: Tensor, weight: float, penalty: Tensor | None = None
    ) -> None:
        if weight:  # else the samples are those of another rank
            metrics, metric = self._measures(stage)
            metrics.add(batch_metrics(loss, out, aligned(targets, out), metric, penalty), len(targets))

    def _log_metrics(self, stage: str) -> None:
        """Means over the samples of all ranks, which all have to call this."""
        metrics, metric = self._measures(stage)
        loss, value, rate, penalty, samples = self.trainer.strategy.reduce(metrics.totals.clone(), reduce_op="sum")
        if samples:
            shown = {"loss": loss / samples, "rate": rate / samples}
            if self.regulariser is not None and stage == "train":
                shown["regulariser"] = penalty / samples
            if metric.name is not None:
                name = "acc" if metric.name == ACCURACY else metric.name
                shown[name] = torch.tensor(metric.of_epoch(float(value / samples)), device=self.device)
            options: dict[str, Any] = {"on_step": False, "on_epoch": True, "sync_dist": True, "batch_size": 1}
            for name, value in shown.items():
                self.log(f"{stage}/{name}", value, prog_bar=name not in ("rate", "regulariser"), **options)
        self._reset(stage)
