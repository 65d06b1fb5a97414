"""Read what learners handed in. The files come from anywhere: every field is checked, nothing in them is trusted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from snnkit.files import small_json

from . import exports, scores
from .progress import check_entry, check_marks

LARGEST = 1 << 20  # bytes of a file; an export has about 20 kB


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


def read(path: Path) -> Learner:
    """The learner of a file that ``course.export`` or ``Scorecard.save`` wrote.

    Raises:
        ValueError: it is something else, or damaged; the text says what.
        OSError: it cannot be read.
    """
    data = small_json(path, LARGEST)
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind not in (exports.KIND, scores.KIND):
        raise ValueError("neither an exported progress nor a scorecard")
    known = exports.FORMAT if kind == exports.KIND else scores.FORMAT
    if data.get("format") != known:
        raise ValueError(f"of another version: its format is {plain(data.get('format'))}, known is {known}")
    try:
        if kind == scores.KIND:
            return Learner(plain(path.stem), plain(path.name), None, {_number(data["notebook"]): _work(data)})
        notebooks = {_number(number): _work(work) for number, work in data["notebooks"].items()}
        return Learner(plain(data["name"] or path.stem), plain(path.name), _when(data["when"]), notebooks)
    except KeyError as error:
        raise ValueError(f"damaged: {plain(error.args[0])} is missing") from None
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"damaged: {plain(error)}") from None


def plain(value: Any, limit: int = exports.NAME) -> str:
    """A text that is safe on a terminal and in a table: one line, without control characters, not too long."""
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
    check_marks(data["quiz"])
    return Work(tuple(map(_entry, rows)), tuple(data["quiz"]))


def _entry(row: Any) -> Entry:
    row = dict(row)
    if row.get("status") == "solution":  # of a scorecard in solve mode: nobody's work
        row["status"] = "to do"
    check_entry(row)
    seen = row.get("solution", row.get("solution_seen", False))
    failed = {plain(check, 80): times for check, times in row.get("failed", {}).items()}
    key, title = plain(row["key"]), plain(row["title"], 80)
    return Entry(key, title, row["status"], row["attempts"], row["hints"], seen is True, failed)


def _when(text: Any) -> datetime:
    return datetime.fromisoformat(text).astimezone()
