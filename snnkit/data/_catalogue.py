"""The names that `data.load` knows."""

from __future__ import annotations

import os

from torch import Tensor

from snnkit.data import digits, mnist

SPLITS = ("train", "test")

#: What each label means, by data set: `CLASSES["fashion"][9] == "ankle boot"`.
CLASSES: dict[str, tuple[str, ...]] = {
    "digits": tuple("0123456789"),
    "mnist": tuple("0123456789"),
    "fashion": (
        "T-shirt",
        "trouser",
        "pullover",
        "dress",
        "coat",
        "sandal",
        "shirt",
        "sneaker",
        "bag",
        "ankle boot",
    ),
}


def load(
    name: str,
    split: str = "train",
    *,
    root: str | os.PathLike[str] | None = None,
    download: bool = True,
    progress: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Load one split of a data set: images uint8 `[N, 1, H, W]` in 0..255 and labels int64 `[N]` in 0..9.

    | name | images | train / test | where from |
    |---|---|---|---|
    | `"digits"` | 8 x 8 | 1442 / 355 | inside scikit-learn, always offline |
    | `"mnist"` | 28 x 28 | 60000 / 10000 | `root`, or downloaded into it once |
    | `"fashion"` | 28 x 28 | 60000 / 10000 | `root`, or downloaded into it once |

    `root` holds the folders `mnist/` and `fashion/`; it is the argument, else the environment variable
    `SNNKIT_DATA`, else the user's cache folder. `download=False` never touches the network. `progress` shows a
    bar while downloading (None: yes, unless `SNNKIT_HEADLESS=1`).

    Raises ValueError for an unknown name or split, DamagedFileError (a ValueError) for a file whose contents are not
    the published ones, FileNotFoundError where `download=False` and files are missing, ConnectionError when no mirror
    could deliver them.
    """
    _check_name(name)
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(map(repr, SPLITS))}; got {split!r}")
    if name == "digits":
        return digits.load(split)
    return mnist.load(mnist.DATASETS[name], split, root=root, download=download, progress=progress)


def available(name: str, root: str | os.PathLike[str] | None = None) -> bool:
    """Whether `load(name, root=root, download=False)` would find files for both splits. No network, no checksums."""
    _check_name(name)
    if name == "digits":
        return digits.path() is not None
    return mnist.available(mnist.DATASETS[name], root)


def _check_name(name: str) -> None:
    if not isinstance(name, str):
        raise TypeError(f"name must be one of {', '.join(map(repr, CLASSES))}; got {name!r} ({type(name).__name__})")
    if name not in CLASSES:
        raise ValueError(f"name must be one of {', '.join(map(repr, CLASSES))}; got {name!r}")
