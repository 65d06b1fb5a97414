"""One sweep at a time on a folder: a lock that vanishes with the process that holds it, however it ends."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from .problems import SweepError

FILE = ".lock"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold `folder` while the block runs. Raises SweepError that names the holder where another process has it.

    The operating system keeps the lock with the open file, so that none is left after `kill -9`; what the file says is
    for people. It stays: another process may have opened it meanwhile, and would lock a file that is gone.
    """
    try:
        import fcntl
    except ImportError:
        raise SweepError("sweeps need the file locks of POSIX: Linux, macOS, or WSL on Windows") from None
    with open(folder / FILE, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SweepError(
                f"the folder {folder} is in use by another sweep ({_holder(file)}); wait for it, or take another "
                "folder by --out"
            ) from None
        except OSError as error:
            raise SweepError(
                f"the folder {folder} can't be locked: {error.strerror}; take one on a local disk"
            ) from None
        file.truncate(0)
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        json.dump({"pid": os.getpid(), "host": socket.gethostname(), "since": now}, file)
        file.flush()
        yield


def _holder(file: object) -> str:
    try:
        file.seek(0)  # type: ignore[attr-defined]
        told = json.load(file)  # type: ignore[arg-type]
        return f"process {told['pid']} on {told['host']} since {told['since']}"
    except (ValueError, KeyError, TypeError):
        return "which has just begun"
