"""The instructor's view of a folder of exported progress: who is where, who is stuck, and what the room fails at."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from . import board, room_files
from .room_files import Entry, Learner

STUCK = 4  # attempts at an exercise that is not passed, from which on help is due


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
        learners: one per file, by name.
        refused: (file, why) of each that is no progress of a learner.
    """

    folder: str
    learners: tuple[Learner, ...]
    refused: tuple[tuple[str, str], ...]

    @property
    def notebooks(self) -> list[str]:
        """The notebooks in which somebody has done something."""
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
        found = []
        for learner in self.learners:
            for work in learner.notebooks.values():
                for row in work.exercises:
                    if not row.passed and row.attempts >= STUCK:
                        check = max(row.failed, key=row.failed.__getitem__, default="")
                        found.append(Stuck(self.label(learner), row, check))
        return sorted(found, key=lambda stuck: -stuck.entry.attempts)

    def hurdles(self) -> list[Hurdle]:
        """For each exercise at which somebody failed, its hardest check; the one that most learners failed at first."""
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
        found = []
        for key, counts in learners.items():
            if counts:
                check = max(counts, key=lambda name: (counts[name], attempts[key][name]))
                found.append(Hurdle(key, titles[key], check, counts[check], max(tried[key], counts[check])))
        return sorted(found, key=lambda hurdle: (-hurdle.failed, hurdle.key))

    def html(self) -> str:
        """A page of its own."""
        return board.page(self)

    def __repr__(self) -> str:
        return board.text(self)

    def _repr_html_(self) -> str:
        return board.html(self)


def room(folder: str | os.PathLike[str]) -> Room:
    """The progress of everybody whose file (``*.json``, by ``course.export`` or ``Scorecard.save``) is in ``folder``.

    Files that are damaged or something else are listed, with the reason, and stop nothing.

    Raises:
        ValueError: ``folder`` is no folder.
    """
    place = Path(folder).expanduser()
    if not place.is_dir():
        raise ValueError(f"folder must be a folder of exported progress, {str(folder)!r} is none")
    learners, refused = [], []
    for path in sorted(place.glob("*.json")):
        try:
            learners.append(room_files.read(path))
        except ValueError as error:
            refused.append((room_files.plain(path.name), str(error)))
        except OSError as error:
            refused.append((room_files.plain(path.name), error.strerror or type(error).__name__))
    learners.sort(key=lambda learner: (learner.name.casefold(), learner.file))
    return Room(str(place), tuple(learners), tuple(refused))
