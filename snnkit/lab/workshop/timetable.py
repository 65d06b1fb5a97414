"""Schedules and facilitator pages: their tables, checked against the notebooks and the clock."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from snnkit import checks
from snnkit.lab.tools.project import Project, ProjectError

FACILITATOR, SCHEDULES = "workshop/facilitator", "workshop/schedules"
TIMINGS = ("part", "min", "section", "what happens", "when late")
PLAN = ("start", "minutes", "what", "file", "GPU", "cut when", "rejoin at")
GPU = ("off", "optional", "on")
BUFFER = 0.15  # of the minutes of each day
Guides = Mapping[str, Mapping[int, int]]  # minutes of the parts of each notebook ("01")
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")


class WorkshopError(ProjectError):
    """The workshop's pages, bundles or machines can't be used as requested."""


class Item(NamedTuple):
    """A row of a schedule."""

    start: int  # minutes from the beginning of its day
    minutes: int
    what: str
    gpu: str  # "off", "optional" or "on"
    notebook: str | None = None  # its name where the row is about one
    parts: tuple[int, ...] | None = None  # of it that are done: None for all, (0,) for its demo

    @property
    def end(self) -> int:
        return self.start + self.minutes

    def __str__(self) -> str:
        text = re.sub(r"\*\*|`", "", LINK.sub(r"\1", self.what))
        if self.notebook is None:
            return text
        parts = ", ".join(map(str, self.parts or ()))
        done = "" if self.parts is None else " demo" if parts == "0" else f" parts {parts}"
        return f"{text} ({self.notebook[:2]}{done})"


class Schedule(NamedTuple):
    """The items of each day of a schedule."""

    days: tuple[tuple[Item, ...], ...]

    def gpu_minutes(self, *kinds: str) -> int:
        """Minutes in which the GPU is of one of these kinds ("on", "optional")."""
        return sum(item.minutes for day in self.days for item in day if item.gpu in kinds)


# --- pages -----------------------------------------------------------------------------------------------------------


def notebooks(project: Project) -> dict[str, int]:
    """The minutes that each notebook takes in class, as it says at its top. WorkshopError if one does not."""
    known = {}
    for name in project.names():
        text = project.source(name).read_text(encoding="utf-8")
        minutes = re.search(r"(\d+) min", text.partition('tags=["bootstrap"]')[0])
        if not minutes:
            raise WorkshopError(f"{name}.py must say at its top how many minutes it takes, but it does not")
        known[name] = int(minutes[1])
    return known


def pages(root: Path, folder: str) -> dict[str, str]:
    """The text of the Markdown pages in a folder of the project, by their names: "01", "half_day"."""
    return {file.stem: file.read_text(encoding="utf-8") for file in sorted((root / folder).glob("*.md"))}


def tables(text: str, columns: Sequence[str]) -> Iterator[list[tuple[int, dict[str, str]]]]:
    """The Markdown tables with these columns: (line, cells by column) of each row. A pipe in a cell is ``\\|``."""

    def cells(line: str) -> list[str]:
        return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]

    lines = text.splitlines()
    for start, line in enumerate(lines):
        if line.startswith("|") and cells(line) == list(columns):
            below = takewhile(lambda row: row[1].startswith("|"), enumerate(lines[start + 2 :], start + 3))
            empty = dict.fromkeys(columns, "")
            yield [(number, empty | dict(zip(columns, cells(row), strict=False))) for number, row in below]


def timings(page: str) -> dict[int, int]:
    """Minutes by the number of the part, from a facilitator page; 0 is the demo. What can't be read is left out."""
    rows = [cells for rows in tables(page, TIMINGS) for _, cells in rows]
    parts = {int(row["part"]): int(row["min"]) for row in rows if row["part"].isdecimal() and row["min"].isdecimal()}
    demo = re.search(r"(?m)^## Demo script \((\d+) min\)", page)
    return {0: int(demo[1]) if demo else 0, **parts}


def check(project: Project) -> list[str]:
    """All that is wrong in the schedules of a project and in the minutes of its facilitator pages, by file and line."""
    known, guides = notebooks(project), pages(project.root, FACILITATOR)
    problems = []
    for name, minutes in known.items():
        page = f"{FACILITATOR}/{name[:2]}.md"
        if name[:2] not in guides:
            problems.append(f"{page}: is missing; it says how many minutes the parts of {name} take")
            continue
        parts = timings(guides[name[:2]])
        if (total := sum(parts.values()) - parts[0]) != minutes:
            problems.append(f"{page}: the parts add up to {total} minutes, but {name} says {minutes}")
    for name in pages(project.root, SCHEDULES):
        problems += read(name, project.root, known)[1]
    return problems


# --- schedules -------------------------------------------------------------------------------------------------------


def load(name: str, project: Project) -> Schedule:
    """The schedule of this name. WorkshopError for an unknown one, or one with a mistake, naming it."""
    schedule, problems = read(name, project.root, notebooks(project))
    if problems:
        raise WorkshopError(problems[0])
    return schedule


def read(name: str, root: Path, known: Mapping[str, int], text: str | None = None) -> tuple[Schedule, list[str]]:
    """A schedule, and all that is wrong with it. ``text`` is instead of the page's. WorkshopError if there is none."""
    page = f"{SCHEDULES}/{name}.md"
    plans = pages(root, SCHEDULES) if text is None else {name: text}
    if name not in plans:
        raise WorkshopError(f"unknown schedule {name!r}; there are: {', '.join(plans) or 'none'}")
    text = plans[name]
    guides = {number: timings(one) for number, one in pages(root, FACILITATOR).items()}
    problems, days = [], []
    for rows in tables(text, PLAN):
        items: list[Item] = []
        for line, cells in rows:
            try:
                item = _item(cells, known, guides)
            except WorkshopError as error:
                problems.append(f"{page}:{line}: {error}")
                continue
            before = items[-1].end if items else 0
            if item.start != before:
                text_of = [f"{minutes // 60}:{minutes % 60:02}" for minutes in (item.start, before)]
                problems.append(f"{page}:{line}: starts at {text_of[0]}, but the row before ends at {text_of[1]}")
            items.append(item)
        total = sum(item.minutes for item in items)
        spare = sum(item.minutes for item in items if item.what.lower().startswith("buffer"))
        if spare < BUFFER * total:
            problems.append(f"{page}: the buffer must be at least {BUFFER:.0%} of {total} minutes, but it is {spare}")
        days.append(tuple(items))
    minutes = sum(item.minutes for day in days for item in day)
    promised = re.search(r"\*\*Minutes:\*\* (?:(\d{1,4}) × )?(\d{1,6})\b", text)
    promises = int(promised[1] or 1) * int(promised[2]) if promised else 0
    if minutes != promises or not promised:
        what = "such as **Minutes:** 2 × 480"
        problems.append(f"{page}: must say its length, {what}, but it says {promises} and has {minutes}")
    return Schedule(tuple(days)), problems


def rescheduled(text: str, project: Project) -> str:
    """A schedule whose rows have the minutes of their parts; the next buffer of the day takes up the difference."""
    known = notebooks(project)
    guides = {number: timings(one) for number, one in pages(project.root, FACILITATOR).items()}
    lines = text.splitlines(keepends=True)
    for rows in tables(text, PLAN):
        start = late = 0
        for line, cells in rows:
            planned = int(cells["minutes"])
            notebook, _, minutes = _parts(cells["file"], known, guides)
            if cells["what"].lower().startswith("buffer"):
                minutes = max(1, planned - late)
            elif notebook is None:
                minutes = planned
            new = f"| {start // 60}:{start % 60:02} | {minutes} |"
            lines[line - 1] = lines[line - 1].replace(f"| {cells['start']} | {planned} |", new, 1)
            late, start = late + minutes - planned, start + minutes
    return "".join(lines)


def _item(cells: Mapping[str, str], known: Mapping[str, int], guides: Guides) -> Item:
    """A row of a schedule. Raises WorkshopError."""
    began = re.fullmatch(r"(\d{1,2}):([0-5]\d)", cells["start"])
    if not began or not re.fullmatch(r"[0-9]{1,4}", cells["minutes"]) or cells["GPU"] not in GPU:
        shown = ", ".join(repr(cells[column][:20]) for column in ("start", "minutes", "GPU"))
        raise WorkshopError(f"start, minutes and GPU must be such as '1:05', '20', '{GPU[0]}', but they are {shown}")
    start, minutes = 60 * int(began[1]) + int(began[2]), int(cells["minutes"])
    notebook, parts, needed = _parts(cells["file"], known, guides)
    if notebook and not all(cells[column].strip("– ") for column in PLAN[-2:]):
        raise WorkshopError("needs a sign when to cut it, and a place where those who were stuck rejoin")
    if notebook and needed != minutes:
        raise WorkshopError(f"has {minutes} minutes, but its parts take {needed} by the facilitator page")
    return Item(start, minutes, cells["what"], cells["GPU"], notebook, parts)


def _parts(cell: str, known: Mapping[str, int], guides: Guides) -> tuple[str | None, tuple[int, ...] | None, int]:
    """The notebook that a cell names, the parts of it (None: all), and their minutes. Raises WorkshopError."""
    link = next((link for link in LINK.finditer(cell) if "notebooks/" in link[2]), None)
    if link is None:
        return None, None, 0
    notebook, rest = Path(link[2]).stem, cell[link.end() :].strip()
    if notebook not in known:
        raise WorkshopError(f"there is no notebook {notebook!r}; there are: {', '.join(known)}")
    takes = guides.get(notebook[:2], {})
    parts = (0,) if rest == "demo" else _numbers(rest) if rest else None
    if parts is not None and not (parts and takes.keys() >= set(parts)):
        raise WorkshopError(
            f"{rest!r} must be 'demo', or 'parts' and numbers of {notebook}: {', '.join(map(str, takes))}"
        )
    return notebook, parts, known[notebook] if parts is None else sum(takes[part] for part in parts)


def _numbers(text: str) -> tuple[int, ...]:
    """ "parts 1–3, 5" as (1, 2, 3, 5); nothing if it does not say that."""
    listed = re.fullmatch(r"parts? ((?:\d+(?:[–-]\d+)?(?:, )?)+)", text)
    if not listed:
        return ()
    spans = [re.split("[–-]", span) for span in listed[1].split(", ")]
    return tuple(number for span in spans for number in range(int(span[0]), int(span[-1]) + 1))


checks.all_arguments(__name__)
