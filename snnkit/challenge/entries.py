"""One file for each entry on the leaderboard: nobody waits for a lock, and nobody overwrites anybody."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from torch import nn

from snnkit.files import replacing, small_json

from . import rules, task
from .scoring import PRICE, score

KIND = "snnkit challenge entry"
FORMAT = 1
NAME, NOTE = 40, 200  # characters
MOST = 10**15  # of anything that is counted
JOINER = "\u200d"  # of emoji that are made of several; it is not printable by itself
LARGEST = 1 << 16  # bytes of a file; an entry has less than one kB


@dataclass(frozen=True)
class Entry:
    """One line of the leaderboard.

    Attributes:
        name: who.
        note: what they want to say about it.
        when: UTC, "2026-05-04T13:37:00+00:00".
        score, error, accuracy, spikes, samples, mark: see ``Score``.
        neurons: kinds of the layers, such as "LIF, LIF"; a star marks those that are not of the kit.
        parameters: how many numbers were or could be trained.
    """

    name: str
    note: str
    when: str
    score: float
    error: float
    accuracy: float
    spikes: float
    samples: int
    mark: str
    neurons: str
    parameters: int

    def __repr__(self) -> str:
        return f"{self.name}: score {self.score:.4f} ± {self.error:.4f} ({self.accuracy:.2%}, {self.spikes:.2f} spikes)"


def submit(
    name: str,
    net: nn.Module,
    folder: str | os.PathLike[str] = "challenge",
    *,
    note: str = "",
    salt: str = task.SALT,
) -> Entry:
    """Score ``net`` and put it on the leaderboard: one new file in ``folder``, written whole or not at all.

    The folder may be shared: any number of people may hand in at the same time. No weights are written.

    Args:
        name: yours or a nickname, one line of up to 40 characters.
        net: see ``evaluate``.
        folder: made as needed.
        note: a line about the network, up to 200 characters.
        salt: see ``score``.

    Raises:
        TypeError, ValueError: a name or a note that is none.
        As ``evaluate``: the network can't take part; nothing is written then.
        OSError: the file cannot be written.
    """
    name, note = _line("name", name, NAME), _line("note", note, NOTE, empty=True)
    found = score(net, salt=salt)
    when = datetime.now(timezone.utc)
    entry = Entry(
        name, note, when.isoformat(timespec="seconds"), found.score, found.error, found.accuracy, found.spikes,
        found.samples, found.mark, neurons_in_words(net), sum(p.numel() for p in net.parameters()),
    )  # fmt: skip
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "entry"
    path = Path(folder).expanduser() / f"{slug}-{when:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}.json"
    content = {"kind": KIND, "format": FORMAT, "price": PRICE, **asdict(entry)}
    with replacing(path) as file:
        file.write(f"{json.dumps(content, indent=1, ensure_ascii=False)}\n".encode())
    return entry


def read(path: Path) -> Entry:
    """The entry of a file that ``submit`` wrote.

    Raises:
        ValueError: it is something else, or damaged; the text says what.
        OSError: it cannot be read.
    """
    content = small_json(path, LARGEST)
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise ValueError("no entry of the challenge")
    if content.get("format") != FORMAT or content.get("price") != PRICE:
        raise ValueError("of another version of the challenge")
    texts = {key: _field(content, key, str) for key in ("name", "note", "when", "mark", "neurons")}
    numbers = {key: _number(content, key) for key in ("score", "error", "accuracy", "spikes")}
    counts = {key: _field(content, key, int) for key in ("samples", "parameters")}
    if not all(math.isfinite(value) for value in numbers.values()):
        raise ValueError("damaged: a number is not finite")
    if not 0 <= numbers["accuracy"] <= 1 or numbers["error"] < 0:
        raise ValueError("damaged: no accuracy is below 0 or above 1, and no error below 0")
    if any(not 0 <= value < MOST for value in (numbers["spikes"], *counts.values())):
        raise ValueError("damaged: a count is negative or too large")
    if abs(numbers["accuracy"] - PRICE * numbers["spikes"] - numbers["score"]) > 1e-6:
        raise ValueError("damaged: the score is not that of its accuracy and spikes")
    return Entry(**{key: plain(value) for key, value in texts.items()}, **numbers, **counts)


def plain(text: str) -> str:
    """One line that is safe on a terminal and in a table."""
    return "".join(c if c.isprintable() or c == JOINER else "\N{REPLACEMENT CHARACTER}" for c in text[:NOTE])


def neurons_in_words(net: nn.Module) -> str:
    """Kinds of neurons in order of appearance, such as "LIF, LIF"; a star marks those that are not of the kit."""
    kinds = [type(neuron) for neuron in rules.neurons_of(net).values()]
    return ", ".join(kind.__name__ + ("" if kind.__module__.startswith("snnkit.") else "*") for kind in kinds)


def _field(content: dict[str, Any], key: str, kind: Any) -> Any:
    value = content.get(key)
    if isinstance(value, bool) or not isinstance(value, kind):
        raise ValueError(f"damaged: {key} is missing or of a wrong kind")
    return value


def _number(content: dict[str, Any], key: str) -> float:
    value = _field(content, key, (int, float))
    return float(value) if abs(value) < MOST else math.nan


def _line(what: str, text: Any, longest: int, *, empty: bool = False) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a text, but it is a {type(text).__name__}")
    text = text.strip()
    seen = text.replace(JOINER, "")
    if len(text) > longest or not seen.isprintable() or not (seen or empty):
        raise ValueError(f"{what} must be one line of {0 if empty else 1} to {longest} characters, but it is {text!r}")
    return text
