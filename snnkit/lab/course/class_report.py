"""The instructor's view of a folder of exported progress: where each learner is, who is stuck, which checks fail most.

The files may come from anywhere, so every field is checked.
"""

from __future__ import annotations

import functools
import html
import os
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from snnkit import checks, files, tables
from snnkit.lab.course import exercise, order, progress, question, survey
from snnkit.tables import count_of, one_line

LARGEST = 1 << 20  # bytes of a file; an export has about 20 kB
STUCK = 4  # so many attempts at an exercise, and none that passed: this learner needs help
SHOWN = 10  # rows of "who is stuck" and of "what fails most"
NAMED = 5  # of what a file has and this kit has not


class Entry(NamedTuple):
    """One exercise of one learner. ``failed``: name of a check -> how many attempts failed at it."""

    key: str
    title: str
    status: str
    attempts: int
    hints: int
    failed: dict[str, int]
    optional: bool = False


@dataclass(frozen=True)
class Learner:
    """One file: who, when it was written, exercises and quiz marks by notebook, and all predictions."""

    name: str
    file: str
    when: datetime
    exercises: dict[str, list[Entry]]
    quiz: dict[str, list[bool | None]]
    predictions: list[dict[str, Any]]  #: each with "sure" and "right", as ``progress.calibration`` takes them
    unknown: str  #: what the file has and this kit has not, in words; it does not count

    @property
    def identity(self) -> str:
        """Equal for names that differ in case, spaces, or the way accents are stored only."""
        return " ".join(unicodedata.normalize("NFKC", self.name).casefold().split())

    def attempts(self) -> Counter[str]:
        """Attempts by exercise."""
        return Counter({row.key: row.attempts for rows in self.exercises.values() for row in rows})

    def passed(self, notebook: str) -> tuple[int, int]:
        """How many exercises of a notebook are passed, and how many there are, without the optional ones."""
        rows = [row for row in self.exercises.get(notebook, []) if not row.optional]
        return sum(row.status == "passed" for row in rows), len(rows)


def learner_of(data: Any, path: Path) -> Learner:
    """The learner of what a file of ``course.export`` holds; ValueError with the reason for anything else."""
    kind, form = (data.get("kind"), data.get("format")) if isinstance(data, dict) else (None, None)
    if kind != progress.EXPORT or form not in range(1, progress.FORMAT + 1):
        raise ValueError(f"no exported progress of format {progress.FORMAT}")
    try:
        when = datetime.fromisoformat(data["when"]).astimezone()
        today = progress.naming(data["format"])
        rows: dict[str, Entry] = {}
        made, marks, unknown = {}, {}, []
        for name, work in data["notebooks"].items():
            if today(name) not in _known() and not order.is_of_the_past(today(name)):
                unknown.append(f"notebook {name}")
                continue
            rows |= {today(row["key"]): _entry(row) for row in work["exercises"]}
            made |= {today(one["key"]): one for one in work.get("predictions", [])}  # older files have none
            marks[today(name)] = work["quiz"]
            progress.check_marks(work["quiz"])
        for one in made.values():
            progress.check_prediction(one)
        exercises, quiz, predictions = {}, {}, []
        worked = {order.notebook_of(key) for key in (*rows, *made)} | marks.keys()
        for name in (name for name in _known() if name in worked):
            own, known, questions = _known()[name]
            # A file of an older kit may have fewer exercises; learners are compared by those of this one.
            exercises[name] = [
                rows.get(one.key, Entry(one.key, "", "to do", 0, 0, {}))._replace(
                    key=one.key, title=one.title, optional=one.optional
                )
                for one in own
            ]
            quiz[name] = marks.get(name, [])[:questions]
            predictions += [{"sure": one["sure"], "right": one["right"]} for key, one in made.items() if key in known]
        every = {key for own, known, _ in _known().values() for key in (*(one.key for one in own), *known)}
        unknown += [key for key in (*rows, *made) if key not in every]
        learner = progress.check_name(data["name"])
        return Learner(learner, one_line(path.name), when, exercises, quiz, predictions, _listed(unknown))
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"damaged: {one_line(error, 120)}") from None


@functools.cache
def _known() -> dict[str, tuple[list[exercise.Exercise], set[str], int]]:
    """Of each notebook: its exercises, keys of predictions, and the number of quiz questions."""
    prompts = {name: question.read(name) for name in exercise.notebooks()}
    return {
        name: (exercise.exercises(name), set(page["predictions"]), len(page["quiz"])) for name, page in prompts.items()
    }


def _entry(row: dict[str, Any]) -> Entry:
    progress.check_entry(row)
    failed = {one_line(check): times for check, times in row.get("failed", {}).items()}
    return Entry(row["key"], "", row["status"], row["attempts"], row["hints"], failed)


def _listed(keys: Sequence[object]) -> str:
    """Some of the keys, and how many more there are."""
    more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
    return ", ".join(one_line(key, 20) for key in keys[:NAMED]) + more


# --- the room ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Room:
    """All files of a folder. Shown as a table when it is a cell's last line; ``html()`` gives a page."""

    folder: str
    learners: tuple[Learner, ...]  #: by name; of several files of one name the latest counts
    refused: tuple[tuple[str, str], ...]  #: (file, reason) of each file that is not a learner's progress
    earlier: tuple[tuple[str, str], ...]  #: (file, what took its place) of each file that is not a learner's latest
    surveys: tuple[tuple[str, Mapping[str, int | str]], ...] = ()  #: ("before" or "after", answers), without names

    @property
    def notebooks(self) -> list[str]:
        """The notebooks with any work."""
        worked = {
            notebook
            for learner in self.learners
            for notebook, rows in learner.exercises.items()
            if any(row.attempts or row.hints for row in rows) or any(m is not None for m in learner.quiz[notebook])
        }
        return sorted(worked, key=order.label)

    def _entries(self) -> Iterator[tuple[Learner, Entry]]:
        for learner in self.learners:
            for rows in learner.exercises.values():
                yield from ((learner, row) for row in rows)

    def stuck(self) -> list[str]:
        """Who needs help with which exercise, and the check that failed most often; most attempts first."""
        stuck = [(one, row) for one, row in self._entries() if row.status != "passed" and row.attempts >= STUCK]
        sentences = []
        for learner, row in sorted(stuck, key=lambda pair: -pair[1].attempts):
            at = f", mostly fails at “{max(row.failed, key=row.failed.__getitem__)}”" if row.failed else ""
            sentences.append(
                f"{learner.name}: {order.label(row.key)} {row.title}, {row.attempts} attempts, {row.hints} hints{at}"
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
                sentence = f"{order.label(key)} {entries[0].title}: {failed} of {tried} learners failed at “{check}”"
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
            rows.append([one.name, *bars, _share(marks), _share(made), f"{one.when:%d %b %H:%M}"])
        return ["learner", *map(order.label, notebooks), "quiz", "predictions", "exported"], rows

    def _summary(self) -> str:
        if not self.learners:
            return f'Room {self.folder}: no learners yet; each writes a file with course.export("NAME.json")'
        notebooks = self.notebooks
        counts = [learner.passed(n) for learner in self.learners for n in notebooks]
        passed, of = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
        share = f"{passed} of {of} exercises passed ({100 * passed / max(of, 1):.0f}%)"
        return f"Room {self.folder}: {count_of(len(self.learners), 'learner')}, {share}"

    def _lists(self) -> list[tuple[str, list[str]]]:
        """The lists below the table: titles and sentences. Empty lists are left out."""
        refused = [f"{file}: {why}" for file, why in self.refused]
        made = progress.calibration(one for learner in self.learners for one in learner.predictions)
        every = {"Who is stuck": self.stuck(), "What fails most": self.hurdles(), "How sure, and how right": made}
        every["Not the latest of its name"] = [f"{file}: {why}" for file, why in self.earlier]
        unknown = [f"{one.file}: {one.unknown}" for one in self.learners if one.unknown]
        every["Not in this kit, and not counted"] = unknown
        every["Not read"] = refused
        for lines in every.values():
            if len(lines) > SHOWN:
                lines[SHOWN:] = [f"… and {len(lines) - SHOWN} more"]
        every["What the surveys say"] = survey.summed(self.surveys)
        return [(title, lines) for title, lines in every.items() if lines]


@checks.arguments
def room(folder: str | os.PathLike[str]) -> Room:
    """The progress of all learners whose file (``course.export`` wrote it) is in ``folder``, and what surveys say.

    Of several files of one name the latest counts, and the others are listed. So are files that are damaged, or not an
    export, each with the reason. They stop nothing.
    """
    place = files.expanded(folder)
    if not place.is_dir():
        raise ValueError(f"folder must be a folder of exported progress, but it is {str(folder)!r}")
    learners, refused, surveys = [], [], []
    for path in sorted(place.glob("*.json")):
        try:
            data = files.small_json(path, LARGEST)
            if survey.is_survey(data):
                surveys.append(survey.read(data))
            else:
                learners.append(learner_of(data, path))
        except (ValueError, OSError) as error:
            refused.append((one_line(path.name), str(error)))
    learners.sort(key=lambda one: (one.when, one.attempts().total()))
    latest = {one.identity: one for one in learners}
    earlier = [(one.file, _replaced(one, last)) for one in learners if (last := latest[one.identity]) is not one]
    learners = sorted(latest.values(), key=lambda learner: learner.identity)
    return Room(str(place), tuple(learners), tuple(refused), tuple(earlier), tuple(surveys))


def _replaced(one: Learner, last: Learner) -> str:
    """Attempts only become more, so one learner's earlier file has none that the later one lacks."""
    lost = one.attempts() - last.attempts()
    at = _listed(sorted(map(order.label, lost)))
    doubt = f"; but it has attempts at {at} that are not in there: are there two learners?"
    return f"{last.name} has a later one, {last.file}{doubt if lost else ''}"


def _share(marks: Sequence[bool | None]) -> str:
    """How many are right, of those that are known."""
    return f"{marks.count(True)}/{len(marks) - marks.count(None)}"


def _bar(passed: int, of: int, width: int = 8) -> str:
    full = passed * width // max(of, 1)
    return f"{'█' * full}{'░' * (width - full)} {passed}/{of}"
