"""Handwritten digits, 8 x 8 pixels: the data set that is always there.

E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits, UCI Machine Learning Repository (1998),
doi:10.24432/C50P49; its 1797 test images as scikit-learn ships them.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from snnkit.data._idx import DamagedFileError

# Of the 1797 x 65 numbers as bytes (64 pixels 0..16, then the label), so that repacking or line ends don't matter.
SHA256 = "68aea062d35a127749050fa0e52dca09d6569ac08092c925610e0954e172dde2"
SHAPE = (1797, 65)


def path() -> Path | None:
    """Where scikit-learn keeps the file, or None; found without importing scikit-learn, which takes a second."""
    spec = importlib.util.find_spec("sklearn")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        file = Path(folder) / "datasets" / "data" / "digits.csv.gz"
        if file.is_file():
            return file
    return None


def load(split: str) -> tuple[Tensor, Tensor]:
    """Images uint8 `[N, 1, 8, 8]`, 0..16 scaled to 0..255, and labels int64 `[N]`; `split` is "train" or "test".

    The test split is every fifth image of each class (the 5th, 10th, ... in the file's order): 355 images, all classes
    alike, and the same on every machine because nothing is drawn at random. The train split is the other 1442.
    """
    file = path()
    if file is None:
        raise FileNotFoundError(
            "the digits come with scikit-learn, whose file datasets/data/digits.csv.gz was not found; "
            "install it with `pip install scikit-learn`"
        )
    table = _read(file)
    pixels, labels = table[:, :-1], table[:, -1]
    images = ((pixels.astype(np.uint16) * 255 + 8) // 16).astype(np.uint8).reshape(-1, 1, 8, 8)

    in_test = np.zeros(len(labels), dtype=bool)
    for digit in range(10):
        in_test[np.flatnonzero(labels == digit)[4::5]] = True
    chosen = in_test if split == "test" else ~in_test
    return torch.from_numpy(images[chosen]), torch.from_numpy(labels[chosen].astype(np.int64))


def _read(file: Path) -> np.ndarray:
    try:
        with gzip.open(file, "rt", encoding="ascii") as lines:
            table = np.loadtxt(lines, delimiter=",", dtype=np.uint8, ndmin=2)
    except (EOFError, gzip.BadGzipFile, zlib.error, ValueError) as error:
        raise DamagedFileError(f"{file} can't be read ({error}); reinstall scikit-learn") from error
    found = hashlib.sha256(np.ascontiguousarray(table).tobytes()).hexdigest()
    if table.shape != SHAPE or found != SHA256:
        raise DamagedFileError(
            f"{file} does not hold the digits: expected a table {SHAPE} with sha256 {SHA256}, "
            f"found {table.shape} with sha256 {found}; reinstall scikit-learn"
        )
    return table
