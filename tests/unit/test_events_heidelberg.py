"""SHD and SSC: files of the same layout, fetched from a server on this machine, damaged in many ways; and the rule for
choosing epochs. Recordings of a cochlea as one tensor, against plain loops."""

import hashlib
import io
import os
import sys
import zipfile
from functools import partial

import numpy as np
import pytest
import torch

from snnkit.data import DamagedFileError, events
from snnkit.data.events import heidelberg

from .mirror import Mirror

h5py = pytest.importorskip("h5py")
WORDS = [f"word {label}".encode() for label in range(20)]
# Seconds and channels of each recording; float16, as published, has steps of half a millisecond near one second.
SPIKES = [([0.0, 0.25, 0.25, 1.5], [0, 699, 4, 5]), ([0.5], [10]), ([0.75, 0.125], [7, 8])]


def write(path, spikes=SPIKES, labels=(19, 0, 3), speakers=(0, 4, 4), kind=np.float16):
    with h5py.File(path, "w") as file:
        times = file.create_dataset("spikes/times", len(spikes), h5py.vlen_dtype(kind))
        units = file.create_dataset("spikes/units", len(spikes), h5py.vlen_dtype(np.uint16))
        for i, (seconds, channels) in enumerate(spikes):
            times[i], units[i] = np.array(seconds, kind), np.array(channels, np.uint16)
        file["labels"] = np.array(labels, np.uint16)
        file["extra/speaker"] = np.array(speakers, np.uint16)
        file["extra/keys"] = WORDS
    return path


def packed(path, name=None) -> bytes:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED) as file:
        file.write(path, name or path.name)
    return into.getvalue()


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.delenv("SNNKIT_DATA", raising=False)
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(heidelberg, "MIRRORS", ())


@pytest.fixture
def web():
    mirror = Mirror()
    yield mirror
    mirror.close()


@pytest.fixture
def small(tmp_path):
    (tmp_path / "shd").mkdir()
    return write(tmp_path / "shd" / "shd_train.h5")


def rows_of(recording):
    return list(zip(recording.t.tolist(), recording.x.tolist(), strict=True))


def test_recordings_are_read_from_the_file(small, tmp_path):
    shd = events.load("shd", root=tmp_path)
    recording, label = shd[0]
    assert rows_of(recording) == [(0, 0), (250_000, 699), (250_000, 4), (1_500_000, 5)] and label == 19
    assert recording.shape == (1, 1, 700) and recording.p.all() and type(label) is int
    assert rows_of(shd[2][0]) == [(125_000, 8), (750_000, 7)]  # sorted
    assert len(shd) == 3 and shd.classes == 20 and shd.polarities == 1 and shd.size == (1, 700)
    assert shd.labels.tolist() == [19, 0, 3] and shd.speakers.tolist() == [0, 4, 4]
    assert shd.words == tuple(word.decode() for word in WORDS)
    assert [label for _, label in shd] == [19, 0, 3]
    with pytest.raises(IndexError, match="must be less than 3, but it is 3"):
        shd[3]


def test_microseconds_survive_every_kind_of_number(tmp_path):
    # float16 has 65504 as its largest number, and a product with 1e6 in it would be infinite.
    for kind, seconds, expected in ((np.float16, 0.0625, 62_500), (np.float64, 1.234567, 1_234_567)):
        path = write(tmp_path / "a.h5", [([seconds], [1])], [0], [0], kind)
        assert rows_of(events.Recordings("shd", heidelberg.SpikeFile(path, 20))[0][0]) == [(expected, 1)]


def test_workers_of_a_loader_read_the_file_themselves(small, tmp_path):
    together = partial(events.cochleagrams, window=500_000, duration=1_000_000, pool=100)
    shd = events.load("shd", root=tmp_path)
    shd[0]
    loader = torch.utils.data.DataLoader(shd, 2, collate_fn=together, num_workers=1)
    (x, y), (rest, _) = loader
    assert x.tolist()[0] == [[2, 0, 0, 0, 0, 0, 1], [0] * 7] and y.tolist() == [19, 0] and len(rest) == 1


def test_the_folder_of_tonic_is_read_too_and_nothing_is_written(small, tmp_path):
    os.rename(small.parent, tmp_path / "other")
    os.rename(tmp_path / "other", tmp_path / "SHD")
    assert len(events.load("shd", root=tmp_path)) == 3
    assert [path.name for path in tmp_path.rglob("*")] == ["SHD", "shd_train.h5"]


def test_every_split_has_a_checksum_of_its_own():
    sums = [md5 for splits in heidelberg.ARCHIVES.values() for md5 in splits.values()]
    assert len(set(sums)) == 5 and all(len(md5) == 32 and set(md5) <= set("0123456789abcdef") for md5 in sums)
    assert list(heidelberg.ARCHIVES["ssc"]) == ["train", "valid", "test"]
    with pytest.raises(ValueError, match="split must be one of 'train', 'test', but it is 'valid'"):
        events.load("shd", "valid")


def serve(web, monkeypatch, content, *mirrors, md5=None):
    web.answers["/good/ssc_valid.h5.zip"] = (200, content, None)
    sums = {"valid": md5 or hashlib.md5(content).hexdigest()}
    monkeypatch.setitem(heidelberg.ARCHIVES, "ssc", sums)
    monkeypatch.setattr(heidelberg, "MIRRORS", (*mirrors, f"{web.address}/good/"))


def test_a_missing_file_is_downloaded_once_verified_and_unpacked(web, tmp_path, monkeypatch):
    content = packed(write(tmp_path / "ssc_valid.h5"))
    web.answers["/cut/ssc_valid.h5.zip"] = (200, content[:-9], None)
    serve(web, monkeypatch, content, f"{web.address}/none", f"{web.address}/cut/")
    root = tmp_path / "data"
    assert len(events.load("ssc", "valid", root=root)) == 3
    assert [path.name for path in (root / "ssc").iterdir()] == ["ssc_valid.h5"]
    assert len(web.requests) == 3
    assert events.load("ssc", "valid", root=root).classes == 35 and len(web.requests) == 3


def test_another_process_may_be_faster(web, tmp_path, monkeypatch):
    content = packed(write(tmp_path / "ssc_valid.h5"))
    serve(web, monkeypatch, content)
    unpack = heidelberg._unpack

    def twice(archive, path):
        unpack(archive, path)
        archive.unlink()
        unpack(archive, path)

    monkeypatch.setattr(heidelberg, "_unpack", twice)
    assert len(events.load("ssc", "valid", root=tmp_path / "data")) == 3


def test_an_archive_in_the_folder_is_unpacked_and_kept(web, tmp_path, monkeypatch):
    content = packed(write(tmp_path / "ssc_valid.h5"))
    serve(web, monkeypatch, b"")
    archive = tmp_path / "data" / "ssc" / "ssc_valid.h5.zip"
    archive.parent.mkdir(parents=True)
    archive.write_bytes(content[:-1])
    with pytest.raises(DamagedFileError, match=rf"{archive} is damaged .* must be md5:\w+, but it is md5:\w+"):
        events.load("ssc", "valid", root=tmp_path / "data")
    serve(web, monkeypatch, content)
    archive.write_bytes(content)
    assert len(events.load("ssc", "valid", root=tmp_path / "data")) == 3
    assert sorted(path.name for path in archive.parent.iterdir()) == ["ssc_valid.h5", "ssc_valid.h5.zip"]
    assert web.requests == []


def test_what_no_mirror_delivers_leaves_nothing(web, tmp_path, monkeypatch):
    serve(web, monkeypatch, b"<html>please log in</html>", md5="0" * 32)
    with pytest.raises(ConnectionError) as caught:
        events.load("ssc", "valid", root=tmp_path)
    for words in ("what it sent is damaged", "0" * 32, "SNNKIT_DATA", "what it holds, ssc_valid.h5", "folder ssc/"):
        assert words in str(caught.value)
    monkeypatch.setattr(heidelberg, "_LARGEST", 5)
    with pytest.raises(ConnectionError, match="it sent more than the published file has"):
        events.load("ssc", "valid", root=tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("name", ["other.h5", None])
def test_an_archive_that_does_not_unpack_leaves_no_part(web, tmp_path, monkeypatch, name):
    content = packed(write(tmp_path / "ssc_valid.h5"), name)
    content = content if name else content[:60] + bytes(20) + content[80:]
    serve(web, monkeypatch, content)
    with pytest.raises(DamagedFileError, match=r"ssc_valid.h5.zip must hold ssc_valid.h5, but it can't be unpacked"):
        events.load("ssc", "valid", root=tmp_path / "data")
    assert [path.name for path in (tmp_path / "data" / "ssc").iterdir()] == ["ssc_valid.h5.zip"]


def without(name):
    return lambda file: file.__delitem__(name)


def in_place_of(name, value):
    def change(file):
        del file[name]
        file[name] = value

    return change


DAMAGE = {
    "no times": (without("spikes/times"), "spikes/times must hold a list of floating numbers for each recording"),
    "no spikes": (without("spikes"), "spikes/times must hold a list"),
    "times in a table": (in_place_of("spikes/times", np.zeros((3, 4))), "spikes/times must hold a list of floating"),
    "units are a group": (lambda f: (without("spikes/units")(f), f.create_group("spikes/units")), "spikes/units must"),
    "no labels": (without("labels"), "labels must be integers .N., but it is missing"),
    "labels are numbers": (in_place_of("labels", [0.5, 1.0, 2.0]), "labels must be integers"),
    "too few labels": (in_place_of("labels", [1, 2]), "one of each for every recording, but .*'labels': 2"),
    "too many speakers": (in_place_of("extra/speaker", [1, 2, 3, 4]), "one of each .*'extra/speaker': 4"),
    "label out of range": (in_place_of("labels", [1, 2, 20]), r"labels must be in 0 \.\. 19, but they go from 1 to 20"),
    "label below 0": (in_place_of("labels", [1, -2, 3]), r"labels must be in 0 \.\. 19, but they go from -2 to 3"),
    "huge": (lambda f: f.create_dataset("more", 2**38, "i8", chunks=True), "the size of .* must be at most"),
    # To follow each of these links would take minutes.
    "endless": (lambda f: f.require_group("a").update({str(i): f["a"] for i in range(999)}), "must not hold each"),
    "elsewhere": (lambda f: f.update({"a": h5py.ExternalLink("/dev/zero", "/")}), "must hold its own contents"),
}


@pytest.mark.parametrize(("change", "words"), DAMAGE.values(), ids=DAMAGE)
def test_a_file_is_not_believed(small, tmp_path, change, words):
    with h5py.File(small, "a") as file:
        change(file)
    with pytest.raises(DamagedFileError, match=rf"{small} is damaged or of another kind: .*{words}"):
        events.load("shd", root=tmp_path)


@pytest.mark.parametrize("content", [b"", b"<html>please log in</html>", None], ids=["empty", "page", "cut"])
def test_what_is_no_whole_hdf5_file(small, tmp_path, content):
    small.write_bytes(small.read_bytes()[:-200] if content is None else content)
    with pytest.raises(DamagedFileError, match=rf"{small} is damaged or of another kind: .*Delete it"):
        events.load("shd", root=tmp_path)


@pytest.mark.parametrize(
    ("spikes", "words"),
    [
        (([0.0, np.nan], [0, 0]), r"times must be seconds in 0 \.\. 3600, but one is nan"),
        (([-0.5], [0]), "times must be seconds .* but one is -0.5"),
        (([np.inf], [0]), "times must be seconds .* but one is inf"),
        (([5000.0], [0]), "times must be seconds .* but one is 5000"),
        (([0.5], [700]), r"x must be in 0 \.\. 699, the pixels of the sensor, but it goes from 700 to 700"),
        (([0.5, 0.6], [7]), "each spike must have a time and a unit, but there are 2 times and 1 units"),
        (([], []), "a recording must hold at least one event"),
    ],
)
def test_a_damaged_recording(small, tmp_path, spikes, words):
    write(small, [SPIKES[0], spikes, SPIKES[1]])
    shd = events.load("shd", root=tmp_path)
    with pytest.raises(DamagedFileError, match=f"recording 1 of shd can't be read: {words}"):
        shd[1]
    assert len(shd[0][0]) == 4 and len(shd[2][0]) == 1


def test_a_file_that_vanishes(small, tmp_path):
    shd = events.load("shd", root=tmp_path)
    small.unlink()
    with pytest.raises(DamagedFileError, match=r"recording 0 of shd can't be read: .*shd_train.h5"):
        shd[0]


def test_other_files_need_no_speakers_and_no_words(small, tmp_path):
    with h5py.File(small, "a") as file:
        del file["extra"]
    shd = events.load("shd", root=tmp_path)
    assert shd.speakers is None and shd.words == () and len(shd) == 3


def test_without_h5py_it_says_what_brings_it(small, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"SHD and SSC need h5py, which comes with nir: pip install \"snnkit\[nir\]"):
        events.load("shd", root=tmp_path)


def test_held_out_speakers_are_in_one_part_only():
    speakers = torch.randint(10, (400,), generator=torch.Generator().manual_seed(1))
    train, out = events.split_speakers(speakers)
    assert torch.equal(torch.cat([train, out]).sort().values, torch.arange(400))
    assert len(speakers[out].unique()) == 2 and not torch.isin(speakers[train], speakers[out]).any()
    assert (train.diff() > 0).all() and (out.diff() > 0).all()
    again = events.split_speakers(speakers, 2, seed=0)
    assert torch.equal(again[1], out)
    drawn = {tuple(speakers[events.split_speakers(speakers, seed=s)[1]].unique().tolist()) for s in range(20)}
    assert len(drawn) > 5
    _, named = events.split_speakers(speakers, [3, 7, 3])
    assert speakers[named].unique().tolist() == [3, 7]


@pytest.mark.parametrize(
    ("speakers", "held_out", "error", "words"),
    [
        (torch.arange(4), 4, ValueError, "held_out must be at most 3, but it is 4"),
        (torch.arange(4), 0, ValueError, "held_out must be at least 1"),
        (torch.arange(4), [0, 9], ValueError, r"held_out\[1\] must be one of 0, 1, 2, 3, but it is 9"),
        (torch.arange(4), [], ValueError, "the number of held_out must be at least 1"),
        (torch.arange(2), [0, 1], ValueError, "the number of held_out must be at most 1"),
        (torch.arange(4), "01", TypeError, "held_out must be an integer, but it is '01'"),
        (torch.arange(4.0), 1, ValueError, r"speakers must be int64 \[N\], but they are torch.float32 \[4\]"),
        (torch.ones(4).long(), 1, ValueError, "speakers must be at least two, but all recordings are of speaker 1"),
        (None, 1, TypeError, "speakers must be a tensor of int64"),
    ],
)
def test_bad_splits(speakers, held_out, error, words):
    with pytest.raises(error, match=words):
        events.split_speakers(speakers, held_out)


def heard(n, channels, longest, seed):
    draw = torch.Generator().manual_seed(seed)
    t = torch.randint(longest, (n,), generator=draw).sort().values
    x = torch.randint(channels, (n,), generator=draw)
    return events.Events(t, x, torch.zeros_like(x), torch.ones(n, dtype=torch.bool), (1, channels), 0, 1)


def test_cochleagrams_count_what_plain_loops_count():
    recordings = [heard(600, 12, longest, seed) for seed, longest in enumerate((1_000, 2_500, 40))]
    for window, duration, pool in ((100, 1_000, 3), (70, 1_000, 1), (999, 500, 12)):
        x, y = events.cochleagrams(zip(recordings, [5, 0, 7], strict=True), window=window, duration=duration, pool=pool)
        expected = np.zeros((3, -(-duration // window), 12 // pool), dtype=int)
        for i, recording in enumerate(recordings):
            for t, channel in rows_of(recording):
                if t < duration:
                    expected[i, t // window, channel // pool] += 1
        assert x.dtype == torch.uint8 and x.tolist() == expected.clip(max=255).tolist() and y.tolist() == [5, 0, 7]
    assert (expected > 255).any()  # so the limit was met


@pytest.mark.parametrize(
    ("samples", "options", "error", "words"),
    [
        (
            [(heard(5, 12, 9, 0), 0)],
            {"pool": 5},
            ValueError,
            r"a multiple of pool\), but it is \(1, 1, 12\) and pool is 5",
        ),
        (
            [(heard(5, 12, 9, 0), 0), (heard(5, 6, 9, 0), 0)],
            {},
            ValueError,
            r"one sensor.* and \(1, 1, 6\) of recording 1",
        ),
        (
            [heard(5, 12, 9, 0)],
            {},
            TypeError,
            "samples must be pairs of a recording and its label, but sample 0 is an Ev",
        ),
        ([("a", 0)], {}, TypeError, "the recording of sample 0 must be Events, but it is 'a'"),
        ([(heard(5, 12, 9, 0), 0.5)], {}, TypeError, "the label of sample 0 must be an integer, but it is 0.5"),
        ([], {}, ValueError, "samples must hold at least one recording"),
        ([(heard(5, 12, 9, 0), 0)], {"duration": 2**60}, ValueError, "the number of windows must be at most"),
        ([(heard(5, 12, 9, 0), 0)], {"window": 0}, ValueError, "window must be at least 1"),
        (3, {}, TypeError, "samples must be an iterable"),
    ],
)
def test_bad_cochleagrams(samples, options, error, words):
    with pytest.raises(error, match=words):
        events.cochleagrams(samples, **({"window": 10, "duration": 100} | options))


def test_a_camera_is_no_cochlea():
    recordings, labels = events.record_digits("test", 1)
    with pytest.raises(ValueError, match=r"must be of a cochlea.*but it is \(2, 16, 16\)"):
        events.cochleagrams(zip(recordings, labels, strict=True), window=10_000, duration=300_000)
