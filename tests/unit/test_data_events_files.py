"""Files in the formats of N-MNIST, SHD and DVS Gesture, written here byte by byte and read back."""

import struct
import sys

import numpy as np
import pytest
import torch

from snnkit.data import DamagedFileError, events
from snnkit.data.events import files


def nmnist_bytes(rows):
    """5 bytes for each (t, x, y, p)."""
    return b"".join(bytes([x, y, p << 7 | t >> 16, t >> 8 & 255, t & 255]) for t, x, y, p in rows)


def packet(rows, kind=1, overflow=0):
    """An AEDAT 3.1 packet of (t, x, y, p, valid)."""
    head = struct.pack("<hhiiiiii", kind, 1, 8, 4, overflow, len(rows), len(rows), len(rows))
    return head + b"".join(struct.pack("<Ii", x << 17 | y << 2 | p << 1 | valid, t) for t, x, y, p, valid in rows)


HEADER = b"#!AER-DAT3.1\r\n#Format: RAW\r\n#Source 1: DVS128\r\n#!END-HEADER\r\n"


def rows_of(recording):
    return list(zip(*(getattr(recording, name).tolist() for name in "txyp"), strict=True))


def test_nmnist(tmp_path):
    rows = [(0, 33, 2, 1), (70_000, 5, 33, 0), (300_001, 0, 0, 1)]
    (tmp_path / "00002.bin").write_bytes(nmnist_bytes(rows))
    recording = files.read_nmnist(tmp_path / "00002.bin")
    assert rows_of(recording) == rows and recording.size == (34, 34)


def test_nmnist_with_times_that_overflow(tmp_path):
    rows = [(5, 1, 1, 1), (0, 0, 240, 0), (7, 2, 2, 0), (0, 0, 240, 0), (9, 3, 3, 1)]
    (tmp_path / "a.bin").write_bytes(nmnist_bytes(rows))
    assert files.read_nmnist(tmp_path / "a.bin").t.tolist() == [5, 7 + 8192, 9 + 2 * 8192]


def test_gestures(tmp_path):
    file = tmp_path / "user01_led.aedat"
    first = [(1000, 127, 0, 1, 1), (1500, 3, 4, 0, 1), (1600, 9, 9, 1, 0)]  # the last one is marked as invalid
    second = [(2000, 64, 65, 1, 1), (2999, 1, 2, 0, 1), (3000, 5, 5, 1, 1)]
    file.write_bytes(HEADER + packet(first) + packet([(1700, 1, 1, 1, 1)], kind=2) + packet(second))
    table = tmp_path / "user01_led_labels.csv"
    table.write_text("class,startTime_usec,endTime_usec\n3,900,1650\n11,2000,3000\n")
    recordings, labels = files.read_gestures(file)
    assert labels.tolist() == [2, 10]
    assert rows_of(recordings[0]) == [(100, 127, 0, 1), (600, 3, 4, 0)] and recordings[0].duration == 750
    assert rows_of(recordings[1]) == [(0, 64, 65, 1), (999, 1, 2, 0)]  # what begins at the end is not part of it
    whole = files.read_aedat(file)
    assert whole.t.tolist() == [0, 500, 1000, 1999, 2000] and whole.size == (128, 128)
    later = HEADER + packet([(2**31 - 1, 0, 0, 1, 1)]) + packet([(4, 0, 0, 1, 1)], overflow=1)
    file.write_bytes(later)
    assert files.read_aedat(file).t.tolist() == [0, 5]
    table.write_text("class,startTime_usec,endTime_usec\n3,0,1\n")
    with pytest.raises(DamagedFileError, match="gesture 3 of 0 to 1 µs: a recording must hold at least one event"):
        files.read_gestures(file)
    table.write_text("class,startTime_usec,endTime_usec\n12,900,1650\n")
    with pytest.raises(DamagedFileError, match=r"class must lie in 1 \.\. 11; got 12"):
        files.read_gestures(file)
    table.write_text("class,start\n3,0\n")
    with pytest.raises(DamagedFileError, match="every row must have the integers class"):
        files.read_gestures(file)


def write_shd(path, recordings):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        spikes = file.create_group("spikes")
        for name, kind, column in (("times", np.float16, 0), ("units", np.uint16, 1)):
            made = spikes.create_dataset(name, (len(recordings),), dtype=h5py.vlen_dtype(kind))
            for i, recording in enumerate(recordings):
                made[i] = np.asarray(recording[column], dtype=kind)
        file["labels"] = np.array([recording[2] for recording in recordings], dtype=np.uint16)
        file["extra/keys"] = np.array([b"zero", b"null"])
        file["extra/speaker"] = np.zeros(len(recordings), dtype=np.uint16)


SPOKEN = [([0.0, 0.125, 0.5], [699, 3, 3], 19), ([0.25], [0], 4)]


def test_shd(tmp_path):
    write_shd(tmp_path / "shd_train.h5", SPOKEN)
    recordings, labels = files.read_shd(tmp_path / "shd_train.h5")
    assert labels.tolist() == [19, 4] and labels.dtype == torch.int64
    assert rows_of(recordings[0]) == [(0, 699, 0, 1), (125_000, 3, 0, 1), (500_000, 3, 0, 1)]
    assert events.to_frames(recordings[0], window=10_000).shape == (51, 1, 1, 700)


def test_damaged_files(tmp_path):
    bad = tmp_path / "bad"
    for content, read, words in (
        (b"", files.read_nmnist, "0 bytes are not one or more events of 5 bytes"),
        (b"1234567", files.read_nmnist, "7 bytes are not"),
        (nmnist_bytes([(0, 34, 0, 1)]), files.read_nmnist, r"x must lie in 0 \.\. 33"),
        (b"#!AER-DAT2.0\r\n", files.read_aedat, "no AEDAT 3.1 file"),
        (b"#!AER-DAT3.1\r\n", files.read_aedat, "no AEDAT 3.1 file"),
        (HEADER, files.read_aedat, "at least one event"),
        (HEADER + packet([(0, 1, 1, 1, 1)])[:-1], files.read_aedat, "cut off within a packet, at byte"),
        (HEADER + b"short", files.read_aedat, "cut off within a packet"),
        (HEADER + packet([(0, 128, 1, 1, 1)]), files.read_aedat, r"x must lie in 0 \.\. 127"),
    ):
        bad.write_bytes(content)
        with pytest.raises(DamagedFileError, match=words):
            read(bad)
    for read in (files.read_nmnist, files.read_aedat, files.read_gestures):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "none")


def test_damaged_shd(tmp_path):
    pytest.importorskip("h5py")
    (tmp_path / "text.h5").write_text("no HDF5")
    with pytest.raises(DamagedFileError, match="no HDF5 file with spikes/times"):
        files.read_shd(tmp_path / "text.h5")
    write_shd(tmp_path / "wide.h5", [([0.1], [700], 1)])
    with pytest.raises(DamagedFileError, match=r"recording 0: x must lie in 0 \.\. 699"):
        files.read_shd(tmp_path / "wide.h5")
    write_shd(tmp_path / "empty.h5", [([], [], 1)])
    with pytest.raises(DamagedFileError, match="recording 0: a recording must hold at least one event"):
        files.read_shd(tmp_path / "empty.h5")
    with pytest.raises(FileNotFoundError):
        files.read_shd(tmp_path / "none.h5")


def test_shd_without_h5py(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match="reading SHD needs h5py: pip install h5py"):
        files.read_shd(tmp_path / "shd_train.h5")
