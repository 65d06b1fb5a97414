"""Published recordings by name, through ``tonic``, which finds or downloads them. (``files`` reads what lies here.)"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from snnkit.data.events.recording import Events, from_numpy
from snnkit.data.mnist import data_root


class _Published(NamedTuple):
    """Of which class in ``tonic.datasets`` a data set is, and what its recordings are."""

    tonic: str
    size: tuple[int, int]
    polarities: int
    classes: int


_SETS = {
    "nmnist": _Published("NMNIST", (34, 34), 2, 10),
    "shd": _Published("SHD", (1, 700), 1, 20),
    "dvs_gesture": _Published("DVSGesture", (128, 128), 2, 11),
}


class Recordings:
    """The recordings of one split, read when they are asked for: a data set for PyTorch's loaders.

    ``len(recordings)``; ``recordings[i]`` is a recording and its label, an int.

    Attributes:
        name: of the data set.
        size: (height, width) of its sensor in pixels.
        polarities: 2, or 1 where there are no OFF events.
        classes: number of labels.
    """

    def __init__(self, name: str, source: Any) -> None:
        published = _SETS[name]
        self.name, self.source = name, source
        self.size, self.polarities, self.classes = published.size, published.polarities, published.classes

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, i: int) -> tuple[Events, int]:
        if isinstance(i, bool) or not hasattr(i, "__index__"):
            raise TypeError(f"the number of a recording must be an int; got {i!r}")
        if not -len(self) <= i < len(self):  # a loop over it ends by this
            raise IndexError(f"the number of a recording must be below {len(self)}; got {i}")
        array, label = self.source[int(i) % len(self)]
        try:
            return from_numpy(array, self.size, polarities=self.polarities), int(label)
        except (TypeError, ValueError) as error:
            raise type(error)(f"recording {i} of {self.name}: {error}") from error


def load(name: str, split: str = "train", *, root: str | os.PathLike[str] | None = None) -> Recordings:
    """Open one split of a published data set of events; needs ``tonic``, which downloads what is not there.

    | name | recordings | source |
    |---|---|---|
    | `"nmnist"` | digits, 34 × 34 pixels, 0.3 s each | Orchard et al. 2015, doi:10.3389/fnins.2015.00437 |
    | `"shd"` | spoken digits in 2 languages, 700 channels | Cramer et al. 2020, doi:10.1109/TNNLS.2020.3044364 |
    | `"dvs_gesture"` | 11 gestures, 128 × 128 pixels, seconds each | Amir et al., CVPR 2017 |

    Args:
        name, split: as in the table; "train" or "test".
        root: folder of data sets, as of ``data.load``; tonic makes one in it for each of its own.

    Raises:
        ImportError: tonic is not installed.
        ValueError: an unknown name or split; when read, a recording that is damaged or empty.
    """
    if not isinstance(name, str) or name not in _SETS:
        raise ValueError(f"name must be one of {', '.join(map(repr, _SETS))}; got {name!r}")
    if split not in ("train", "test"):
        raise ValueError(f"split must be one of 'train', 'test'; got {split!r}")
    try:
        from tonic import datasets  # type: ignore[import-not-found]
    except ImportError as error:
        raise ImportError(
            f"events.load({name!r}) needs tonic: pip install tonic. Without it, events.files reads the files themselves"
        ) from error
    made = getattr(datasets, _SETS[name].tonic)(save_to=str(data_root(root)), train=split == "train")
    return Recordings(name, made)
