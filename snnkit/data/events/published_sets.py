"""Published recordings: SHD and SSC from their own files, others through ``tonic``, and a reader of N-MNIST's files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from torch import Tensor

from snnkit import checks
from snnkit.data.datasets import SPLITS, data_root
from snnkit.data.events import heidelberg
from snnkit.data.events.recordings import Events, from_numpy
from snnkit.data.idx import DamagedFileError
from snnkit.files import read_small

_LARGEST = 1 << 24  # bytes of a recording of N-MNIST; they have some ten thousand


class _Published(NamedTuple):
    """The class in ``tonic.datasets``, "" for none, and what its recordings are."""

    tonic: str
    size: tuple[int, int]
    polarities: Literal[1, 2]
    classes: int


_SETS = {
    "nmnist": _Published("NMNIST", (34, 34), 2, 10),
    "shd": _Published("", (1, heidelberg.CHANNELS), 1, 20),
    "ssc": _Published("", (1, heidelberg.CHANNELS), 1, 35),
    "dvs_gesture": _Published("DVSGesture", (128, 128), 2, 11),
}


class Recordings:
    """The recordings of one split, read when they are indexed: a data set for PyTorch's loaders.

    ``len(recordings)``; ``recordings[i]`` is a recording and its label, an int.

    Attributes:
        name: of the data set.
        size: (height, width) of its sensor in pixels.
        polarities: 2, or 1 without OFF events.
        classes: number of labels.
        labels, speakers: of all recordings, int64 [N]; None where the source does not list them. SHD has both.
        words: what each label means; () where the source does not say.
    """

    def __init__(self, name: str, source: Any) -> None:
        published = _SETS[checks.choice("name", name, _SETS)]
        self.name, self.source = name, source
        self.size, self.classes = published.size, published.classes
        self.polarities: Literal[1, 2] = published.polarities
        self.labels: Tensor | None = getattr(source, "labels", None)
        self.speakers: Tensor | None = getattr(source, "speakers", None)
        self.words: tuple[str, ...] = getattr(source, "words", ())

    def __len__(self) -> int:
        return len(self.source)

    def __iter__(self) -> Iterator[tuple[Events, int]]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: int) -> tuple[Events, int]:
        if not -len(self) <= i < len(self):
            raise IndexError(f"the index of a recording must be less than {len(self)}, but it is {i}")
        try:
            array, label = self.source[int(i) % len(self)]
            label = checks.integer("its label", label, at_least=0, at_most=self.classes - 1)
            return from_numpy(array, self.size, polarities=self.polarities), label
        except (TypeError, ValueError, IndexError, OSError) as error:  # columns of several lengths do not broadcast
            raise DamagedFileError(f"recording {i} of {self.name} can't be read: {error}") from error


def load(name: str, split: str = "train", *, root: str | os.PathLike[str] | None = None) -> Recordings:
    """Open one split of a published data set of events. Missing files are downloaded, with checksums.

    A recording that is damaged or empty raises DamagedFileError when it is read.

    | name | recordings | needs | source |
    |---|---|---|---|
    | `"shd"` | spoken digits in 2 languages, 700 channels | h5py | Cramer et al. 2022, doi:10.1109/TNNLS.2020.3044364 |
    | `"ssc"` | 35 spoken words, 700 channels | h5py | the same |
    | `"nmnist"` | digits, 34 × 34 pixels, 0.3 s each | tonic | Orchard et al. 2015, doi:10.3389/fnins.2015.00437 |
    | `"dvs_gesture"` | 11 gestures, 128 × 128 pixels, seconds each | tonic | Amir et al., CVPR 2017 |

    Args:
        name: as in the table.
        split: "train" or "test"; of SSC "valid", too. SHD has none: see ``split_speakers``.
        root: folder of data sets, as of ``data.load``. SHD is in `shd/`, as ``shd_train.h5`` or ``shd_train.h5.zip``,
            SSC in `ssc/`; tonic makes a folder for each of its own.

    Raises DamagedFileError for a file that is not the published one, ConnectionError if no mirror delivers it.
    """
    published = _SETS[checks.choice("name", name, _SETS)]
    if name in heidelberg.ARCHIVES:
        checks.choice("split", split, heidelberg.ARCHIVES[name])
        return Recordings(name, heidelberg.SpikeFile(heidelberg.find(name, split, root), published.classes))
    checks.choice("split", split, SPLITS)
    try:
        from tonic import datasets  # type: ignore[import-not-found]
    except ImportError as error:
        raise ImportError(
            f"events.load({name!r}) needs tonic: pip install tonic. (events.read_nmnist reads files of N-MNIST alone.)"
        ) from error
    return Recordings(name, getattr(datasets, published.tonic)(save_to=str(data_root(root)), train=split == "train"))


@checks.arguments
def read_nmnist(path: str | os.PathLike[str]) -> Events:
    """One digit of N-MNIST, from its ``.bin`` file: 34 × 34 pixels, about 300 ms.

    Of each event's 40 bits, 8 are the column, 8 the row, 1 the polarity and 23 the microseconds, largest bits first.
    An entry in row 240 is no event: all times after it are 2¹³ µs later. Sources: Orchard et al. (2015,
    doi:10.3389/fnins.2015.00437), gorchard/event-Python.

    Raises:
        FileNotFoundError: there is no such file.
        DamagedFileError: it is empty, has no whole number of events, or has a pixel outside the sensor.
    """
    try:
        raw = np.frombuffer(read_small(Path(path), _LARGEST), dtype=np.uint8)
    except ValueError as error:
        raise DamagedFileError(f"{path}: {error}") from None
    if raw.size == 0 or raw.size % 5:
        raise DamagedFileError(
            f"{path}: must be one or more events of 5 bytes, but has {raw.size} bytes; fetch it again"
        )
    x, y, high, middle, low = raw.reshape(-1, 5).T.astype(np.int64)
    later = y == 240
    t = ((high & 127) << 16 | middle << 8 | low) + (later.cumsum() << 13)
    t, x, y, p = (column[~later] for column in (t, x, y, high >> 7 == 1))
    array = np.empty(len(t), dtype=[("t", np.int64), ("x", np.int64), ("y", np.int64), ("p", bool)])
    array["t"], array["x"], array["y"], array["p"] = t, x, y, p
    try:
        return from_numpy(array, (34, 34))
    except ValueError as error:
        raise DamagedFileError(f"{path}: {error}") from error
