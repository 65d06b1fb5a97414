"""Bundles that prove that they are whole, packed and unpacked."""

from __future__ import annotations

import subprocess
import zipfile

import pytest

from snnkit.workshop import bundle
from snnkit.workshop.bundle import CHECKSUMS, pack, verify
from snnkit.workshop.timetable import WorkshopError


@pytest.fixture
def packed(tmp_path):
    (tmp_path / "a file").write_bytes(b"from a file" * 1000)
    pack(tmp_path / "out" / "kit.zip", {"x/a.txt": tmp_path / "a file", "b.bin": b"\0\1", "ü.md": b"text"})
    return tmp_path / "out" / "kit.zip"


@pytest.fixture
def folder(packed, tmp_path):
    zipfile.ZipFile(packed).extractall(tmp_path / "room")
    return tmp_path / "room" / bundle.TOP


def test_packed_and_unpacked_it_is_whole_for_us_and_for_sha256sum(packed, folder):
    assert verify(packed) == verify(folder) == (3, [])
    done = subprocess.run(["sha256sum", "--check", "--quiet", CHECKSUMS], cwd=folder, capture_output=True)
    assert done.returncode == 0, done


def test_the_same_content_gives_the_same_bytes(tmp_path):
    pack(tmp_path / "1.zip", {"a": b"1", "b": b"2"})
    pack(tmp_path / "2.zip", {"b": b"2", "a": b"1"})
    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()


def test_what_is_changed_or_missing_is_named_all_at_once(folder):
    (folder / "b.bin").write_bytes(b"\0\2")
    (folder / "x" / "a.txt").unlink()
    with pytest.raises(WorkshopError, match=r"b\.bin has the checksum [0-9a-f]{12}….*x/a\.txt is missing"):
        verify(folder)


def test_own_files_are_named_and_leftovers_are_not(folder):
    for name in ("mine.ipynb", "room-env/bin/python", "notebooks/.ipynb_checkpoints/x.ipynb", "__pycache__/y.pyc"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")
    assert verify(folder) == (3, ["mine.ipynb"])


def test_no_bundle(tmp_path):
    with pytest.raises(WorkshopError, match="is no bundle: it has no CHECKSUMS"):
        verify(tmp_path)
    with pytest.raises(WorkshopError, match="is no bundle"):
        verify(tmp_path / "nowhere")


def test_a_damaged_zip(packed):
    content = bytearray(packed.read_bytes())
    where = content.index(b"/x/a.txt") + 12  # the compressed bytes of the first entry
    content[where] ^= 0xFF
    for damaged in (content, content[: len(content) // 2]):
        packed.write_bytes(damaged)
        with pytest.raises(WorkshopError, match="no zip that can be read"):
            verify(packed)


@pytest.mark.parametrize(("text", "says"), [("nonsense\n", "is not as it was packed"), ("", "lists no file")])
def test_a_list_that_is_none(folder, text, says):
    (folder / CHECKSUMS).write_text(text)
    with pytest.raises(WorkshopError, match=says):
        verify(folder)
