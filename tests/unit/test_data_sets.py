"""Images by name: the embedded digits; MNIST and Fashion-MNIST on tiny files of the same format, and on the real MNIST
where SNNKIT_DATA (or ../shared/data) has it."""

import gzip
import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from snnkit import data
from snnkit.data import datasets
from snnkit.data.idx import IdxFile, read_idx

from .mirror import Mirror

SIZES = {"train": 12, "test": 6}


def idx_bytes(values: torch.Tensor) -> bytes:
    header = bytes([0, 0, 8, values.ndim]) + b"".join(size.to_bytes(4, "big") for size in values.shape)
    return header + values.to(torch.uint8).numpy().tobytes()


def tiny_dataset(original: datasets.IdxDataset, seed: int) -> tuple[datasets.IdxDataset, dict[str, bytes]]:
    """The data set with a few 28 x 28 images in place of thousands, and the contents of its files."""
    generator = torch.Generator().manual_seed(seed)
    contents, files = {}, {}
    for split, (images, labels) in original.files.items():
        specs = []
        for spec, shape in ((images, (SIZES[split], 28, 28)), (labels, (SIZES[split],))):
            value = torch.randint(10, shape, generator=generator)
            content = contents[spec.name] = idx_bytes(value)
            specs.append(IdxFile(spec.name, tuple(value.shape), f"md5:{hashlib.md5(content).hexdigest()}"))
        files[split] = tuple(specs)
    return replace(original, files=files, mirrors=()), contents


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.delenv("SNNKIT_DATA", raising=False)
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def tiny(monkeypatch):
    dataset, contents = tiny_dataset(datasets.MNIST, 1)
    monkeypatch.setitem(datasets.IDX, "mnist", dataset)
    return dataset, contents


def put(folder: Path, contents: dict[str, bytes], pack: bool = True) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / (f"{name}.gz" if pack else name)).write_bytes(gzip.compress(content) if pack else content)


def listing(root: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in sorted(root.rglob("*"))}


@pytest.mark.parametrize("pack", [True, False], ids=["gz", "plain"])
@pytest.mark.parametrize("folder", ["mnist", "MNIST/raw"])
def test_loads_from_every_layout_and_writes_nothing(tiny, tmp_path, folder, pack):
    put(tmp_path / folder, tiny[1], pack)
    before = listing(tmp_path)
    for split, n in SIZES.items():
        images, labels = data.load("mnist", split, root=tmp_path, download=False)
        assert images.shape == (n, 1, 28, 28) and images.dtype == torch.uint8
        assert labels.shape == (n,) and labels.dtype == torch.int64
        content = tiny[1][tiny[0].files[split][0].name]
        assert bytes(images.flatten().tolist()) == content[16:]
        images.zero_()  # writable, and not the file's bytes
    assert data.available("mnist", tmp_path)
    assert listing(tmp_path) == before


def test_snnkit_data_names_the_root_and_the_argument_wins(tiny, tmp_path, monkeypatch):
    put(tmp_path / "here" / "mnist", tiny[1])
    monkeypatch.setenv("SNNKIT_DATA", str(tmp_path / "here"))
    assert data.available("mnist") and data.load("mnist", download=False)[0].shape[0] == 12
    assert not data.available("mnist", tmp_path / "elsewhere")


def test_missing_files_without_download_name_the_folder(tiny, tmp_path):
    with pytest.raises(FileNotFoundError, match=rf"train-images.* is not in {tmp_path}/mnist.*SNNKIT_DATA"):
        data.load("mnist", root=tmp_path, download=False)
    assert not data.available("mnist", tmp_path)
    assert list(tmp_path.iterdir()) == []


VALUES = torch.arange(2 * 3 * 4).reshape(2, 3, 4)
CONTENT = idx_bytes(VALUES)
SPEC = IdxFile("images", (2, 3, 4), f"sha256:{hashlib.sha256(CONTENT).hexdigest()}")


flipped = bytearray(gzip.compress(CONTENT))
flipped[20] ^= 0x10
DAMAGED = {
    "empty": (b"", "bytes instead of"),
    "one byte short": (CONTENT[:-1], "bytes instead of"),
    "one bit off": (CONTENT[:-1] + bytes([CONTENT[-1] ^ 1]), "other contents"),
    "other shape": (CONTENT[:4] + CONTENT[8:12] + CONTENT[4:8] + CONTENT[12:], "not an IDX file"),
    "web page": (b"<html>please log in</html>", "bytes instead of"),
    "archive cut": (gzip.compress(CONTENT)[:-20], "ends early"),
    "archive with a flipped bit": (bytes(flipped), "corrupt"),
    "archive with rubbish behind": (gzip.compress(CONTENT) + b"rubbish", "corrupt"),
    "archive of other contents": (gzip.compress(CONTENT[:-1] + b"\0"), "other contents"),
    "archive of too much": (gzip.compress(CONTENT + bytes(10**6)), "more than"),
}


@pytest.mark.parametrize("raw, reason", DAMAGED.values(), ids=DAMAGED)
def test_damage_is_refused_with_the_name_and_both_checksums(tmp_path, raw, reason):
    path = tmp_path / "images.gz"
    path.write_bytes(raw)
    with pytest.raises(data.DamagedFileError, match=reason) as caught:
        read_idx(path, SPEC)
    message = str(caught.value)
    assert str(path) in message and SPEC.checksum in message and isinstance(caught.value, ValueError)
    if not raw.startswith(b"\x1f\x8b"):
        assert f"actual contents:   sha256:{hashlib.sha256(raw).hexdigest()}" in message
    if reason == "more than":  # so much was unpacked
        assert hashlib.sha256(CONTENT + b"\0").hexdigest() in message


@pytest.mark.parametrize("begin", [b"", CONTENT, gzip.compress(CONTENT)], ids=["sparse", "plain", "archive"])
def test_what_is_far_too_large_is_not_read(tmp_path, begin):
    path = tmp_path / "images"
    path.write_bytes(begin)
    os.truncate(path, 20 << 30)  # takes no space on the disk
    with pytest.raises(data.DamagedFileError, match=r"the size of it must be at most .*, but it is 21,474,836,480"):
        read_idx(path, SPEC)


def test_a_damaged_file_is_neither_replaced_nor_downloaded_over(tiny, tmp_path):
    put(tmp_path / "mnist", tiny[1])
    (tmp_path / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(b"damaged")
    before = listing(tmp_path)
    with pytest.raises(data.DamagedFileError, match=r"train-images-idx3-ubyte\.gz"):
        data.load("mnist", root=tmp_path)
    assert listing(tmp_path) == before


@pytest.fixture
def web():
    pytest.importorskip("pooch")
    mirror = Mirror()
    yield mirror
    mirror.close()


def use_mirrors(monkeypatch, dataset, *mirrors):
    monkeypatch.setitem(datasets.IDX, "mnist", replace(dataset, mirrors=mirrors))


def test_downloads_once_and_only_what_is_asked_for(tiny, web, tmp_path, monkeypatch):
    use_mirrors(monkeypatch, tiny[0], web.offer("good", tiny[1]))
    root = tmp_path / "new" / "data"
    images, _ = data.load("mnist", "test", root=root)
    assert images.shape == (6, 1, 28, 28)
    assert {p.name[:4] for p in (root / "mnist").iterdir()} == {"t10k"} and len(web.requests) == 2
    again, _ = data.load("mnist", "test", root=root)
    assert torch.equal(again, images) and len(web.requests) == 2


def test_dead_damaged_and_lying_mirrors_are_passed_over(tiny, web, tmp_path, monkeypatch):
    dead = Mirror()
    dead.close()
    bad = [web.offer("cut", tiny[1], cut=30), web.offer("hangs-up", tiny[1], cut=30, announce_all=True)]
    other = web.offer("other", {name: content[:-1] + b"\7" for name, content in tiny[1].items()})
    endless = web.offer("endless", {name: os.urandom(1 << 20) for name in tiny[1]})
    nothing = [f"{dead.address}/", f"{web.address}/has-nothing/"]
    use_mirrors(monkeypatch, tiny[0], *nothing, *bad, other, endless, web.offer("good", tiny[1]))
    images, labels = data.load("mnist", root=tmp_path)
    assert images.shape[0] == labels.shape[0] == 12
    assert len(list((tmp_path / "mnist").iterdir())) == 2
    asked = [path.split("/")[1] for path in web.requests[:6]]
    assert asked == ["has-nothing", "cut", "hangs-up", "other", "endless", "good"]


def test_when_all_mirrors_fail_nothing_is_left_and_the_error_helps(tiny, web, tmp_path, monkeypatch):
    cut, hangs_up = web.offer("cut", tiny[1], cut=30), web.offer("hangs-up", tiny[1], cut=30, announce_all=True)
    use_mirrors(monkeypatch, tiny[0], cut, hangs_up, web.offer("endless", {n: os.urandom(1 << 20) for n in tiny[1]}))
    with pytest.raises(ConnectionError) as caught:
        data.load("mnist", root=tmp_path)
    for words in (cut, hangs_up, "SNNKIT_DATA", "train-images-idx3-ubyte.gz", "ends early", "it sent more than"):
        assert words in str(caught.value)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_an_interrupted_download_leaves_nothing(tiny, web, tmp_path, monkeypatch):
    use_mirrors(monkeypatch, tiny[0], web.offer("good", tiny[1]))

    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("snnkit.data.idx.read_idx", stop)
    with pytest.raises(KeyboardInterrupt):
        data.load("mnist", root=tmp_path)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def real_mnist() -> Path | None:
    beside = Path(__file__).parents[2].parent / "shared" / "data"
    for root in (os.environ.get("SNNKIT_DATA"), beside):
        if root and data.available("mnist", root):
            return Path(root)
    return None


REAL = real_mnist()


@pytest.mark.skipif(REAL is None, reason="needs MNIST in SNNKIT_DATA or ../shared/data")
def test_real_mnist():
    images, labels = data.load("mnist", root=REAL, download=False)
    assert images.shape == (60000, 1, 28, 28)
    assert labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    # The mean and deviation that everybody normalises with.
    unit = images.double() / 255
    assert unit.mean().item() == pytest.approx(0.1307, abs=1e-4)
    assert unit.std().item() == pytest.approx(0.3081, abs=1e-4)
    images, labels = data.load("mnist", "test", root=REAL, download=False)
    assert images.shape == (10000, 1, 28, 28) and labels[:5].tolist() == [7, 2, 1, 0, 4]


def test_splits_are_disjoint_complete_and_stratified():
    train, train_labels = data.load("digits", "train")
    test, test_labels = data.load("digits", "test")
    rows = {tuple(image.flatten().tolist()) for image in torch.cat([train, test])}
    assert len(rows) == 1797, "some image is in both splits or in neither"
    assert train.unique().tolist() == [int(level * 255 / 16 + 0.5) for level in range(17)]
    counts = train_labels.bincount() + test_labels.bincount()
    assert counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert test_labels.bincount().tolist() == [count // 5 for count in counts.tolist()]
