"""The file formats of three published recordings, read directly; nothing is downloaded.

- N-MNIST: a ``.bin`` per digit, 40 bits an event. Orchard et al. (2015, doi:10.3389/fnins.2015.00437).
- SHD: one HDF5 file per split. Cramer et al. (2020, doi:10.1109/TNNLS.2020.3044364).
- DVS Gesture: ``.aedat`` (AEDAT 3.1) of several gestures with a table of labels beside it. Amir et al. (CVPR 2017).
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from snnkit.data._idx import DamagedFileError
from snnkit.data.events.recording import Events, from_numpy

_FIELDS = [("t", np.int64), ("x", np.int64), ("y", np.int64), ("p", bool)]

_PACKET = np.dtype(
    {
        "names": ["type", "source", "size", "offset", "overflow", "capacity", "number", "valid"],
        "formats": ["<i2", "<i2", *["<i4"] * 6],
    }
)
_GESTURES = 11
_POLARITY = 1  # type of the packets with events of pixels


def read_nmnist(path: str | os.PathLike[str]) -> Events:
    """One digit of N-MNIST, from its ``.bin`` file: 34 × 34 pixels, about 300 ms.

    Of each event's 40 bits, 8 are the column, 8 the row, 1 the polarity and 23 the microseconds, largest bits first.
    One in row 240 is none, but says that all times from there on are 2¹³ µs later (gorchard/event-Python).

    Raises:
        FileNotFoundError: there is no such file.
        DamagedFileError: it is empty, no whole number of events, or holds a pixel that the sensor does not have.
    """
    raw = np.fromfile(path, dtype=np.uint8)
    if raw.size == 0 or raw.size % 5:
        raise DamagedFileError(f"{path}: {raw.size} bytes are not one or more events of 5 bytes; fetch the file again")
    x, y, high, middle, low = raw.reshape(-1, 5).T.astype(np.int64)
    later = y == 240
    t = ((high & 127) << 16 | middle << 8 | low) + (later.cumsum() << 13)
    t, x, y, p = (column[~later] for column in (t, x, y, high >> 7 == 1))
    return _events(path, t, x, y, p, (34, 34))


def read_shd(path: str | os.PathLike[str]) -> tuple[list[Events], Tensor]:
    """A split of the Spiking Heidelberg Digits, from its ``.h5`` file: 700 channels of a cochlea, no OFF events.

    Returns:
        Recordings of size (1, 700) with one polarity, and labels int64 [N] in 0 .. 19.

    Raises:
        ImportError: h5py is not installed.
        FileNotFoundError: there is no such file.
        DamagedFileError: it is no such file, or a recording in it is empty or has a channel beyond the 700.
    """
    try:
        import h5py  # type: ignore[import-not-found]
    except ImportError as error:
        raise ImportError("reading SHD needs h5py: pip install h5py") from error
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    try:
        with h5py.File(path, "r") as file:
            read = [np.asarray(file[name]) for name in ("spikes/times", "spikes/units", "labels")]
    except (OSError, KeyError) as error:
        raise DamagedFileError(f"{path}: no HDF5 file with spikes/times, spikes/units and labels ({error})") from error
    times, units, labels = read
    if not len(times) == len(units) == len(labels):
        raise DamagedFileError(
            f"{path}: {len(times)} times, {len(units)} units and {len(labels)} labels must be as many"
        )
    recordings = []
    for i, (t, x) in enumerate(zip(times, units, strict=True)):
        # The file has seconds in half precision: as they stand, with their steps of up to a millisecond.
        t = np.round(np.asarray(t, dtype=np.float64) * 1e6).astype(np.int64)
        x = np.asarray(x).astype(np.int64)
        recordings.append(_events(f"{path}, recording {i}", t, x, 0 * x, np.ones(len(x), bool), (1, 700), 1))
    return recordings, torch.from_numpy(labels.astype(np.int64))


def read_aedat(path: str | os.PathLike[str], size: tuple[int, int] = (128, 128)) -> Events:
    """All events of pixels in an AEDAT 3.1 file, with times from the first of them on.

    Source of the format: inivation's "AEDAT file formats", version 3.1. Packets of other kinds and events that are
    marked as invalid are skipped.

    Args:
        path: the file.
        size: height and width of the sensor; the file does not tell.

    Raises:
        FileNotFoundError: there is no such file.
        DamagedFileError: it is of another format, is cut off within a packet, or holds no event of these pixels.
    """
    t, x, y, p = _aedat(path)
    return _events(path, t - (t.min() if len(t) else 0), x, y, p, size)


def read_gestures(path: str | os.PathLike[str]) -> tuple[list[Events], Tensor]:
    """The gestures in one file of DVS Gesture, ``userNN_light.aedat``, by the table ``userNN_light_labels.csv``.

    Returns:
        Recordings of 128 × 128 pixels, each from its start to its end in the table, and labels int64 [N] in 0 .. 10:
        those of the table, which count from 1, less one.

    Raises:
        FileNotFoundError: the file or its table is not there.
        DamagedFileError: as ``read_aedat``; the table is another one, or there are no events in a gesture's time.
    """
    path = Path(path)
    table = path.with_name(f"{path.stem}_labels.csv")
    t, x, y, p = _aedat(path)
    recordings, labels = [], []
    for label, start, end in _rows(table):
        inside = (t >= start) & (t < end)
        name = f"{path}, gesture {label} of {start} to {end} µs"
        recordings.append(
            _events(name, t[inside] - start, x[inside], y[inside], p[inside], (128, 128), duration=end - start)
        )
        labels.append(label - 1)
    return recordings, torch.tensor(labels, dtype=torch.int64)


def _rows(table: Path) -> Iterator[tuple[int, int, int]]:
    """(class, start, end) of each gesture, microseconds."""
    with open(table, newline="") as file:
        for row in csv.DictReader(file):
            try:
                label, start, end = (int(row[name]) for name in ("class", "startTime_usec", "endTime_usec"))
            except (KeyError, TypeError, ValueError) as error:
                wanted = "class, startTime_usec and endTime_usec"
                raise DamagedFileError(f"{table}: every row must have the integers {wanted}; got {row}") from error
            if not 1 <= label <= _GESTURES:
                raise DamagedFileError(f"{table}: class must lie in 1 .. {_GESTURES}; got {label}")
            yield label, start, end


def _aedat(path: str | os.PathLike[str]) -> tuple[np.ndarray, ...]:
    """t in microseconds of the camera's clock, x, y and p of all valid events of pixels."""
    with open(path, "rb") as file:
        raw = file.read()
    mark = b"#!END-HEADER\r\n"
    at = raw.find(mark) + len(mark)
    if not raw.startswith(b"#!AER-DAT3.1") or at < len(mark):
        raise DamagedFileError(f"{path}: no AEDAT 3.1 file: its header is another one")
    columns = [np.empty((0, 4), dtype=np.int64)]
    while at < len(raw):
        head = np.frombuffer(raw, _PACKET, 1, at)[0] if at + _PACKET.itemsize <= len(raw) else None
        start = at + _PACKET.itemsize
        if head is None or start + int(head["number"]) * int(head["size"]) > len(raw) or head["number"] < 0:
            raise DamagedFileError(f"{path}: cut off within a packet, at byte {at} of {len(raw)}; fetch it again")
        at = start + int(head["number"]) * int(head["size"])
        if head["type"] == _POLARITY and head["size"] == 8:
            words = np.frombuffer(raw, "<u4", 2 * int(head["number"]), start).reshape(-1, 2).astype(np.int64)
            data = words[words[:, 0] & 1 == 1]
            time = data[:, 1] + (int(head["overflow"]) << 31)
            columns.append(np.stack([time, data[:, 0] >> 17, data[:, 0] >> 2 & 0x7FFF, data[:, 0] >> 1 & 1], 1))
    t, x, y, p = np.concatenate(columns).T
    return t, x, y, p == 1


def _events(
    name: object,
    t: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    p: np.ndarray,
    size: tuple[int, int],
    polarities: int = 2,
    duration: int = 0,
) -> Events:
    array = np.empty(len(t), dtype=_FIELDS)
    array["t"], array["x"], array["y"], array["p"] = t, x, y, p
    try:
        return from_numpy(array, size, duration, polarities)
    except ValueError as error:
        raise DamagedFileError(f"{name}: {error}") from error
