"""A learner's whole progress as one file, to be handed to whoever runs the room."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import snnkit
from snnkit.files import replacing

from . import registry, session

KIND = "snnkit progress"
FORMAT = 1
NAME = 60  # characters of a learner's name


def export(path: str | os.PathLike[str], name: str = "") -> Path:
    """Write the progress in all notebooks to ``path`` (JSON), and return the path.

    The file holds no more than: the name, results, attempts, hints, which checks failed, quiz marks, dates, and the
    kit's version. No answers. ``course.room(folder)`` shows a folder of such files.

    Args:
        path: the file to write, in one step; folders are made as needed.
        name: the learner's name or nickname. Default: the file's name without its ending.

    Raises:
        ValueError: the name is too long, or not one line of text.
        TypeError: the name is no text.
        OSError: the file cannot be written; FileExistsError if it is there and no regular file.
    """
    target = Path(path).expanduser()
    content = json.dumps(as_dict(name or target.stem), indent=1, ensure_ascii=False)
    with replacing(target) as file:
        file.write(f"{content}\n".encode())
    return target


def as_dict(name: str) -> dict[str, Any]:
    """What ``export`` writes: {"kind", "format", "kit", "name", "when", "notebooks": {"01": {"exercises", "quiz"}}}."""
    progress = session.current().progress
    notebooks = {}
    for notebook in registry.notebooks():
        rows = [
            {"key": one.key, "title": one.title} | progress.exercise(one.key) for one in registry.exercises(notebook)
        ]
        marks = progress.quiz(notebook, len(registry.questions(notebook)))
        notebooks[notebook] = {"exercises": rows, "quiz": marks}
    when = datetime.now(timezone.utc).isoformat(timespec="seconds")
    head = {"kind": KIND, "format": FORMAT, "kit": snnkit.__version__, "name": _name(name), "when": when}
    return head | {"notebooks": notebooks}


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"name must be a text, not {type(name).__name__}")
    if len(name) > NAME or not name.isprintable() or not name.strip():
        raise ValueError(f"name must be one line of 1 to {NAME} characters, not {name!r}")
    return name.strip()
