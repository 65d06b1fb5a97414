"""Lightning's checkpoints, written whole or not at all, and read only if undamaged."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from lightning.fabric.plugins import CheckpointIO

from snnkit.files import destination
from snnkit.train import archive
from snnkit.train.checkpoint import FORMAT, check_plain

LIGHTNING = "pytorch-lightning_version"  # the key by which Lightning knows a checkpoint of its own


class AtomicCheckpointIO(CheckpointIO):
    """For ``Trainer(plugins=[AtomicCheckpointIO()])``: how checkpoints are written and read.

    A checkpoint is written beside its place, forced to the disk, and put in place in one step: whoever is killed at any
    moment leaves the old one or the new one. Every byte is compared with its checksum when it is read, and nothing but
    tensors and plain values is: a file from a stranger can't run code.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        """TypeError, naming the entry, for what could not be read back; OSError where the disk is full, say."""
        if storage_options is not None:
            raise TypeError(f"storage_options must be None, as files are local here; got {storage_options!r}")
        for name, value in checkpoint.items():
            check_plain(name, value)
        archive.write(archive.writable(path, "path"), checkpoint)

    def load_checkpoint(self, path: Any, map_location: Any | None = None, weights_only: bool | None = None) -> Any:
        """FileNotFoundError where there is no file, ValueError, naming it, where it is damaged or not Lightning's."""
        content = archive.read(Path(path).expanduser(), "checkpoint", "cpu" if map_location is None else map_location)
        if not isinstance(content, dict) or LIGHTNING not in content:
            if isinstance(content, dict) and content.get("format") == FORMAT:
                raise ValueError(
                    f"{path} is a checkpoint of train.fit, which alone can go on from it: `snnkit train` without "
                    "--devices and --nodes, outside of torchrun and srun"
                )
            raise ValueError(f"{path} is no checkpoint of Lightning's Trainer")
        return content

    def remove_checkpoint(self, path: Any) -> None:
        """Where there is one."""
        Path(path).expanduser().unlink(missing_ok=True)


def clear_leftovers(path: Path) -> list[Path]:
    """Remove what writers that were killed left beside ``path``, whose only writer is about to be the caller."""
    file = destination(path)
    parts = list(file.parent.glob(f".{_literal(file.name)}.*.part"))
    for part in parts:
        with contextlib.suppress(OSError):
            os.unlink(part)
    return parts


def _literal(name: str) -> str:
    """A name as a pattern that fits it alone."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
