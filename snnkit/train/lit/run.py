"""A recipe through Lightning: on one device or on many, from a notebook, ``torchrun`` or ``srun``."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from lightning.fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning.pytorch import Callback, LightningDataModule, Trainer
from torch import nn

from snnkit.data._batches import check_positive_int, check_real
from snnkit.device.precision import Precision
from snnkit.train import recipes
from snnkit.train.arguments import check_callables
from snnkit.train.history import History
from snnkit.train.lit.checkpoint import AtomicCheckpointIO
from snnkit.train.lit.data import DigitsDataModule, FashionMNISTDataModule, MNISTDataModule
from snnkit.train.lit.faults import RankError, explained, watching_launcher
from snnkit.train.lit.gradients import SteadyDDP
from snnkit.train.lit.history import Chronicle
from snnkit.train.lit.keeper import Keeper
from snnkit.train.lit.module import SpikingModule
from snnkit.train.lit.preempt import REQUEUE, Notes, Stopped
from snnkit.train.place import Place
from snnkit.train.recipe import Recipe
from snnkit.train.seed import seed_everything

__all__ = ["RankError", "ScaledRun", "run_recipe"]

_DATA = {"digits": DigitsDataModule, "mnist": MNISTDataModule, "fashion": FashionMNISTDataModule}
_EVALUATED = 256  # samples per rank and batch, as in ``train.evaluate``


@dataclass
class ScaledRun(recipes.Run):
    """What ``run_recipe`` gives, on every rank: recipe, trained model, history and device as ``recipes.Run``, and

    Attributes:
        place: this rank among all.
        updates: of the weights, those before a resume included.
        stopped: why the run ended before its time; None: it is finished.
        requeued: on rank 0, where its SLURM job is in the queue again, what to tell of it; else empty.
    """

    place: Place = field(default_factory=Place)
    updates: int = 0
    stopped: Stopped | None = None
    requeued: str = ""


def run_recipe(
    recipe: Recipe | str,
    *,
    devices: int | None = None,
    nodes: int | None = None,
    root: str | os.PathLike[str] | None = None,
    download: bool = True,
    device: str | torch.device = "auto",
    progress: bool = True,
    on_epoch: Callable[[History, nn.Module], Any] | Iterable[Callable[[History, nn.Module], Any]] = (),
    callbacks: Iterable[Callback] = (),
    checkpoint: str | os.PathLike[str] | None = None,
    every: int | None = None,
    resume: bool = False,
    timeout: float = 300.0,
    requeue_signal: str | signal.Signals | None = "SIGUSR1",
    **settings: Any,
) -> ScaledRun:
    """Train as a recipe says, through Lightning's Trainer, in this process, as the rank that the environment says.

    Under ``torchrun``, ``snnkit.train.launch.launch`` or ``srun`` each rank calls this once, with the same arguments;
    alone it is one rank. It starts no processes. The batch size of a recipe is that of all ranks together.

    Ranks that get SIGTERM or Ctrl-C agree after the update under way, save, and return with ``stopped`` set; at the end
    of an epoch, after its validation. Under SLURM, with the signal to requeue, rank 0 puts the job back into the queue,
    too.

    Args:
        recipe, root, download, settings: as ``recipes.run``. ``graphed`` can't be had here.
        devices: ranks per node, nodes: how many; None: as the environment says. Others than these are refused.
        device: "auto", "cpu" or "cuda"; each rank takes the CUDA device of its local rank.
        progress: a bar, on rank 0.
        on_epoch: as ``recipes.run``; called on rank 0 only.
        callbacks: of Lightning.
        checkpoint: a file, written by rank 0 after every epoch and every ``every`` updates; its settings beside it. All
            ranks must see it.
        every: updates between checkpoints within an epoch; None: only at the ends of epochs.
        resume: go on from ``checkpoint`` where it is, as if nothing had happened: on a CPU with the same number of
            ranks the weights are the same to the bit.
        timeout: seconds after which ranks that wait for one that is dead or stuck give up.
        requeue_signal: under SLURM, the signal upon which to save, requeue the job and stop; None: none.

    Raises:
        ValueError, TypeError: as ``recipes.run``; a batch size that the ranks can't share; more CUDA devices than
            there are; a checkpoint of another model or of ``fit``; arguments that differ between ranks.
        FileExistsError: ``checkpoint`` is there, and ``resume`` is not asked for.
        FloatingPointError: a loss or a weight that is no finite number.
        RankError: another rank died or is stuck, the ranks could not meet; says what to look at.
        RequeueError: saved, but ``scontrol`` did not requeue the job.
    """
    place = Place.found()
    for name, value in (("devices", devices), ("nodes", nodes), ("every", every)):
        if value is not None:
            check_positive_int(name, value)
    _check_seconds(timeout)
    place.check(devices, nodes)
    asked = _signal_of(requeue_signal)
    number = asked if place.launcher == "srun" else None  # elsewhere nobody could requeue anything
    tell = [on_epoch] if callable(on_epoch) else list(on_epoch)
    for callback in tell:
        check_callables(on_epoch=callback)
    recipe, file = recipes.chosen(recipe, settings, checkpoint, resume)
    if recipe.graphed:
        raise ValueError("graphed must not be True here: Lightning's Trainer makes the updates; leave it out")
    place.check_batch(recipe.batch_size)
    target = place.device(device)
    found = file is not None and resume and file.checkpoint.exists()

    with watching_launcher(place), Notes(number).listening() as notes, explained(place, timeout), _quiet():
        seed_everything(recipe.seed)
        network = recipe.build()
        module = SpikingModule(network, **_module_options(recipe, network, target))
        data = _data_of(recipe, root, download)
        chronicle = Chronicle()

        def epoch_over(_: Any) -> None:
            for callback in tell:
                callback(chronicle.history, network)

        keeper = Keeper(
            notes,
            None if file is None else file.checkpoint,
            every,
            on_epoch=epoch_over,
            begin=lambda: None if file is None else file.write(recipe),
            timeout=timeout,
            same={"the recipe": recipe.settings(), "whether there is a checkpoint": found, "torch": torch.__version__},
        )
        trainer = Trainer(
            accelerator="gpu" if target.type == "cuda" else target.type,
            devices=[target.index] if target.type == "cuda" and place.world == 1 else place.per_node,
            num_nodes=place.nodes,
            strategy="auto" if place.world == 1 else SteadyDDP(network, timeout),
            precision=_precision(recipe, target),
            max_epochs=recipe.epochs,
            accumulate_grad_batches=recipe.accumulate,
            gradient_clip_val=recipe.clip,
            callbacks=[chronicle, *_bar(progress, place), *callbacks, keeper],
            plugins=[_environment(place, number), AtomicCheckpointIO()],
            logger=False,
            num_sanity_val_steps=0,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
        )
        stopped = None
        try:
            trainer.fit(module, data, ckpt_path=str(file.checkpoint) if file is not None and found else None)
        except Stopped as stop:
            stopped = stop
        except RuntimeError as error:
            if "loading state_dict" not in str(error):
                raise
            assert file is not None
            raise ValueError(f"{file.checkpoint} does not fit the model: {error}") from None
        requeued = ""
        if stopped is not None and stopped.cause == REQUEUE:
            assert keeper.agreement is not None
            requeued = keeper.agreement.requeue()
    chronicle.history.interrupted = stopped is not None
    network.to(target)
    return ScaledRun(recipe, network, chronicle.history, target, place, keeper.updates, stopped, requeued)


def _check_seconds(timeout: float) -> None:
    check_real("timeout", timeout)
    if not (timeout > 0 and math.isfinite(timeout)):
        raise ValueError(f"timeout must be a finite number of seconds above 0; got {timeout!r}")


def _signal_of(name: str | signal.Signals | None) -> signal.Signals | None:
    if name is None or isinstance(name, signal.Signals):
        return name
    known = [member.name for member in signal.Signals]
    full = name if name.startswith("SIG") else f"SIG{name}"
    if full not in known or full in ("SIGKILL", "SIGSTOP", "SIGTERM", "SIGINT"):
        raise ValueError(f"requeue_signal must name a signal that can be handled, such as 'SIGUSR1'; got {name!r}")
    return signal.Signals[full]


def _module_options(recipe: Recipe, network: nn.Module, target: torch.device) -> dict[str, Any]:
    options: dict[str, Any] = {"lr": recipe.lr, "weight_decay": recipe.weight_decay}
    if target.type == "cuda" and not (recipe.clip and _precision(recipe, target) == "16-mixed"):
        options["fused"] = True  # which Lightning refuses where it clips gradients that are scaled
    kind = partial(torch.optim.SGD, momentum=recipe.momentum) if recipe.optimizer == "sgd" else torch.optim.Adam
    return {
        "encoder": recipe.encoder(network),
        "loss": recipe.criterion(),
        "optimizer": partial(kind, **options),
        "lr": recipe.lr,
        "scheduler": recipe.schedule,
        "augment": recipe.augmentation(),
        "seed": recipe.seed,
        "channels_last": recipe.channels_last,
        "compile": recipe.compile,
        "rates": False,
    }


def _data_of(recipe: Recipe, root: str | os.PathLike[str] | None, download: bool) -> LightningDataModule:
    where = {} if recipe.dataset == "digits" else {"root": root, "download": download}
    return _DATA[recipe.dataset](
        samples=recipe.samples,
        global_batch_size=recipe.batch_size,
        eval_batch_size=_EVALUATED,
        seed=recipe.seed,
        **where,
    )


def _precision(recipe: Recipe, target: torch.device) -> Any:
    dtype = Precision.choose(target, recipe.amp).dtype
    return {None: "32-true", torch.bfloat16: "bf16-mixed", torch.float16: "16-mixed"}[dtype]


def _environment(place: Place, requeue_signal: signal.Signals | None) -> ClusterEnvironment:
    """What Lightning finds its rank by."""
    if place.launcher == "srun":
        # The handler of the signal is ours (``preempt``); here Lightning learns that SLURM sends it.
        return SLURMEnvironment(auto_requeue=requeue_signal is not None, requeue_signal=requeue_signal)
    return TorchElasticEnvironment() if place.launcher == "torchrun" else LightningEnvironment()


def _bar(progress: bool, place: Place) -> list[Callback]:
    if not progress or place.rank or os.environ.get("SNNKIT_HEADLESS") == "1":
        return []
    from lightning.pytorch.callbacks import TQDMProgressBar

    return [TQDMProgressBar()]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Lightning's accounts of what it found and did, which say nothing here that isn't known."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*srun. command is available.*")
        warnings.filterwarnings("ignore", message=".*LeafSpec.* is deprecated.*")  # torch 2.13 of Lightning 2.6
        try:
            for logger in loggers:
                logger.setLevel(logging.WARNING)
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
