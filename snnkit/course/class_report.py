"""The instructor's view of a folder of exported progress: where each learner is, who is stuck, which checks fail most.

The files may come from anywhere, so every field is checked.
"""

from __future__ import annotations

import html
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from snnkit import checks, files, tables
from snnkit.tables import one_line

from . import progress

LARGEST = 1 << 20  # bytes of a file; an export has about 20 kB
STUCK = 4  # so many attempts at an exercise, and none that passed: this learner needs help
SHOWN = 10  # rows of "who is stuck" and of "what fails most"


class Entry(NamedTuple):
    """One exercise of one learner. ``failed``: name of a check -> how many attempts failed at it."""

    key: str
    title: str
    status: str
    attempts: int
    hints: int
    failed: dict[str, int]


@dataclass(frozen=True)
class Learner:
    """One file: who, when it was written, exercises and quiz marks by notebook, and all predictions."""

    name: str
    file: str
    when: datetime
    exercises: dict[str, list[Entry]]
    quiz: dict[str, list[bool | None]]
    predictions: list[dict[str, Any]]  #: each with "sure" and "right", as ``progress.calibration`` takes them

    def passed(self, notebook: str) -> tuple[int, int]:
        """How many exercises of a notebook are passed, and how many there are."""
        rows = self.exercises.get(notebook, [])
        return sum(row.status == "passed" for row in rows), len(rows)


def read_learner(path: Path) -> Learner:
    """The learner of a file that ``course.export`` wrote; ValueError with the reason for any other file."""
    data = files.small_json(path, LARGEST)
    if not isinstance(data, dict) or data.get("kind") != progress.EXPORT or data.get("format") != progress.FORMAT:
        raise ValueError(f"no exported progress of format {progress.FORMAT}")
    try:
        when = datetime.fromisoformat(data["when"]).astimezone()
        exercises, quiz, predictions = {}, {}, []
        for number, work in data["notebooks"].items():
            progress.check_marks(work["quiz"])
            exercises[one_line(number, 2)] = [_entry(row) for row in work["exercises"]]
            quiz[one_line(number, 2)] = work["quiz"]
            for made in work.get("predictions", []):  # older files have none
                progress.check_prediction(made)
                predictions.append({"sure": made["sure"], "right": made["right"]})
        return Learner(one_line(data["name"]), one_line(path.name), when, exercises, quiz, predictions)
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"damaged: {one_line(error)}") from None


def _entry(row: dict[str, Any]) -> Entry:
    progress.check_entry(row)
    failed = {one_line(check): times for check, times in row.get("failed", {}).items()}
    return Entry(one_line(row["key"]), one_line(row["title"]), row["status"], row["attempts"], row["hints"], failed)


# --- the room ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Room:
    """All files of a folder. Shown as a table when it is a cell's last line; ``html()`` gives a page."""

    folder: str
    learners: tuple[Learner, ...]  #: one for each file, by name
    refused: tuple[tuple[str, str], ...]  #: (file, reason) of each file that is not a learner's progress

    @property
    def notebooks(self) -> list[str]:
        """The notebooks with any work."""
        worked = {
            notebook
            for learner in self.learners
            for notebook, rows in learner.exercises.items()
            if any(row.attempts or row.hints for row in rows) or any(m is not None for m in learner.quiz[notebook])
        }
        return sorted(worked)

    def _entries(self) -> Iterator[tuple[Learner, Entry]]:
        for learner in self.learners:
            for rows in learner.exercises.values():
                yield from ((learner, row) for row in rows)

    def _label(self, learner: Learner) -> str:
        """The learner's name, with the file where two have the same."""
        namesakes = sum(one.name.casefold() == learner.name.casefold() for one in self.learners)
        return f"{learner.name} ({learner.file})" if namesakes > 1 else learner.name

    def stuck(self) -> list[str]:
        """Who needs help with which exercise, and the check that failed most often; most attempts first."""
        stuck = [(one, row) for one, row in self._entries() if row.status != "passed" and row.attempts >= STUCK]
        sentences = []
        for learner, row in sorted(stuck, key=lambda pair: -pair[1].attempts):
            at = f", mostly fails at “{max(row.failed, key=row.failed.__getitem__)}”" if row.failed else ""
            sentences.append(
                f"{self._label(learner)}: {row.key} {row.title}, {row.attempts} attempts, {row.hints} hints{at}"
            )
        return sentences

    def hurdles(self) -> list[str]:
        """For each exercise with failures, the check that most learners failed at; the hardest first."""
        rows: dict[str, list[Entry]] = {}
        for _, row in self._entries():
            rows.setdefault(row.key, []).append(row)
        sentences = []
        for key, entries in rows.items():
            learners = Counter(check for row in entries for check, times in row.failed.items() if times)
            tried = sum(row.attempts > 0 for row in entries)
            for check, failed in learners.most_common(1):
                sentence = f"{key} {entries[0].title}: {failed} of {tried} learners failed at “{check}”"
                sentences.append((-failed, sentence))
        return [sentence for _, sentence in sorted(sentences)]

    def html(self) -> str:
        """A complete page for a browser."""
        head = '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>snnkit: the room</title>'
        style = "<style>body{font-family:system-ui;color-scheme:light dark}td,th{padding:.3em .7em}</style>"
        return f"{head}{style}</head><body>{self._repr_html_()}</body></html>\n"

    def __repr__(self) -> str:
        head, rows = self._table()
        lines = [self._summary(), "", *tables.text_table(head, rows, left=len(head), always=len(head))]
        for title, sentences in self._lists():
            lines += ["", title, *(f"  {sentence}" for sentence in sentences)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = [f"<p><b>{html.escape(self._summary())}</b></p>", tables.html_table(*self._table())]
        for title, sentences in self._lists():
            items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)
            parts.append(f"<p><b>{title}</b></p><ul>{items}</ul>")
        return "".join(parts)

    def _table(self) -> tuple[list[str], list[list[str]]]:
        notebooks = self.notebooks
        rows = []
        for one in self.learners:
            marks = [mark for marks in one.quiz.values() for mark in marks]
            made = [prediction["right"] for prediction in one.predictions]
            bars = (_bar(*one.passed(n)) for n in notebooks)
            rows.append([self._label(one), *bars, _share(marks), _share(made), f"{one.when:%d %b %H:%M}"])
        return ["learner", *notebooks, "quiz", "predictions", "exported"], rows

    def _summary(self) -> str:
        if not self.learners:
            return f'Room {self.folder}: no learners yet; each writes a file with course.export("NAME.json")'
        counts = [learner.passed(n) for learner in self.learners for n in self.notebooks]
        passed, of = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
        share = f"{passed} of {of} exercises passed ({100 * passed / max(of, 1):.0f}%)"
        return f"Room {self.folder}: {len(self.learners)} learner{'s' * (len(self.learners) > 1)}, {share}"

    def _lists(self) -> list[tuple[str, list[str]]]:
        """The lists below the table: titles and sentences. Empty lists are left out."""
        refused = [f"{file}: {why}" for file, why in self.refused]
        made = progress.calibration(one for learner in self.learners for one in learner.predictions)
        every = {"Who is stuck": self.stuck(), "What fails most": self.hurdles(), "How sure, and how right": made}
        every["Not read"] = refused
        for lines in every.values():
            if len(lines) > SHOWN:
                lines[SHOWN:] = [f"… and {len(lines) - SHOWN} more"]
        return [(title, lines) for title, lines in every.items() if lines]


@checks.arguments
def room(folder: str | os.PathLike[str]) -> Room:
    """The progress of all learners whose file (``course.export`` wrote it) is in ``folder``.

    Files that are damaged, or not an export, are listed with the reason. They stop nothing.
    """
    place = files.expanded(folder)
    if not place.is_dir():
        raise ValueError(f"folder must be a folder of exported progress, but it is {str(folder)!r}")
    learners, refused = [], []
    for path in sorted(place.glob("*.json")):
        try:
            learners.append(read_learner(path))
        except (ValueError, OSError) as error:
            refused.append((one_line(path.name), str(error)))
    learners.sort(key=lambda learner: learner.name.casefold())
    return Room(str(place), tuple(learners), tuple(refused))


def _share(marks: Sequence[bool | None]) -> str:
    """How many are right, of those that are known."""
    return f"{marks.count(True)}/{len(marks) - marks.count(None)}"


def _bar(passed: int, of: int, width: int = 8) -> str:
    full = passed * width // max(of, 1)
    return f"{'█' * full}{'░' * (width - full)} {passed}/{of}"
