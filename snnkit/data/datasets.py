"""Data sets of images by name: the digits of scikit-learn, MNIST and Fashion-MNIST; and a toy problem in time.

Digits: E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository (1998),
doi:10.24432/C50P49; the 1797 test images as scikit-learn ships them. MNIST: Y. LeCun, C. Cortes, C. J. C. Burges,
CC BY-SA 3.0. Fashion-MNIST: H. Xiao, K. Rasul, R. Vollgraf, arXiv:1708.07747, MIT licence.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from snnkit import checks
from snnkit.data.idx import DamagedFileError, IdxFile, fetch, read_idx
from snnkit.data.tensors import seeded
from snnkit.files import expanded, user_cache

SPLITS = ("train", "test")

#: What each label means, by data set: ``CLASSES["fashion"][9] == "ankle boot"``.
CLASSES: dict[str, tuple[str, ...]] = {
    "digits": tuple("0123456789"),
    "mnist": tuple("0123456789"),
    "fashion": (
        "T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
    ),
}  # fmt: skip

# Of the 1797 x 65 numbers as bytes (64 pixels 0..16, then the label), so that repacking or line ends don't matter.
_DIGITS_SHA256 = "68aea062d35a127749050fa0e52dca09d6569ac08092c925610e0954e172dde2"


@dataclass(frozen=True)
class IdxDataset:
    """A data set of two IDX files per split, its folders and its mirrors."""

    name: str
    folders: tuple[str, ...]  # below the root, in the order in which they are searched; downloads go to the first
    mirrors: tuple[str, ...]
    files: dict[str, tuple[IdxFile, IdxFile]]  # split -> images, labels


def _files(name: str, count: int, images: str, labels: str) -> tuple[IdxFile, IdxFile]:
    """Images and labels, with the checksums of their contents."""
    return (
        IdxFile(f"{name}-images-idx3-ubyte", (count, 28, 28), images),
        IdxFile(f"{name}-labels-idx1-ubyte", (count,), labels),
    )


MNIST = IdxDataset(
    name="mnist",
    folders=("mnist", "MNIST/raw"),
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    files={
        "train": _files(
            *("train", 60000),
            "sha256:ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "sha256:65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        ),
        "test": _files(
            *("t10k", 10000),
            "sha256:0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "sha256:ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    },
)

# The MD5s of the contents are the ones on which several independent projects agree; its authors publish those of the
# archives.
FASHION = IdxDataset(
    name="fashion",
    folders=("fashion", "FashionMNIST/raw"),
    mirrors=(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    ),
    files={
        "train": _files("train", 60000, "md5:f4a8712d7a061bf5bd6d2ca38dc4d50a", "md5:9018921c3c673c538a1fc5bad174d6f9"),
        "test": _files("t10k", 10000, "md5:8181f5470baa50b63fa0f6fddb340f0a", "md5:15d484375f8d13e6eb1aabb0c3f46965"),
    },
)

IDX = {dataset.name: dataset for dataset in (MNIST, FASHION)}


@checks.arguments
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
    | `"mnist"` | 28 x 28 | 60000 / 10000 | ``root``, or downloaded into it once |
    | `"fashion"` | 28 x 28 | 60000 / 10000 | ``root``, or downloaded into it once |

    The test split of the digits is every fifth image of each class (the 5th, 10th, ... in the file's order), the same
    on every machine: nothing is drawn at random.

    ``root`` contains the folders `mnist/` and `fashion/`. Without the argument it is the environment variable
    ``SNNKIT_DATA``, or else the user's cache folder. The files may also be in torchvision's `MNIST/raw/` or
    `FashionMNIST/raw/`, with or without .gz. A folder that has both files of the split is only read, never written.
    ``download=False`` never touches the network. ``progress`` shows a bar while downloading (None: yes, unless
    ``SNNKIT_HEADLESS=1``).

    Raises ValueError for an unknown name or split, DamagedFileError (a ValueError) for a file whose contents are not
    the published ones, FileNotFoundError if files are missing and ``download=False``, ConnectionError if no mirror
    delivers them.
    """
    checks.choice("name", name, CLASSES)
    checks.choice("split", split, SPLITS)
    if name == "digits":
        return _load_digits(split)
    dataset, base = IDX[name], data_root(root)
    folder = _find_folder(dataset, split, base)
    if folder is None:
        folder = base / dataset.folders[0]
        missing = [file for file in dataset.files[split] if _find(folder, file) is None]
        if not download:
            raise FileNotFoundError(
                f"{' and '.join(f'{file.name}[.gz]' for file in missing)} is not in {folder}; "
                "allow download=True, or point SNNKIT_DATA (or root=) at the folder that contains "
                f"{dataset.folders[0]}/"
            )
        for file in missing:
            fetch(file, folder, dataset.mirrors, progress)
    images, labels = (read_idx(_find(folder, file) or folder / file.name, file) for file in dataset.files[split])
    # A copy each: NumPy's view of the file's bytes is read-only.
    return torch.from_numpy(images[:, None].copy()), torch.from_numpy(labels.astype("int64"))


def available(name: str, root: str | os.PathLike[str] | None = None) -> bool:
    """Whether ``load(name, root=root, download=False)`` would find files of both splits. No network, no checksums."""
    checks.choice("name", name, CLASSES)
    if name == "digits":
        return digits_path() is not None
    try:
        base = data_root(root)
    except FileNotFoundError:  # there is no home folder
        return False
    return all(_find_folder(IDX[name], split, base) is not None for split in SPLITS)


def files_of(name: str) -> list[Path]:
    """The files of MNIST or Fashion-MNIST on this machine, of both splits, to copy them elsewhere.

    Raises FileNotFoundError or DamagedFileError if one is missing or damaged. Nothing is downloaded.
    """
    dataset, base = IDX[name], data_root()
    paths = []
    for split in SPLITS:
        load(name, split, download=False)
        folder = _find_folder(dataset, split, base)
        assert folder is not None  # or load had raised
        paths += [path for file in dataset.files[split] if (path := _find(folder, file))]
    return paths


def data_root(root: str | os.PathLike[str] | None = None) -> Path:
    """The folder that contains `mnist/` and `fashion/`: the argument, else ``SNNKIT_DATA``, else the user's cache.

    Raises FileNotFoundError if it would be in a home folder that does not exist.
    """
    chosen = root if root is not None else os.environ.get("SNNKIT_DATA")
    if chosen is None or chosen == "":
        return user_cache()
    source = "root" if root is not None else "SNNKIT_DATA"
    checks.instance(source, chosen, (str, os.PathLike), "the path of a folder")
    path = expanded(chosen)
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{source} must be a folder, but {path} is a file")
    return path


def digits_path() -> Path | None:
    """Scikit-learn's file of digits, or None. It does not import scikit-learn, which would take a second."""
    spec = importlib.util.find_spec("sklearn")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        file = Path(folder) / "datasets" / "data" / "digits.csv.gz"
        if file.is_file():
            return file
    return None


def _load_digits(split: str) -> tuple[Tensor, Tensor]:
    """Images uint8 `[N, 1, 8, 8]`, 0..16 scaled to 0..255, and labels."""
    file = digits_path()
    if file is None:
        raise FileNotFoundError(
            "the digits come with scikit-learn, whose file datasets/data/digits.csv.gz is missing; "
            "install it with `pip install scikit-learn`"
        )
    try:
        with gzip.open(file, "rt", encoding="ascii") as lines:
            table = np.loadtxt(lines, delimiter=",", dtype=np.uint8, ndmin=2)
    except (EOFError, gzip.BadGzipFile, zlib.error, ValueError) as error:
        raise DamagedFileError(f"{file} can't be read ({error}); reinstall scikit-learn") from error
    sha256 = hashlib.sha256(np.ascontiguousarray(table).tobytes()).hexdigest()
    if sha256 != _DIGITS_SHA256:
        raise DamagedFileError(
            f"{file} does not hold the digits: expected sha256 {_DIGITS_SHA256}, but it is {sha256}; reinstall "
            "scikit-learn"
        )
    pixels, labels = table[:, :-1], table[:, -1]
    images = ((pixels.astype(np.uint16) * 255 + 8) // 16).astype(np.uint8).reshape(-1, 1, 8, 8)
    in_test = np.zeros(len(labels), dtype=bool)
    for digit in range(10):
        in_test[np.flatnonzero(labels == digit)[4::5]] = True
    chosen = in_test if split == "test" else ~in_test
    return torch.from_numpy(images[chosen]), torch.from_numpy(labels[chosen].astype(np.int64))


def _find_folder(dataset: IdxDataset, split: str, base: Path) -> Path | None:
    """The first folder that has both files of the split."""
    folders = (base / name for name in dataset.folders)
    return next((folder for folder in folders if all(_find(folder, file) for file in dataset.files[split])), None)


def _find(folder: Path, file: IdxFile) -> Path | None:
    paths = (folder / file.name, folder / f"{file.name}.gz")
    return next((path for path in paths if path.is_file()), None)


def xor_in_time(
    n: int,
    steps: int = 30,
    *,
    delay: int = 10,
    units: int = 5,
    cue_steps: int = 3,
    rate: float = 0.6,
    noise: float = 0.0,
    jitter: int = 0,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Two cues, one after the other; the label is the XOR of both. Only a network with memory can solve it.

    Each cue is one bit: which of two groups of ``units`` channels fires. Group 0 is channels ``0 .. units-1``, group 1
    the rest. The first cue fills the steps ``0 .. cue_steps-1``, then come ``delay`` silent steps, then the second cue,
    then silence until ``steps``. A unit of a firing group spikes with probability ``rate`` in each step; any unit at
    any other time with probability ``noise``. The four pairs of cues are equally frequent (to within one). With
    ``jitter``, each cue of a sample comes up to so many steps late, drawn uniformly and independently, so the delay
    varies, too.

    To train on it with ``train.fit``, put samples first and let ``encode`` put time first again:
    ``fit(net, (spikes.transpose(0, 1), labels), encode=lambda x: x.transpose(0, 1), ...)``.

    Returns spikes float32 ``[steps, n, 2 * units]``, 0 or 1, and labels int64 ``[n]``, 0 or 1. Randomness comes from
    ``seed``. Raises ValueError if the cues don't fit into ``steps``.
    """
    checks.counts(n=n, steps=steps, units=units, cue_steps=cue_steps)
    checks.integer("delay", delay, at_least=0)
    checks.integer("jitter", jitter, at_least=0)
    if jitter > delay:
        raise ValueError(f"jitter must be at most delay, {delay}, or the cues could overlap, but it is {jitter}")
    needed = 2 * cue_steps + delay + jitter
    if needed > steps:
        late = f" and a jitter of {jitter}" if jitter else ""
        raise ValueError(
            f"steps must be at least {needed} for two cues of {cue_steps} steps and a delay of {delay}{late}, "
            f"but it is {steps}"
        )
    checks.number("rate", rate, at_least=0, at_most=1)
    checks.number("noise", noise, at_least=0, at_most=1)
    checks.fits("n", n, 13 * steps * 2 * units)
    generator = seeded(seed)

    pair = torch.randperm(n, generator=generator) % 4
    first, second = pair // 2, pair % 2
    probability = torch.full((steps, n, 2, units), float(noise))
    samples = torch.arange(n)
    for start, bit in ((0, first), (cue_steps + delay, second)):
        # Nothing is drawn without jitter, so that the samples of a seed are what they were before there was any.
        late = torch.randint(jitter + 1, (n,), generator=generator) if jitter else torch.zeros(n, dtype=torch.int64)
        for step in range(start, start + cue_steps):
            probability[step + late, samples, bit] = float(rate)
    spikes = torch.rand(probability.shape, generator=generator) < probability
    return spikes.flatten(2).float(), first ^ second
