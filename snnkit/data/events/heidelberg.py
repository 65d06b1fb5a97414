"""The Heidelberg data sets of spoken words as spikes, SHD and SSC: their HDF5 files, and a rule for choosing epochs.

Source: Cramer, Stradmann, Schemmel and Zenke (2022, doi:10.1109/TNNLS.2020.3044364), https://zenkelab.org/datasets/;
CC BY 4.0. An artificial cochlea of 700 channels listened to each word. SHD has digits in English and German by twelve
speakers, SSC the 35 words of Google's Speech Commands.

SHD has no validation set, and widely used code keeps the epoch that is best on the test set (idiap/sparch, of Bittar
and Garner 2022; Thvnvtos/SNN-delays, of Hammouamri et al. 2023). Such an accuracy is partly luck with these recordings.
The rule here: hold out speakers of the training set (``split_speakers``), choose the epoch and all else by them, and
test once. Speakers, and not recordings at random, because two of the twelve speak in the test set only. Nowotny, Turner
and Knight (2022, arXiv:2212.01232) hold out one speaker after the other. SSC has a validation set.
"""

from __future__ import annotations

import os
import shutil
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from snnkit import checks
from snnkit.data.datasets import data_root
from snnkit.data.idx import DamagedFileError, download
from snnkit.data.tensors import seeded
from snnkit.files import check_hdf5, replacing

CHANNELS = 700

#: MD5 of each archive, NAME_SPLIT.h5.zip. Those of SHD are the ones of tonic 1.7 and SpikingJelly 2.0, those of SSC the
#: ones of tonic 1.7.
ARCHIVES = {
    "shd": {
        "train": "f3252aeb598ac776c1b526422d90eecb",
        "test": "1503a5064faa34311c398fb0a1ed0a6f",
    },
    "ssc": {
        "train": "d102be95e7144fcc0553d1f45ba94170",
        "valid": "b4eee3516a4a90dd0c71a6ac23a8ae43",
        "test": "a35ff1e9cffdd02a20eb850c17c37748",
    },
}
MIRRORS = ("https://zenkelab.org/datasets/", "https://compneuro.net/datasets/")
_LARGEST = 1 << 32  # bytes of an archive
_LONGEST = 3600.0  # seconds of a recording; they last about one
_SPIKES = {"spikes/times": np.floating, "spikes/units": np.integer}


def find(name: str, split: str, root: str | os.PathLike[str] | None = None) -> Path:
    """The HDF5 file of one split, such as shd/shd_train.h5 in the folder of data sets; fetched and unpacked if needed.

    Raises DamagedFileError for an archive that is not the published one, and ConnectionError if no mirror delivers it.
    """
    md5, folder = ARCHIVES[name][split], data_root(root) / name
    path = folder / f"{name}_{split}.h5"
    # tonic has them in a folder of another name.
    for there in (path, folder.with_name(name.upper()) / path.name):
        if there.is_file():
            return there
    archive = path.with_name(f"{path.name}.zip")
    missing = not archive.is_file()
    try:
        if missing:
            put = f"put the file (or what it holds, {path.name})"
            download(archive, MIRRORS, _LARGEST, lambda part: _check_archive(part, md5), put=put)
        else:
            _check_archive(archive, md5)
        _unpack(archive, path)
    except FileNotFoundError:  # another process was faster, and has removed the archive
        if not path.is_file():
            raise
    if missing:
        archive.unlink(missing_ok=True)
    return path


class SpikeFile:
    """The recordings of an HDF5 file, read when they are indexed; its labels, speakers and words are read at once.

    ``file[i]`` is a structured array [n] with the fields t (µs) and x (channel), and a label: a source of
    ``Recordings``.
    """

    def __init__(self, path: Path, classes: int) -> None:
        try:
            import h5py
        except ImportError as error:
            raise ImportError(f"SHD and SSC need h5py, which comes with nir: {checks.pip_install('nir')}") from error
        self.path = path
        try:
            check_hdf5(path)
            with h5py.File(path, "r") as file:
                self._read(file)
            low, high = (int(end) for end in self.labels.aminmax())
            if low < 0 or high >= classes:
                raise ValueError(f"labels must be in 0 .. {classes - 1}, but they go from {low} to {high}")
        except (ValueError, TypeError, OSError, RuntimeError) as error:
            raise DamagedFileError(
                f"{path} is damaged or of another kind: {error}. Delete it and load again to get a fresh copy."
            ) from error

    def _read(self, file: Any) -> None:
        """All but the spikes."""
        counts = {name: _lists(file, name, kind) for name, kind in _SPIKES.items()}
        self.labels = _integers(file, "labels")
        self.speakers = _integers(file, "extra/speaker") if "extra/speaker" in file else None
        self.words = _words(file)
        counts |= {"labels": len(self.labels)}
        counts |= {"extra/speaker": len(self.speakers)} if self.speakers is not None else {}
        if set(counts.values()) != {max(counts["labels"], 1)}:
            raise ValueError(f"there must be one of each for every recording, but there are {counts}")

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int) -> tuple[np.ndarray, int]:
        import h5py

        # Opened again, as an open file does not survive the way to the workers of a loader.
        with h5py.File(self.path, "r") as opened:
            file: Any = opened
            times, units = file["spikes/times"][i], file["spikes/units"][i]
        if len(times) != len(units):
            raise ValueError(
                f"each spike must have a time and a unit, but there are {len(times)} times and {len(units)} units"
            )
        times = times.astype(np.float64)  # float16 ends at 65504, and float32 is coarse for microseconds
        if not (inside := (times >= 0) & (times <= _LONGEST)).all():  # NaN is not inside
            raise ValueError(f"times must be seconds in 0 .. {_LONGEST:g}, but one is {times[~inside][0]:g}")
        array = np.empty(len(times), dtype=[("t", np.int64), ("x", np.int64)])
        array["t"], array["x"] = np.rint(times * 1e6), units
        return array, int(self.labels[i])


def split_speakers(speakers: Tensor, held_out: int | Sequence[int] = 2, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Recordings to train with and recordings to choose by, which have no speaker in common.

    Use it on the training set: choose the epoch, and all else, by the second part, and test once, at the end.

    Args:
        speakers: of each recording, int64 [N].
        held_out: how many speakers to hold out, drawn by ``seed``; or which.

    Returns:
        Indices int64 of both parts, in order.
    """
    checks.values("speakers", checks.instance("speakers", speakers, Tensor, "a tensor of int64 [N]"))
    if speakers.dtype != torch.int64 or speakers.ndim != 1 or not len(speakers):
        raise ValueError(f"speakers must be int64 [N], but they are {speakers.dtype} {list(speakers.shape)}")
    everyone = speakers.unique()
    if len(everyone) < 2:
        raise ValueError(f"speakers must be at least two, but all recordings are of speaker {int(everyone)}")
    if isinstance(held_out, Sequence) and not isinstance(held_out, str):
        chosen = [checks.choice(f"held_out[{i}]", one, everyone.tolist()) for i, one in enumerate(held_out)]
        checks.integer("the number of held_out", len(set(chosen)), at_least=1, at_most=len(everyone) - 1)
    else:
        checks.integer("held_out", held_out, at_least=1, at_most=len(everyone) - 1)
        chosen = everyone[torch.randperm(len(everyone), generator=seeded(seed))[:held_out]].tolist()
    out = torch.isin(speakers, torch.tensor(chosen, device=speakers.device))
    return (~out).nonzero()[:, 0], out.nonzero()[:, 0]


def _check_archive(path: Path, md5: str) -> None:
    import pooch

    if (actual := pooch.file_hash(str(path), "md5")) != md5:
        raise DamagedFileError(
            f"{path} is damaged or is not the published archive: its checksum must be md5:{md5}, but it is "
            f"md5:{actual}. Delete the file and load again to get a fresh copy."
        )


def _unpack(archive: Path, path: Path) -> None:
    try:
        with zipfile.ZipFile(archive) as packed, packed.open(path.name) as source, replacing(path) as file:
            shutil.copyfileobj(source, file, 1 << 20)
    except (zipfile.BadZipFile, KeyError, EOFError, zlib.error) as error:
        raise DamagedFileError(f"{archive} must hold {path.name}, but it can't be unpacked: {error}") from error


def _lists(file: Any, name: str, kind: type[np.generic]) -> int:
    """How many lists of numbers a part of an HDF5 file holds."""
    import h5py

    values = file.get(name)
    inner = h5py.check_vlen_dtype(values.dtype) if isinstance(values, h5py.Dataset) else None
    if inner is None or values.ndim != 1 or not np.issubdtype(inner, kind):
        raise ValueError(f"{name} must hold a list of {kind.__name__} numbers for each recording")
    return len(values)


def _integers(file: Any, name: str) -> Tensor:
    """A column of an HDF5 file, int64 [N]."""
    values = file.get(name)
    if getattr(values, "ndim", None) != 1 or not np.issubdtype(values.dtype, np.integer):
        raise ValueError(f"{name} must be integers [N], but it is {'missing' if values is None else 'something else'}")
    return torch.from_numpy(values[:].astype(np.int64))


def _words(file: Any) -> tuple[str, ...]:
    """What each label means; () where the file does not say."""
    words = file.get("extra/keys")
    if getattr(words, "ndim", None) != 1 or words.dtype.kind not in "SO":
        return ()
    return tuple(word.decode(errors="replace") if isinstance(word, bytes) else str(word) for word in words[:])
