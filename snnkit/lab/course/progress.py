"""The learner's progress, in one small JSON file: results, scorecards, and the file to hand in.

The file is $SNNKIT_PROGRESS, or ``progress.json`` in the user's cache folder; a headless run writes only where
$SNNKIT_PROGRESS says. Every change reads the file, changes one entry and replaces the file in one step, so that two
open notebooks do not undo each other's entries. A lock lets only one thread of a kernel change it at a time.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import snnkit
from snnkit import checks, files, tables
from snnkit.lab.course import card, exercise as registry, order, question
from snnkit.lab.course.card import Card, Line
from snnkit.lab.course.question import SURE
from snnkit.lab.viz.frontend import darken_drawings, headless

FORMAT = 3  # of the progress file and of an export; formats 1 and 2 have the keys of the first edition
EXPORT = "snnkit progress"
NAME_LENGTH = 60  # characters of a learner's name
_RANK = {"to do": 0, "failed": 1, "passed": 2}
_SIGNS = {"passed": "✓", "solution": "✓", "failed": "✗", "to do": "○"}
_SIGNS |= {"right": "✓", "wrong": "✗", "locked": "·", "skipped": "–", "to make": "○"}

# --- the file ---------------------------------------------------------------------------------------------------------


def default_path() -> Path | None:
    """Where progress is saved, or None when it stays in memory only."""
    named = os.environ.get("SNNKIT_PROGRESS")
    if headless() and not named:
        return None
    try:
        return files.expanded(named) if named else files.user_cache() / "progress.json"
    except FileNotFoundError as error:
        _warn_of_memory(error.filename, error)
        return None


class Progress:
    """Results and locked predictions by key, quiz answers by notebook. With ``path=None`` nothing is written."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._data: dict[str, Any] = {"format": FORMAT, "exercises": {}, "quiz": {}, "predictions": {}, "skipped": []}
        self._lock = threading.RLock()
        self._read()

    def exercise(self, key: str) -> dict[str, Any]:
        """{"status", "attempts", "hints", "solution", "when", "failed"}: "to do" and zeros before the first attempt.

        "failed" counts, by the name of the check, how many attempts have failed at it.
        """
        fresh = {"status": "to do", "attempts": 0, "hints": 0, "solution": False, "when": "", "failed": {}}
        return fresh | self._data["exercises"].get(key, {})

    def quiz(self, notebook: str, questions: int) -> list[bool | None]:
        """For each question: True (right), False (wrong) or None (not answered yet)."""
        known = self._data["quiz"].get(notebook, [])
        return [*known, *[None] * questions][:questions]

    def attempted(self, key: str, status: str, check: str = "") -> None:
        """Note an attempt, and the ``check`` that it failed at. An exercise that has passed stays passed."""
        with self._changing_exercise(key) as entry:
            entry["attempts"] += 1
            entry["status"] = max(entry["status"], status, key=_RANK.__getitem__)
            if check:
                entry["failed"] = entry["failed"] | {check: entry["failed"].get(check, 0) + 1}

    def hinted(self, key: str, opened: int) -> None:
        with self._changing_exercise(key) as entry:
            entry["hints"] = max(entry["hints"], opened)

    def revealed(self, key: str) -> None:
        with self._changing_exercise(key) as entry:
            entry["solution"] = True

    def answered(self, notebook: str, index: int, right: bool, questions: int) -> None:
        with self._changing() as data:
            marks = self.quiz(notebook, questions)
            marks[index] = right
            data["quiz"][notebook] = marks

    def predictions(self) -> dict[str, dict[str, Any]]:
        """Key to {"guess", "sure", "right", "when"} of each locked prediction; "right" is None until the outcome."""
        return self._data["predictions"]

    def locked(self, key: str, guess: Any, sure: int, *, again: bool = False) -> None:
        """Note a prediction. A locked one stays as it is, unless ``again``."""
        with self._changing() as data:
            if again or key not in data["predictions"]:
                data["predictions"][key] = {"guess": guess, "sure": sure, "right": None, "when": _now()}

    def skipped(self) -> list[str]:
        """The keys of predictions that the learner did not want to make."""
        return self._data["skipped"]

    def skip(self, key: str) -> None:
        """Note that the learner wants to see the result of a prediction without a guess."""
        with self._changing() as data:
            if key not in data["skipped"]:
                data["skipped"].append(key)

    def judged(self, key: str, right: bool) -> None:
        """Note whether a locked prediction was right. The first outcome counts."""
        with self._changing() as data:
            entry = data["predictions"].get(key)
            if entry is not None and entry["right"] is None:
                entry["right"] = right

    @contextlib.contextmanager
    def _changing_exercise(self, key: str) -> Iterator[dict[str, Any]]:
        with self._changing() as data:
            entry = self.exercise(key)
            yield entry
            data["exercises"][key] = entry | {"when": _now()}

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """What the file holds now, and what it will hold when the block ends."""
        with self._lock:
            self._read()
            yield self._data
            self._write()

    def _read(self) -> None:
        if self.path is None or not self.path.is_file():
            return
        with contextlib.suppress(OSError):  # if it cannot be read, the entries in memory remain
            try:
                self._data = _checked(json.loads(self.path.read_text(encoding="utf-8")))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                damaged = self.path.with_suffix(".damaged.json")
                os.replace(self.path, damaged)
                warnings.warn(f"The progress file {self.path} was damaged; it is now {damaged.name}.", stacklevel=4)

    def _write(self) -> None:
        if self.path is None:
            return
        try:
            files.write_text(self.path, json.dumps(self._data, indent=1))
        except OSError as error:
            _warn_of_memory(self.path, error)
            self.path = None


def _warn_of_memory(path: str | Path, error: OSError) -> None:
    warnings.warn(
        f"Progress cannot be saved in {path} ({error}); it lasts until the kernel stops. "
        "Set SNNKIT_PROGRESS to a file that can be written.",
        stacklevel=5,
    )


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _checked(data: Any) -> dict[str, Any]:
    """``data`` if it has the form that ``Progress`` writes, else ValueError."""
    if not isinstance(data, dict) or data.get("format") not in range(1, FORMAT + 1):
        raise ValueError("not a progress file")
    for entry in data["exercises"].values():
        check_entry(entry)
    for marks in data["quiz"].values():
        check_marks(marks)
    for entry in data.setdefault("predictions", {}).values():  # older files have none
        check_prediction(entry)
        json.dumps(entry["guess"], allow_nan=False)
    skipped = data.setdefault("skipped", [])
    if not isinstance(skipped, list) or not all(isinstance(key, str) for key in skipped):
        raise ValueError("skipped predictions without a key")
    today = naming(data["format"])
    exercises: dict[str, Any] = {}
    for key, entry in data["exercises"].items():  # by an old key and by today's: the better result counts
        exercises[today(key)] = max(entry, exercises.get(today(key), entry), key=lambda one: _RANK[one["status"]])
    data |= {part: {today(key): value for key, value in data[part].items()} for part in ("quiz", "predictions")}
    for notebook, index in order.NEW_QUESTIONS.items() if data["format"] < 3 else ():
        data["quiz"].get(notebook, [])[index : index + 1] = [None]
    data |= {"exercises": exercises, "skipped": [today(key) for key in skipped], "format": FORMAT}
    return data


def naming(form: int) -> Callable[[str], str]:
    """What turns a key of a file of this format into the one that it has today."""
    return {1: order.named_in_format_1, 2: order.named_in_format_2}.get(form, str)


def check_entry(entry: Any) -> None:
    """ValueError unless ``entry`` is an exercise as ``Progress.exercise`` gives it (older ones have no "failed")."""
    status, failed = entry.get("status"), entry.get("failed", {})
    counts = [entry.get("attempts"), entry.get("hints"), *failed.values()]
    if status not in list(_RANK) or not all(type(count) is int and 0 <= count < 10**9 for count in counts):
        raise ValueError("an exercise without a status, or without counts")


def check_marks(marks: Any) -> None:
    """ValueError unless ``marks`` is a list of True, False and None."""
    if not isinstance(marks, list) or not all(mark is None or isinstance(mark, bool) for mark in marks):
        raise ValueError("quiz marks are not booleans")


def check_prediction(entry: Any) -> None:
    """ValueError unless ``entry`` says how sure a learner was, and whether the guess was right."""
    if entry["sure"] not in SURE or entry["right"] not in (None, True, False):
        raise ValueError("a prediction without how sure, or without right")


def check_name(name: Any) -> str:
    """``name``, if a learner can have it, else ValueError."""
    if not isinstance(name, str) or len(name) > NAME_LENGTH or not name.isprintable() or not name.strip():
        raise ValueError(f"name must be one line of 1 to {NAME_LENGTH} characters, but it is {checks.shown(name)}")
    return name


# --- this kernel ------------------------------------------------------------------------------------------------------


@dataclass
class Session:
    progress: Progress
    solving: bool = False
    opened: dict[str, int] = field(default_factory=dict)
    solved: set[str] = field(default_factory=set)
    outcomes: dict[str, Any] = field(default_factory=dict)  # of predictions, as ``question.truth`` gives them
    line: str | None = None  # from pages to ``predictions.receive``
    waiting: list[str] = field(default_factory=list)  # predictions whose outcome has not come
    gated: bool = False  # whether the cell that runs began with a gate
    gates: dict[str, list[str]] = field(default_factory=dict)  # cells, and the predictions that they wait for
    scorecards: set[str] = field(default_factory=set)  # notebooks whose scorecard is on a page
    lock: threading.RLock = field(default_factory=threading.RLock)  # buttons may have a thread of their own


_session: Session | None = None


def current() -> Session:
    """The running session, made at its first use: importing the course touches no file."""
    global _session
    if _session is None:
        _session = Session(Progress(default_path()))
    return _session


@checks.arguments
def start(notebook: str, *, solve: bool = False) -> None:
    """Begin a notebook ("encodings"): load the progress file, close the opened hints, adapt drawings to a dark page.

    With ``solve=True`` the references are used: ``attempt`` checks and returns them, and records nothing. ValueError
    for a notebook that has no exercises.
    """
    registry.exercises(notebook)  # raises where there are none
    global _session
    scorecards = _session.scorecards if _session else set()
    _session = Session(Progress(default_path()), solving=solve, scorecards=scorecards)
    darken_drawings()


def record(key: str) -> dict[str, Any] | None:
    """The learner's locked prediction, if it still fits the question; for a skipped one, a record without a guess."""
    made = current().progress
    entry = made.predictions().get(key)
    if entry is not None and question.is_guess(question.find(key), entry["guess"]):
        return entry
    return {"guess": None, "sure": None, "right": None, "when": ""} if key in made.skipped() else None


# --- the scorecard ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExerciseScore:
    """One row: ``status`` is "passed", "failed", "to do" or (solve mode) "solution"."""

    key: str
    title: str
    status: str
    attempts: int
    hints: int
    solution_seen: bool
    optional: bool = False

    def __str__(self) -> str:
        notes = [self.status]
        notes += [tables.count_of(n, noun) for n, noun in ((self.attempts, "attempt"), (self.hints, "hint")) if n]
        notes += ["solution seen"] * self.solution_seen + ["optional"] * self.optional
        mark = "" if self.title.endswith("?") else ":"
        return f"{_SIGNS[self.status]} {order.label(self.key)} {self.title}{mark} {', '.join(notes)}"


@dataclass(frozen=True)
class Scorecard:
    """A learner's results in one notebook. As a cell's last line it is shown as a table that stays up to date."""

    notebook: str
    exercises: tuple[ExerciseScore, ...]
    quiz: tuple[bool | None, ...]
    predictions: tuple[str, ...]  #: each "right", "wrong", "locked" (without an outcome yet), "skipped" or "to make"
    calibration: tuple[str, ...]  #: for each level that was chosen in any notebook: "90 % sure: right 5 of 6 times"

    @property
    def required(self) -> list[ExerciseScore]:
        """The exercises that are not optional."""
        return [row for row in self.exercises if not row.optional]

    @property
    def passed(self) -> int:
        """How many of the required exercises the learner has passed. Solve mode does not count."""
        return sum(row.status == "passed" for row in self.required)

    def card(self) -> Card:
        lines = [Line(str(row)) for row in self.exercises]
        if self.predictions:
            marks = " ".join(_SIGNS[status] for status in self.predictions)
            made = sum(status not in ("skipped", "to make") for status in self.predictions)
            tally = f"({made} of {len(self.predictions)} made, {self.predictions.count('right')} right)"
            lines.append(Line(f"{marks}  {tally}", label="Predictions"))
        if self.calibration:
            lines.append(Line("; ".join(self.calibration), label="How sure, in all notebooks"))
        marks = " ".join({True: "✓", False: "✗", None: "○"}[mark] for mark in self.quiz)
        lines.append(Line(f"{marks}  ({self.quiz.count(True)} of {len(self.quiz)} right)", label="Quiz"))
        required = self.required
        solved = sum(row.status == "solution" for row in required)
        word = f"{self.passed} of {len(required)} exercises passed" + (f", {solved} solved" if solved else "")
        title = f"Notebook {order.titled(self.notebook)}"
        return Card("good" if self.passed + solved == len(required) else "open", title, word, lines)

    def __repr__(self) -> str:
        return self.card().text()

    def _repr_html_(self) -> str:
        current().scorecards.add(self.notebook)
        return card.page("scorecardPage", {"notebook": self.notebook}, self.card().html(), plain=True)


@checks.arguments
def scorecard(notebook: str) -> Scorecard:
    """The learner's scorecard of a notebook ("encodings"). ValueError if it has no exercises."""
    now, notebook = current(), order.named(notebook)
    rows = []
    for exercise in registry.exercises(notebook):
        entry = now.progress.exercise(exercise.key)
        status = "solution" if now.solving and exercise.key in now.solved else entry["status"]
        seen = bool(entry["solution"])
        counts = entry["attempts"], entry["hints"]
        rows.append(ExerciseScore(exercise.key, exercise.title, status, *counts, seen, exercise.optional))
    marks = now.progress.quiz(notebook, len(registry.questions(notebook)))
    made = now.progress.predictions()
    statuses = [
        {None: "locked", True: "right", False: "wrong"}[made[key]["right"]]
        if key in made
        else ("skipped" if key in now.progress.skipped() else "to make")
        for key in question.read(notebook)["predictions"]
    ]
    return Scorecard(notebook, tuple(rows), tuple(marks), tuple(statuses), tuple(calibration(made.values())))


def news(notebook: str) -> dict[str, Any]:
    """For pages: the current scorecard of a notebook, if one is on a page."""
    shown = notebook in current().scorecards
    return {"scorecards": {notebook: scorecard(notebook).card().html()}} if shown else {}


def tell(notebook: str) -> None:
    """Bring a scorecard that is on a page up to date."""
    if fresh := news(notebook):
        card.tell(fresh)


def calibration(predictions: Iterable[Mapping[str, Any]]) -> list[str]:
    """For each chosen level of sureness with known outcomes: "90 % sure: right 5 of 6 times"."""
    known = [(entry["sure"], entry["right"]) for entry in predictions if entry["right"] is not None]
    counts = {sure: [right for level, right in known if level == sure] for sure in SURE}
    return [f"{sure} % sure: right {sum(n)} of {len(n)} times" for sure, n in counts.items() if n]


# --- handing in -------------------------------------------------------------------------------------------------------


@checks.arguments
def export(path: str | os.PathLike[str], name: str = "") -> Path:
    """Write the progress in all notebooks to ``path`` (JSON), and return the path.

    The file holds only the name, results, attempts, hints, which checks failed, quiz marks, how sure and right
    predictions were, dates, and the kit's version. It holds no answers. ``course.room(folder)`` shows such files.
    ``name``, one line of text, is the learner's name or nickname. Default: the file's name without its ending.
    """
    target = files.expanded(path)
    name = check_name(name or target.stem)
    progress = current().progress
    notebooks = {}
    for notebook in registry.notebooks():
        exercises = registry.exercises(notebook)
        rows = [{"key": one.key, "title": one.title} | progress.exercise(one.key) for one in exercises]
        made = sorted((key, one) for key, one in progress.predictions().items() if order.notebook_of(key) == notebook)
        predictions = [{"key": key, "sure": one["sure"], "right": one["right"]} for key, one in made]
        quiz = progress.quiz(notebook, len(registry.questions(notebook)))
        notebooks[notebook] = {"exercises": rows, "quiz": quiz, "predictions": predictions}
    content = {"kind": EXPORT, "format": FORMAT, "kit": snnkit.__version__, "name": name, "when": _now()}
    content |= {"notebooks": notebooks}
    files.write_text(target, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return target
