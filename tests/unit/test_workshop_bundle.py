"""Bundles that prove that they are whole, packed and unpacked."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import pytest

from snnkit.lab.workshop import bundle
from snnkit.lab.workshop.bundle import CHECKSUMS, pack, verify
from snnkit.lab.workshop.timetable import WorkshopError


@pytest.fixture
def packed(tmp_path):
    (tmp_path / "a file").write_bytes(b"from a file" * 1000)
    pack(tmp_path / "out" / "kit.zip", "kit", {"x/a.txt": tmp_path / "a file", "b.bin": b"\0\1", "ü.md": b"text"})
    return tmp_path / "out" / "kit.zip"


@pytest.fixture
def folder(packed, tmp_path):
    zipfile.ZipFile(packed).extractall(tmp_path / "room")
    return tmp_path / "room" / "kit"


def test_packed_and_unpacked_it_is_whole_for_us_and_for_sha256sum(packed, folder):
    assert verify(packed) == verify(folder) == (3, [])
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


def test_all_that_is_not_listed_is_named(folder):
    leftovers = ("room-env/bin/python", "x/.ipynb_checkpoints/x.ipynb", "__pycache__/y.pyc")
    for name in ("mine.ipynb", *leftovers):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")
    (folder / "more").symlink_to(folder.parent)
    (folder / "gone").symlink_to("nowhere")
    os.mkfifo(folder / "x" / "pipe")
    others = ["__pycache__/ (not looked into)", "gone (a link that leads nowhere)", "mine.ipynb", "more/ (a link)"]
    others += ["room-env/ (not looked into)", "x/.ipynb_checkpoints/ (not looked into)", "x/pipe (no regular file)"]
    assert verify(folder) == (3, others)


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_at_a_files_place_is_missing(folder, make):
    (folder / "b.bin").unlink()
    make(folder / "b.bin")
    with pytest.raises(WorkshopError, match=r"b\.bin is missing"):
        verify(folder)


def test_no_bundle(tmp_path):
    with pytest.raises(WorkshopError, match="is no bundle: it has no CHECKSUMS"):
        verify(tmp_path)
    with pytest.raises(WorkshopError, match="there is no bundle at"):
        verify(tmp_path / "nowhere")


# --- hostile and damaged files ----------------------------------------------------------------------------------------


def test_a_damaged_zip(packed):
    content = bytearray(packed.read_bytes())
    where = content.index(b"kit/x/a.txt") + 15  # the compressed bytes of the first entry
    content[where] ^= 0xFF
    packed.write_bytes(content)
    with pytest.raises(WorkshopError, match=r"x/a\.txt can't be read"):
        verify(packed)
    packed.write_bytes(content[: len(content) // 2])
    with pytest.raises(WorkshopError, match="no zip that can be read"):
        verify(packed)


@pytest.mark.parametrize(
    "line", ["nonsense", "0" * 64 + "  ../../etc/passwd", "0" * 64 + "  /etc/passwd", "0" * 64 + "  C:/x", "0" * 63]
)
def test_a_list_that_is_none(folder, line):
    (folder / CHECKSUMS).write_text(line + "\n")
    with pytest.raises(WorkshopError, match=r"is damaged: CHECKSUMS\.sha256 has the line"):
        verify(folder)


LINK = zipfile.ZipInfo("t/link")
LINK.external_attr = 0o120777 << 16
LIST = f"{hashlib.sha256(b'1').hexdigest()}  a\n"


def zipped(folder, *more, listed=LIST, method=zipfile.ZIP_DEFLATED):
    path = folder / "bundle.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in (("t/a", b"1"), *more, ("t/CHECKSUMS.sha256", listed)):
            archive.writestr(name, content)
    return path


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        *(
            (name, "must not be unpacked")
            for name in ("t/../../evil", "../evil", "/etc/evil", "t/..\\evil", "C:/x", "t/b:x")
        ),
        ("t/a", "'a' twice$"),
        *((f"t/{name}", rf"it has '{name}' twice, as 'a'") for name in ("A", "a.", "a ")),
        *((name, "must have one folder, but it has 't' and") for name in ("u/a", "T/b", "b")),
        ("t/notebooks/snnkit.py", r"notebooks/snnkit\.py is not listed"),
        ("t/room-env/ready", "room-env/ready is not listed"),
        ("t/c/__pycache__/b.pyc", "b.pyc is not listed"),
        *((f"t/{name}", "it has 'a' as a file and as a folder") for name in ("a/", "A./b", "a/b/c")),
        (LINK, "must not be unpacked: 't/link' would leave its folder"),
    ],
    ids=str,
)
def test_a_zip_with_anything_that_is_not_listed_is_refused(tmp_path, name, says):
    with pytest.raises(WorkshopError, match=says):
        verify(zipped(tmp_path, (name, b"2")))


def test_a_list_of_nothing_proves_nothing_and_an_endless_one_is_not_read_to_its_end(tmp_path, monkeypatch):
    assert verify(zipped(tmp_path)) == (1, [])
    with pytest.raises(WorkshopError, match="lists no file"):
        verify(zipped(tmp_path, listed=""))
    monkeypatch.setattr(bundle, "LARGEST_LIST", 1000)
    with pytest.raises(WorkshopError, match="has the line '0000"):
        verify(zipped(tmp_path, listed="0" * 10_000))


def test_a_zip_that_holds_far_more_than_it_has_bytes_is_not_read(tmp_path):
    with pytest.raises(WorkshopError, match="the size of what it holds must be at most"):
        verify(zipped(tmp_path, ("t/b", bytes(1 << 22))))


def test_a_link_that_leaves_the_folder_is_no_file_of_it(folder):
    (folder / "b.bin").unlink()
    (folder.parent / "elsewhere").write_bytes(b"\0\1")
    (folder / "b.bin").symlink_to("../elsewhere")
    with pytest.raises(WorkshopError, match=r"b\.bin can't be read \(a link that leaves the folder\)"):
        verify(folder)


@pytest.mark.parametrize("damage", ["encrypted", "of an unknown method", "broken LZMA"])
def test_what_python_can_not_unpack_is_damaged(tmp_path, damage):
    path = zipped(tmp_path, method=zipfile.ZIP_LZMA if damage == "broken LZMA" else zipfile.ZIP_DEFLATED)
    content = bytearray(path.read_bytes())
    if damage == "broken LZMA":
        content[40:48] = b"\xff" * 8
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        begin = -1
        while damage != "broken LZMA" and (begin := content.find(mark, begin + 1)) >= 0:
            if damage == "encrypted":
                content[begin + at] |= 1
            else:
                content[begin + at + 2] = 93
    path.write_bytes(content)
    with pytest.raises(WorkshopError, match="damaged"):
        verify(path)


def test_two_sums_of_one_file_and_bytes_before_the_zip_are_damage(tmp_path):
    with pytest.raises(WorkshopError, match="has two sums of 'a'"):
        verify(zipped(tmp_path, listed=LIST + "0" * 64 + "  a\n"))
    path = zipped(tmp_path)
    path.write_bytes(b"#!/bin/sh\n" + path.read_bytes())
    with pytest.raises(WorkshopError, match="10 bytes are before "):
        verify(path)


@pytest.mark.parametrize("place", ["between", "behind"])
def test_a_file_that_a_zip_holds_and_does_not_list_is_damage(tmp_path, packed, place):
    """Programs that read a zip from its beginning, as a stream, unpack it."""
    data, name = b"print('planted')", b"w/start.py"
    sizes = (20, 0, 0, 0, 33, zlib.crc32(data), len(data), len(data), len(name), 0)
    planted = struct.pack("<4s5H3I2H", b"PK\3\4", *sizes) + name + data
    with zipfile.ZipFile(packed) as original, (tmp_path / "planted.zip").open("wb") as file:
        with zipfile.ZipFile(file, "w") as copy:
            for count, info in enumerate(original.infolist()):
                if count == 1 and place == "between":
                    file.write(planted)
                    copy.start_dir = file.tell()
                copy.writestr(info, original.read(info))
        if place == "behind":
            file.write(planted)
    assert verify(packed)
    with pytest.raises(WorkshopError, match="no zip that can be read"):
        verify(tmp_path / "planted.zip")


def test_a_page_keeps_the_links_to_what_is_there(tmp_path):
    (tmp_path / "page.md").write_text("[a](../x.md#b) [c](d.md) [e](https://f) [g](#h)")
    linked = bundle._linked_within("w/page.md", tmp_path / "page.md", {"w/d.md"})
    assert linked == b"a [c](d.md) [e](https://f) [g](#h)"


HERE, AWAY = ("manylinux_2_28_x86_64", "win_amd64")[:: 1 if sys.platform == "linux" else -1]


def start(folder, *words, **env):
    """``start.py`` beside modules that take the place of others, in a Python that has snnkit, or has nothing."""
    (folder / "start.py").write_bytes(Path(bundle.__file__).with_name("start.py").read_bytes())
    for name in ("snnkit", "venv", "subprocess", "jupyterlab"):
        (folder / f"{name}.py").write_text("raise SystemExit('planted')")
    command = [sys.executable, *words[:1], "start.py", *words[1:]]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ | env)


def test_start_checks_with_nothing_that_lies_beside_it(folder):
    done = start(folder, "-B", "--check")
    assert done.returncode == 0 and "3 files are as they were packed; 5 more are there" in done.stdout, done


def test_start_says_how_many_wheels_it_needs(folder):
    (folder / "wheels").mkdir()
    for name in ("snnkit-0-py3-none-any.whl", "snnkit-1-py3-none-any.whl"):
        (folder / "wheels" / name).write_bytes(b"")
    done = start(folder, "-IS")
    assert done.returncode == 1 and "must hold one wheel of snnkit, but it holds 2" in done.stderr, done


@pytest.mark.parametrize(
    ("wheel", "says"),
    [
        (f"torch-2-cp31-cp31-{HERE}.whl", " with Python 3.1, but this is "),
        (f"torch-2-cp3{sys.version_info[1]}-cp3{sys.version_info[1]}-{AWAY}.whl", "use another machine"),
        pytest.param(
            "torch-2-py3-none-any.whl",
            "Not all packages fit this system: ask for a folder packed with --wheels",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "",
            "Not all packages can be had from the network: ask for a folder packed with --wheels",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_start_says_what_is_missing(folder, wheel, says):
    (folder / "wheels").mkdir()
    for name in filter(None, ("snnkit-0-py3-none-any.whl", wheel)):
        (folder / "wheels" / name).write_bytes(b"")
    (folder / "lock.txt").write_text("")
    done = start(folder, "-IS", PIP_NO_INDEX="1")
    assert done.returncode == 1 and says in done.stderr and "Traceback" not in done.stderr, done
    assert not (folder / "room-env").exists()
