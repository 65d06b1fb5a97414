"""Text files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from snnkit.data._files import replacing


def write_text(path: Path, text: str) -> None:
    """Replace the file at `path` by `text` (UTF-8, `\n`), keeping its mode; if interrupted, it stays as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else None
    with replacing(path) as file:
        file.write(text.encode())
        if mode is not None:
            os.chmod(file.name, mode)
