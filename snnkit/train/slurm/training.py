"""What the words of a training command say about processes, files and signals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath


def is_training(words: Sequence[str]) -> bool:
    """Whether it is ``snnkit train …``, by whatever path, or ``python -m snnkit.cli train …``."""
    if len(words) > 1 and PurePath(words[0]).name == "snnkit":
        return words[1] == "train"
    python = bool(words) and PurePath(words[0]).name.startswith("python")
    return python and tuple(words[1:4]) == ("-m", "snnkit.cli", "train")


def option(words: Sequence[str], *names: str) -> str | None:
    """The value of ``--name VALUE`` or ``--name=VALUE``, the last where there are several; None: it is not there."""
    value = None
    for word, following in zip(words, [*words[1:], ""], strict=True):
        head, equals, tail = word.partition("=")
        if head in names:
            value = tail if equals else following
    return value


def flag(words: Sequence[str], name: str) -> bool:
    """Whether ``--name`` is there."""
    return name in words
