"""The leaderboard: a folder of entries as a table, best first, and as a picture."""

from __future__ import annotations

import html
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import task
from .entries import Entry, plain, read
from .scoring import PRICE

if TYPE_CHECKING:
    import plotly.graph_objects as go

HEADS = ("", "who", "score", "±", "accuracy", "spikes", "parameters", "neurons", "note")
NAMED = 10  # so many names are written into the picture
SILENT = 0.1  # where a network without spikes is drawn, as a logarithmic axis has no 0
_CELL = "padding:.25em .7em;text-align:left;white-space:nowrap;border-bottom:1px solid rgba(127,127,127,.25)"


@dataclass(frozen=True)
class Board:
    """All entries of a folder, best first. Shown as a table when it is a cell's last line.

    Attributes:
        folder: where they are.
        entries: best first; of equal scores the earlier one.
        references: networks of the kit, which are shown among them without a place.
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
        """The table, as text: the best of each name with its place, and the references without."""
        places = {id(entry): f"{i}." for i, entry in enumerate(self.best(), start=1)}
        shown = sorted((*self.best(), *self.references), key=lambda entry: -entry.score)
        return [
            (places.get(id(e), ""), e.name, f"{e.score:.4f}", f"{e.error:.4f}", f"{e.accuracy:.2%}",
             f"{e.spikes:.2f}", f"{e.parameters}", e.neurons, e.note)
            for e in shown
        ]  # fmt: skip

    def figure(self) -> go.Figure:
        """Accuracy against spikes per sample of all entries and references, and the front that none is beyond.

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
            place = math.log10(max(entry.spikes, SILENT))  # plotly's notes on a logarithmic axis stand at exponents
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

    def __repr__(self) -> str:
        lines = [f"The challenge, score = accuracy - {PRICE} · spikes; {_entries(self)}"]
        rows = [HEADS, *self.rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        if len(rows) > 1:
            lines += ["", *("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)]
        if self.refused:
            lines += ["", "Not read", *(f"  {file}: {why}" for file, why in self.refused)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        heads = "".join(f'<th scope="col" style="{_CELL}">{html.escape(word)}</th>' for word in HEADS)
        body = "".join(
            "<tr>" + "".join(f'<td style="{_CELL}">{html.escape(cell)}</td>' for cell in row) + "</tr>"
            for row in self.rows()
        )
        refused = "".join(f"<li>{html.escape(file)}: {html.escape(why)}</li>" for file, why in self.refused)
        return (
            f"<div><b>The challenge</b>, score = accuracy − {PRICE} · spikes; {html.escape(_entries(self))}"
            f'<div style="overflow-x:auto"><table style="border-collapse:collapse"><thead><tr>{heads}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
            + (f"<b>Not read</b><ul>{refused}</ul>" if refused else "")
            + "</div>"
        )


def board(folder: str | os.PathLike[str] = "challenge", *, references: bool = True, salt: str = task.SALT) -> Board:
    """Read all entries (``*.json``) of ``folder``; one that is not there yet is an empty board.

    Files that are damaged or something else are listed with the reason, and are left as they are. So are entries that
    were scored with another salt: their scores don't compare.

    Args:
        folder: where ``submit`` put them.
        references: whether networks of the kit stand among them (scored with the same ``salt``).
        salt: the one that the entries must have been scored with.

    Raises:
        ValueError: ``folder`` is something else than a folder.
    """
    place = Path(folder).expanduser()
    if place.exists() and not place.is_dir():
        raise ValueError(f"folder must be a folder of entries, but {str(folder)!r} is none")
    mark = task.mark(salt)
    entries, refused = [], []
    for path in sorted(place.glob("*.json")):
        try:
            entry = read(path)
            if entry.mark != mark:
                raise ValueError(f"scored on other samples (mark {entry.mark}, not {mark})")
            entries.append(entry)
        except ValueError as error:
            refused.append((plain(path.name), str(error)))
        except OSError as error:
            refused.append((plain(path.name), error.strerror or type(error).__name__))
    entries.sort(key=lambda entry: (-entry.score, entry.when))
    shown: tuple[Entry, ...] = ()
    if references:
        from .references import SHOWN, reference_entry

        shown = tuple(reference_entry(name, salt) for name in SHOWN)
    return Board(str(place), tuple(entries), shown, tuple(refused))


def _entries(board: Board) -> str:
    count, people = len(board.entries), len(board.best())
    if not count:
        return "no entry yet"
    return f"{count} {'entry' if count == 1 else 'entries'} of {people} {'name' if people == 1 else 'names'}"
