"""IDX files (the format of MNIST): reading them, and refusing those that are not what they should be."""

from __future__ import annotations

import gzip
import hashlib
import io
import math
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

GZIP_MAGIC = b"\x1f\x8b"


class DamagedFileError(ValueError):
    """A data file is truncated, damaged or not the published one. The message names it and both checksums."""


@dataclass(frozen=True)
class IdxFile:
    """What one published file of unsigned bytes must be.

    `md5` and `sha256` are of the uncompressed contents, so a repacked archive passes and a damaged one doesn't.
    `archive_md5` is of the published .gz: an archive with that checksum is the original and needs no other proof.
    """

    name: str  # without .gz
    shape: tuple[int, ...]
    md5: str
    sha256: str | None = None
    archive_md5: str | None = None

    @property
    def header(self) -> bytes:
        """Magic number (two zeros, 8 for unsigned byte, rank), then each dimension as a big-endian 32-bit integer."""
        return bytes([0, 0, 8, len(self.shape)]) + np.array(self.shape, dtype=">u4").tobytes()

    @property
    def nbytes(self) -> int:
        return len(self.header) + math.prod(self.shape)


def read_idx(path: Path, expected: IdxFile) -> np.ndarray:
    """Read and verify a file, gzipped or not (its first bytes say, not its name): a uint8 array `expected.shape`.

    Raises DamagedFileError unless the contents are exactly the expected ones.
    """
    raw = path.read_bytes()
    content, damage = _gunzip(raw, expected.nbytes) if raw.startswith(GZIP_MAGIC) else (raw, None)
    found_md5, found_sha256 = _md5(content), hashlib.sha256(content).hexdigest()
    is_published_archive = expected.archive_md5 is not None and _md5(raw) == expected.archive_md5
    same_contents = found_md5 == expected.md5 and expected.sha256 in (None, found_sha256)

    if damage is None and len(content) != expected.nbytes:
        damage = f"{len(content)} bytes instead of {expected.nbytes}"
    if damage is None and not content.startswith(expected.header):
        damage = f"not an IDX file of unsigned bytes {list(expected.shape)}"
    if damage is None and not (same_contents or is_published_archive):
        damage = "other contents"
    if damage is not None:
        sha256 = f", sha256 {expected.sha256}" if expected.sha256 else ""
        raise DamagedFileError(
            f"{path} is damaged or is not the published {expected.name}: {damage}.\n"
            f"  expected contents: md5 {expected.md5}{sha256}\n"
            f"  found contents:    md5 {found_md5}, sha256 {found_sha256}\n"
            "Delete the file and load again to get a fresh copy."
        )
    return np.frombuffer(content, dtype=np.uint8, offset=len(expected.header)).reshape(expected.shape)


def _gunzip(raw: bytes, nbytes: int) -> tuple[bytes, str | None]:
    """What could be unpacked of `raw` (never more than one byte too many), and what is wrong with it."""
    content = bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as archive:
            while len(content) <= nbytes:
                # Small pieces, so that what precedes the damage is kept for the checksum in the message.
                piece = archive.read(min(1 << 16, nbytes + 1 - len(content)))
                if not piece:
                    break
                content += piece
    except EOFError:
        return bytes(content), "the gzip archive ends early"
    except (gzip.BadGzipFile, zlib.error) as error:
        return bytes(content), f"the gzip archive is corrupt ({error})"
    return bytes(content), None if len(content) <= nbytes else f"more than {nbytes} bytes"


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
