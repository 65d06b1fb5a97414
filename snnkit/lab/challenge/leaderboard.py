"""The leaderboard: a folder with a file for each entry, so that any number of people may submit at the same time."""

from __future__ import annotations

import html
import json
import math
import os
import secrets
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from snnkit import checks, tables
from snnkit.files import expanded, small_json, write_text
from snnkit.lab.challenge import networks, scoring
from snnkit.lab.challenge.scoring import PRICE, Score, score

if TYPE_CHECKING:
    import plotly.graph_objects as go

KIND, FORMAT = "snnkit challenge entry", 1
NAME, NOTE = 40, 200  # characters
LARGEST = 1 << 16  # bytes of a file; an entry has less than one kB
HEADS = ("", "who", "score", "±", "accuracy", "spikes", "parameters", "neurons", "note")
SILENT = 0.1  # where a network without spikes is drawn, as a logarithmic axis has no 0


@dataclass(frozen=True, repr=False)
class Entry(Score):
    """One line of the leaderboard: a score and its owner."""

    name: str  #: of the participant
    note: str  #: a line about the network
    when: str  #: UTC, "2026-05-04T13:37:00+00:00"
    neurons: str  #: kinds of the layers, such as "LIF, LIF"; a star marks those that are not of the kit
    parameters: int  #: how many numbers were or could be trained

    def __repr__(self) -> str:
        return f"{self.name}: {super().__repr__()}"


@dataclass(frozen=True)
class Board:
    """All entries of a folder, best first. Shown as a table when it is a cell's last line."""

    folder: str
    entries: tuple[Entry, ...]  #: best first; of equal scores the earlier one
    references: tuple[Entry, ...]  #: networks of the kit, which are shown among them without a rank
    refused: tuple[tuple[str, str], ...]  #: (file, why) of each that is no entry or damaged, or of other samples

    def best(self) -> tuple[Entry, ...]:
        """The best entry of each name, best first."""
        first: dict[str, Entry] = {}
        for entry in self.entries:
            first.setdefault(entry.name.casefold(), entry)
        return tuple(first.values())

    def rows(self) -> list[tuple[str, ...]]:
        """The table, as text: the best of each name with its rank, and the references without."""
        ranks = {entry: f"{i}." for i, entry in enumerate(self.best(), start=1)}
        rows = []
        for e in sorted((*self.best(), *self.references), key=lambda entry: -entry.score):
            numbers = (f"{e.score:.4f}", f"{e.error:.4f}", f"{e.accuracy:.2%}", f"{e.spikes:.2f}", f"{e.parameters}")
            rows.append((ranks.get(e, ""), e.name, *numbers, e.neurons, e.note))
        return rows

    def figure(self) -> go.Figure:
        """Accuracy against spikes per sample of all entries and references, with the Pareto front.

        The axis is logarithmic; a network that is silent is drawn at 0.1. Raises ValueError if there is none.
        """
        from snnkit.lab.viz import figures

        shown = (*self.entries, *self.references)
        if not shown:
            raise ValueError(f"the board of {self.folder!r} must have an entry to be drawn, but it is empty")
        columns = {
            "WHO": [entry.name for entry in shown],
            "accuracy": [entry.accuracy for entry in shown],
            "spikes": [max(entry.spikes, SILENT) for entry in shown],
        }
        title = "The challenge: accuracy against spikes per sample"
        figure = figures.pareto(columns, title=title, maximise="accuracy", minimise="spikes", log="x")
        least, most = (math.log10(end(columns["spikes"])) for end in (min, max))
        for entry in (*self.best(), *self.references):
            place = math.log10(max(entry.spikes, SILENT))  # plotly places notes on a logarithmic axis by exponents
            share = (place - least) / (most - least) if most > least else 0.5
            look = {"xanchor": "left" if share < 0.1 else "right" if share > 0.9 else "center", "showarrow": False}
            figure.add_annotation(x=place, y=entry.accuracy, text=html.escape(entry.name), yshift=15, **look)
        return figure

    def _heading(self) -> str:
        entries, people = len(self.entries), len(self.best())
        by = f"{entries} entr{'y' if entries == 1 else 'ies'} by {people} {'person' if people == 1 else 'people'}"
        return f"The challenge, score = accuracy - {PRICE} · spikes; {by if entries else 'no entry yet'}"

    def _notes(self) -> list[str]:
        return [f"Not read: {file}: {why}" for file, why in self.refused]

    def __repr__(self) -> str:
        return "\n".join([self._heading(), "", *tables.text_table(HEADS, self.rows()), *self._notes()])

    def _repr_html_(self) -> str:
        return f"<b>{html.escape(self._heading())}</b>{tables.html_table(HEADS, self.rows(), self._notes())}"


@checks.arguments
def submit(
    name: str, net: nn.Module, folder: str | os.PathLike[str] = "challenge", *, note: str = "", salt: str = scoring.SALT
) -> Entry:
    """Score ``net`` and put it on the leaderboard: one new file in ``folder``, written whole or not at all.

    The folder, made as needed, may be shared: any number of people may submit at the same time. No weights are written.
    If the network can't take part (see ``evaluate``), nothing is written.

    Args:
        name: yours or a nickname, one line of up to 40 characters.
        note: a line about the network, up to 200 characters.
        salt: see ``score``.
    """
    for what, text, longest in (("name", name, NAME), ("note", note, NOTE)):
        if len(text) > longest or not text.isprintable() or (what == "name" and not text.strip()):
            raise ValueError(f"{what} must be one line of up to {longest} characters, but it is {checks.shown(text)}")
    name, note = name.strip(), note.strip()
    now = datetime.now(timezone.utc)
    entry = _entry(name, note, now.isoformat(timespec="seconds"), net, score(net, salt=salt))
    path = expanded(folder) / f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}.json"
    content = {"kind": KIND, "format": FORMAT, "price": PRICE, **asdict(entry)}
    write_text(path, f"{json.dumps(content, indent=1, ensure_ascii=False)}\n")
    return entry


@checks.arguments
def board(folder: str | os.PathLike[str] = "challenge", *, references: bool = True, salt: str = scoring.SALT) -> Board:
    """Read all entries (``*.json``) of ``folder``; one that is not there yet is an empty board.

    Files that are damaged or no entries are listed with the reason, and do not change. So are entries with another
    salt, because their scores can't be compared.

    ``references``: whether to list networks of the kit among them, scored with the same ``salt``.
    """
    place = expanded(folder)
    if place.exists() and not place.is_dir():
        raise ValueError(f"folder must be a folder of entries, but {str(folder)!r} is none")
    entries, refused = [], []
    for path in sorted(place.glob("*.json")):
        try:
            entries.append(_read(path, scoring.mark(salt)))
        except (ValueError, OSError) as error:
            refused.append((tables.one_line(path.name, NOTE), str(error)))
    entries.sort(key=lambda entry: (-entry.score, entry.when))
    shown = [
        _entry(f"({name})", networks.NOTES[name], "", networks.reference(name), networks.reference_score(name, salt))
        for name in (networks.SHOWN if references else ())
    ]
    return Board(str(place), tuple(entries), tuple(shown), tuple(refused))


def _read(path: Path, mark: str) -> Entry:
    """The entry of a file that ``submit`` wrote. ValueError, saying what is wrong, for anything else; OSError."""
    content = small_json(path, LARGEST)
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise ValueError("no entry of the challenge")
    if content.get("format") != FORMAT or content.get("price") != PRICE or content.get("mark") != mark:
        raise ValueError("of another version of the challenge, or scored on other samples")
    values: dict[str, Any] = {}
    try:
        for field in fields(Entry):
            value = content[field.name]
            if field.type == "str":
                values[field.name] = tables.one_line(checks.instance(field.name, value, str, "a text"), NOTE)
            else:
                check = checks.integer if field.type == "int" else checks.number
                values[field.name] = check(field.name, value, at_least=None if field.name == "score" else 0)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"damaged: {error}") from None
    entry = Entry(**values)
    if entry.accuracy > 1 or abs(entry.accuracy - PRICE * entry.spikes - entry.score) > 1e-6:
        raise ValueError("damaged: the score is not that of its accuracy and spikes")
    return entry


def _entry(name: str, note: str, when: str, net: nn.Module, result: Score) -> Entry:
    kinds = [type(neuron) for neuron in scoring.neurons_of(net).values()]
    neurons = ", ".join(kind.__name__ + ("" if kind.__module__.startswith("snnkit.") else "*") for kind in kinds)
    parameters = sum(p.numel() for p in net.parameters())
    return Entry(**asdict(result), name=name, note=note, when=when, neurons=neurons, parameters=parameters)
