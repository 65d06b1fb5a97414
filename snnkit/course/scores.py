"""The learner's score in one notebook, as a table and as JSON for the room's board."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from . import registry, session
from .card import Card, Line

KIND = "snnkit scorecard"
FORMAT = 1
_SIGNS = {"passed": "✓", "solution": "✓", "failed": "✗", "to do": "○"}


@dataclass(frozen=True)
class ExerciseScore:
    """One row: ``status`` is "passed", "failed", "to do" or (solve mode) "solution"."""

    key: str
    title: str
    status: str
    attempts: int
    hints: int
    solution_seen: bool


@dataclass(frozen=True)
class Scorecard:
    """What a learner has reached in one notebook. Shown as a table when it is a cell's last line."""

    notebook: str
    exercises: tuple[ExerciseScore, ...]
    quiz: tuple[bool | None, ...]

    @property
    def passed(self) -> int:
        """How many exercises the learner has passed (those of solve mode do not count)."""
        return sum(row.status == "passed" for row in self.exercises)

    def to_json(self) -> str:
        """The whole card, e.g. {"notebook": "01", "passed": 1, "exercises": […], "quiz": [true, false, null], …}."""
        whole = {"kind": KIND, "format": FORMAT, "notebook": self.notebook}
        whole |= {"passed": self.passed, "of": len(self.exercises)}
        return json.dumps(whole | {k: v for k, v in asdict(self).items() if k != "notebook"}, indent=1)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write ``to_json()`` to ``path`` (in one step: no half file) and return the path."""
        target = Path(path)
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            temporary.write_text(self.to_json() + "\n", encoding="utf-8")
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
        return target

    def _card(self) -> Card:
        lines = [Line(_row(row)) for row in self.exercises]
        if self.quiz:
            marks = " ".join({True: "✓", False: "✗", None: "○"}[mark] for mark in self.quiz)
            lines.append(
                Line(f"{marks}  ({sum(m is True for m in self.quiz)} of {len(self.quiz)} right)", label="Quiz")
            )
        solved = sum(row.status == "solution" for row in self.exercises)
        word = f"{self.passed} of {len(self.exercises)} exercises passed" + (f", {solved} solved" if solved else "")
        tone = "good" if self.exercises and self.passed + solved == len(self.exercises) else "open"
        return Card(tone, f"Notebook {self.notebook}", word, lines)

    def __repr__(self) -> str:
        return self._card().text()

    def _repr_html_(self) -> str:
        return self._card().html()


def scorecard(notebook: str) -> Scorecard:
    """The learner's scorecard of a notebook ("01"). ValueError if it has no exercises."""
    now = session.current()
    rows = []
    for exercise in registry.exercises(notebook):
        entry = now.progress.exercise(exercise.key)
        status = "solution" if now.solving and exercise.key in now.solved else entry["status"]
        seen = bool(entry["solution"])
        rows.append(ExerciseScore(exercise.key, exercise.title, status, entry["attempts"], entry["hints"], seen))
    marks = now.progress.quiz(notebook, len(registry.questions(notebook)))
    return Scorecard(notebook, tuple(rows), tuple(marks))


def _row(row: ExerciseScore) -> str:
    notes = [row.status]
    if row.attempts:
        notes.append("1 attempt" if row.attempts == 1 else f"{row.attempts} attempts")
    if row.hints:
        notes.append("1 hint" if row.hints == 1 else f"{row.hints} hints")
    if row.solution_seen:
        notes.append("solution seen")
    return f"{_SIGNS[row.status]} {row.key} {row.title}: {', '.join(notes)}"
