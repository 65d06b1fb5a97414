"""A folder or zip whose files are listed with their checksums, so that a copy can prove that it is whole."""

from __future__ import annotations

import hashlib
import lzma
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from snnkit.files import replacing

from .problem import WorkshopError

CHECKSUMS = "CHECKSUMS.sha256"  # as `sha256sum --check` reads it, too
# Encrypted entries are a RuntimeError; so, as a kind of it, are ways of packing that Python does not know.
UNREADABLE = (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)
LARGEST_LIST = 1 << 24  # bytes; that of a bundle has some kB
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same content gives the same file, whenever it is packed


def pack(target: Path, top: str, content: Mapping[str, Path | bytes]) -> None:
    """Write the zip ``target`` with everything in a folder ``top``, and the checksums of all of it.

    Args:
        content: by path within the folder: a file that is copied, or the bytes themselves.
    """
    listed = []
    with replacing(target) as out, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(content):
            one = content[name]
            data = one if isinstance(one, bytes) else one.read_bytes()
            listed.append(f"{hashlib.sha256(data).hexdigest()}  {name}\n")
            archive.writestr(_entry(f"{top}/{name}"), data)
        archive.writestr(_entry(f"{top}/{CHECKSUMS}"), "".join(listed).encode())


class Sealed(NamedTuple):
    """What was found in a folder or zip.

    Attributes:
        files: number of files that are as their checksums say.
        more: files that are there and not listed, as a learner's own notebooks.
    """

    files: int
    more: list[str]


def verify(place: Path) -> Sealed:
    """Compare all files of a bundle, packed or unpacked, with its checksums.

    Raises:
        WorkshopError: it is no bundle, or files are missing or changed; it names them all.
    """
    there = dict(_in_zip(place) if place.is_file() else _in_folder(place))
    if CHECKSUMS not in there:
        raise WorkshopError(f"{place} is no bundle: it has no {CHECKSUMS}")
    try:
        with there.pop(CHECKSUMS).open() as file:
            expected = _listed(place, file.read(LARGEST_LIST))
    except UNREADABLE as error:
        raise WorkshopError(f"{place} is damaged: {CHECKSUMS} can't be read ({error})") from None
    wrong = []
    for name, digest in expected.items():
        found = there.pop(name, None)
        if found is None:
            wrong.append(f"{name} is missing")
        elif (actual := found.digest()) != digest:
            wrong.append(f"{name} has the checksum {actual[:12]}… in place of {digest[:12]}…")
    if wrong:
        raise WorkshopError(f"{place} is not as it was packed (edited, or a damaged copy): " + "; ".join(wrong))
    return Sealed(len(expected), sorted(name for name in there if not _by_the_way(name)))


def _by_the_way(name: str) -> bool:
    """What start.py, Jupyter and Python leave in a folder that is used."""
    return name.startswith("room-env/") or "__pycache__/" in name or ".ipynb_checkpoints/" in name


class _File(NamedTuple):
    path: Path | None
    archive: zipfile.ZipFile | None
    member: str

    def open(self) -> IO[bytes]:
        if self.archive is not None:
            return self.archive.open(self.member)
        assert self.path is not None
        return self.path.open("rb")

    def digest(self) -> str:
        checksum = hashlib.sha256()
        try:
            with self.open() as file:
                while block := file.read(1 << 20):
                    checksum.update(block)
        except UNREADABLE as error:  # a zip's own checks come first
            return f"unreadable ({error})"
        return checksum.hexdigest()


def _in_folder(folder: Path) -> Iterator[tuple[str, _File]]:
    if not folder.is_dir():
        raise WorkshopError(f"there is no bundle at {folder}")
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.relative_to(folder).as_posix(), _File(path, None, "")


def _in_zip(path: Path) -> Iterator[tuple[str, _File]]:
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise WorkshopError(f"{path} is no zip that can be read ({error}); copy it again") from None
    seen: set[str] = set()
    for info in archive.infolist():
        top, _, name = info.filename.partition("/")
        if not top or "\\" in info.filename or ".." in PurePosixPath(info.filename).parts:
            raise WorkshopError(f"{path} must not be unpacked: {info.filename!r} would leave its folder")
        if info.is_dir():
            continue
        if name and name in seen:
            raise WorkshopError(f"{path} is damaged: it has {name!r} twice")
        seen.add(name)
        yield name, _File(None, archive, info.filename)


def _listed(place: Path, content: bytes) -> dict[str, str]:
    expected = {}
    for line in content.decode("utf-8", "replace").splitlines():
        digest, gap, name = line.partition("  ")
        parts = PurePosixPath(name).parts
        if not (gap and len(digest) == 64 and parts) or ".." in parts or name.startswith("/"):
            raise WorkshopError(f"{place} is damaged: {CHECKSUMS} has the line {line[:80]!r}")
        expected[name] = digest
    if not expected:
        raise WorkshopError(f"{place} is damaged: {CHECKSUMS} lists no file")
    return expected


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry
