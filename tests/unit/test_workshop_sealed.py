"""Bundles that prove that they are whole, packed and unpacked."""

from __future__ import annotations

import subprocess
import zipfile

import pytest

from snnkit.workshop.problem import WorkshopError
from snnkit.workshop.sealed import CHECKSUMS, pack, verify


@pytest.fixture
def packed(tmp_path):
    (tmp_path / "a file").write_bytes(b"from a file" * 1000)
    pack(tmp_path / "out" / "kit.zip", "kit", {"x/a.txt": tmp_path / "a file", "b.bin": b"\0\1", "ü.md": b"text"})
    return tmp_path / "out" / "kit.zip"


@pytest.fixture
def folder(packed, tmp_path):
    zipfile.ZipFile(packed).extractall(tmp_path / "room")
    return tmp_path / "room" / "kit"


def test_packed_and_unpacked(packed, folder):
    assert verify(packed) == verify(folder) == (3, [])


def test_sha256sum_reads_the_list(folder):
    done = subprocess.run(["sha256sum", "--check", "--quiet", CHECKSUMS], cwd=folder, capture_output=True)
    assert done.returncode == 0, done


def test_the_same_content_gives_the_same_bytes(tmp_path):
    pack(tmp_path / "1.zip", "kit", {"a": b"1", "b": b"2"})
    pack(tmp_path / "2.zip", "kit", {"b": b"2", "a": b"1"})
    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()


def test_what_is_changed_or_missing_is_named_all_at_once(folder):
    (folder / "b.bin").write_bytes(b"\0\2")
    (folder / "x" / "a.txt").unlink()
    with pytest.raises(WorkshopError, match=r"b\.bin has the checksum [0-9a-f]{12}….*x/a\.txt is missing"):
        verify(folder)


def test_a_damaged_zip(packed):
    content = bytearray(packed.read_bytes())
    where = content.index(b"kit/x/a.txt") + 15  # the compressed bytes of the first entry
    content[where] ^= 0xFF
    packed.write_bytes(content)
    with pytest.raises(WorkshopError, match=r"x/a\.txt has the checksum"):
        verify(packed)
    packed.write_bytes(content[: len(content) // 2])
    with pytest.raises(WorkshopError, match="no zip that can be read"):
        verify(packed)


def test_own_files_are_told_and_leftovers_are_not(folder):
    for name in ("mine.ipynb", "room-env/bin/python", "notebooks/.ipynb_checkpoints/x.ipynb", "__pycache__/y.pyc"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")
    assert verify(folder) == (3, ["mine.ipynb"])


def test_no_bundle(tmp_path):
    with pytest.raises(WorkshopError, match="is no bundle: it has no CHECKSUMS"):
        verify(tmp_path)
    with pytest.raises(WorkshopError, match="there is no bundle at"):
        verify(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "line", ["nonsense", "0" * 64 + "  ../../etc/passwd", "0" * 64 + "  /etc/passwd", "0" * 63 + "  a"]
)
def test_a_list_that_is_none(folder, line):
    (folder / CHECKSUMS).write_text(line + "\n")
    with pytest.raises(WorkshopError, match=r"is damaged: CHECKSUMS\.sha256 has the line"):
        verify(folder)
