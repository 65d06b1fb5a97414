"""Downloads that are verified; IDX files (the format of MNIST), read and verified."""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np

from snnkit.files import check_size, replacing

TIMEOUT = 30  # seconds without an answer before the next mirror is tried
_GZIP_MAGIC = b"\x1f\x8b"
_SLACK = 1 << 16  # bytes by which a packed file may be larger than its contents


class DamagedFileError(ValueError):
    """A data file is truncated, damaged or not the published one. The message names it and both checksums."""


@dataclass(frozen=True)
class IdxFile:
    """The name, shape and checksum of one published file of unsigned bytes.

    ``checksum``, "md5:…" or "sha256:…", is that of the uncompressed contents, so a repacked archive passes and a
    damaged one fails.
    """

    name: str  # without .gz
    shape: tuple[int, ...]
    checksum: str

    @property
    def header(self) -> bytes:
        """Magic number (two zeros, 8 for unsigned byte, rank), then each dimension as a big-endian 32-bit integer."""
        return bytes([0, 0, 8, len(self.shape)]) + np.array(self.shape, dtype=">u4").tobytes()

    @property
    def nbytes(self) -> int:
        return len(self.header) + math.prod(self.shape)


def read_idx(path: Path, expected: IdxFile) -> np.ndarray:
    """Read and verify a file, gzipped or not (decided by its first bytes, not its name): uint8 of ``expected.shape``.

    Raises DamagedFileError unless the contents are exactly the expected ones.
    """
    algorithm = expected.checksum.partition(":")[0]
    actual = "not looked at"
    try:
        check_size("it", path.stat().st_size, expected.nbytes + _SLACK)
    except ValueError as error:
        content, damage = b"", str(error)
    else:
        with open(path, "rb") as file:
            content, damage = _contents(file, expected.nbytes)
        actual = f"{algorithm}:{hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()}"
    if damage is None and not content.startswith(expected.header):
        damage = f"not an IDX file of unsigned bytes {list(expected.shape)}"
    if damage is None and actual != expected.checksum:
        damage = "other contents"
    if damage is not None:
        raise DamagedFileError(
            f"{path} is damaged or is not the published {expected.name}: {damage}.\n"
            f"  expected contents: {expected.checksum}\n"
            f"  actual contents:   {actual}\n"
            "Delete the file and load again to get a fresh copy."
        )
    return np.frombuffer(content, dtype=np.uint8, offset=len(expected.header)).reshape(expected.shape)


def _contents(file: BinaryIO, nbytes: int) -> tuple[bytes, str | None]:
    """What could be read of ``file``, unpacked (never more than one byte too many), and what is wrong with it."""
    packed = file.read(2) == _GZIP_MAGIC
    file.seek(0)
    content = bytearray()
    damage = None
    try:
        with gzip.GzipFile(fileobj=file) if packed else file as opened:
            # Small pieces, so that what precedes the damage remains for the checksum in the message.
            while piece := opened.read(min(1 << 16, nbytes + 1 - len(content))):
                content += piece
    except EOFError:
        damage = "the gzip archive ends early"
    except (gzip.BadGzipFile, zlib.error) as error:
        damage = f"the gzip archive is corrupt ({error})"
    if damage is None and len(content) != nbytes:
        damage = f"more than {nbytes} bytes" if len(content) > nbytes else f"{len(content)} bytes instead of {nbytes}"
    return bytes(content), damage


def fetch(expected: IdxFile, folder: Path, mirrors: tuple[str, ...], progress: bool | None = None) -> Path:
    """Download ``expected.name + ".gz"`` into ``folder``, as ``download`` does."""
    path = folder / f"{expected.name}.gz"
    put = f"put the file (or its uncompressed contents, {expected.name})"
    download(path, mirrors, expected.nbytes + _SLACK, lambda part: read_idx(part, expected), progress, put=put)
    return path


def download(
    path: Path,
    mirrors: tuple[str, ...],
    largest: int,
    verify: Callable[[Path], object],
    progress: bool | None = None,
    *,
    put: str,
) -> None:
    """Download ``path.name`` into its folder from the first mirror that delivers it undamaged.

    Only a verified file gets that name.

    Args:
        largest: bytes beyond which nothing more is taken.
        verify: raises DamagedFileError for a file that is not the published one.
        put: what to do without a network, up to "into the folder".

    Raises ConnectionError if no mirror delivers the published contents; it says what each mirror did.
    """
    import requests

    path.parent.mkdir(parents=True, exist_ok=True)
    failures = []
    for mirror in mirrors:
        url = f"{mirror.rstrip('/')}/{path.name}"
        try:
            _download_from(url, path, largest, verify, progress)
        except (requests.RequestException, ConnectionError, TimeoutError, DamagedFileError) as error:
            reason = (str(error).splitlines() or ["no reason given"])[0]
            failures.append(f"  {url}: {type(error).__name__}: {reason}")
        else:
            return
    raise ConnectionError(
        f"could not download {path.name} into {path.parent}. Mirrors tried:\n" + "\n".join(failures) + "\n"
        f"Without a network: {put} into the folder {path.parent.name}/ of a data folder, and point the environment "
        "variable SNNKIT_DATA at that data folder."
    )


def _download_from(url: str, path: Path, largest: int, verify: Callable[[Path], object], progress: bool | None) -> None:
    import pooch
    from tqdm.auto import tqdm

    hidden = os.environ.get("SNNKIT_HEADLESS") == "1" if progress is None else not progress
    with (
        # The total is a placeholder until the server has sent it: pooch tests the bar's truth, which needs one.
        tqdm(desc=path.name, total=1, unit="B", unit_scale=True, mininterval=1, disable=hidden) as bar,
        replacing(path) as file,
    ):
        # pooch sets `total` and calls `reset`, neither of which a disabled tqdm has; its annotation forgets bars.
        progressbar: Any = False if hidden else bar
        downloader = pooch.HTTPDownloader(progressbar=progressbar, chunk_size=1 << 16, timeout=TIMEOUT)

        def write(piece: bytes) -> int:
            if file.tell() + len(piece) > largest:  # a server may send for ever
                raise DamagedFileError("it sent more than the published file has")
            return file.write(piece)

        downloader(url, output_file=SimpleNamespace(write=write, flush=file.flush), pooch=None)
        file.flush()
        try:
            verify(Path(file.name))
        except DamagedFileError as error:
            raise DamagedFileError(str(error).replace(file.name, "what it sent")) from None
