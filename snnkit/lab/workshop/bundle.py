"""One zip for a room without a network: notebooks, the wheel, data, pages for learners.

It holds a list of its files with their checksums, so that a copy can be verified.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import posixpath
import re
import stat
import struct
import sys
import tempfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from platform import machine, system
from typing import IO

from snnkit import checks
from snnkit.checks import cut, shown
from snnkit.files import check_size, replacing
from snnkit.lab.tools.project import Project
from snnkit.lab.workshop import handouts, wheels as packages
from snnkit.lab.workshop.timetable import WorkshopError

CHECKSUMS = "CHECKSUMS.sha256"  # as `sha256sum --check` reads it, too
# Encrypted entries are a RuntimeError; so, as a kind of it, are ways of packing that Python does not know.
UNREADABLE = (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)
LARGEST_LIST = 1 << 24  # bytes; that of a bundle has some kB
_END = 22  # bytes of what ends a zip, without its comment
PACKED = 100  # times smaller than its contents a zip may be; notebooks and wheels become a tenth
# Folders that start.py, Jupyter and Python leave in one that is used: named, but not file by file.
LEFTOVERS = ("__pycache__", ".ipynb_checkpoints", "room-env")
TOP = "snnkit-workshop"
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
# Pages that are a learner's business; the others are the instructor's.
FOR_LEARNERS = ("workshop/troubleshooting.md", "docs/coming_from.md", "workshop/cheatsheet.md", "LICENSE")
START = """# snnkit, to take along

    python start.py            opens the notebooks in JupyterLab
    python start.py --check    says whether every file is as it was packed

It needs {needs}. Where there is no `python`, write `python3 start.py`, and on Windows
`py start.py`. `playground.html` and `reader.html` open in a browser and need nothing else. Begin
with `notebooks/00_preflight.ipynb`.
Data sets in `data`: {data}.

`cheatsheet.html` is one page to print, `workshop/troubleshooting.md` helps when something is odd.
"""


def build(
    project: Project,
    out: Path,
    *,
    data: Sequence[str] = (),
    wheels: bool = False,
    platforms: Sequence[str] = (),
    pythons: Sequence[str] = (),
) -> Path:
    """Make ``out/snnkit-workshop.zip``.

    Args:
        data: "mnist" and "fashion" are packed; they must be on this machine. The digits are inside scikit-learn.
        wheels: also pack the wheels of everything that the notebooks need, for this Python and kind of machine, in the
            versions of the lock file (asks the package index).
        platforms: pack wheels for these systems, "windows", "macos" or "linux", and not for this machine.
        pythons: for these versions of Python there, such as "3.12". Default: this one's.

    Raises:
        WorkshopError: no clone, no data, an unknown system, or a wheel that can't be made or had.
    """
    packages.check(platforms, pythons)
    if platforms and not wheels:
        raise WorkshopError("platform goes with wheels: without them, a bundle is the same for all systems")
    from snnkit.lab import pages

    this = f"{sys.version_info[0]}.{sys.version_info[1]}"
    platforms, pythons = list(dict.fromkeys(platforms)), list(dict.fromkeys(pythons)) or [this]
    content: dict[str, Path | bytes] = {f"notebooks/{n}.ipynb": project.pair(n) for n in project.names()}
    content |= {name: project.root / name for name in FOR_LEARNERS}
    content["lock.txt"] = project.root / "constraints" / "lock.txt"
    content["start.py"] = resources.files("snnkit.lab.workshop").joinpath("start.py").read_bytes()
    content["cheatsheet.html"] = handouts.cheatsheet(project.root).encode()
    for name in data:
        content |= _data(name)
    titles = [packages.SYSTEMS[one].title for one in platforms] or [f"{system()} ({machine()})"]
    needs = "Python 3.10 or newer, and a network or an environment that has JupyterLab"
    if wheels:
        needs = f"Python {' or '.join(pythons)} on {' or '.join(titles)}, and nothing from a network"
    sets = ", ".join(data) or "none; the digits are in scikit-learn"
    content["START.md"] = START.format(needs=needs, data=sets).encode()
    missing = [name for name, one in content.items() if isinstance(one, Path) and not one.is_file()]
    if missing:
        raise WorkshopError(f"not in {project.root}: {', '.join(missing)} (`snnkit build` makes the notebooks)")
    with tempfile.TemporaryDirectory() as folder:
        content["playground.html"] = pages.playground(Path(folder) / "playground.html").read_bytes()
        content["reader.html"] = pages.reader(Path(folder) / "reader.html").read_bytes()
        for name in FOR_LEARNERS:
            content[name] = _linked_within(name, project.root / name, {*content, CHECKSUMS})
        content |= {f"wheels/{one.name}": one for one in _wheels(project, Path(folder), wheels, platforms, pythons)}
        pack(out / f"{TOP}.zip", TOP, content)
    return out / f"{TOP}.zip"


def _linked_within(name: str, path: Path, there: set[str]) -> bytes:
    """A page whose links lead to what is ``there``, or to the web; of the others the text stays."""

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), match[2].partition("#")[0]))
        stays = re.match(r"\w+:|#", match[2]) or target in there
        return match[0] if stays else match[1]

    return _LINK.sub(link, path.read_text(encoding="utf-8")).encode()


def _data(name: str) -> dict[str, Path | bytes]:
    from snnkit.data import DamagedFileError, datasets

    if name not in datasets.IDX:
        raise WorkshopError(f"data must be of {', '.join(datasets.IDX)}, but it is {name!r}")
    try:
        return {f"data/{name}/{path.name}": path for path in datasets.files_of(name)}
    except (FileNotFoundError, DamagedFileError) as error:
        raise WorkshopError(f"can't pack {name}: {error}") from None


def _wheels(
    project: Project, folder: Path, wheels: bool, platforms: Sequence[str], pythons: Sequence[str]
) -> list[Path]:
    """The wheel of the project and those of what it needs; a file that several systems share comes once."""
    own, lock = packages.own(project.root, folder), project.root / "constraints" / "lock.txt"
    if not wheels:
        return [own]
    if not platforms:
        return packages.for_this_machine(own, lock, folder)
    files = {own.name: own}
    for name in platforms:
        for python in pythons:
            place = folder / name / python
            files |= {one.name: one for one in packages.for_other(own, lock, place, name, python)}
    return list(files.values())


# --- checksums --------------------------------------------------------------------------------------------------------


@checks.arguments
def pack(target: Path, top: str, content: Mapping[str, Path | bytes]) -> None:
    """Write the zip ``target`` with everything in a folder ``top``, and the checksums of all of it.

    Args:
        content: by path within the folder: a file that is copied, or the bytes themselves.
    """
    sums = []
    with replacing(target) as out, zipfile.ZipFile(out, "w") as archive:

        def add(name: str, data: bytes) -> None:
            entry = zipfile.ZipInfo(f"{top}/{name}")  # of 1980: the same content gives the same file
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, data)
            sums.append(f"{hashlib.sha256(data).hexdigest()}  {name}\n")

        for name, one in sorted(content.items()):
            add(name, one if isinstance(one, bytes) else one.read_bytes())
        add(CHECKSUMS, "".join(sums).encode())


@checks.arguments
def verify(place: Path) -> tuple[int, list[str]]:
    """Compare all files of a bundle, packed or unpacked, with its checksums.

    Returns:
        How many files are as they were packed, and all else that is in a folder, such as a learner's own notebooks.
        Links, pipes, and folders that programs make are named as such: nothing says what is in them.

    Raises:
        WorkshopError: it is no bundle, files are missing or changed, or a zip has others; it names them all.
    """
    packed = place.is_file()
    files = _in_zip(place) if packed else _in_folder(place)
    if CHECKSUMS not in files:
        raise WorkshopError(f"{place} is no bundle: it has no {CHECKSUMS}")
    try:
        with files.pop(CHECKSUMS)() as file:
            expected = _listed(place, file.read(LARGEST_LIST))
    except UNREADABLE as error:
        raise WorkshopError(f"{place} is damaged: {CHECKSUMS} can't be read ({error})") from None
    wrong = [f"{name} {problem}" for name, digest in expected.items() if (problem := _problem(files, name, digest))]
    others = sorted(files.keys() - expected.keys())
    if packed:
        wrong += [f"{name} is not listed in {CHECKSUMS}" for name in others]
    if wrong:
        why = cut("; ".join(wrong), 4000)
        raise WorkshopError(f"{place} is not as it was packed (edited, or a damaged copy): {why}")
    return len(expected), others


def _problem(files: Mapping[str, Callable[[], IO[bytes]]], name: str, digest: str) -> str:
    """What is wrong with a file that is listed; nothing: an empty string."""
    if name not in files:
        return "is missing"
    checksum = hashlib.sha256()
    try:
        with files[name]() as file:
            while block := file.read(1 << 20):
                checksum.update(block)
    except UNREADABLE as error:  # a zip's own checks come first
        return f"can't be read ({error})"
    actual = checksum.hexdigest()
    return "" if actual == digest else f"has the checksum {actual[:12]}… in place of {digest[:12]}…"


def _in_folder(folder: Path) -> dict[str, Callable[[], IO[bytes]]]:
    if not folder.is_dir():
        raise WorkshopError(f"there is no bundle at {folder}")

    def opened(path: Path) -> IO[bytes]:
        if not path.resolve().is_relative_to(folder.resolve()):
            raise OSError("a link that leaves the folder")
        return path.open("rb")

    files: dict[str, Callable[[], IO[bytes]]] = {}
    for place, folders, names in os.walk(folder, onerror=_can_not_list):
        for name in (*folders, *names):
            path = Path(place, name)
            within, kind = path.relative_to(folder).as_posix(), path.lstat().st_mode
            if name in folders and name not in LEFTOVERS and not stat.S_ISLNK(kind):
                continue  # its files come
            if name in folders:
                within += "/ (a link)" if stat.S_ISLNK(kind) else "/ (not looked into)"
            elif not path.is_file():
                within += " (a link that leads nowhere)" if stat.S_ISLNK(kind) else " (no regular file)"
            files[within] = partial(opened, path)
        folders[:] = [name for name in folders if name not in LEFTOVERS]
    return files


def _can_not_list(error: OSError) -> None:
    raise WorkshopError(f"can't look into {error.filename}: {error.strerror or error}")


def _in_zip(path: Path) -> dict[str, Callable[[], IO[bytes]]]:
    try:
        archive = zipfile.ZipFile(path)
        _check_gapless(archive, path)
        size = sum(info.file_size for info in archive.infolist())
        check_size("what it holds", size, path.stat().st_size, times=PACKED)
    except (OSError, ValueError, struct.error, zipfile.BadZipFile) as error:
        raise WorkshopError(f"{path} is no zip that can be read ({error}); copy it again") from None
    files: dict[str, Callable[[], IO[bytes]]] = {}
    seen: dict[str, str] = {}
    for info in archive.infolist():
        top, _, name = info.filename.partition("/")
        if not _stays(info.filename) or stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise WorkshopError(f"{path} must not be unpacked: {shown(info.filename)} would leave its folder")
        if top != seen.setdefault("", top):
            raise WorkshopError(f"{path} is damaged: it must have one folder, but it has {seen['']!r} and {top!r}")
        if info.is_dir():
            continue
        same = _same(name)
        if same in seen:
            other = f", as {shown(seen[same])}" * (seen[same] != name)
            raise WorkshopError(f"{path} is damaged: it has {shown(name)} twice{other}")
        seen[same] = name
        files[name] = partial(archive.open, info)
    for info in archive.infolist():
        parts = _same(info.filename.partition("/")[2]).split("/")
        for count in range(1, len(parts)):
            if (folder := "/".join(parts[:count])) in seen:
                raise WorkshopError(f"{path} is damaged: it has {shown(seen[folder])} as a file and as a folder")
    return files


def _check_gapless(archive: zipfile.ZipFile, path: Path) -> None:
    """BadZipFile where there is more than the list of files names: some programs unpack whatever looks like a file."""
    at = 0
    with path.open("rb") as content:
        for info in sorted(archive.infolist(), key=lambda info: info.header_offset):
            if info.header_offset != at:
                raise zipfile.BadZipFile(f"{info.header_offset - at} bytes are before {shown(info.filename)}")
            content.seek(at + 26)
            name, more = struct.unpack("<2H", content.read(4))
            if content.read(name) != info.orig_filename.encode("utf-8" if info.flag_bits & 0x800 else "cp437"):
                raise zipfile.BadZipFile(f"{shown(info.filename)} has two names")
            at += 30 + name + more + info.compress_size
        end = content.seek(0, os.SEEK_END) - _END - len(archive.comment)
        content.seek(max(end, 0) + 12)
        if struct.unpack("<2L", content.read(8)) != (end - at, at):
            raise zipfile.BadZipFile("bytes before or after the list of its files are in none of them")


def _same(name: str) -> str:
    """Equal for names that are one: Windows and macOS take letters of both cases for one, Windows drops dots."""
    return "/".join(part.rstrip(". ") for part in unicodedata.normalize("NFC", name).casefold().split("/"))


def _stays(name: str) -> bool:
    """Whether a path with slashes leads into the folder where it begins, on all systems."""
    return name[:1] not in ("", "/") and ".." not in name.split("/") and not re.search(r"[\\:\x00-\x1f]", name)


def _listed(place: Path, content: bytes) -> dict[str, str]:
    expected = {}
    for line in content.decode("utf-8", "replace").splitlines():
        digest, gap, name = line.partition("  ")
        if not (gap and len(digest) == 64 and _stays(name)):
            raise WorkshopError(f"{place} is damaged: {CHECKSUMS} has the line {line[:80]!r}")
        if name in expected:
            raise WorkshopError(f"{place} is damaged: {CHECKSUMS} has two sums of {shown(name)}")
        expected[name] = digest
    if not expected:
        raise WorkshopError(f"{place} is damaged: {CHECKSUMS} lists no file")
    return expected
