"""Batches that ranks share: no sample twice, none left out, and nothing to save but the position; data modules."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from lightning.pytorch import LightningDataModule
from lightning.pytorch.callbacks import GradientAccumulationScheduler
from torch import Tensor

from snnkit import data
from snnkit.checks import flag, integer
from snnkit.train.loop import Data, check_samples
from snnkit.train.seeding import check_seed


class Batch(NamedTuple):
    """One rank's share of a batch.

    Attributes:
        samples: [n, ...].
        labels: int64 [n].
        weight: factor for the share's mean loss, so that the mean over ranks of all gradients is the mean over the
            samples of the whole update: n ranks / (samples of the batch), times batches per update and the batch's part
            in the update where gradients are accumulated. Where a batch has fewer samples than there are ranks, a rank
            without one gets a sample again, with weight 0: its gradients then exist, but have no effect.
    """

    samples: Tensor
    labels: Tensor
    weight: float


class SharedBatches:
    """Iterates over samples and labels in batches, each rank over its share of every batch.

    In each epoch the order is that of ``torch.randperm`` with a generator seeded by (seed, epoch), the same on all
    ranks. It is cut into batches of ``batch_size``, the last one smaller, and a batch into contiguous shares of nearly
    equal size, one per rank. All ranks get the same number of batches. So epoch and batch are the whole state, and a
    run may resume with another number of ranks. Only the samples of a batch are copied, on their device, without
    workers.

    Lightning accepts it as a data loader: it has a length, ``set_epoch`` (through ``sampler``), and ``state_dict`` and
    ``load_state_dict``, which go into Lightning's checkpoints.

    Args:
        samples: [N, ...], uint8 or floating point.
        labels: int64 [N], on the same device.
        batch_size: of all ranks together.
        rank, world: this rank, and the number of ranks.
        shuffle: False for evaluation: in the order of the data.
        seed: of the order.
        accumulate: batches per update, for ``Batch.weight``; Lightning divides each loss by it, also in the last update
            of an epoch, which may have fewer batches.

    Raises:
        TypeError, ValueError: no data set; a count below 1; a rank outside 0 .. world - 1.
    """

    batch_sampler = None  # an attribute that Lightning reads

    def __init__(
        self,
        samples: Tensor,
        labels: Tensor,
        batch_size: int,
        *,
        rank: int = 0,
        world: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        accumulate: int = 1,
    ) -> None:
        check_samples((samples, labels), "samples, labels")
        for name, value in (("batch_size", batch_size), ("world", world), ("accumulate", accumulate)):
            integer(name, value, at_least=1)
        integer("rank", rank, at_least=0, at_most=world - 1)
        if samples.device != labels.device:
            raise ValueError(f"labels must be on the device of samples, {samples.device}, but are on {labels.device}")
        self.samples, self.labels, self.batch_size = samples, labels, batch_size
        self.rank, self.world, self.shuffle = rank, world, shuffle
        self.seed, self.accumulate = check_seed(seed), accumulate
        self.epoch = 0
        self.done = 0  # batches of this epoch that were returned
        self._resumed = False

    @property
    def sampler(self) -> SharedBatches:
        """Itself: where Lightning looks for ``set_epoch``."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Choose the order. Another epoch than the current one begins at its first batch."""
        if epoch != self.epoch:
            self.epoch, self.done, self._resumed = epoch, 0, False

    def __len__(self) -> int:
        return -(-len(self.labels) // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        """From the first batch of the epoch; once after ``load_state_dict``, from the position given there."""
        # A generator: the epoch that counts is that of the first ``next``, and Lightning may call iter before.
        start = self.done if self._resumed else 0
        self._resumed = False
        order = None
        if self.shuffle:
            generator = torch.Generator().manual_seed(seed_of("order", self.seed, self.epoch))
            order = torch.randperm(len(self.labels), generator=generator).to(self.samples.device)
        for i in range(start, len(self)):
            self.done = i + 1
            yield self._share(order, i)

    def state_dict(self) -> dict[str, Any]:
        """The position in the run, the same on all ranks, and what identifies the data."""
        return {"epoch": self.epoch, "batches": self.done, **self._identity()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a position; ValueError where it belongs to other data, batches or another order."""
        for name, value in self._identity().items():
            if state.get(name) != value:
                what = "samples in all" if name == "samples" else name
                hint = " (of all ranks together)" if name == "batch_size" else ""
                raise ValueError(
                    f"the checkpoint is of a run with {what} {state.get(name)}{hint}; it can't be resumed with {value}"
                )
        self.epoch, self.done, self._resumed = int(state["epoch"]), int(state["batches"]), True

    def _identity(self) -> dict[str, Any]:
        return {"samples": len(self.labels), "batch_size": self.batch_size, "seed": self.seed}

    def _share(self, order: Tensor | None, i: int) -> Batch:
        first = i * self.batch_size
        size = min(self.batch_size, len(self.labels) - first)
        low, high = size * self.rank // self.world, size * (self.rank + 1) // self.world
        weight = (high - low) * self.world / size
        if low == high:
            low, high = 0, 1
        if self.accumulate > 1:
            update = self.batch_size * self.accumulate  # samples
            weight *= self.accumulate * size / min(update, len(self.labels) - i // self.accumulate * update)
        rows = slice(first + low, first + high) if order is None else order[first + low : first + high]
        return Batch(self.samples[rows], self.labels[rows], weight)


def seed_of(what: str, *numbers: int) -> int:
    """A seed for each purpose and tuple of integers of at least 0, unlike that of its neighbours."""
    # NumPy's mixer ignores zeros at the end, so it also gets the number of numbers.
    mixed = np.random.SeedSequence((int.from_bytes(what.encode(), "big"), len(numbers), *numbers))
    return int(mixed.generate_state(1, np.uint64)[0])


class _SharedDataModule(LightningDataModule):
    """A data set from ``load``, as ``SharedBatches``; options as ``TensorDataModule``."""

    def __init__(
        self,
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
        if (batch_size is None) == (global_batch_size is None):
            raise ValueError(
                "batch_size, of each rank, or global_batch_size, of all ranks together, must be given, and only one, "
                f"but they are {batch_size!r} and {global_batch_size!r}"
            )
        sizes = {"batch_size": batch_size, "global_batch_size": global_batch_size, "eval_batch_size": eval_batch_size}
        for name, value in sizes.items():
            if value is not None:
                integer(name, value, at_least=1)
        if isinstance(validation, int):
            integer("validation", validation, at_least=1)
        elif validation is not None:
            check_samples(validation, "validation")
        self.batch_size, self.global_batch_size, self.eval_batch_size = batch_size, global_batch_size, eval_batch_size
        self.validation, self.seed = validation, check_seed(seed)
        self.shuffle, self.on_device = flag("shuffle", shuffle), flag("on_device", on_device)
        self._data: dict[str, Data] = {}

    def load(self) -> tuple[Data, Data | None]:
        """Training and test data. Every rank calls it once, in ``setup``."""
        raise NotImplementedError

    def setup(self, stage: str | None = None) -> None:
        if self._data:
            return
        train, test = self.load()
        validation = self.validation
        if isinstance(validation, int):
            train, validation = _split(train, validation, self.seed)
        chosen = {"train": train, "val": test if validation is None else validation, "test": test}
        self._data = {name: part for name, part in chosen.items() if part is not None}

    def train_dataloader(self) -> SharedBatches:
        rank, world = self._ranks()
        return SharedBatches(
            *self._placed("train"),
            self._global_size(world),
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
        size = self._global_size(world) if self.eval_batch_size is None else self.eval_batch_size * world
        return SharedBatches(*self._placed(name), size, rank=rank, world=world, shuffle=False)

    def _global_size(self, world: int) -> int:
        if self.global_batch_size is None:
            assert self.batch_size is not None
            return self.batch_size * world
        if self.global_batch_size % world:
            raise ValueError(
                f"global_batch_size must be a multiple of the number of ranks, {world}, so that they share it evenly, "
                f"but it is {self.global_batch_size}"
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
                "scheduling of GradientAccumulationScheduler must be constant, as samples are weighted by the number "
                f"of batches per update, but it is {schedulers[0].scheduling}"
            )
        return self.trainer.accumulate_grad_batches


class TensorDataModule(_SharedDataModule):
    """Samples and labels in memory, as batches that ranks share (``SharedBatches``)::

        spikes, labels = data.xor_in_time(1000)                     # [T, N, C], [N]
        whole = TensorDataModule((spikes.transpose(0, 1), labels), validation=200, batch_size=50)
        Trainer(max_epochs=20).fit(SpikingModule(net, encoder="sequence"), whole)

    Args:
        train: samples [N, ...], uint8 or floating point, and labels int64 [N].
        test: as ``train``; None: there is none.
        batch_size: of each rank, as in Lightning. The batches of all ranks together grow with the ranks.
        global_batch_size: of all ranks together, a multiple of their number: learning rate and number of updates keep
            their meaning on any number of ranks. Give one of the two.
        validation: samples and labels; or how many of ``train`` to hold back, drawn with ``seed`` once. None: validate
            on ``test``, as ``fit`` does.
        eval_batch_size: of each rank in validation, test and prediction; None: as in training.
        shuffle: False to train in the order of the data.
        seed: of the order and of what is held back; the same on all ranks.
        on_device: put all samples on the device of each rank, where a batch is a mere gather. False leaves them in the
            computer's memory, for a GPU whose own is too small.

    Raises:
        TypeError, ValueError: no data set; not exactly one batch size; a batch that the ranks can't share (when the
            trainer requests it).
    """

    def __init__(self, train: Data, test: Data | None = None, **options: Any) -> None:
        check_samples(train, "train")
        if test is not None:
            check_samples(test, "test")
        super().__init__(**options)
        self._given: tuple[Data, Data | None] = train, test
        if test is None:  # Lightning's own methods, so that it omits what needs these loaders, or says so
            missing = ["test_dataloader", "predict_dataloader"]
            for name in missing if self.validation is not None else [*missing, "val_dataloader"]:
                setattr(self, name, getattr(super(_SharedDataModule, self), name))

    def load(self) -> tuple[Data, Data | None]:
        return self._given


class MNISTDataModule(_SharedDataModule):
    """MNIST, uint8 [N, 1, 28, 28]: 60000 to train on, 10000 to test.

    Args:
        root, download: of ``data.load``; one rank of each node downloads, before the others read.
        samples: how many of the training samples, from the first on; None: all.
        options: ``batch_size``, ``global_batch_size``, ``validation``, ... of ``TensorDataModule``.
    """

    name: str = "mnist"

    def __init__(
        self,
        *,
        root: str | os.PathLike[str] | None = None,
        download: bool = True,
        samples: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if samples is not None:
            integer("samples", samples, at_least=1)
        self.root, self.download, self.samples = root, download, samples

    def prepare_data(self) -> None:
        if self.download and not data.available(self.name, self.root):
            self._load("train")
            self._load("test")

    def load(self) -> tuple[Data, Data | None]:
        images, labels = self._load("train")
        if self.samples is not None and self.samples > len(labels):
            raise ValueError(f"samples must be at most {len(labels)}, all of {self.name}, but it is {self.samples}")
        return (images[: self.samples], labels[: self.samples]), self._load("test")

    def _load(self, split: str) -> Data:
        return data.load(self.name, split, root=self.root, download=self.download)


class FashionMNISTDataModule(MNISTDataModule):
    """Fashion-MNIST, uint8 [N, 1, 28, 28]: 60000 to train on, 10000 to test. Arguments as ``MNISTDataModule``."""

    name: str = "fashion"


class DigitsDataModule(MNISTDataModule):
    """The handwritten digits of scikit-learn, 8 × 8 pixels, uint8 [N, 1, 8, 8]: 1442 to train on, 355 to test; offline.

    Args:
        samples: how many of the training samples, from the first on; None: all.
        options: ``batch_size``, ``global_batch_size``, ``validation``, ... of ``TensorDataModule``.
    """

    name: str = "digits"

    def __init__(self, *, samples: int | None = None, **options: Any) -> None:
        super().__init__(samples=samples, **options)


class EventDataModule(_SharedDataModule):
    """The handwritten digits in recordings of an event camera, as frames of spikes [N, T, 2, H, W].

    For ``SpikingModule(..., encoder="sequence")``. For other recordings use ``TensorDataModule((frames, labels))``.

    Args:
        steps, size: T, and height and width of the synthetic camera in pixels.
        camera: further arguments of ``data.events.record_digits``.
        options: ``batch_size``, ``global_batch_size``, ``validation``, ... of ``TensorDataModule``.
    """

    def __init__(
        self, *, steps: int = 16, size: int = 16, camera: dict[str, Any] | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self.steps, self.size, self.camera = steps, size, dict(camera or {})

    def load(self) -> tuple[Data, Data | None]:
        sets = []
        for split in ("train", "test"):
            recordings, labels = data.events.record_digits(split, size=self.size, **self.camera)
            sets.append((data.events.frames_of(recordings, steps=self.steps), labels))
        return sets[0], sets[1]


def _split(train: Data, count: int, seed: int) -> tuple[Data, Data]:
    """The rest of the training data, and ``count`` samples held back."""
    samples, labels = train
    if count >= len(labels):
        raise ValueError(f"validation must be less than {len(labels)}, all samples to train on, but it is {count}")
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed_of("hold back", seed)))
    rows = order.to(samples.device)
    rest, held = rows[:-count].sort().values, rows[-count:].sort().values
    return (samples[rest], labels[rest]), (samples[held], labels[held])
