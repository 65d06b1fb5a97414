"""The instructor's view of a folder of exported progress: who is where, who is stuck, and what the room fails at.

The files come from anywhere: every field is checked, and nothing in them is trusted.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from snnkit import files, tables

from . import progress

LARGEST = 1 << 20  # bytes of a file; an export has about 20 kB
STUCK = 4  # attempts at an exercise that is not passed, from which on help is due
SHOWN = 10  # rows of "who is stuck" and of "what fails most"

# --- one learner ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """One exercise of one learner. ``failed``: name of a check -> how many attempts failed at it."""

    key: str
    title: str
    status: str
    attempts: int
    hints: int
    solution: bool
    failed: dict[str, int]

    @property
    def passed(self) -> bool:
        return self.status == "passed"


@dataclass(frozen=True)
class Work:
    """One notebook of one learner."""

    exercises: tuple[Entry, ...]
    quiz: tuple[bool | None, ...]

    @property
    def touched(self) -> bool:
        tried = any(one.attempts or one.hints or one.solution or one.status != "to do" for one in self.exercises)
        return tried or any(mark is not None for mark in self.quiz)


@dataclass(frozen=True)
class Learner:
    """One file: who, when it was written, and the work by notebook."""

    name: str
    file: str
    when: datetime | None
    notebooks: dict[str, Work]


def read_learner(path: Path) -> Learner:
    """The learner of a file that ``course.export`` or ``Scorecard.save`` wrote.

    Raises:
        ValueError: it is something else, or damaged; the text says what.
        OSError: it cannot be read.
    """
    data = files.small_json(path, LARGEST)
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind not in (progress.EXPORT, progress.SCORECARD):
        raise ValueError("neither an exported progress nor a scorecard")
    if data.get("format") != progress.FORMAT:
        raise ValueError(f"format must be {progress.FORMAT}, but it is {plain(data.get('format'))}: another version?")
    try:
        if kind == progress.SCORECARD:
            return Learner(plain(path.stem), plain(path.name), None, {_number(data["notebook"]): _work(data)})
        notebooks = {_number(number): _work(work) for number, work in data["notebooks"].items()}
        return Learner(plain(data["name"] or path.stem), plain(path.name), _date(data["when"]), notebooks)
    except KeyError as error:
        raise ValueError(f"damaged: {plain(error.args[0])} is missing") from None
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"damaged: {plain(error)}") from None


def plain(value: Any, limit: int = progress.NAME_LENGTH) -> str:
    """One line that is safe on a terminal and in a table: without control characters, cut to ``limit``."""
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(value)[: limit + 1])
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _number(value: Any) -> str:
    if not (isinstance(value, str) and len(value) == 2 and value.isascii() and value.isdigit()):
        raise ValueError("a notebook without a number")
    return value


def _work(data: dict[str, Any]) -> Work:
    rows = data["exercises"]
    if not isinstance(rows, list):
        raise ValueError("exercises that are no list")
    progress.check_marks(data["quiz"])
    return Work(tuple(map(_entry, rows)), tuple(data["quiz"]))


def _entry(row: Any) -> Entry:
    row = dict(row)
    if row.get("status") == "solution":  # of a scorecard in solve mode: no one's work
        row["status"] = "to do"
    progress.check_entry(row)
    seen = row.get("solution", row.get("solution_seen", False))
    failed = {plain(check, 80): times for check, times in row.get("failed", {}).items()}
    key, title = plain(row["key"]), plain(row["title"], 80)
    return Entry(key, title, row["status"], row["attempts"], row["hints"], seen is True, failed)


def _date(text: Any) -> datetime:
    return datetime.fromisoformat(text).astimezone()


# --- the room ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stuck:
    """A learner with many attempts at an exercise that is not passed, and the check that failed most often."""

    learner: str
    entry: Entry
    check: str


@dataclass(frozen=True)
class Hurdle:
    """The check of an exercise at which most learners failed: ``failed`` of the ``tried`` that attempted it."""

    key: str
    title: str
    check: str
    failed: int
    tried: int


@dataclass(frozen=True)
class Room:
    """All files of a folder. Shown as a table when it is a cell's last line; ``html()`` gives a page.

    Args:
        folder: where the files are.
        learners: one for each file, by name.
        refused: (file, why) of each that is no progress of a learner.
    """

    folder: str
    learners: tuple[Learner, ...]
    refused: tuple[tuple[str, str], ...]

    @property
    def notebooks(self) -> list[str]:
        """The notebooks with any work."""
        return sorted({n for learner in self.learners for n, work in learner.notebooks.items() if work.touched})

    def done(self, learner: Learner) -> tuple[int, int]:
        """How many exercises of ``notebooks`` the learner has passed, and of how many."""
        rows = [row for n in self.notebooks if n in learner.notebooks for row in learner.notebooks[n].exercises]
        return sum(row.passed for row in rows), len(rows)

    def label(self, learner: Learner) -> str:
        """The learner's name, with the file where two have the same."""
        namesakes = sum(one.name.casefold() == learner.name.casefold() for one in self.learners)
        return f"{learner.name} ({learner.file})" if namesakes > 1 else learner.name

    def stuck(self) -> list[Stuck]:
        """Who needs help, most attempts first."""
        result = []
        for learner in self.learners:
            for work in learner.notebooks.values():
                for row in work.exercises:
                    if not row.passed and row.attempts >= STUCK:
                        check = max(row.failed, key=row.failed.__getitem__, default="")
                        result.append(Stuck(self.label(learner), row, check))
        return sorted(result, key=lambda stuck: -stuck.entry.attempts)

    def hurdles(self) -> list[Hurdle]:
        """For each exercise with failures, its hardest check; the one that most learners failed at first."""
        tried: Counter[str] = Counter()
        learners: dict[str, Counter[str]] = {}
        attempts: dict[str, Counter[str]] = {}
        titles: dict[str, str] = {}
        for learner in self.learners:
            for row in (row for work in learner.notebooks.values() for row in work.exercises):
                tried[row.key] += row.attempts > 0
                titles.setdefault(row.key, row.title)
                learners.setdefault(row.key, Counter()).update(check for check, times in row.failed.items() if times)
                attempts.setdefault(row.key, Counter()).update(row.failed)
        result = []
        for key, counts in learners.items():
            if counts:
                check = max(counts, key=lambda name: (counts[name], attempts[key][name]))
                result.append(Hurdle(key, titles[key], check, counts[check], max(tried[key], counts[check])))
        return sorted(result, key=lambda hurdle: (-hurdle.failed, hurdle.key))

    def html(self) -> str:
        """A complete page for a browser."""
        return _page(self, whole=True)

    def __repr__(self) -> str:
        return _text(self)

    def _repr_html_(self) -> str:
        return _page(self, whole=False)


def room(folder: str | os.PathLike[str]) -> Room:
    """The progress of all learners whose file (``course.export`` or ``Scorecard.save`` wrote it) is in ``folder``.

    Files that are damaged or something else are listed, with the reason, and stop nothing.

    Raises:
        ValueError: ``folder`` is no folder.
    """
    place = Path(folder).expanduser()
    if not place.is_dir():
        raise ValueError(f"folder must be a folder of exported progress, but it is {str(folder)!r}")
    learners, refused = [], []
    for path in sorted(place.glob("*.json")):
        try:
            learners.append(read_learner(path))
        except ValueError as error:
            refused.append((plain(path.name), str(error)))
        except OSError as error:
            refused.append((plain(path.name), error.strerror or type(error).__name__))
    learners.sort(key=lambda learner: (learner.name.casefold(), learner.file))
    return Room(str(place), tuple(learners), tuple(refused))


# --- as text and as HTML ----------------------------------------------------------------------------------------------


def _summary(room: Room) -> str:
    if not room.learners:
        return "no learner's file yet: each runs `course.export(…)` and puts the file here"
    passed, of = (sum(numbers) for numbers in zip(*map(room.done, room.learners), strict=True))
    progressed = f"{passed} of {of} exercises passed ({passed / of:.0%})" if of else "nothing done yet"
    return f"{_count(len(room.learners), 'learner')}, {progressed}"


def _lists(room: Room) -> list[tuple[str, list[str]]]:
    """(title, sentences): who needs help, what fails most, which files were not read."""
    stuck, hurdles = room.stuck(), room.hurdles()
    stuck_lines = [
        f"{one.learner}: {one.entry.key} {one.entry.title}, {one.entry.attempts} attempts, "
        f"{_count(one.entry.hints, 'hint')}" + (f", mostly fails at “{one.check}”" if one.check else "")
        for one in stuck[:SHOWN]
    ]
    hurdle_lines = [
        f"{one.key} {one.title}: {one.failed} of {_count(one.tried, 'learner')} failed at “{one.check}”"
        for one in hurdles[:SHOWN]
    ]
    refused = [f"{file}: {reason}" for file, reason in room.refused]
    lists = [
        ("Stuck", stuck_lines + _more(len(stuck))),
        ("Failed most", hurdle_lines + _more(len(hurdles))),
        ("Not read", refused),
    ]
    return [(title, lines) for title, lines in lists if lines]


def _text(room: Room) -> str:
    lines = [f"Room {room.folder}: {_summary(room)}"]
    if room.learners:
        rows = [
            [room.label(one), *(_bar(*_passed(one, n)) for n in room.notebooks), _quiz(room, one), _when(one)]
            for one in room.learners
        ]
        head = ["learner", *room.notebooks, "quiz", "exported"]
        lines += ["", *tables.text_table(head, rows, left=len(head), always=len(head))]
    for title, sentences in _lists(room):
        lines += ["", title, *(f"  {sentence}" for sentence in sentences)]
    return "\n".join(lines)


# Each bar has its numbers, so that nothing depends on colour alone; styles are inline, as a notebook may drop a sheet.
_TEMPLATE = """\
{%- set cell = "padding:.3em .7em;text-align:left;white-space:nowrap;border-bottom:1px solid rgba(127,127,127,.25)" -%}
{%- if whole -%}
<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>snnkit: the room</title>
<style>body{font-family:system-ui,sans-serif;margin:1.5em;max-width:80em}:root{color-scheme:light dark}</style>
</head><body>
{%- endif %}
<div class="snnkit-room" style="line-height:1.45"><div><b>Room {{ room.folder }}</b> · {{ summary }}</div>
{%- if room.learners %}
<div style="overflow-x:auto"><table style="border-collapse:collapse"><thead><tr>
{%- for word in ["learner"] + room.notebooks + ["quiz", "exported"] %}<th scope="col" style="{{ cell }}">{{ word }}</th>
{%- endfor %}</tr></thead><tbody>
{%- for name, bars, quiz, when in rows %}
<tr><th scope="row" style="{{ cell }};font-weight:600">{{ name }}</th>
{%- for passed, of in bars %}<td style="{{ cell }}">
{%- if of %}<span aria-hidden="true" style="display:inline-block;width:4.5em;height:.7em;\
background:rgba(127,127,127,.25);\
border-radius:2px;margin-right:.5em"><span style="display:block;width:{{ (100 * passed / of) | round | int }}%;\
height:100%;background:#009E73;border-radius:2px"></span></span>{{ passed }}/{{ of }}{% else %}–{% endif %}</td>
{%- endfor %}<td style="{{ cell }}">{{ quiz }}</td><td style="{{ cell }}">{{ when }}</td></tr>
{%- endfor %}</tbody></table></div>
{%- endif %}
{%- for title, sentences in lists %}
<p style="margin:.8em 0 .2em"><b>{{ title }}</b></p><ul style="margin:0 0 0 1.2em;padding:0">
{%- for sentence in sentences %}<li>{{ sentence }}</li>{% endfor %}</ul>
{%- endfor %}</div>
{%- if whole %}</body></html>
{% endif %}"""


def _page(room: Room, *, whole: bool) -> str:
    """The tables as HTML; ``whole``: a page for a browser, light or dark as the reader has it."""
    import jinja2

    rows = [
        (room.label(one), [_passed(one, n) for n in room.notebooks], _quiz(room, one), _when(one))
        for one in room.learners
    ]
    template = jinja2.Environment(autoescape=True, keep_trailing_newline=True).from_string(_TEMPLATE)
    return template.render(room=room, rows=rows, summary=_summary(room), lists=_lists(room), whole=whole)


def _passed(learner: Learner, notebook: str) -> tuple[int, int]:
    work = learner.notebooks.get(notebook)
    return (sum(row.passed for row in work.exercises), len(work.exercises)) if work else (0, 0)


def _bar(passed: int, of: int, width: int = 8) -> str:
    if not of:
        return "–"
    full = passed * width // of
    return f"{'█' * full}{'░' * (width - full)} {passed}/{of}"


def _quiz(room: Room, learner: Learner) -> str:
    marks = [m for n in room.notebooks if n in learner.notebooks for m in learner.notebooks[n].quiz]
    return f"{sum(m is True for m in marks)}/{len(marks)}" if marks else "–"


def _when(learner: Learner) -> str:
    return f"{learner.when:%d %b %H:%M}" if learner.when else "–"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _more(total: int) -> list[str]:
    return [f"… and {total - SHOWN} more"] if total > SHOWN else []
