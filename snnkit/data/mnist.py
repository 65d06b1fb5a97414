"""MNIST and Fashion-MNIST, read from their original IDX files.

MNIST: Y. LeCun, C. Cortes, C. J. C. Burges, CC BY-SA 3.0. Fashion-MNIST: H. Xiao, K. Rasul, R. Vollgraf,
arXiv:1708.07747, MIT licence.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from snnkit.data._download import fetch
from snnkit.data._idx import DamagedFileError, IdxFile, read_idx


@dataclass(frozen=True)
class IdxDataset:
    """A data set of two IDX files per split, and where they may lie or be had."""

    name: str
    folders: tuple[str, ...]  # below the root, in the order in which they are searched; downloads go to the first
    mirrors: tuple[str, ...]
    files: dict[str, tuple[IdxFile, IdxFile]]  # split -> images, labels


MNIST = IdxDataset(
    name="mnist",
    folders=("mnist", "MNIST/raw", "."),
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    files={
        "train": (
            IdxFile(
                "train-images-idx3-ubyte",
                (60000, 28, 28),
                md5="6bbc9ace898e44ae57da46a324031adb",
                sha256="ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            ),
            IdxFile(
                "train-labels-idx1-ubyte",
                (60000,),
                md5="a25bea736e30d166cdddb491f175f624",
                sha256="65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            ),
        ),
        "test": (
            IdxFile(
                "t10k-images-idx3-ubyte",
                (10000, 28, 28),
                md5="2646ac647ad5339dbf082846283269ea",
                sha256="0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            ),
            IdxFile(
                "t10k-labels-idx1-ubyte",
                (10000,),
                md5="27ae3e4e09519cfbb04c329615203637",
                sha256="ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            ),
        ),
    },
)

# Its authors publish the MD5s of the archives, so an archive with that checksum passes by itself. The MD5s of the
# uncompressed contents are the ones on which several independent projects agree; we have not computed them ourselves.
FASHION = IdxDataset(
    name="fashion",
    folders=("fashion", "FashionMNIST/raw", "."),
    mirrors=(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    ),
    files={
        "train": (
            IdxFile(
                "train-images-idx3-ubyte",
                (60000, 28, 28),
                md5="f4a8712d7a061bf5bd6d2ca38dc4d50a",
                archive_md5="8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            ),
            IdxFile(
                "train-labels-idx1-ubyte",
                (60000,),
                md5="9018921c3c673c538a1fc5bad174d6f9",
                archive_md5="25c81989df183df01b3e8a0aad5dffbe",
            ),
        ),
        "test": (
            IdxFile(
                "t10k-images-idx3-ubyte",
                (10000, 28, 28),
                md5="8181f5470baa50b63fa0f6fddb340f0a",
                archive_md5="bef4ecab320f06d8554ea6380940ec79",
            ),
            IdxFile(
                "t10k-labels-idx1-ubyte",
                (10000,),
                md5="15d484375f8d13e6eb1aabb0c3f46965",
                archive_md5="bb300cfdad3c16e7a12a480ee83cd310",
            ),
        ),
    },
)

DATASETS = {dataset.name: dataset for dataset in (MNIST, FASHION)}


def load(
    dataset: IdxDataset,
    split: str,
    *,
    root: str | os.PathLike[str] | None = None,
    download: bool = True,
    progress: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Images uint8 `[N, 1, 28, 28]` and labels int64 `[N]`; see `snnkit.data.load`.

    Below the root, the files may lie in `mnist/` or `fashion/`, in torchvision's `MNIST/raw/` or `FashionMNIST/raw/`,
    or in the root itself; with or without .gz. A folder that has both files of the split is only read, never written.
    """
    base = data_root(root)
    folder = _find_folder(dataset, split, base)
    if folder is None:
        folder = base / dataset.folders[0]
        missing = [file for file in dataset.files[split] if _find(folder, file) is None]
        if not download:
            raise FileNotFoundError(
                f"{' and '.join(f'{file.name}[.gz]' for file in missing)} not found in {folder}; "
                "allow download=True, or point SNNKIT_DATA (or root=) at the folder that contains "
                f"{dataset.folders[0]}/"
            )
        for file in missing:
            fetch(file, folder, dataset.mirrors, progress)
    images, labels = (read_idx(_require(folder, file), file) for file in dataset.files[split])
    # A copy each: NumPy's view of the file's bytes is read-only.
    return torch.from_numpy(images[:, None].copy()), torch.from_numpy(labels.astype("int64"))


def available(dataset: IdxDataset, root: str | os.PathLike[str] | None = None) -> bool:
    """Whether all files are there, unverified."""
    base = data_root(root)
    return all(_find_folder(dataset, split, base) is not None for split in dataset.files)


def files(dataset: IdxDataset, root: str | os.PathLike[str] | None = None) -> list[Path]:
    """Where the files of the data set lie, of all its splits, for whoever copies them elsewhere.

    Raises:
        FileNotFoundError: not all are there; nothing is downloaded.
        DamagedFileError: one is damaged: every file is read, and compared with its checksum.
    """
    found = []
    for split, parts in dataset.files.items():
        load(dataset, split, root=root, download=False)
        folder = _find_folder(dataset, split, data_root(root))
        assert folder is not None  # or load had raised
        found += [_require(folder, file) for file in parts]
    return found


def data_root(root: str | os.PathLike[str] | None = None) -> Path:
    """The folder that contains `mnist/` and `fashion/`: the argument, else `SNNKIT_DATA`, else the user's cache."""
    chosen = root if root is not None else os.environ.get("SNNKIT_DATA")
    if chosen is None or chosen == "":
        import pooch

        return Path(pooch.os_cache("snnkit"))
    source = "root" if root is not None else "SNNKIT_DATA"
    if not isinstance(chosen, (str, os.PathLike)):
        raise TypeError(f"{source} must be the path of a folder; got {chosen!r} ({type(chosen).__name__})")
    try:
        path = Path(chosen).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{source} must be the path of a folder; got {str(chosen)!r}: {error}") from error
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{source} must be a folder; {path} is a file")
    return path


def _find_folder(dataset: IdxDataset, split: str, base: Path) -> Path | None:
    """The first folder that holds both files of the split."""
    for name in dataset.folders:
        folder = base / name
        if all(_find(folder, file) for file in dataset.files[split]) and not (
            name == "." and _holds_another(dataset, split, folder)
        ):
            return folder
    return None


def _find(folder: Path, file: IdxFile) -> Path | None:
    for name in (file.name, f"{file.name}.gz"):
        if (folder / name).is_file():
            return folder / name
    return None


def _require(folder: Path, file: IdxFile) -> Path:
    path = _find(folder, file)
    if path is None:
        raise FileNotFoundError(f"{folder / file.name} was there a moment ago and is gone")
    return path


def _holds_another(dataset: IdxDataset, split: str, folder: Path) -> bool:
    """Both data sets use the same file names; in a folder without a telling name, the small label file tells."""
    for other in DATASETS.values():
        labels = other.files[split][1]
        if other.name != dataset.name:
            try:
                read_idx(_require(folder, labels), labels)
            except (DamagedFileError, OSError):
                continue
            return True
    return False
