"""Data of a run: tensors that are on the device as a whole, or batches as a loader gives them."""

from __future__ import annotations

import itertools
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, default_collate

from snnkit import checks
from snnkit.data.events import Events

Samples: TypeAlias = "Tensor | list[Events]"
Batch: TypeAlias = "tuple[Samples, Tensor]"  # samples [B, ...] and their targets [B, ...]
Pair: TypeAlias = "tuple[Tensor, Tensor]"  # samples [N, ...] and their targets [N, ...]
# What ``fit`` takes. Any: that with a length and indices, as a list has them, too; ``source_of`` refuses the rest.
Data: TypeAlias = tuple[Any, Any] | list[Any] | Dataset[Any] | Iterable[Any] | Any


class Source(ABC):
    """Batches on a device, and updates of the weights, which have one or more of them.

    Attributes:
        updates: in an epoch, as far as known; the last may have fewer samples.
    """

    updates: int | None

    @abstractmethod
    def __iter__(self) -> Iterator[Batch]:
        """All batches, in the order of the data."""

    @abstractmethod
    def epoch(self, order: torch.Generator) -> Iterator[Any]:
        """Updates, in an order drawn from a generator on the CPU if the order is not the loader's."""

    @abstractmethod
    def size(self, update: Any) -> int:
        """Number of samples of an update."""

    @abstractmethod
    def batches(self, update: Any) -> Iterator[Batch]:
        """Of an update, one after the other."""


class HeldData(Source):
    """Samples and targets as tensors on the device: an update is the indices of its samples, int64 [n].

    Args:
        samples: [N, ...], or a list of N recordings.
        targets: [N, ...].
        batch_size: samples of a batch.
        accumulate: batches of an update.
    """

    def __init__(self, samples: Samples, targets: Tensor, batch_size: int, accumulate: int = 1) -> None:
        self.samples, self.targets = samples, targets
        self.batch_size, self.update_size = batch_size, batch_size * accumulate
        self.updates = -(-len(targets) // self.update_size)

    def __iter__(self) -> Iterator[Batch]:
        for start in range(0, len(self.targets), self.batch_size):
            part = slice(start, start + self.batch_size)  # a view costs nothing
            yield self.samples[part], self.targets[part]

    def epoch(self, order: torch.Generator) -> Iterator[Any]:
        indices = torch.randperm(len(self.targets), generator=order)
        return iter(indices.to(self.targets.device).split(self.update_size))

    def size(self, update: Tensor) -> int:
        return len(update)

    def batches(self, update: Tensor) -> Iterator[Batch]:
        for indices in update.split(self.batch_size):
            held = self.samples
            # Recordings by a list of numbers: each element of a tensor would be a copy from the device.
            some = held[indices] if isinstance(held, Tensor) else [held[i] for i in indices.tolist()]
            yield some, self.targets[indices]


class LoadedData(Source):
    """Batches that an iterable gives, in its own order, brought to the device: an update is a list of them.

    Its length may say another number of updates than it gives.

    Args:
        loader: gives pairs (samples [B, ...], targets [B, ...]) each time it is iterated over.
        name: of the argument, for errors.
        device: of the batches.
        accumulate: batches of an update.
    """

    def __init__(self, loader: Iterable[Any], name: str, device: torch.device, accumulate: int = 1) -> None:
        self.loader, self.name, self.device, self.accumulate = loader, name, device, accumulate
        try:
            self.updates = -(-len(loader) // accumulate)  # type: ignore[arg-type]
        except TypeError:  # without a length, as a loader of an IterableDataset
            self.updates = None
        self._kinds: tuple[Any, Any] | None = None  # of the first batch

    def __iter__(self) -> Iterator[Batch]:
        number = 0
        for number, batch in enumerate(self.loader, 1):
            yield self._checked(batch, number)
        if not number:
            raise ValueError(
                f"{self.name} must give at least one batch each time, but it gave none: is it empty, or a generator "
                "that is used up (a list or a DataLoader is not)?"
            )

    def epoch(self, order: torch.Generator) -> Iterator[Any]:
        batches, made = iter(self), 0
        while update := list(itertools.islice(batches, self.accumulate)):
            yield update
            made += 1
        self.updates = made

    def size(self, update: list[Batch]) -> int:
        return sum(len(targets) for _, targets in update)

    def batches(self, update: list[Batch]) -> Iterator[Batch]:
        return iter(update)

    def _checked(self, batch: Any, number: int) -> Batch:
        if not isinstance(batch, (tuple, list)) or len(batch) != 2:
            what = f"a {type(batch).__name__}" + (f" of {len(batch)}" if isinstance(batch, (tuple, list)) else "")
            what += f" with the keys {', '.join(map(repr, batch))}" if isinstance(batch, dict) else ""
            one, two = ([*map(repr, batch), 0, 1] if isinstance(batch, dict) else [0, 1])[:2]
            raise TypeError(
                f"each batch of {self.name} must be a pair (samples, targets), but batch {number} is {what}; "
                f"`((batch[{one}], batch[{two}]) for batch in loader)`, in a class with __iter__, or a collate_fn of a "
                "DataLoader makes pairs"
            )
        if isinstance(batch[1], (int, float, str, np.generic)) or getattr(batch[1], "ndim", 1) == 0:
            raise TypeError(
                f"{self.name} must give batches, but it gives single samples: DataLoader({self.name}, batch_size=64) "
                "makes batches of them"
            )
        what = f"batch {number} of {self.name}"
        samples, targets = checked_pair(batch[0], batch[1], what)
        kinds = _kind(samples), _kind(targets, labels=not targets.is_floating_point())
        self._kinds = self._kinds or kinds
        for part, kind, first in zip(("samples", "targets"), kinds, self._kinds, strict=True):
            if kind != first:
                raise ValueError(
                    f"all batches of {self.name} must have {part} of one kind, but those of the first are {first}, and "
                    f"those of batch {number} {kind}"
                )
        if isinstance(samples, Tensor):
            samples = samples.to(self.device, non_blocking=True)
        return samples, targets.to(self.device, non_blocking=True)


def source_of(
    data: Any,
    name: str,
    device: torch.device,
    batch_size: int | None,
    default_size: int,
    accumulate: int = 1,
    order: torch.Generator | None = None,
) -> Source:
    """What ``fit`` and ``evaluate`` are given, as updates on a device.

    Args:
        data: as for ``fit``.
        name: of the argument, for errors.
        batch_size: None: ``default_size``, or the loader's own.
        accumulate: batches of an update.
        order: generator of the order of a ``Dataset``; None: its own order.

    Raises TypeError or ValueError, naming the argument, for anything else.
    """
    size = default_size if batch_size is None else batch_size
    if _is_pair(data):
        samples, targets = pair_of(data, name)
        if isinstance(samples, Tensor):
            samples = samples.to(device).contiguous()
        return HeldData(samples, targets.to(device).contiguous(), size, accumulate)
    if isinstance(data, (str, bytes, dict, Tensor, np.ndarray)) or not (_is_indexed(data) or hasattr(data, "__iter__")):
        raise TypeError(
            f"{name} must be a pair (samples, targets), a Dataset, a DataLoader or another iterable of pairs, but it "
            f"is {checks.shown(data)}"
        )
    if _is_indexed(data):
        # From pinned memory, batches are copied to a GPU while it works on the one before.
        options: dict[str, Any] = {"collate_fn": _collate, "pin_memory": device.type == "cuda"}
        data = DataLoader(data, size, shuffle=order is not None, generator=order, **options)
    elif batch_size is not None:
        kind = checks.with_article(type(data).__name__)
        advice = (
            "" if isinstance(data, DataLoader) else f"; DataLoader({name}, {batch_size}) makes some of single samples"
        )
        raise ValueError(f"batch_size must be left out, as {name} is {kind}, which makes the batches{advice}")
    return LoadedData(data, name, device, accumulate)


def warn_of_order(data: Any, name: str) -> None:
    """Warn where a run that is resumed may see other batches than an unbroken one."""
    inner = data.dataset if isinstance(data, DataLoader) else data
    if isinstance(data, DataLoader) and data.persistent_workers:
        reason = "persistent_workers keep the state of their random numbers"
    elif isinstance(inner, (list, tuple)) or _is_indexed(inner):
        return
    else:
        reason = f"only the {type(inner).__name__} knows its order"
    warnings.warn(f"a run that is resumed may see other batches of {name} than an unbroken one: {reason}", stacklevel=4)


def pair_of(data: Any, name: str) -> Batch:
    """Samples and targets of a pair; TypeError or ValueError, naming the argument, for anything else."""
    if not _is_pair(data):
        raise TypeError(f"{name} must be a pair (samples, targets), but it is of type {type(data).__name__}")
    given = data.tensors if isinstance(data, TensorDataset) else data
    return checked_pair(given[0], given[1], name)


def as_sequence(x: Tensor) -> Tensor:
    """Samples that are sequences already, [B, T, ...], as networks take them, [T, B, ...]; a view."""
    if not isinstance(x, Tensor) or x.ndim < 3:
        what = f"of the shape {list(x.shape)}" if isinstance(x, Tensor) else f"a {type(x).__name__}"
        raise ValueError(f"samples without an encoder must be sequences [B, T, ...], but they are {what}: give encode=")
    if x.shape[1] == 1:
        warnings.warn(
            f"samples without an encoder are sequences [B, T, ...], so these, {list(x.shape)}, have one time step: "
            "images need an encoder, such as encode=lambda x: encode.repeat(x, 25)",
            stacklevel=2,
        )
    return x.transpose(0, 1)


def as_samples(value: Any, what: str) -> Samples:
    """Samples as a tensor, or a list of recordings; TypeError for anything else. ``what`` has them, for errors."""
    value = _as_tensor(value)
    if isinstance(value, (list, tuple)) and value and all(isinstance(one, Events) for one in value):
        return list(value)
    if not isinstance(value, Tensor) or value.is_sparse:
        raise TypeError(
            f"samples of {what} must be a tensor, an array or a list of Events, but they are {_other_samples(value)}"
        )
    if value.dtype != torch.uint8 and not value.is_floating_point():
        raise TypeError(f"samples of {what} must be uint8 or floating point, but their dtype is {value.dtype}")
    return value


def _as_tensor(value: Any) -> Any:
    """An array of numbers as a tensor; anything else as it is."""
    numbers = isinstance(value, np.ndarray) and value.dtype.kind in "fiub"
    return torch.from_numpy(np.ascontiguousarray(value)) if numbers else value


def _other_samples(value: Any) -> str:
    """What samples are that ``fit`` does not take, and what it takes instead."""
    if isinstance(value, np.ndarray):
        if value.dtype.names:
            return "a structured array: snnkit.data.events.from_numpy makes a recording of each array of events"
        if value.dtype.kind != "O":
            return f"{checks.shown(value)} with the dtype {value.dtype}"
        value = list(value)
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, (Tensor, np.ndarray)) for one in value):
        return checks.shown(value)
    if any(getattr(one.dtype, "names", None) for one in value):
        return "a list of structured arrays: snnkit.data.events.from_numpy makes a recording of each"
    shapes = [*dict.fromkeys(str(list(one.shape)) for one in value)]
    listed = f"a list of {len(value)} of the shape {shapes[0]}: torch.stack or numpy.stack makes one of them"
    if len(shapes) > 1:
        listed = (
            f"a list of {len(value)} of several shapes, such as {shapes[0]} and {shapes[1]}: "
            "torch.nn.utils.rnn.pad_sequence([torch.as_tensor(x) for x in samples], batch_first=True) fills up series"
        )
    return listed


def _as_targets(value: Any, what: str) -> Tensor:
    """Targets as a tensor: class labels int64, of any kind of integers, or floating point."""
    value = _as_tensor(value)
    if isinstance(value, (list, tuple)) and value and all(isinstance(one, (int, float, np.number)) for one in value):
        value = torch.tensor(value)
    if not isinstance(value, Tensor) or value.is_sparse or value.is_complex():
        raise TypeError(
            f"targets of {what} must be a tensor or array of class labels (integers from 0 on) or floating-point "
            f"numbers, but they are {checks.shown(value)}"
        )
    return value if value.is_floating_point() else value.long()


def checked_pair(samples: Any, targets: Any, what: str) -> Batch:
    """Both as they are used; TypeError or ValueError unless there is one target for each sample, and at least one."""
    samples, targets = as_samples(samples, what), _as_targets(targets, what)
    if isinstance(samples, Tensor) and samples.ndim < 2:
        raise ValueError(f"samples of {what} must be [N, ...], but their shape is {list(samples.shape)}")
    if targets.ndim < 1 or len(samples) != len(targets):
        count = list(samples.shape) if isinstance(samples, Tensor) else f"a list of {len(samples)}"
        raise ValueError(
            f"{what} must have one target for each sample, but the samples are {count} and the targets "
            f"{list(targets.shape)}"
        )
    if not len(targets):
        raise ValueError(f"{what} must hold at least one sample, but it is empty")
    return samples, targets


def _is_pair(data: Any) -> bool:
    """Whether it is samples and targets, not two batches."""
    if isinstance(data, TensorDataset):
        return len(data.tensors) == 2
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        return False
    samples, targets = data
    if isinstance(samples, (Tensor, np.ndarray)) or isinstance(targets, (Tensor, np.ndarray)):
        return True
    return _begins_with(samples, Events) or _begins_with(targets, (int, float, str, np.generic))


def _begins_with(values: Any, kinds: type | tuple[type, ...]) -> bool:
    """Whether it is a list or tuple whose first element is one of these."""
    return isinstance(values, (list, tuple)) and any(isinstance(one, kinds) for one in values[:1])


def _is_indexed(data: Any) -> bool:
    """Whether it is a data set of single samples by number: one of PyTorch, or what looks like one."""
    if isinstance(data, Dataset):
        return not isinstance(data, IterableDataset)
    return hasattr(data, "__getitem__") and hasattr(data, "__len__") and not hasattr(data, "__iter__")


def _collate(items: list[Any]) -> Any:
    """A batch of the items of a data set; recordings stay a list."""
    if isinstance(items[0], (tuple, list)) and len(items[0]) == 2 and isinstance(items[0][0], Events):
        return [events for events, _ in items], torch.tensor([label for _, label in items])
    try:
        return default_collate(items)
    except (RuntimeError, TypeError) as error:  # PyTorch's own words
        first = items[0][0] if isinstance(items[0], (tuple, list)) and items[0] else None
        events = isinstance(first, np.ndarray) and first.dtype.names
        reason = f"each is {_other_samples(first)}" if events else error
        raise TypeError(
            f"samples of a data set can't become a batch: {reason}. Or give a DataLoader whose collate_fn makes batches"
        ) from error


def _kind(value: Samples, labels: bool = False) -> str:
    """Dtype and sizes, without the number of samples, and without that of steps, which may be another in each batch."""
    if not isinstance(value, Tensor):
        return "recordings"
    known = "BT" if value.ndim > (1 if labels else 2) else "B"  # labels have no axis but those of samples and steps
    return f"{value.dtype} [{', '.join(map(str, [*known, *value.shape[len(known) :]]))}]"
