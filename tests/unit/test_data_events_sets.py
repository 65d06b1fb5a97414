"""Published data sets through tonic: with the package itself where it is installed, on files made here."""

import sys
import types

import numpy as np
import pytest
import torch

from snnkit.data import events
from tests.unit.test_data_events_files import SPOKEN, nmnist_bytes, rows_of, write_shd


class Fake:
    """A data set as tonic's: structured arrays and labels, by number."""

    made: dict

    def __init__(self, save_to, train):
        type(self).made = {"save_to": save_to, "train": train}

    def __len__(self):
        return 3

    def __getitem__(self, i):
        array = np.array([(i, 2, 30, 1), (5, 1, 7, 0)], dtype=[("x", int), ("y", int), ("t", int), ("p", int)])
        return (array if i < 2 else array[:0]), np.int64(i)


@pytest.fixture
def tonic(monkeypatch):
    datasets = types.SimpleNamespace(NMNIST=Fake, SHD=Fake, DVSGesture=Fake)
    package = types.ModuleType("tonic")
    package.datasets = datasets
    monkeypatch.setitem(sys.modules, "tonic", package)
    monkeypatch.setitem(sys.modules, "tonic.datasets", datasets)


def test_recordings_are_read_when_asked_for(tonic, tmp_path):
    recordings = events.load("nmnist", "test", root=tmp_path)
    assert Fake.made == {"save_to": str(tmp_path), "train": False}
    assert len(recordings) == 3 and recordings.classes == 10 and recordings.size == (34, 34)
    recording, label = recordings[1]
    assert rows_of(recording) == [(7, 5, 1, 0), (30, 1, 2, 1)] and label == 1 and type(label) is int
    assert recordings[-2][1] == 1
    loader = torch.utils.data.DataLoader(
        torch.utils.data.Subset(recordings, [0, 1]), 2, collate_fn=lambda rows: events.collate(rows, steps=4)
    )
    ((batch, labels),) = loader
    assert batch.shape == (4, 2, 2, 34, 34) and labels.tolist() == [0, 1] and batch.sum() == 4
    with pytest.raises(ValueError, match="recording 2 of nmnist: a recording must hold at least one event"):
        recordings[2]
    with pytest.raises(IndexError, match="must be below 3; got 3"):
        recordings[3]
    with pytest.raises(TypeError, match="must be an int"):
        recordings["a"]
    assert events.load("dvs_gesture", root=tmp_path).size == (128, 128) and Fake.made["train"] is True


def test_unknown_names_and_no_tonic(monkeypatch):
    with pytest.raises(ValueError, match="name must be one of 'nmnist', 'shd', 'dvs_gesture'; got 'cifar'"):
        events.load("cifar")
    with pytest.raises(ValueError, match="split must be one of 'train', 'test'; got 'valid'"):
        events.load("shd", "valid")
    monkeypatch.setitem(sys.modules, "tonic", None)
    with pytest.raises(ImportError, match="needs tonic: pip install tonic"):
        events.load("shd")


def test_files_through_tonic(tmp_path):
    pytest.importorskip("tonic")
    # tonic takes a data set as complete when its archive is there and there are enough files.
    shd = tmp_path / "SHD"
    shd.mkdir()
    (shd / "shd_train.h5.zip").touch()
    write_shd(shd / "shd_train.h5", SPOKEN)
    spoken = events.load("shd", root=tmp_path)
    recording, label = spoken[0]
    assert len(spoken) == 2 and label == 19 and recording.shape == (1, 1, 700)
    assert rows_of(recording) == rows_of(events.files.read_shd(shd / "shd_train.h5")[0][0])

    digits = tmp_path / "NMNIST" / "Test" / "3"
    digits.mkdir(parents=True)
    (tmp_path / "NMNIST" / "test.zip").touch()
    for i in range(10_000):
        (digits / f"{i:05}.bin").write_bytes(nmnist_bytes([(i, 33, 2, 1), (70_000, 5, 33, 0)]))
    recording, label = events.load("nmnist", "test", root=tmp_path)[17]
    assert label == 3 and rows_of(recording) == rows_of(events.files.read_nmnist(digits / "00017.bin"))

    gestures = tmp_path / "DVSGesture" / "ibmGestureTrain" / "user01_led"
    gestures.mkdir(parents=True)
    (tmp_path / "DVSGesture" / "ibmGestureTrain.tar.gz").touch()
    for i in range(100):  # x, y, p, milliseconds
        np.save(gestures / f"{i}.npy", np.array([[127.0, 0.0, 1.0, 0.0], [3.0, 4.0, 0.0, 12.0]]))
    recording, label = events.load("dvs_gesture", root=tmp_path)[0]
    assert 0 <= label < 100 and rows_of(recording) == [(0, 127, 0, 1), (12_000, 3, 4, 0)]
