"""Schedules, minute by minute: read from Markdown tables, held to notebooks, facilitator pages and the clock."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import facilitator
from .facilitator import Timings
from .markdown import LINK, Page, Row
from .material import Notebook
from .problem import Problem, WorkshopError

FOLDER = "workshop/schedules"
PLAN = ("start", "minutes", "what", "file", "GPU")
CUTS = ("cut", "saves", "how")
HEADINGS = ("GPU", "Cut list", "When time is short, say")
BUFFER = 0.15  # of every day's minutes
GPU = ("off", "optional", "on")


@dataclass(frozen=True)
class Item:
    """A row of the plan.

    Attributes:
        start: minutes from the beginning of its day.
        notebook: the notebook's name where the row is about one, with the parts of it that are done; None for all, and
            an empty tuple for its demo.
        gpu: "off", "optional" or "on".
    """

    line: int
    start: int
    minutes: int
    what: str
    gpu: str
    notebook: str | None = None
    parts: tuple[int, ...] | None = None

    @property
    def buffer(self) -> bool:
        return self.what.lower().startswith("buffer")


@dataclass(frozen=True)
class Schedule:
    """A schedule: its name, and the items of each of its days."""

    name: str
    days: tuple[tuple[Item, ...], ...]

    @property
    def minutes(self) -> int:
        return sum(item.minutes for day in self.days for item in day)

    def gpu_minutes(self, *kinds: str) -> int:
        """Minutes in which the GPU is of one of these kinds ("on", "optional")."""
        return sum(item.minutes for day in self.days for item in day if item.gpu in kinds)


def pages(root: Path) -> dict[str, Page]:
    """The pages of all schedules by their names, such as "half_day"."""
    return {file.stem: Page.read(file, root) for file in sorted((root / FOLDER).glob("*.md"))}


def read(
    page: Page, root: Path, notebooks: Mapping[str, Notebook], known: Mapping[str, Timings]
) -> tuple[Schedule, list[Problem]]:
    """A schedule, and all that is wrong with it.

    Args:
        root: the project's folder; links lead to files in it.
        known: the timings of the facilitator pages, by the notebook's two digits.
    """
    reader = _Reader(page, root, notebooks, known)
    return reader.schedule(), sorted(reader.problems)


def check(root: Path, notebooks: Mapping[str, Notebook]) -> list[Problem]:
    """What is wrong in all schedules."""
    known = {number: facilitator.timings(page) for number, page in facilitator.pages(root).items()}
    return [problem for page in pages(root).values() for problem in read(page, root, notebooks, known)[1]]


def load(name: str, root: Path, notebooks: Mapping[str, Notebook]) -> Schedule:
    """The schedule of this name. WorkshopError for an unknown one, or one with a mistake, naming both."""
    found = pages(root)
    if name not in found:
        raise WorkshopError(f"unknown schedule {name!r}; there are: {', '.join(found) or 'none'}")
    known = {number: facilitator.timings(page) for number, page in facilitator.pages(root).items()}
    schedule, problems = read(found[name], root, notebooks, known)
    if problems:
        raise WorkshopError(str(problems[0]))
    return schedule


def clock(minutes: int) -> str:
    """Minutes as "1:05"."""
    return f"{minutes // 60}:{minutes % 60:02}"


class _Reader:
    def __init__(self, page: Page, root: Path, notebooks: Mapping[str, Notebook], known: Mapping[str, Timings]) -> None:
        self.page, self.root, self.notebooks, self.known = page, root, notebooks, known
        self.place = (root / page.name).parent
        self.problems: list[Problem] = []

    def schedule(self) -> Schedule:
        tables = [table for table in self.page.tables if table.columns == PLAN]
        days = tuple(tuple(item for row in table.rows if (item := self.item(row))) for table in tables)
        promised = re.search(r"\*\*Minutes:\*\* (?:(\d{1,4}) × )?(\d{1,6})\b", self.page.text)
        if not promised:
            self.wrong(0, "must say its length, as in **Minutes:** 90 or **Minutes:** 2 × 480")
        elif len(days) != int(promised[1] or 1):
            self.wrong(0, f"has {len(days)} tables with the columns {' | '.join(PLAN)}, not {promised[1] or 1}")
        for table, day in zip(tables, days, strict=True):
            self.day(table.line, day, int(promised[2]) if promised else 0)
        for heading in HEADINGS:
            section = self.page.section(heading)
            if section is None or not section.text.strip():
                self.wrong(section.line if section else 0, f"has nothing under the heading {heading!r}")
        self.cuts([item for day in days for item in day])
        return Schedule(self.page.name.rpartition("/")[2].removesuffix(".md"), days)

    def wrong(self, line: int, text: str) -> None:
        self.problems.append(Problem(self.page.name, line, text))

    def day(self, line: int, items: tuple[Item, ...], promised: int) -> None:
        now = 0
        for item in items:
            if item.start != now:
                self.wrong(item.line, f"starts at {clock(item.start)}, but the row before ends at {clock(now)}")
            now = item.start + item.minutes
        total = sum(item.minutes for item in items)
        if promised and total != promised:
            self.wrong(line, f"the minutes add up to {total}, not to {promised}")
        kept = sum(item.minutes for item in items if item.buffer)
        if kept < BUFFER * total:
            self.wrong(
                line, f"the buffer is {kept} of {total} minutes ({kept / max(total, 1):.0%}), less than {BUFFER:.0%}"
            )

    def item(self, row: Row) -> Item | None:
        start, minutes, what, file, gpu = (row.cells.get(name, "") for name in PLAN)
        began = re.fullmatch(r"(\d{1,2}):([0-5]\d)", start)
        if not began or not _is_whole(minutes):
            self.wrong(row.line, f"start must be hours:minutes and minutes a whole number, were {start!r}, {minutes!r}")
            return None
        if gpu not in GPU:
            self.wrong(row.line, f"GPU must be one of {', '.join(GPU)}, but it is {gpu!r}")
        notebook, parts, needed = self.work(row.line, file)
        if needed is not None and needed != int(minutes):
            self.wrong(row.line, f"has {minutes} minutes for what takes {needed} by the facilitator page")
        at = 60 * int(began[1]) + int(began[2])
        return Item(row.line, at, int(minutes), what, gpu, notebook, parts)

    def work(self, line: int, file: str) -> tuple[str | None, tuple[int, ...] | None, int | None]:
        """(notebook, parts, minutes that these take) of a cell with links; None where it is about no notebook."""
        about = None
        for match in LINK.finditer(file):
            target = (self.place / match[2].partition("#")[0]).resolve()
            if "/notebooks/" in f"/{match[2]}":
                if target.stem not in self.notebooks:
                    self.wrong(line, f"there is no notebook {target.stem!r}; there are: {', '.join(self.notebooks)}")
                    continue
                if not _exists(target):
                    self.wrong(line, f"links to {match[2]}, which does not exist: run `snnkit build`")
                about = self.notebooks[target.stem], file[match.end() :].strip()
            elif not _exists(target):
                self.wrong(line, f"links to {match[2]}, which does not exist")
        if about is None:
            return None, None, None
        notebook, said = about
        timings = self.known.get(notebook.number)
        if timings is None:
            self.wrong(line, f"{notebook.name} has no facilitator page, so nobody knows how long its parts take")
            return notebook.name, None, None
        if said == "demo":
            return notebook.name, (), timings.demo
        if not said:
            return notebook.name, None, notebook.minutes
        parts = _numbers(said)
        strange = [part for part in parts if part not in timings.parts]
        if not parts or strange:
            known = ", ".join(map(str, timings.parts))
            self.wrong(line, f"{said!r} must be 'demo', or 'parts' and numbers of {notebook.name}: {known}")
            return notebook.name, parts, None
        return notebook.name, parts, sum(timings.parts[part] for part in parts)

    def cuts(self, plan: list[Item]) -> None:
        """The cut list names what is in the plan, and saves no more than it takes."""
        section = self.page.section("Cut list")
        if section is None:
            return
        tables = [table for table in section.tables if table.columns == CUTS]
        if not tables:
            self.wrong(section.line, f"must hold a table with the columns {' | '.join(CUTS)}")
        for row in (row for table in tables for row in table.rows):
            cut, saves = row.cells.get("cut", ""), row.cells.get("saves", "")
            if not _is_whole(saves):
                self.wrong(row.line, f"saves must be a whole number of minutes, but it is {saves!r}")
                continue
            notebook, parts, needed = self.work(row.line, cut)
            if notebook is None:
                continue
            rows = [item for item in plan if item.notebook == notebook]
            whole = any(item.parts is None for item in rows)
            planned = {part for item in rows for part in item.parts or ()}
            if not rows or (parts and not whole and not set(parts) <= planned):
                self.wrong(row.line, f"cuts {cut!r}, which is not in the plan")
            elif needed is not None and int(saves) > needed:
                self.wrong(row.line, f"saves {saves} minutes of something that takes {needed}")


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,6}", text) is not None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that is too long
        return False


def _numbers(text: str) -> tuple[int, ...]:
    """ "parts 1–3, 5" as (1, 2, 3, 5); nothing if it does not say that."""
    said = re.fullmatch(r"parts? ((?:\d+(?:[–-]\d+)?(?:, )?)+)", text)
    if not said:
        return ()
    spans = [re.split("[–-]", span) for span in said[1].split(", ")]
    return tuple(number for span in spans for number in range(int(span[0]), int(span[-1]) + 1))


def plain(item: Item) -> str:
    """What a row is about, without the marks of Markdown."""
    text = re.sub(r"\*\*|`", "", LINK.sub(r"\1", item.what))
    if item.notebook is None:
        return text
    done = "" if item.parts is None else " demo" if not item.parts else f" parts {', '.join(map(str, item.parts))}"
    return f"{text} ({item.notebook[:2]}{done})"
