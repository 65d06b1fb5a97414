"""Published recordings: data sets by name through ``tonic``, and a reader of N-MNIST's own files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from snnkit import checks
from snnkit.data.datasets import SPLITS, data_root
from snnkit.data.events.recordings import Events, from_numpy
from snnkit.data.idx import DamagedFileError
from snnkit.files import check_hdf5, read_small

_LARGEST = 1 << 24  # bytes of a recording of N-MNIST; they have some ten thousand


class _Published(NamedTuple):
    """The class in ``tonic.datasets``, and what its recordings are."""

    tonic: str
    size: tuple[int, int]
    polarities: Literal[1, 2]
    classes: int


_SETS = {
    "nmnist": _Published("NMNIST", (34, 34), 2, 10),
    "shd": _Published("SHD", (1, 700), 1, 20),
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
    """

    def __init__(self, name: str, source: Any) -> None:
        published = _SETS[checks.choice("name", name, _SETS)]
        self.name, self.source = name, source
        self.size, self.classes = published.size, published.classes
        self.polarities: Literal[1, 2] = published.polarities

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, i: int) -> tuple[Events, int]:
        if not -len(self) <= i < len(self):  # a loop over it ends by this
            raise IndexError(f"the index of a recording must be less than {len(self)}, but it is {i}")
        try:
            array, label = self.source[int(i) % len(self)]
            label = checks.integer("its label", label, at_least=0, at_most=self.classes - 1)
            return from_numpy(array, self.size, polarities=self.polarities), label
        except (TypeError, ValueError, IndexError, OSError) as error:  # columns of several lengths do not broadcast
            raise DamagedFileError(f"recording {i} of {self.name} can't be read: {error}") from error


def load(name: str, split: str = "train", *, root: str | os.PathLike[str] | None = None) -> Recordings:
    """Open one split of a published data set of events. It needs ``tonic``, which downloads missing files.

    A recording that is damaged or empty raises DamagedFileError when it is read.

    | name | recordings | source |
    |---|---|---|
    | `"nmnist"` | digits, 34 × 34 pixels, 0.3 s each | Orchard et al. 2015, doi:10.3389/fnins.2015.00437 |
    | `"shd"` | spoken digits in 2 languages, 700 channels | Cramer et al. 2020, doi:10.1109/TNNLS.2020.3044364 |
    | `"dvs_gesture"` | 11 gestures, 128 × 128 pixels, seconds each | Amir et al., CVPR 2017 |

    Args:
        name, split: as in the table; "train" or "test".
        root: folder of data sets, as of ``data.load``; tonic makes one in it for each of its own.
    """
    checks.choice("name", name, _SETS)
    checks.choice("split", split, SPLITS)
    try:
        from tonic import datasets  # type: ignore[import-not-found]
    except ImportError as error:
        raise ImportError(
            f"events.load({name!r}) needs tonic: pip install tonic. (events.read_nmnist reads files of N-MNIST alone.)"
        ) from error
    made = getattr(datasets, _SETS[name].tonic)(save_to=str(data_root(root)), train=split == "train")
    if name == "shd":
        try:
            check_hdf5(os.path.join(made.location_on_system, made.data_filename))
        except (ValueError, TypeError, OSError) as error:
            raise DamagedFileError(f"the file of {name} is damaged: {error}") from error
    return Recordings(name, made)


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
