"""Recordings as lists of events: what they hold and refuse, how they change, and where they are read from."""

import math
import sys
import types

import numpy as np
import pytest
import torch

from snnkit.data import DamagedFileError, events
from snnkit.data.events import Events, transforms


def rows_of(recording):
    return list(zip(*(getattr(recording, name).tolist() for name in "txyp"), strict=True))


def columns(t=(0, 5, 5), x=(0, 3, 1), y=(1, 0, 1), p=(True, False, True)):
    kinds = {"t": torch.int64, "x": torch.int16, "y": torch.int16, "p": torch.bool}
    return {name: torch.tensor(values, dtype=kinds[name]) for name, values in zip("txyp", (t, x, y, p), strict=True)}


def test_a_recording_lasts_until_just_after_its_last_event_or_longer():
    recording = Events(**columns(), size=(2, 4))
    assert len(recording) == 3 and recording.duration == 6 and recording.shape == (2, 2, 4)
    assert Events(**columns(), size=(2, 4), duration=100).duration == 100


def test_part_of_a_recording():
    recording = Events(**columns(), size=(2, 4), duration=50)
    part = recording.where(recording.p)
    assert part.t.tolist() == [0, 5] and part.x.tolist() == [0, 1] and part.duration == 50
    for mask in (torch.zeros(3, dtype=torch.bool), torch.ones(2, dtype=torch.bool)):
        with pytest.raises(ValueError, match=r"mask must be bool \[3\] and True somewhere"):
            recording.where(mask)


def test_structured_arrays_both_ways():
    recording = Events(**columns(), size=(2, 4))
    array = recording.numpy()
    assert array.dtype.names == ("x", "y", "t", "p") and array["t"].tolist() == [0, 5, 5]
    again = events.from_numpy(array[::-1], (2, 4))
    assert again.t.tolist() == [0, 5, 5] and again.x.tolist() == [0, 1, 3]  # sorted; those of one moment as they came
    cochlea = np.array([(3, 600), (4, 2)], dtype=[("t", np.int64), ("x", np.int64)])
    channels = events.from_numpy(cochlea, (1, 700), polarities=1)
    assert channels.y.tolist() == [0, 0] and channels.p.all() and channels.shape == (1, 1, 700)


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"t": torch.tensor([0, 5, 4])}, ValueError, "t must not fall .* event 2 is at 4 µs and the one before at 5"),
        ({"t": torch.tensor([-1, 5, 5])}, ValueError, "t must be at least 0.*but it is -1"),
        ({"t": torch.tensor([0.0, 1.0, 2.0])}, TypeError, "t must be a tensor of int64 microseconds.*float32"),
        ({"x": torch.tensor([0, 4, 1])}, ValueError, r"x must be in 0 \.\. 3.*from 0 to 4"),
        ({"p": torch.tensor([0, 1, 1])}, TypeError, "p must be a tensor of bool"),
        ({"p": torch.tensor([True])}, ValueError, r"of one length, but the shape of p is \[1\]"),
        ({"polarities": 1}, ValueError, "p must be True everywhere where polarities is 1"),
        ({"duration": 5}, ValueError, "duration must be greater than 5, the time of the last event, but it is 5"),
        (columns((), (), (), ()), ValueError, "at least one event, but t is empty"),
    ],
)
def test_bad_recordings(changed, error, words):
    with pytest.raises(error, match=words):
        Events(**(columns() | {"size": (2, 4)} | changed))


def test_bad_arrays():
    good = np.zeros(2, dtype=[("t", np.int64), ("x", np.int16), ("y", np.int16), ("p", np.int8)])
    other = good.copy()
    other["p"] = 2
    for array, error, words in (
        (np.zeros(3), TypeError, "structured NumPy array with the fields t, x, y and p"),
        (np.zeros(2, dtype=[("t", np.float64), ("x", np.int16)]), TypeError, "t must be integers"),
        (other, ValueError, r"p must hold bools, or 0 and 1, but there is a 2 \(array\['p'\] > 0 makes bools\)"),
        (good[:0], ValueError, "at least one event"),
    ):
        with pytest.raises(error, match=words):
            events.from_numpy(array, (2, 2))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def random_recording():
    draw = seeded(5)
    t = torch.randint(10_000, (500,), generator=draw).sort().values
    x, y = torch.randint(9, (500,), generator=draw), torch.randint(6, (500,), generator=draw)
    return Events(t, x, y, torch.rand(500, generator=draw) < 0.5, (6, 9), 10_000)


def test_flip_mirrors_left_to_right_with_its_probability(random_recording):
    frames = events.to_frames(random_recording, steps=4)
    mirrored = events.to_frames(transforms.Flip(1.0)(random_recording), steps=4)
    assert torch.equal(mirrored, frames.flip(3)) and not torch.equal(mirrored, frames)
    assert torch.equal(transforms.Flip(0.0)(random_recording).x, random_recording.x)
    change = transforms.Flip(0.3, generator=seeded())
    often = sum(not torch.equal(change(random_recording).x, random_recording.x) for _ in range(400))
    assert 80 < often < 160


def test_shift_moves_all_events_alike_and_loses_those_outside(random_recording):
    frames = events.to_frames(random_recording, steps=3)
    change, seen = transforms.Shift(2, generator=seeded()), set()
    for _ in range(200):
        moved = events.to_frames(change(random_recording), steps=3)
        padded = torch.nn.functional.pad(frames, (2, 2, 2, 2))
        places = [(dy, dx) for dy in range(5) for dx in range(5)]
        fits = [(dy, dx) for dy, dx in places if torch.equal(padded[..., dy : dy + 6, dx : dx + 9], moved)]
        assert len(fits) == 1
        seen.update(fits)
    assert len(seen) == 25


def test_drop_loses_each_event_with_its_probability(random_recording):
    rest = transforms.Drop(0.4, generator=seeded())(random_recording)
    assert abs(len(rest) - 300) < 5 * math.sqrt(500 * 0.24) and rest.duration == random_recording.duration
    rows = set(zip(random_recording.t.tolist(), random_recording.x.tolist(), random_recording.y.tolist(), strict=True))
    assert rows.issuperset(zip(rest.t.tolist(), rest.x.tolist(), rest.y.tolist(), strict=True))
    assert len(transforms.Drop(0.0)(random_recording)) == 500


def test_jitter_moves_events_in_time_only(random_recording):
    moved = transforms.Jitter(100.0, generator=seeded())(random_recording)
    assert (moved.t.diff() >= 0).all() and moved.t[0] >= 0 and moved.t[-1] < 10_000
    drawn = torch.randn(500, generator=seeded(), dtype=torch.float64)
    expected = (random_recording.t + (drawn * 100).round()).clamp(0, 9999).long()
    assert torch.equal(moved.t, expected.sort().values) and not torch.equal(moved.t, random_recording.t)
    together = [events.to_frames(r, steps=1) for r in (random_recording, moved)]
    assert torch.equal(*together)


def nmnist_bytes(rows):
    """5 bytes for each (t, x, y, p)."""
    return b"".join(bytes([x, y, p << 7 | t >> 16, t >> 8 & 255, t & 255]) for t, x, y, p in rows)


def test_nmnist(tmp_path):
    rows = [(0, 33, 2, 1), (70_000, 5, 33, 0), (300_001, 0, 0, 1)]
    (tmp_path / "00002.bin").write_bytes(nmnist_bytes(rows))
    recording = events.read_nmnist(tmp_path / "00002.bin")
    assert rows_of(recording) == rows and recording.size == (34, 34)


def test_damaged_files(tmp_path):
    bad = tmp_path / "bad"
    for content, words in (
        (b"", "must be one or more events of 5 bytes, but has 0 bytes"),
        (b"1234567", "but has 7 bytes"),
        (nmnist_bytes([(0, 34, 0, 1)]), r"x must be in 0 \.\. 33"),
        (bytes(20_000_000), "bad: too large: 20 MB"),
    ):
        bad.write_bytes(content)
        with pytest.raises(DamagedFileError, match=words):
            events.read_nmnist(bad)
    with pytest.raises(FileNotFoundError):
        events.read_nmnist(tmp_path / "none")


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
    datasets = types.SimpleNamespace(NMNIST=Fake, DVSGesture=Fake)
    package = types.ModuleType("tonic")
    package.datasets = datasets
    monkeypatch.setitem(sys.modules, "tonic", package)
    monkeypatch.setitem(sys.modules, "tonic.datasets", datasets)


def test_recordings_are_read_when_indexed(tonic, tmp_path):
    recordings = events.load("nmnist", "test", root=tmp_path)
    assert Fake.made == {"save_to": str(tmp_path), "train": False}
    assert len(recordings) == 3 and recordings.classes == 10 and recordings.size == (34, 34)
    recording, label = recordings[1]
    assert rows_of(recording) == [(7, 5, 1, 0), (30, 1, 2, 1)] and label == 1 and type(label) is int
    assert recordings[-2][1] == 1
    some = torch.utils.data.Subset(recordings, [0, 1])
    loader = torch.utils.data.DataLoader(some, 2, collate_fn=lambda rows: events.collate(rows, steps=4))
    ((batch, labels),) = loader
    assert batch.shape == (4, 2, 2, 34, 34) and labels.tolist() == [0, 1] and batch.sum() == 4
    with pytest.raises(ValueError, match=r"recording 2 of nmnist can't be read: .* must hold at least one event"):
        recordings[2]
    with pytest.raises(IndexError, match="must be less than 3, but it is 3"):
        recordings[3]
    assert events.load("dvs_gesture", root=tmp_path).size == (128, 128) and Fake.made["train"] is True


def test_without_tonic_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tonic", None)
    with pytest.raises(ImportError, match="needs tonic: pip install tonic"):
        events.load("nmnist")
