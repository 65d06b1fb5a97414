"""Batches that ranks share: no sample twice, none left out, and only the position to save. Data modules."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from lightning.pytorch import LightningDataModule
from lightning.pytorch.callbacks import GradientAccumulationScheduler
from torch import Tensor

from snnkit import checks, data
from snnkit.checks import counts, integer, mapping, number, shown
from snnkit.train.batches import Pair, pair_of
from snnkit.train.recipes import load_data
from snnkit.train.seeding import check_seed

_EVALUATED = 256  # samples per rank and batch in validation and test, as in ``train.evaluate``


class Batch(NamedTuple):
    """One rank's share of a batch.

    Attributes:
        samples: [n, ...].
        labels: int64 [n].
        weight: factor for the share's mean loss, so that the mean over ranks of all gradients is the mean over the
            samples of the whole update: n ranks / (samples of the batch), times batches per update and the batch's part
            in the update where gradients are accumulated. If a batch has fewer samples than there are ranks, a rank
            without one gets a sample again, with weight 0: its gradients then exist, but have no effect.
    """

    samples: Tensor
    labels: Tensor
    weight: float


@checks.arguments
class SharedBatches:
    """Iterates over samples and labels in batches, each rank over its share of every batch; a loader for Lightning.

    In each epoch the order is that of ``torch.randperm`` with a generator seeded by (seed, epoch), the same on all
    ranks. It is cut into batches of ``batch_size``, the last one smaller, and a batch into contiguous shares of nearly
    equal size, one per rank. All ranks get the same number of batches. So epoch and batch are the whole state, and a
    run may resume with another number of ranks. Only the samples of a batch are copied, on their device and without
    workers.

    Args:
        samples: [N, ...], uint8 or floating point.
        labels: targets [N, ...], class labels int64 or floating point, on the same device.
        batch_size: of all ranks together.
        rank, world: this rank, and the number of ranks.
        shuffle: False, for evaluation, gives the order of the data.
        seed: of the order.
        accumulate: batches per update, for ``Batch.weight``; Lightning divides each loss by it, also in the last update
            of an epoch, which may have fewer batches.
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
        samples, labels = _tensors((samples, labels), "samples, labels")
        counts(batch_size=batch_size, world=world, accumulate=accumulate)
        integer("rank", rank, at_least=0, at_most=world - 1)
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

    @checks.arguments
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

    def smallest_share(self, batches: float) -> int:
        """Samples of a rank in the smallest of the first so many batches."""
        batches = number("batches", batches, at_least=0)
        sizes = [min(self.batch_size, len(self.labels))]
        if batches >= len(self):
            sizes.append(len(self.labels) - (len(self) - 1) * self.batch_size)
        return max(min(sizes) // self.world, 1)

    def state_dict(self) -> dict[str, Any]:
        """The position in the run, the same on all ranks, and what identifies the data."""
        return {"epoch": self.epoch, "batches": self.done, **self._identity()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a position; ValueError if it belongs to other data, batches or another order."""
        mapping("state", state, "names and numbers")
        for name, value in self._identity().items():
            if state.get(name) != value:
                raise ValueError(f"{name} must be {shown(state.get(name))}, as in the run to resume, but it is {value}")
        epoch = integer("epoch of state", state.get("epoch"), at_least=0)
        self.done = integer("batches of state", state.get("batches"), at_least=0, at_most=len(self))
        self.epoch, self._resumed = epoch, True

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
        indices = slice(first + low, first + high) if order is None else order[first + low : first + high]
        return Batch(self.samples[indices], self.labels[indices], weight)


def seed_of(what: str, *numbers: int) -> int:
    """A seed for a purpose and a tuple of integers of at least 0. Neighbours have very different seeds."""
    # NumPy's mixer ignores zeros at the end, so it also gets the number of numbers.
    mixed = np.random.SeedSequence((int.from_bytes(what.encode(), "big"), len(numbers), *numbers))
    return int(mixed.generate_state(1, np.uint64)[0])


class SharedDataModule(LightningDataModule, ABC):
    """A data set from ``load``, as ``SharedBatches`` on the device of each rank; options as ``TensorDataModule``."""

    def __init__(self, *, global_batch_size: int, validation: int | None = None, seed: int = 0) -> None:
        super().__init__()
        self.global_batch_size = integer("global_batch_size", global_batch_size, at_least=1)
        self.validation = None if validation is None else integer("validation", validation, at_least=1)
        self.seed = check_seed(seed)
        self._data: dict[str, Pair] = {}

    @abstractmethod
    def load(self) -> tuple[Pair, Pair | None]:
        """Training and test data. Every rank calls it once, in ``setup``."""

    def setup(self, stage: str | None = None) -> None:
        if self._data:
            return
        train, test = self.load()
        held = test
        if self.validation is not None:
            train, held = _split(train, self.validation, self.seed)
        for name, part in (("train", train), ("val", held), ("test", test)):
            if part is not None:
                self._data[name] = part

    def train_dataloader(self) -> SharedBatches:
        assert self.trainer is not None
        world = self.trainer.world_size
        if self.global_batch_size % world:
            raise ValueError(
                f"global_batch_size must be a multiple of the number of ranks, {world}, so that they share it evenly, "
                f"but it is {self.global_batch_size}"
            )
        if any(isinstance(each, GradientAccumulationScheduler) for each in self.trainer.callbacks):  # type: ignore[attr-defined]
            raise ValueError(
                "GradientAccumulationScheduler must not be a callback here, as batches are weighted by the number of "
                "those in an update: give accumulate_grad_batches to the Trainer"
            )
        return self._batches(
            "train", self.global_batch_size, seed=self.seed, accumulate=self.trainer.accumulate_grad_batches
        )

    def val_dataloader(self) -> Any:
        return self._in_order("val") if "val" in self._data else []

    def test_dataloader(self) -> Any:
        return self._in_order("test") if "test" in self._data else super().test_dataloader()

    def predict_dataloader(self) -> Any:
        """The test data."""
        return self._in_order("test") if "test" in self._data else super().predict_dataloader()

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        return batch  # it is there

    def _in_order(self, name: str) -> SharedBatches:
        assert self.trainer is not None
        return self._batches(name, _EVALUATED * self.trainer.world_size, shuffle=False)

    def _batches(self, name: str, size: int, **options: Any) -> SharedBatches:
        assert self.trainer is not None
        samples, labels = self._data[name]
        device = self.trainer.strategy.root_device
        samples, labels = self._data[name] = samples.to(device).contiguous(), labels.to(device)
        ranks = {"rank": self.trainer.global_rank, "world": self.trainer.world_size}
        return SharedBatches(samples, labels, size, **ranks, **options)


class TensorDataModule(SharedDataModule):
    """Samples and labels in memory, as batches that ranks share (``SharedBatches``)::

        spikes, labels = data.xor_in_time(1000)                     # [T, N, C], [N]
        whole = TensorDataModule((spikes.transpose(0, 1), labels), validation=200, global_batch_size=50)
        Trainer(max_epochs=20).fit(SpikingModule(net, encoder="sequence"), whole)

    Args:
        train: samples [N, ...], uint8 or floating point, and targets [N, ...], class labels (any integers) or floating
            point.
        test: as ``train``; None: there is none.
        global_batch_size: of all ranks together, a multiple of their number: learning rate and number of updates keep
            their meaning on any number of ranks.
        validation: how many of ``train`` to hold back, drawn with ``seed`` once. None: validate on ``test``, as ``fit``
            does.
        seed: of the order and of what is held back; the same on all ranks.
    """

    def __init__(self, train: Pair, test: Pair | None = None, **options: Any) -> None:
        self._given: tuple[Pair, Pair | None] = _tensors(train, "train"), _tensors(test, "test") if test else None
        super().__init__(**options)

    def load(self) -> tuple[Pair, Pair | None]:
        return self._given


@checks.arguments
class MNISTDataModule(SharedDataModule):
    """MNIST, uint8 [N, 1, 28, 28]: 60000 to train on, 10000 to test.

    Args:
        root, download: of ``data.load``; one rank of each node downloads, before the others read.
        samples: how many of the training samples, from the first on; None: all.
        options: ``global_batch_size``, ``validation`` and ``seed`` of ``TensorDataModule``.
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
        self.root, self.download, self.samples = root, download, samples
        super().__init__(**options)

    def prepare_data(self) -> None:
        if self.download and not data.available(self.name, self.root):
            self.load()

    def load(self) -> tuple[Pair, Pair | None]:
        return load_data(self.name, self.samples, root=self.root, download=self.download)


class FashionMNISTDataModule(MNISTDataModule):
    """Fashion-MNIST, uint8 [N, 1, 28, 28]: 60000 to train on, 10000 to test. Arguments as ``MNISTDataModule``."""

    name: str = "fashion"


class DigitsDataModule(MNISTDataModule):
    """The handwritten digits of scikit-learn, 8 × 8 pixels, uint8 [N, 1, 8, 8]: 1442 to train on, 355 to test; offline.

    Arguments as ``MNISTDataModule``.
    """

    name: str = "digits"


def _tensors(data: Pair, name: str) -> Pair:
    samples, targets = pair_of(data, name)
    return checks.instance(f"samples of {name}", samples, Tensor, "a tensor or an array"), targets


def _split(train: Pair, count: int, seed: int) -> tuple[Pair, Pair]:
    """The rest of the training data, and ``count`` samples held back."""
    samples, labels = train
    if count >= len(labels):
        raise ValueError(f"validation must be less than {len(labels)}, all samples to train on, but it is {count}")
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed_of("hold back", seed)))
    indices = order.to(samples.device)
    rest, held = indices[:-count].sort().values, indices[-count:].sort().values
    return (samples[rest], labels[rest]), (samples[held], labels[held])
