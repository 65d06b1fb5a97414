"""A recipe through Lightning: on one device or on many, from a notebook, ``torchrun`` or ``srun``."""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from lightning.fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import TQDMProgressBar
from lightning.pytorch.strategies import DDPStrategy
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from snnkit import checks
from snnkit.device import Precision
from snnkit.train import recipes
from snnkit.train.distributed import RankInfo
from snnkit.train.history import CallbackList, History
from snnkit.train.lit.data import DigitsDataModule, FashionMNISTDataModule, MNISTDataModule
from snnkit.train.lit.module import SpikingModule, arguments_of
from snnkit.train.lit.preemption import REQUEUE, SignalFlags, Stopped, explained
from snnkit.train.lit.resume import AtomicCheckpointIO, ResumableCheckpoint
from snnkit.train.metrics import ACCURACY
from snnkit.train.recipe import Recipe
from snnkit.train.seeding import seed_everything
from snnkit.train.slurm.syntax import REQUEUE_SIGNAL


class HistoryCallback(Callback):
    """Writes each epoch into ``history``, the same on all ranks, and into checkpoints.

    The metrics are those of a ``SpikingModule`` with a data module of the kit over all ranks; its validation data are
    called test data here, as in ``fit``. The seconds of an interrupted epoch are the sum of its parts. Work that a kill
    lost after the last checkpoint is not counted.
    """

    _LOGGED = {  # noqa: RUF012
        "train_loss": "train/loss",
        "train_accuracy": "train/acc",
        "output_rate": "train/rate",
        "regulariser": "train/regulariser",
        "test_loss": "val/loss",
        "test_accuracy": "val/acc",
    }

    def __init__(self) -> None:
        self.history = History()
        self._seconds = 0.0  # of this epoch, up to the last batch
        self._samples = 0  # of this epoch, on all ranks
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
        self._samples += len(batch[0]) * trainer.world_size
        self._seconds += now - self._clock
        self._clock = now

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # On every rank, as metrics are added up over ranks when they are read.
        logged, history = trainer.callback_metrics, self.history
        metric = getattr(pl_module, "metric_name", ACCURACY)
        history.metric = None if metric == ACCURACY else metric
        of_metric = {"train_metric": f"train/{metric}", "test_metric": f"val/{metric}"}
        for name, key in (self._LOGGED | of_metric).items():
            if key in logged:
                getattr(history, name).append(float(logged[key]))
        # Ranks of the kit share a batch unevenly, and it knows all; another loader gives each rank as many.
        samples = len(getattr(trainer.train_dataloader, "labels", ())) or self._samples
        history.seconds.append(self._seconds)
        history.samples_per_second.append(samples / max(self._seconds, 1e-9))
        self._seconds, self._samples = 0.0, 0

    def state_dict(self) -> dict[str, Any]:
        return {"history": self.history.to_dict(), "seconds": self._seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.history, self._seconds = History.from_dict(state_dict["history"]), state_dict["seconds"]


class RankRecorder(Callback):
    """What this rank computes in each update, and when: to compare ranks with each other, and with one process.

    Attributes:
        spans: of each update a list of (what, start, end), in seconds since 1970: "forward", "backward", "optimizer",
            and "all-reduce", which overlaps with backward. On a GPU these are the times at which work was sent to it.
        labels: of each batch, int64 [B].
        losses: of each batch, as ``SpikingModule.step_loss`` has them.
        gradient: of the first update, [W], after the all-reduce; an empty list before.
        weights: after each update, [W] each.
    """

    _SEEN = ("spans", "labels", "losses", "gradient", "weights")

    def __init__(self) -> None:
        self.spans: list[list[tuple[str, float, float]]] = []
        self.labels: list[Tensor] = []
        self.losses: list[float] = []
        self.gradient: Tensor | list[Any] = []
        self.weights: list[Tensor] = []
        self.last = 0.0

    def seen(self) -> dict[str, Any]:
        """The attributes by name, tensors and plain values: what a rank hands over."""
        return {name: getattr(self, name) for name in self._SEEN}

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.world_size > 1:
            trainer.strategy.model.register_comm_hook(self, _all_reduce)  # type: ignore[union-attr, operator]

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.labels.append(batch.labels.cpu())
        self.spans.append([])
        self.last = time.time()

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        self._note("forward")

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._note("backward")
        if not len(self.gradient):
            self.gradient = torch.cat([p.grad.flatten() for p in pl_module.parameters() if p.grad is not None]).cpu()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._note("optimizer")
        self.losses.append(float(pl_module.step_loss))  # type: ignore[arg-type]
        self.weights.append(torch.cat([p.detach().flatten() for p in pl_module.parameters()]).cpu())

    def _note(self, what: str) -> None:
        start, self.last = self.last, time.time()
        self.spans[-1].append((what, start, self.last))


def _all_reduce(recorder, bucket):  # DDP refuses hooks whose annotations are texts
    """What DDP does by default, with its start and its end."""
    start, spans = time.time(), recorder.spans[-1]
    work: Any = dist.all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True)

    def done(future: Any) -> Any:
        spans.append(("all-reduce", start, time.time()))
        return future.value()[0]

    return work.get_future().then(done)


class ResumableDDP(DDPStrategy):
    """Lightning's "ddp" with which a resumed run gives the same weights to the bit, on CPUs.

    DDP packs gradients into buckets in the order of the parameters, and again in the order in which the first backward
    pass produced them. The position of a number in a bucket decides with which rank its sum over ranks begins, so with
    three and more ranks the first update after each start would be rounded differently. Here, on CPUs, the first
    buckets stay. There is only one, because communication during the backward pass competes with it for the cores.

    The network may have parameters that no loss depends on, as on one device: they do not change.

    Args:
        network: whose gradients they are; running statistics of its batch norms are those of rank 0.
        timeout: seconds to wait for another rank.
    """

    @checks.arguments
    def __init__(self, network: nn.Module, timeout: float) -> None:
        # Only running statistics change by themselves; constants of neurons are the same on all ranks anyway.
        statistics = any(isinstance(module, _BatchNorm) for module in network.modules())
        known = inspect.signature(DistributedDataParallel).parameters
        # 2.13 has a new name for it and warns of the old one.
        buffers = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
        self._patience = checks.number("timeout", timeout, above=0, at_most=1e6)
        # With unused parameters allowed, DDP does not make its buckets again.
        options: dict[str, Any] = {"gradient_as_bucket_view": True, "find_unused_parameters": True, buffers: statistics}
        super().__init__(timeout=timedelta(seconds=timeout), **options)

    def configure_ddp(self) -> None:
        if self.root_device.type == "cuda":
            # Waiting in vain by gloo raises an error with a reason; NCCL's watchdog just ends the process.
            dist.distributed_c10d._set_pg_timeout(timedelta(seconds=2 * self._patience + 60))
        else:
            self._ddp_kwargs["bucket_cap_mb"] = 1024
        super().configure_ddp()

    def on_exception(self, exception: BaseException) -> None:
        super().on_exception(exception)
        if self.root_device.type == "cuda" and dist.is_initialized() and not isinstance(exception, Stopped):
            with contextlib.suppress(Exception):  # else the teardown waits for gradients that never come
                dist.distributed_c10d._get_default_group()._get_backend(self.root_device).abort()


@dataclass
class ScaledRun(recipes.Run):
    """The result of ``run_recipe`` on every rank."""

    rank_info: RankInfo = field(default_factory=RankInfo)  #: this rank among all
    updates: int = 0  #: of the weights, those before a resume included
    stopped: Stopped | None = None  #: why the run ended before its time; None: it is finished
    requeued: str = ""  #: on rank 0, where its SLURM job is in the queue again, a message


@checks.arguments
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
    **settings: Any,
) -> ScaledRun:
    """Train a recipe through Lightning's Trainer, in this process, as the rank that the environment names.

    Under ``torchrun``, ``train.launch`` or ``srun`` each rank calls this once, with the same arguments. Without a
    launcher it is one rank. It starts no processes. The batch size of a recipe is that of all ranks together.

    Ranks that receive SIGTERM or Ctrl-C agree after the current update, save, and return with ``stopped`` set. Under
    SLURM, with SIGUSR1, rank 0 also puts the job back into the queue.

    Args:
        recipe, root, download, settings: as ``recipes.run``. ``graphed`` is not possible here.
        devices: ranks per node, nodes: how many; None: as in the environment. Other numbers are refused.
        device: "auto", "cpu" or "cuda"; each rank takes the CUDA device of its local rank.
        progress, on_epoch: as ``recipes.run``, on rank 0.
        callbacks: of Lightning.
        checkpoint, resume: as ``recipes.run``, for a file that all ranks see; the weights are the same to the bit on a
            CPU with the same number of ranks.
        every: updates between checkpoints within an epoch; None: only at the ends of epochs.
        timeout: seconds that ranks wait for one that is dead or stuck.

    Raises:
        ValueError, FileExistsError: as ``recipes.run``; a batch size that the ranks can't share; more CUDA devices than
            there are; a checkpoint of another model or of ``fit``; arguments that differ between ranks.
        RankError: another rank died or is stuck, or the ranks could not meet; says what to check.
        RequeueError: saved, but ``scontrol`` did not requeue the job.
    """
    rank_info = RankInfo.from_environment()
    for name, value in (("devices", devices), ("nodes", nodes), ("every", every)):
        if value is not None:
            checks.integer(name, value, at_least=1)
    checks.number("timeout", timeout, above=0)
    rank_info.check(devices, nodes)
    requeuing = signal.Signals[REQUEUE_SIGNAL] if rank_info.launcher == "srun" else None  # elsewhere there is no queue
    callback = CallbackList("on_epoch", on_epoch)
    callbacks = [checks.instance("callbacks", one, Callback, "Lightning's callbacks") for one in callbacks]
    recipe, file = recipes.prepare(recipe, settings, checkpoint, resume)
    if recipe.graphed:
        raise ValueError("graphed must not be True here, as Lightning's Trainer makes the updates; leave it out")
    rank_info.check_batch(recipe.batch_size)
    target = rank_info.device(device)
    exists = file is not None and resume and file.checkpoint.exists()

    flags = SignalFlags(requeuing)
    with flags.listening(), explained(rank_info, timeout), quiet():
        seed_everything(recipe.seed)
        network = recipe.build()
        precision = Precision.choose(target, recipe.amp)
        history = HistoryCallback()
        keeper = ResumableCheckpoint(
            flags,
            None if file is None else file.checkpoint,
            every,
            on_epoch=lambda: callback(history.history, network),
            begin=lambda: None if file is None else file.write(recipe),
            timeout=timeout,
            same={"the recipe": recipe.settings(), "whether there is a checkpoint": exists, "torch": torch.__version__},
        )
        bar = (
            [TQDMProgressBar()] if progress and not rank_info.rank and os.environ.get("SNNKIT_HEADLESS") != "1" else []
        )
        trainer = Trainer(
            accelerator="gpu" if target.type == "cuda" else target.type,
            devices=[target.index] if target.type == "cuda" and rank_info.world == 1 else rank_info.per_node,
            num_nodes=rank_info.nodes,
            strategy="auto" if rank_info.world == 1 else ResumableDDP(network, timeout),
            precision={None: "32-true", torch.bfloat16: "bf16-mixed", torch.float16: "16-mixed"}[precision.dtype],  # type: ignore[arg-type]
            max_epochs=recipe.epochs,
            accumulate_grad_batches=recipe.accumulate,
            callbacks=[history, *bar, *callbacks, keeper],
            plugins=[_environment(rank_info, requeuing), AtomicCheckpointIO()],
            logger=False,
            num_sanity_val_steps=0,
            enable_progress_bar=bool(bar),
            enable_model_summary=False,
            use_distributed_sampler=False,
        )
        stopped = None
        try:
            trainer.fit(
                _module(recipe, network),
                _data(recipe, root, download),
                ckpt_path=str(file.checkpoint) if file is not None and exists else None,
            )
        except Stopped as stop:
            stopped = stop
        finally:
            callback.finish()
        requeued = ""
        if stopped is not None and stopped.cause == REQUEUE:
            requeued = keeper.consensus.requeue()
    history.history.interrupted = stopped is not None
    network.to(target)
    return ScaledRun(recipe, network, history.history, target, rank_info, keeper.updates, stopped, requeued)


def _module(recipe: Recipe, network: nn.Module) -> SpikingModule:
    made = SpikingModule(network, **arguments_of(recipe, network))
    made.recipe = recipe
    return made


def _data(recipe: Recipe, root: str | os.PathLike[str] | None, download: bool) -> MNISTDataModule:
    kinds = {kind.name: kind for kind in (MNISTDataModule, FashionMNISTDataModule, DigitsDataModule)}
    return kinds[recipe.dataset](
        root=root, download=download, samples=recipe.samples, global_batch_size=recipe.batch_size, seed=recipe.seed
    )


def _environment(rank_info: RankInfo, requeue_signal: signal.Signals | None) -> ClusterEnvironment:
    if rank_info.launcher == "srun":
        # The handler of the signal is ours (``preemption``); here Lightning learns that SLURM sends it.
        return SLURMEnvironment(auto_requeue=requeue_signal is not None, requeue_signal=requeue_signal)
    return TorchElasticEnvironment() if rank_info.launcher == "torchrun" else LightningEnvironment()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """In this context Lightning reports neither hardware and strategy nor its advice on workers and logs."""
    with contextlib.ExitStack() as stack, warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=".*(srun. command is available|many workers|log_every_n_steps|no `validation_step`).*"
        )
        warnings.filterwarnings("ignore", message="find_unused_parameters=True was specified")
        warnings.filterwarnings("ignore", message=".*LeafSpec.* is deprecated.*")  # torch 2.13 of Lightning 2.6
        for logger in map(logging.getLogger, ("lightning.pytorch", "lightning.fabric")):
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.WARNING)
        yield
