"""The embedded digits, and the names that data.load knows."""

import gzip
import subprocess
import sys

import pytest
import torch

from snnkit import data
from snnkit.data import digits


def test_shapes_dtypes_and_range():
    images, labels = data.load("digits")
    assert images.shape == (1442, 1, 8, 8) and images.dtype == torch.uint8
    assert labels.shape == (1442,) and labels.dtype == torch.int64
    assert images.min() == 0 and images.max() == 255


def test_splits_are_disjoint_complete_and_stratified():
    train, train_labels = data.load("digits", "train")
    test, test_labels = data.load("digits", "test")
    rows = {tuple(image.flatten().tolist()) for image in torch.cat([train, test])}
    assert len(rows) == 1797, "some image is in both splits or in neither"
    counts = train_labels.bincount() + test_labels.bincount()
    assert counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert test_labels.bincount().tolist() == [count // 5 for count in counts.tolist()]


def test_matches_scikit_learn():
    datasets = pytest.importorskip("sklearn.datasets")
    reference = datasets.load_digits()
    images, labels = data.load("digits")
    assert labels[:10].tolist() == reference.target[:10].tolist()
    expected = (torch.tensor(reference.images[:10]) * 255 / 16 + 0.5).floor().to(torch.uint8)
    assert torch.equal(images[:10, 0], expected)


def test_every_call_gives_writable_tensors_of_its_own():
    first, _ = data.load("digits", "test")
    first.zero_()
    second, _ = data.load("digits", "test")
    assert second.any()


def test_missing_scikit_learn_is_explained(monkeypatch):
    monkeypatch.setattr(digits.importlib.util, "find_spec", lambda name: None)
    assert not data.available("digits")
    with pytest.raises(FileNotFoundError, match="pip install scikit-learn"):
        data.load("digits")


@pytest.mark.parametrize("damage", ["changed", "truncated", "noise"])
def test_damaged_file_is_refused(tmp_path, monkeypatch, damage):
    content = gzip.decompress(digits.path().read_bytes())
    damaged = {
        "changed": gzip.compress(b"1" + content[1:]),
        "truncated": gzip.compress(content)[:-3000],
        "noise": b"not an archive",
    }
    file = tmp_path / "digits.csv.gz"
    file.write_bytes(damaged[damage])
    monkeypatch.setattr(digits, "path", lambda: file)
    with pytest.raises(data.DamagedFileError, match=r"digits\.csv\.gz"):
        data.load("digits")


def test_a_repacked_file_is_accepted(tmp_path, monkeypatch):
    content = gzip.decompress(digits.path().read_bytes())
    file = tmp_path / "digits.csv.gz"
    file.write_bytes(gzip.compress(content.replace(b"\n", b"\r\n"), 1))
    monkeypatch.setattr(digits, "path", lambda: file)
    assert data.load("digits")[0].shape == (1442, 1, 8, 8)


@pytest.mark.parametrize("call", [data.load, data.available])
def test_unknown_name_lists_the_choices(call):
    with pytest.raises(ValueError, match="'digits', 'mnist', 'fashion'; got 'cifar'"):
        call("cifar")


@pytest.mark.parametrize("name", ["digits", "mnist", "fashion"])
def test_unknown_split_lists_the_choices(name):
    with pytest.raises(ValueError, match="'train', 'test'; got 'validation'"):
        data.load(name, "validation")


def test_class_names_cover_the_labels():
    assert all(len(names) == 10 for names in data.CLASSES.values())


def test_importing_and_loading_digits_stays_cheap():
    code = (
        "import sys, snnkit.data, snnkit.train; snnkit.data.load('digits');"
        "print([m for m in ('sklearn', 'pooch', 'requests', 'matplotlib', 'plotly', 'scipy') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
