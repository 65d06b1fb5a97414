"""The data sets that the kit knows, as data modules of Lightning's."""

from __future__ import annotations

import os
from typing import Any

from lightning.pytorch import LightningDataModule

from snnkit import data
from snnkit.data._batches import check_positive_int
from snnkit.train.lit.tensors import Data, TensorDataModule, check_pair

__all__ = ["DigitsDataModule", "EventDataModule", "FashionMNISTDataModule", "MNISTDataModule", "TensorDataModule"]


class _NamedDataModule(TensorDataModule):
    """A data set of ``snnkit.data.load``."""

    name: str

    def __init__(
        self,
        *,
        root: str | os.PathLike[str] | None = None,
        download: bool = True,
        samples: int | None = None,
        **options: Any,
    ) -> None:
        LightningDataModule.__init__(self)
        if samples is not None:
            check_positive_int("samples", samples)
        if isinstance(options.get("validation"), (tuple, list)):
            check_pair(options["validation"], "validation")
        self.root, self.download, self.samples = root, download, samples
        self._configure(**options)

    def prepare_data(self) -> None:
        """On one rank of each node: download what is missing."""
        if self.download and not data.available(self.name, self.root):
            self._load("train")
            self._load("test")

    def load(self) -> tuple[Data, Data | None]:
        images, labels = self._load("train")
        if self.samples is not None:
            if self.samples > len(labels):
                raise ValueError(f"samples must be at most {len(labels)}, all of {self.name}; got {self.samples}")
            images, labels = images[: self.samples], labels[: self.samples]
        return (images, labels), self._load("test")

    def _load(self, split: str) -> Data:
        return data.load(self.name, split, root=self.root, download=self.download)


class DigitsDataModule(_NamedDataModule):
    """The handwritten digits of scikit-learn, 8 × 8 pixels, uint8 [N, 1, 8, 8]: 1442 to train on, 355 to test; offline.

    Args:
        samples: how many of the training samples, from the first on; None: all.
        options: ``batch_size``, ``global_batch_size``, ``validation``, ... of ``TensorDataModule``.
    """

    name = "digits"

    def __init__(self, *, samples: int | None = None, **options: Any) -> None:
        super().__init__(samples=samples, **options)


class MNISTDataModule(_NamedDataModule):
    """MNIST, uint8 [N, 1, 28, 28]: 60000 to train on, 10000 to test.

    Args:
        root, download: of ``data.load``; one rank of each node downloads, before the others read.
        samples: how many of the training samples, from the first on; None: all.
        options: ``batch_size``, ``global_batch_size``, ``validation``, ... of ``TensorDataModule``.
    """

    name = "mnist"


class FashionMNISTDataModule(_NamedDataModule):
    """Fashion-MNIST, uint8 [N, 1, 28, 28]: 60000 to train on, 10000 to test. Arguments as ``MNISTDataModule``."""

    name = "fashion"


class EventDataModule(TensorDataModule):
    """What an event camera sees, as frames of spikes [N, T, 2, H, W], for ``SpikingModule(..., encoder="sequence")``.

    Without data of one's own, a synthetic camera looks at the handwritten digits (``data.event_digits``).

    Args:
        train, test: frames float [N, T, 2, H, W] and labels; None: the digits.
        steps, size: T, and height and width of the synthetic camera in pixels.
        camera: further arguments of ``data.event_digits``.
        options: ``batch_size``, ``global_batch_size``, ``validation``, ... of ``TensorDataModule``.
    """

    def __init__(
        self,
        train: Data | None = None,
        test: Data | None = None,
        *,
        steps: int = 16,
        size: int = 16,
        camera: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self._own = train is not None
        if train is None and test is not None:
            raise ValueError("test must come with train; got a test set alone")
        if train is not None:
            for name, value in (("train", train), ("test", test)):
                if value is not None:
                    _check_frames(value, name)
            super().__init__(train, test, **options)
        else:
            LightningDataModule.__init__(self)
            self._configure(**options)
        self.steps, self.size, self.camera = steps, size, dict(camera or {})

    def load(self) -> tuple[Data, Data | None]:
        if self._own:
            return super().load()
        train, test = (
            data.event_digits(split, self.steps, size=self.size, **self.camera) for split in ("train", "test")
        )
        return train, test


def _check_frames(value: Any, name: str) -> None:
    check_pair(value, name)
    frames = value[0]
    if frames.ndim != 5 or not frames.is_floating_point():
        raise ValueError(
            f"{name}: frames of events must be floating point [N, T, 2, H, W]; got {frames.dtype} {list(frames.shape)}"
        )
