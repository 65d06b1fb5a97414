"""The learner's progress, in one small JSON file.

The file is $SNNKIT_PROGRESS, or ``progress.json`` in the user's cache folder. A headless run writes only where
$SNNKIT_PROGRESS says. Every change reads the file, changes one entry and replaces the file in one step, so that two
open notebooks do not undo each other's entries and a crash leaves no half file. Buttons and cells may run in different
threads of one kernel: a lock keeps their changes apart.
"""

from __future__ import annotations

import copy
import json
import os
import stat
import tempfile
import threading
import warnings
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from snnkit.viz.environment import headless

FORMAT = 1
_RANK = {"to do": 0, "failed": 1, "passed": 2}


def default_path() -> Path | None:
    """Where progress is kept, or None when it is kept in memory only."""
    named = os.environ.get("SNNKIT_PROGRESS")
    if named:
        return Path(named).expanduser()
    if headless():
        return None
    import pooch

    return Path(pooch.os_cache("snnkit")) / "progress.json"


class Progress:
    """Results by exercise key, and quiz answers by notebook. ``path=None`` keeps them in memory."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._data = _empty()
        self._lock = threading.RLock()
        self._read()

    def exercise(self, key: str) -> dict[str, Any]:
        """{"status", "attempts", "hints", "solution", "when", "failed"}: "to do" and zeros before the first attempt.

        "failed" counts, by the name of the check, how many attempts have failed at it.
        """
        fresh = {"status": "to do", "attempts": 0, "hints": 0, "solution": False, "when": "", "failed": {}}
        return copy.deepcopy(fresh | self._data["exercises"].get(key, {}))

    def quiz(self, notebook: str, questions: int) -> list[bool | None]:
        """For each question: answered rightly, wrongly, or (None) not yet."""
        known = self._data["quiz"].get(notebook, [])
        return [known[i] if i < len(known) else None for i in range(questions)]

    def attempted(self, key: str, status: str, check: str = "") -> None:
        """Note an attempt, and the ``check`` that it failed at. What has once passed stays passed."""
        with self._lock:
            self._read()
            entry = self.exercise(key)
            entry["attempts"] += 1
            entry["status"] = max(entry["status"], status, key=_RANK.__getitem__)
            if check:
                entry["failed"][check] = entry["failed"].get(check, 0) + 1
            self._put(key, entry)

    def hinted(self, key: str, opened: int) -> None:
        with self._lock:
            self._read()
            entry = self.exercise(key)
            entry["hints"] = max(entry["hints"], opened)
            self._put(key, entry)

    def revealed(self, key: str) -> None:
        with self._lock:
            self._read()
            self._put(key, self.exercise(key) | {"solution": True})

    def answered(self, notebook: str, index: int, right: bool, questions: int) -> None:
        with self._lock:
            self._read()
            marks = self.quiz(notebook, questions)
            marks[index] = right
            self._data["quiz"][notebook] = marks
            self._write()

    def _put(self, key: str, entry: dict[str, Any]) -> None:
        entry["when"] = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._data["exercises"][key] = entry
        self._write()

    def _read(self) -> None:
        if self.path is None:
            return
        if _other_than_a_file(self.path):
            self._give_up(OSError("it is no regular file"))  # replacing it would take a device or a pipe away
            return
        try:
            raw = self.path.read_text(encoding="utf-8")
        except OSError:
            return  # no file yet, or one that cannot be read: what is in memory stands
        except UnicodeDecodeError:
            self._set_aside(self.path)
            return
        try:
            self._data = _checked(json.loads(raw))
        except (ValueError, RecursionError):
            self._set_aside(self.path)

    def _set_aside(self, path: Path) -> None:
        damaged = path.with_suffix(".damaged.json")
        try:
            os.replace(path, damaged)
            warnings.warn(f"The progress file {path} was damaged; it is now {damaged.name}.", stacklevel=4)
        except OSError as error:
            self._give_up(error)

    def _write(self) -> None:
        if self.path is None:
            return
        temporary = ""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=".progress-", suffix=".json")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(self._data, file, indent=1)
            os.replace(temporary, self.path)
        except OSError as error:
            if temporary:
                Path(temporary).unlink(missing_ok=True)
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        warnings.warn(
            f"Progress cannot be kept in {self.path} ({error}); it lasts until the kernel stops. "
            "Set SNNKIT_PROGRESS to a file that can be written.",
            stacklevel=4,
        )
        self.path = None


def _empty() -> dict[str, Any]:
    return {"format": FORMAT, "exercises": {}, "quiz": {}}


def _checked(data: Any) -> dict[str, Any]:
    """``data`` if it has the form that ``Progress`` writes, else ValueError."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError("not a progress file")
    exercises, quiz = data.get("exercises"), data.get("quiz")
    if not isinstance(exercises, dict) or not isinstance(quiz, dict):
        raise ValueError("not a progress file")
    for entry in exercises.values():
        check_entry(entry)
    for marks in quiz.values():
        check_marks(marks)
    return data


def check_entry(entry: Any) -> None:
    """ValueError unless ``entry`` is an exercise as ``Progress.exercise`` gives it (older ones have no "failed")."""
    if not isinstance(entry, dict) or not isinstance(entry.get("status"), str) or entry["status"] not in _RANK:
        raise ValueError("an exercise without a status")
    failed = entry.get("failed", {})
    if not isinstance(failed, dict):
        raise ValueError("failed checks that are no table")
    if not all(map(_is_count, (entry.get("attempts"), entry.get("hints"), *failed.values()))):
        raise ValueError("an exercise without counts")
    if not isinstance(entry.get("solution", False), bool) or not isinstance(entry.get("when", ""), str):
        raise ValueError("an exercise with a wrong date or mark")


def check_marks(marks: Any) -> None:
    """ValueError unless ``marks`` is a list of True, False and None."""
    if not isinstance(marks, list) or not all(mark is None or isinstance(mark, bool) for mark in marks):
        raise ValueError("quiz marks are not booleans")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9


def _other_than_a_file(path: Path) -> bool:
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False
