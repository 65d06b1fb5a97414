"""Tensors and plain values in PyTorch's archives: written whole or not at all, and read only if undamaged."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import torch

from snnkit.files import destination, replacing


def writable(path: str | os.PathLike[str], name: str) -> Path:
    """`path` with its ~ resolved, if a file could be written there; nothing is made yet. `name`: of the argument."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path; got {path!r} ({type(path).__name__})")
    try:
        file = Path(path).expanduser()
        if not file.name or file.is_dir():
            raise ValueError(f"{name} must be a file to write; {str(path)!r} is a folder")
        existing = next(folder for folder in destination(file).parents if folder.exists())
    except (RuntimeError, OSError) as error:  # an unknown user after ~, a name that is too long, a device, ...
        raise ValueError(f"{name} can't be written at {path}: {error}") from error
    if not existing.is_dir():
        raise ValueError(f"{name} can't be written at {file}: {existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ValueError(f"{name} can't be written at {file}: no permission to write into {existing}")
    return file


def write(path: Path, content: dict[str, Any]) -> None:
    """Write `content`; the file takes the place of an older one in one step. OSError, naming it, where that fails."""
    with replacing(path) as file:
        try:
            torch.save(content, file)
        except RuntimeError as error:
            if isinstance(error.__context__, OSError):  # PyTorch's archive ends with an error of its own after it
                raise error.__context__ from None
            raise


def read(path: Path, what: str, map_location: str | torch.device) -> Any:
    """What `write` wrote, every byte compared with its checksum. Tensors and plain values only: it can't run code.

    Raises FileNotFoundError where there is no file, ValueError, naming it, where it can't be read as `what`.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no {what} at {path}")
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                if (damaged := archive.testzip()) is not None:
                    raise zipfile.BadZipFile(f"{damaged} does not have its checksum")
            file.seek(0)
            return torch.load(file, map_location=map_location, weights_only=True)
        except Exception as error:
            # PyTorch's own text advises weights_only=False, the one thing not to do with a file that looks wrong.
            kind = type(error).__name__
            first = (
                "refused by weights_only=True" if kind == "UnpicklingError" else (str(error).splitlines() or [""])[0]
            )
            raise ValueError(
                f"{path} can't be read as a {what}: it is damaged, cut short, or holds more than tensors and plain "
                f"values ({kind}: {first})"
            ) from None
