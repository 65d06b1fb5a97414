"""Fetch a published file from the first mirror that delivers it undamaged."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from snnkit.data._idx import DamagedFileError, IdxFile, read_idx
from snnkit.files import replacing

TIMEOUT = 30  # seconds without an answer before the next mirror is tried
ELSEWHERE = "point SNNKIT_DATA (or root=) at one of your own"


def fetch(expected: IdxFile, folder: Path, mirrors: tuple[str, ...], progress: bool | None = None) -> Path:
    """Download `expected.name + ".gz"` into `folder` and return its path. Nothing unverified ever gets that name.

    Raises ConnectionError, with what each mirror did, when none of them delivers the published contents.
    """
    import requests

    path = folder / f"{expected.name}.gz"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise type(error)(
            error.errno, f"can't make the folder for downloads ({error.strerror}); {ELSEWHERE}", str(folder)
        ) from error
    if not os.access(folder, os.W_OK):
        raise PermissionError(errno.EACCES, f"no permission to download into the folder; {ELSEWHERE}", str(folder))

    failures = []
    for mirror in mirrors:
        url = f"{mirror.rstrip('/')}/{path.name}"
        try:
            _fetch_from(url, path, expected, progress)
        except (requests.RequestException, ConnectionError, TimeoutError, DamagedFileError) as error:
            failures.append(f"  {url}: {_first_line(error)}")
        else:
            return path
    raise ConnectionError(
        f"could not download {path.name} into {folder}. Mirrors tried:\n" + "\n".join(failures) + "\n"
        f"Without a network: put the file (or its uncompressed contents, {expected.name}) into the folder "
        f"{folder.name}/ of a data folder, and point the environment variable SNNKIT_DATA at that data folder."
    )


def _fetch_from(url: str, path: Path, expected: IdxFile, progress: bool | None) -> None:
    import pooch
    from tqdm.auto import tqdm

    hidden = os.environ.get("SNNKIT_HEADLESS") == "1" if progress is None else not progress
    with (
        # The total is a placeholder until the server has told it: pooch asks for the bar's truth, which needs one.
        tqdm(desc=path.name, total=1, unit="B", unit_scale=True, mininterval=1, disable=hidden) as bar,
        replacing(path) as file,
    ):
        # pooch sets `total` and calls `reset`, neither of which a disabled tqdm has; its annotation forgets bars.
        progressbar: Any = False if hidden else bar
        download = pooch.HTTPDownloader(progressbar=progressbar, chunk_size=1 << 16, timeout=TIMEOUT)
        download(url, output_file=file, pooch=None)
        file.flush()
        try:
            read_idx(Path(file.name), expected)
        except DamagedFileError as error:
            reason = str(error).replace(file.name, "what it sent")
            raise DamagedFileError(reason) from None


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"
