"""Tensors in memory as a data module of Lightning's."""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch import LightningDataModule
from lightning.pytorch.callbacks import GradientAccumulationScheduler
from torch import Tensor

from snnkit.data._batches import check_data, check_positive_int
from snnkit.train.lit.loader import Batch, SharedBatches, seed_of
from snnkit.train.seed import check_seed

__all__ = ["Data", "TensorDataModule", "check_pair"]

Data = tuple[Tensor, Tensor]


class TensorDataModule(LightningDataModule):
    """Samples and labels in memory, as batches that ranks share (``SharedBatches``)::

        spikes, labels = data.xor_in_time(1000)                     # [T, N, C], [N]
        whole = TensorDataModule((spikes.transpose(0, 1), labels), validation=200, batch_size=50)
        Trainer(max_epochs=20).fit(SpikingModule(net, encoder="sequence", classes=2), whole)

    Args:
        train: samples [N, ...], uint8 or floating point, and labels int64 [N].
        test: as ``train``; None: there is none.
        batch_size: of each rank, as Lightning means it. The batches of all ranks together grow with the ranks.
        global_batch_size: of all ranks together, a multiple of their number: learning rate and number of updates keep
            their meaning on any number of ranks. Give one of the two.
        validation: samples and labels; or how many of ``train`` to hold back, drawn with ``seed`` once and for all.
            None: validate on ``test``, as ``fit`` does.
        eval_batch_size: of each rank in validation, test and prediction; None: as in training.
        shuffle: False to train in the order of the data.
        seed: of the order and of what is held back; the same on all ranks.
        on_device: put all samples on the device of each rank, where a batch is a mere gather. False leaves them in the
            computer's memory, for a GPU whose own is too small.

    Raises:
        TypeError, ValueError: no data set; not exactly one batch size; a batch that the ranks can't share (when the
            trainer asks for it).
    """

    def __init__(
        self,
        train: Data,
        test: Data | None = None,
        *,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
        validation: Data | int | None = None,
        eval_batch_size: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        on_device: bool = True,
    ) -> None:
        super().__init__()
        for name, value in (("train", train), ("test", test), ("validation", validation)):
            if value is not None and not (name == "validation" and isinstance(value, int)):
                check_pair(value, name)
        self._given: tuple[Data, Data | None] = train, test
        self._configure(batch_size, global_batch_size, validation, eval_batch_size, shuffle, seed, on_device)
        if test is None:  # a loader that is not there, so that Lightning leaves out what needs it, or says so
            self.test_dataloader = self.predict_dataloader = super().test_dataloader  # type: ignore[method-assign]
            if validation is None:
                self.val_dataloader = super().val_dataloader  # type: ignore[method-assign]

    def _configure(
        self,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
        validation: Data | int | None = None,
        eval_batch_size: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        on_device: bool = True,
    ) -> None:
        if (batch_size is None) == (global_batch_size is None):
            raise ValueError(
                "give either batch_size, of each rank, or global_batch_size, of all ranks together; "
                f"got {batch_size!r} and {global_batch_size!r}"
            )
        sizes = {"batch_size": batch_size, "global_batch_size": global_batch_size, "eval_batch_size": eval_batch_size}
        for name, value in sizes.items():
            if value is not None:
                check_positive_int(name, value)
        if isinstance(validation, int):
            check_positive_int("validation", validation)
        for name, value in (("shuffle", shuffle), ("on_device", on_device)):
            if not isinstance(value, bool):
                raise TypeError(f"{name} must be True or False; got {value!r} ({type(value).__name__})")
        self.batch_size, self.global_batch_size, self.eval_batch_size = batch_size, global_batch_size, eval_batch_size
        self.validation, self.shuffle, self.seed, self.on_device = validation, shuffle, check_seed(seed), on_device
        self._data: dict[str, Data] = {}

    def load(self) -> tuple[Data, Data | None]:
        """Training and test data; what a module of a named data set defines. Every rank calls it once, in ``setup``."""
        return self._given

    def setup(self, stage: str | None = None) -> None:
        if self._data:
            return
        train, test = self.load()
        validation = self.validation
        if isinstance(validation, int):
            train, validation = _held_back(train, validation, self.seed)
        chosen = {"train": train, "val": test if validation is None else validation, "test": test}
        self._data = {name: part for name, part in chosen.items() if part is not None}

    def train_dataloader(self) -> SharedBatches:
        rank, world = self._ranks()
        samples, labels = self._placed("train")
        return SharedBatches(
            samples,
            labels,
            self._shared_by(world),
            rank=rank,
            world=world,
            shuffle=self.shuffle,
            seed=self.seed,
            accumulate=self._accumulate(),
        )

    def val_dataloader(self) -> SharedBatches:
        return self._in_order("val")

    def test_dataloader(self) -> SharedBatches:
        return self._in_order("test")

    def predict_dataloader(self) -> SharedBatches:
        return self._in_order("test")

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        if isinstance(batch, Batch) and batch.samples.device == device:
            return batch
        return super().transfer_batch_to_device(batch, device, dataloader_idx)

    def _in_order(self, name: str) -> SharedBatches:
        rank, world = self._ranks()
        size = self._shared_by(world) if self.eval_batch_size is None else self.eval_batch_size * world
        return SharedBatches(*self._placed(name), size, rank=rank, world=world, shuffle=False)

    def _shared_by(self, world: int) -> int:
        """The batch size of so many ranks together."""
        if self.global_batch_size is None:
            assert self.batch_size is not None
            return self.batch_size * world
        if self.global_batch_size % world:
            raise ValueError(
                f"global_batch_size must be a multiple of the number of ranks, so that they share it evenly; got "
                f"{self.global_batch_size} for {world} ranks"
            )
        return self.global_batch_size

    def _placed(self, name: str) -> Data:
        self.setup()
        if self.trainer is not None and self.on_device:
            samples, labels = self._data[name]
            device = self.trainer.strategy.root_device
            self._data[name] = samples.to(device).contiguous(), labels.to(device)
        return self._data[name]

    def _ranks(self) -> tuple[int, int]:
        return (0, 1) if self.trainer is None else (self.trainer.global_rank, self.trainer.world_size)

    def _accumulate(self) -> int:
        if self.trainer is None:
            return 1
        schedulers = [c for c in self.trainer.callbacks if isinstance(c, GradientAccumulationScheduler)]  # type: ignore[attr-defined]
        if any(len(set(scheduler.scheduling.values())) > 1 for scheduler in schedulers):
            raise ValueError(
                "the number of batches per update must stay the same throughout a run, as samples are weighted by it; "
                f"got a GradientAccumulationScheduler with {schedulers[0].scheduling}"
            )
        return self.trainer.accumulate_grad_batches


def check_pair(value: Any, name: str) -> None:
    if not (isinstance(value, (tuple, list)) and len(value) == 2):
        raise TypeError(f"{name} must be a pair (samples, labels); got {type(value).__name__}")
    samples, labels = value
    check_data(samples, labels, name)
    if samples.dtype != torch.uint8 and not samples.is_floating_point():
        raise TypeError(f"{name}: the samples must be uint8 or floating point; got {samples.dtype}")


def _held_back(train: Data, count: int, seed: int) -> tuple[Data, Data]:
    """What is left of the training data, and ``count`` samples of it."""
    samples, labels = train
    if count >= len(labels):
        raise ValueError(f"validation must leave samples to train on; got {count} of {len(labels)}")
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed_of("hold back", seed)))
    rows = order.to(samples.device)
    kept, held = rows[:-count].sort().values, rows[-count:].sort().values
    return (samples[kept], labels[kept]), (samples[held], labels[held])
