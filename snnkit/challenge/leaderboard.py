"""The leaderboard: a folder with a file for each entry, so that any number of people may submit at the same time."""

from __future__ import annotations

import html
import json
import math
import os
import re
import secrets
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from snnkit import checks, tables
from snnkit.files import small_json, write_text

from . import references as networks
from . import scoring
from .scoring import PRICE, score

if TYPE_CHECKING:
    import plotly.graph_objects as go

KIND, FORMAT = "snnkit challenge entry", 1
NAME, NOTE = 40, 200  # characters
MOST = 10**15  # of anything that is counted
JOINER = "\u200d"  # joins several emoji into one; it is not printable by itself
LARGEST = 1 << 16  # bytes of a file; an entry has less than one kB
HEADS = ("", "who", "score", "±", "accuracy", "spikes", "parameters", "neurons", "note")
NAMED = 10  # so many names are written into the figure
SILENT = 0.1  # where a network without spikes is drawn, as a logarithmic axis has no 0


@dataclass(frozen=True)
class Entry:
    """One line of the leaderboard.

    Attributes:
        name: of the participant.
        note: a line about the network.
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


@dataclass(frozen=True)
class Board:
    """All entries of a folder, best first. Shown as a table when it is a cell's last line.

    Attributes:
        folder: where they are.
        entries: best first; of equal scores the earlier one.
        references: networks of the kit, which are shown among them without a rank.
        refused: (file, why) of each that is no entry, is damaged, or was scored on other samples.
    """

    folder: str
    entries: tuple[Entry, ...]
    references: tuple[Entry, ...]
    refused: tuple[tuple[str, str], ...]

    def best(self) -> tuple[Entry, ...]:
        """The best entry of each name, best first."""
        first: dict[str, Entry] = {}
        for entry in self.entries:
            first.setdefault(entry.name.casefold(), entry)
        return tuple(first.values())

    def rows(self) -> list[tuple[str, ...]]:
        """The table, as text: the best of each name with its rank, and the references without."""
        ranks = {id(entry): f"{i}." for i, entry in enumerate(self.best(), start=1)}
        shown = sorted((*self.best(), *self.references), key=lambda entry: -entry.score)
        return [
            (ranks.get(id(e), ""), e.name, f"{e.score:.4f}", f"{e.error:.4f}", f"{e.accuracy:.2%}",
             f"{e.spikes:.2f}", f"{e.parameters}", e.neurons, e.note)
            for e in shown
        ]  # fmt: skip

    def figure(self) -> go.Figure:
        """Accuracy against spikes per sample of all entries and references, with the Pareto front.

        The axis is logarithmic; a network that is silent is drawn at 0.1. Raises ValueError if there is none.
        """
        from snnkit.viz import figures, theme

        shown = (*self.entries, *self.references)
        if not shown:
            raise ValueError(f"the board of {self.folder!r} must have an entry to be drawn, but it is empty")
        columns: dict[str, list[Any]] = {
            "WHO": [entry.name for entry in shown],
            "accuracy": [entry.accuracy for entry in shown],
            "spikes per sample": [max(entry.spikes, SILENT) for entry in shown],
        }
        axes = {"maximise": "accuracy", "minimise": "spikes per sample", "log": "x"}
        figure = figures.pareto(columns, title="The challenge: accuracy against spikes", **axes)
        above = [(entry, 15) for entry in self.best()[:NAMED]]
        for entry, shift in (*above, *((entry, -15) for entry in self.references)):
            place = math.log10(max(entry.spikes, SILENT))  # plotly places notes on a logarithmic axis by exponents
            figure.add_annotation(
                x=place, y=entry.accuracy, text=html.escape(entry.name), showarrow=False, yshift=shift,
                font={"color": theme.TEXT, "size": 12},
            )  # fmt: skip
        places = [math.log10(x) for x in columns["spikes per sample"]]
        figure.update_xaxes(range=[min(places) - 0.35, max(places) + 0.35])
        low, high = min(columns["accuracy"]), max(columns["accuracy"])
        room = max(0.15 * (high - low), 0.005)
        figure.update_yaxes(range=[low - room, high + room])
        return figure

    def _heading(self) -> str:
        count, people = len(self.entries), len(self.best())
        entries = f"{count} {'entry' if count == 1 else 'entries'} of {people} {'name' if people == 1 else 'names'}"
        return f"The challenge, score = accuracy - {PRICE} · spikes; {entries if count else 'no entry yet'}"

    def __repr__(self) -> str:
        rows = self.rows()
        lines = [self._heading(), *(["", *tables.text_table(HEADS, rows)] if rows else [])]
        if self.refused:
            lines += ["", "Not read", *(f"  {file}: {why}" for file, why in self.refused)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        refused = [f"Not read: {file}: {why}" for file, why in self.refused]
        return f"<b>{html.escape(self._heading())}</b>{tables.html_table(HEADS, self.rows(), refused)}"


def submit(
    name: str,
    net: nn.Module,
    folder: str | os.PathLike[str] = "challenge",
    *,
    note: str = "",
    salt: str = scoring.SALT,
) -> Entry:
    """Score ``net`` and put it on the leaderboard: one new file in ``folder``, written whole or not at all.

    The folder may be shared: any number of people may submit at the same time. No weights are written.

    Args:
        name: yours or a nickname, one line of up to 40 characters.
        net: see ``evaluate``.
        folder: made as needed.
        note: a line about the network, up to 200 characters.
        salt: see ``score``.

    Raises:
        TypeError, ValueError: ``name`` or ``note`` is no such line.
        As ``evaluate``: the network can't take part; nothing is written then.
        OSError: the file cannot be written.
    """
    name, note = _line("name", name, NAME, least=1), _line("note", note, NOTE, least=0)
    now = datetime.now(timezone.utc)
    entry = _entry(name, note, now.isoformat(timespec="seconds"), net, score(net, salt=salt))
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "entry"
    path = Path(folder).expanduser() / f"{slug}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}.json"
    content = {"kind": KIND, "format": FORMAT, "price": PRICE, **asdict(entry)}
    write_text(path, f"{json.dumps(content, indent=1, ensure_ascii=False)}\n")
    return entry


def board(folder: str | os.PathLike[str] = "challenge", *, references: bool = True, salt: str = scoring.SALT) -> Board:
    """Read all entries (``*.json``) of ``folder``; one that is not there yet is an empty board.

    Files that are damaged or something else are listed with the reason, and are left as they are. So are entries that
    were scored with another salt: their scores don't compare.

    Args:
        folder: where ``submit`` put them.
        references: whether to list networks of the kit among them (scored with the same ``salt``).
        salt: the one that the entries must have been scored with.

    Raises:
        ValueError: ``folder`` is no folder.
    """
    place = Path(folder).expanduser()
    if place.exists() and not place.is_dir():
        raise ValueError(f"folder must be a folder of entries, but {str(folder)!r} is none")
    mark = scoring.mark(salt)
    entries, refused = [], []
    for path in sorted(place.glob("*.json")):
        try:
            entry = read(path)
            if entry.mark != mark:
                raise ValueError(f"scored on other samples (mark {entry.mark}, not {mark})")
            entries.append(entry)
        except ValueError as error:
            refused.append((_plain(path.name), str(error)))
        except OSError as error:
            refused.append((_plain(path.name), error.strerror or type(error).__name__))
    entries.sort(key=lambda entry: (-entry.score, entry.when))
    shown = [
        _entry(f"({name})", networks.NOTES[name], "", networks.reference(name), networks.reference_score(name, salt))
        for name in (networks.SHOWN if references else ())
    ]
    return Board(str(place), tuple(entries), tuple(shown), tuple(refused))


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
    for key, kind in Entry.__annotations__.items():
        kinds: Any = {"str": str, "int": int, "float": (int, float)}[kind]
        value: Any = content.get(key)
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise ValueError(f"damaged: {key} is missing or of a wrong kind")
        if kind == "str":
            content[key] = _plain(value)
        elif not abs(value) < MOST:
            raise ValueError(f"damaged: {key} is not finite or too large")
    entry = Entry(**{key: content[key] for key in Entry.__annotations__})
    if not 0 <= entry.accuracy <= 1 or min(entry.error, entry.spikes, entry.samples, entry.parameters) < 0:
        raise ValueError("damaged: accuracy must be between 0 and 1, and error and counts at least 0")
    if abs(entry.accuracy - PRICE * entry.spikes - entry.score) > 1e-6:
        raise ValueError("damaged: the score is not that of its accuracy and spikes")
    return entry


def _entry(name: str, note: str, when: str, net: nn.Module, result: scoring.Score) -> Entry:
    kinds = [type(neuron) for neuron in scoring.neurons_of(net).values()]
    neurons = ", ".join(kind.__name__ + ("" if kind.__module__.startswith("snnkit.") else "*") for kind in kinds)
    return Entry(
        name, note, when, result.score, result.error, result.accuracy, result.spikes, result.samples, result.mark,
        neurons, sum(p.numel() for p in net.parameters()),
    )  # fmt: skip


def _plain(text: str) -> str:
    """One line that is safe on a terminal and in a table."""
    return "".join(c if c.isprintable() or c == JOINER else "\N{REPLACEMENT CHARACTER}" for c in text[:NOTE])


def _line(what: str, text: Any, longest: int, *, least: int) -> str:
    text = checks.instance(what, text, str, "a text").strip()
    visible = text.replace(JOINER, "")
    if len(text) > longest or not visible.isprintable() or len(visible) < least:
        raise ValueError(f"{what} must be one line of {least} to {longest} characters, but it is {checks.shown(text)}")
    return text
