"""Text files that are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

from snnkit.data._files import replacing


def write_text(path: Path, text: str) -> None:
    """Replace the file at `path` by `text` (UTF-8, `\n`), keeping its mode; if interrupted, it stays as it was."""
    with replacing(path) as file:
        file.write(text.encode())
