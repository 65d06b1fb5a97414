"""Batches of tensors in memory, shared by ranks: no sample twice, none left out, and nothing to save but a place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from snnkit.data._batches import check_data, check_positive_int
from snnkit.train.seed import check_seed

__all__ = ["Batch", "SharedBatches", "seed_of"]


class Batch(NamedTuple):
    """One rank's share of a batch.

    Attributes:
        samples: [n, ...].
        labels: int64 [n].
        weight: factor for the share's mean loss, so that the mean over ranks of all gradients is the mean over the
            samples of the whole update: n ranks / (samples of the batch), times batches per update and the batch's part
            in the update where gradients are accumulated. Where a batch has fewer samples than there are ranks, a rank
            without one gets a sample again, with weight 0: for its gradients to be there, but without effect.
    """

    samples: Tensor
    labels: Tensor
    weight: float


class SharedBatches:
    """Walks through samples and labels, batch by batch, each rank through its share of every batch.

    In each epoch the order is that of ``torch.randperm`` with a generator seeded by (seed, epoch), the same on all
    ranks. It is cut into batches of ``batch_size``, the last one smaller, and a batch into contiguous shares of nearly
    equal size, one per rank. All ranks get the same number of batches. So epoch and batch are all the state there is,
    and a run may go on with another number of ranks. Nothing is copied but the samples of a batch, on the device where
    they are; there are no workers to wait for.

    Lightning takes it for any data loader: it has a length, ``set_epoch`` (found through ``sampler``), and
    ``state_dict`` and ``load_state_dict``, which go into Lightning's checkpoints.

    Args:
        samples: [N, ...], uint8 or floating point.
        labels: int64 [N], on the same device.
        batch_size: of all ranks together.
        rank, world: this rank, and how many there are.
        shuffle: False for evaluation: in the order of the data.
        seed: of the order.
        accumulate: batches per update, for ``Batch.weight``; Lightning divides each loss by it, the last update of an
            epoch included, which may have fewer batches.

    Raises:
        TypeError, ValueError: no data set; a count below 1; a rank that is none of the world's.
    """

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
        check_data(samples, labels, "samples, labels")
        for name, value in (("batch_size", batch_size), ("world", world), ("accumulate", accumulate)):
            check_positive_int(name, value)
        if isinstance(rank, bool) or not isinstance(rank, int):
            raise TypeError(f"rank must be an int; got {rank!r} ({type(rank).__name__})")
        if not 0 <= rank < world:
            raise ValueError(f"rank must lie in 0 .. {world - 1}, as there are {world}; got {rank}")
        if samples.device != labels.device:
            raise ValueError(f"samples are on {samples.device} and labels on {labels.device}; they must be together")
        self.samples, self.labels, self.batch_size = samples, labels, batch_size
        self.rank, self.world, self.shuffle = rank, world, shuffle
        self.seed, self.accumulate = check_seed(seed), accumulate
        self.epoch = 0
        self.done = 0  # batches of this epoch that were handed out
        self._resumed = False

    batch_sampler = None  # for which Lightning looks, too

    @property
    def sampler(self) -> SharedBatches:
        """Itself: where Lightning looks for ``set_epoch``."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Which order comes next. Another epoch than the one under way begins at its first batch."""
        if epoch != self.epoch:
            self.epoch, self.done, self._resumed = epoch, 0, False

    def __len__(self) -> int:
        return -(-len(self.labels) // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        """From the first batch of the epoch; after ``load_state_dict``, once, from the place that it names."""
        # A generator: the epoch that counts is that of the first ``next``, and Lightning may ask for it before.
        start = self.done if self._resumed else 0
        self._resumed = False
        order = self._order()
        for i in range(start, len(self)):
            self.done = i + 1
            yield self._share(order, i)

    def state_dict(self) -> dict[str, Any]:
        """The place in the run, the same on all ranks, and what it counts in."""
        return {"epoch": self.epoch, "batches": self.done, **self._identity()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a place; ValueError where it is one in other data, batches or another order."""
        for name, value in self._identity().items():
            if state.get(name) != value:
                what = "samples in all" if name == "samples" else name
                hint = " (of all ranks together)" if name == "batch_size" else ""
                raise ValueError(
                    f"the checkpoint is of a run with {what} {state.get(name)}{hint}; it can't go on with {value}"
                )
        self.epoch, self.done, self._resumed = int(state["epoch"]), int(state["batches"]), True

    def _identity(self) -> dict[str, Any]:
        return {"samples": len(self.labels), "batch_size": self.batch_size, "seed": self.seed}

    def _order(self) -> Tensor | None:
        """The samples of the epoch, [N] on their device; None: as they lie."""
        if not self.shuffle:
            return None
        generator = torch.Generator().manual_seed(seed_of("order", self.seed, self.epoch))
        return torch.randperm(len(self.labels), generator=generator).to(self.samples.device)

    def _share(self, order: Tensor | None, i: int) -> Batch:
        first = i * self.batch_size
        size = min(self.batch_size, len(self.labels) - first)
        low, high = size * self.rank // self.world, size * (self.rank + 1) // self.world
        weight = (high - low) * self.world / size
        if low == high:
            low, high = 0, 1
        if self.accumulate > 1:
            weight *= self.accumulate * size / self._samples_of_update(i)
        rows = slice(first + low, first + high) if order is None else order[first + low : first + high]
        return Batch(self.samples[rows], self.labels[rows], weight)

    def _samples_of_update(self, i: int) -> int:
        per_update = self.batch_size * self.accumulate
        first = i // self.accumulate * per_update
        return min(per_update, len(self.labels) - first)


def seed_of(what: str, *numbers: int) -> int:
    """A seed for each purpose and tuple of whole numbers of at least 0, unlike that of its neighbours."""
    # NumPy's mixer takes zeros at the end for nothing, so it is told how many numbers there are.
    mixed = np.random.SeedSequence((int.from_bytes(what.encode(), "big"), len(numbers), *numbers))
    return int(mixed.generate_state(1, np.uint64)[0])
