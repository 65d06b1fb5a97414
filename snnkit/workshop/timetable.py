"""Schedules and facilitator pages: their tables, checked against the notebooks, the exercises and the clock.

Each notebook has a page ``workshop/facilitator/NN.md`` with its minutes, part by part; each schedule in
``workshop/schedules`` is a table of rows that may name a notebook, parts of it or its demo.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from snnkit.course import exercise as registry
from snnkit.course.exercise import Exercise
from snnkit.tools.project import Project, ProjectError

FACILITATOR, SCHEDULES = "workshop/facilitator", "workshop/schedules"
TIMINGS = ("part", "min", "section", "what happens", "when late")
MISTAKES = ("exercise", "what they do", "check that fails", "what to answer")
PLAN = ("start", "minutes", "what", "file", "GPU")
CUTS = ("cut", "saves", "how")
GPU = ("off", "optional", "on")
BUFFER = 0.15  # of the minutes of each day
OUTRO = {"Next", "Where next", "Sources", "References"}  # headings that take no time in class
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")


class WorkshopError(ProjectError):
    """The workshop's pages, bundles or machines can't be used as requested."""


@dataclass(frozen=True, order=True)
class Problem:
    """A mistake in a page; ``line`` counts from 1, and is 0 for the page as a whole."""

    page: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}" if self.line else f"{self.page}: {self.text}"


@dataclass(frozen=True)
class Notebook:
    """What a notebook promises.

    Attributes:
        name: "01_first_spiking_neuron"
        minutes: of the whole notebook in class, as it says at its top.
        headings: its headings of level 2, in order, without those after the end.
        exercises: the keys of its exercises -> the heading above each.
    """

    name: str
    minutes: int
    headings: tuple[str, ...]
    exercises: Mapping[str, str]

    @property
    def number(self) -> str:
        return self.name[:2]


@dataclass(frozen=True)
class Timings:
    """How a notebook's minutes are spent: minutes by the number of the part, and of the demo."""

    parts: Mapping[int, int]
    demo: int


@dataclass(frozen=True)
class Item:
    """A row of a schedule.

    Attributes:
        start: minutes from the beginning of its day.
        notebook: the notebook's name where the row is about one; ``parts`` are those that are done: None for all, and
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

    def __str__(self) -> str:
        text = re.sub(r"\*\*|`", "", LINK.sub(r"\1", self.what))
        if self.notebook is None:
            return text
        done = "" if self.parts is None else f" parts {', '.join(map(str, self.parts))}" if self.parts else " demo"
        return f"{text} ({self.notebook[:2]}{done})"


@dataclass(frozen=True)
class Schedule:
    """A schedule: the items of each of its days."""

    name: str
    days: tuple[tuple[Item, ...], ...]

    @property
    def minutes(self) -> int:
        return sum(item.minutes for day in self.days for item in day)

    def gpu_minutes(self, *kinds: str) -> int:
        """Minutes in which the GPU is of one of these kinds ("on", "optional")."""
        return sum(item.minutes for day in self.days for item in day if item.gpu in kinds)

    def gpu_hours(self, people: int) -> tuple[float, float]:
        """GPU hours of ``people`` with a GPU each: connected only where it is "on", and also where it is "optional".

        A connected GPU counts, busy or not: that is how clouds bill.
        """
        if people < 1:
            raise ValueError(f"people must be at least 1, but it is {people}")
        return people * self.gpu_minutes("on") / 60, people * self.gpu_minutes("on", "optional") / 60


def gpus_to_share(people: int, busy: float, memory_gib: float, each_gib: float = 2.0) -> int:
    """GPUs that a room can share if each person computes a share ``busy`` of the time (0 to 1).

    Enough for the mean load at 70 % use, and for the memory of all: a context and a notebook's tensors, ``each_gib``.
    """
    if people < 1:
        raise ValueError(f"people must be at least 1, but it is {people}")
    if not 0 < busy <= 1:
        raise ValueError(f"busy must be above 0 and at most 1, but it is {busy}")
    if memory_gib < each_gib:
        raise ValueError(f"memory_gib must be at least each_gib, {each_gib}, but it is {memory_gib}")
    return max(math.ceil(people * busy / 0.7), math.ceil(people / math.floor(memory_gib / each_gib)))


# --- pages -----------------------------------------------------------------------------------------------------------


def notebooks(project: Project) -> dict[str, Notebook]:
    """All notebooks of the project by name, in order. WorkshopError if one does not say how many minutes it takes."""
    known = {}
    for name in project.names():
        text = project.source(name).read_text(encoding="utf-8")
        minutes = re.search(r"(\d+) min", text.partition('tags=["bootstrap"]')[0])
        if not minutes:
            raise WorkshopError(f"{name}.py must say at its top how many minutes it takes, but it does not")
        heading, headings, exercises = "", [], {}
        for line in text.splitlines():
            if title := re.fullmatch(r"# ## (.+?)\s*", line):
                heading = title[1]
                headings += [] if heading in OUTRO else [heading]
            elif key := re.search(r'\battempt\("(\d\d\.\d+)"', line):
                exercises.setdefault(key[1], heading)
        known[name] = Notebook(name, int(minutes[1]), tuple(headings), exercises)
    return known


def pages(root: Path, folder: str) -> dict[str, str]:
    """The text of the Markdown pages in a folder of the project, by their names: "01", "half_day"."""
    return {file.stem: file.read_text(encoding="utf-8") for file in sorted((root / folder).glob("*.md"))}


@dataclass(frozen=True)
class Table:
    """A Markdown table: the line of its head, and (line, cells by column) of each row."""

    line: int
    rows: tuple[tuple[int, Mapping[str, str]], ...]


def tables(text: str, columns: Sequence[str]) -> Iterator[Table]:
    """The tables with these columns; a pipe within a cell is written as ``\\|``."""

    def cells(line: str) -> list[str]:
        return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]

    lines = text.splitlines()
    for start, line in enumerate(lines):
        if line.startswith("|") and cells(line) == list(columns):
            rows = []
            for number in range(start + 2, len(lines)):
                if not lines[number].startswith("|"):
                    break
                row = dict.fromkeys(columns, "") | dict(zip(columns, cells(lines[number]), strict=False))
                rows.append((number + 1, row))
            yield Table(start + 1, tuple(rows))


def timings(page: str) -> Timings:
    """The timings of a facilitator page; what can't be read is left out."""
    rows = [cells for table in tables(page, TIMINGS) for _, cells in table.rows if cells["section"]]
    parts = {int(row["part"]): int(row["min"]) for row in rows if row["part"].isdigit() and row["min"].isdigit()}
    demo = re.search(r"(?m)^## Demo script \((\d+) min\)", page)
    return Timings(parts, int(demo[1]) if demo else 0)


def check(project: Project) -> list[Problem]:
    """All that is wrong in the facilitator pages and schedules of a project."""
    known, guides = notebooks(project), pages(project.root, FACILITATOR)
    problems = []
    for notebook in known.values():
        name = f"{FACILITATOR}/{notebook.number}.md"
        if notebook.number not in guides:
            problems.append(Problem(name, 0, f"missing: the facilitator page of {notebook.name}"))
        else:
            page = guides[notebook.number]
            problems += check_facilitator(name, page, notebook, registry.exercises(notebook.number))
    for name in pages(project.root, SCHEDULES):
        problems += read(name, project.root, known)[1]
    return sorted(problems)


def check_facilitator(name: str, page: str, notebook: Notebook, exercises: Sequence[Exercise]) -> list[Problem]:
    """What is wrong in a facilitator page: minutes that do not add up or are too few, sections, exercises or checks
    that the notebook does not have, exercises without a common mistake."""
    if not (all_timings := list(tables(page, TIMINGS))) or not (mistakes := list(tables(page, MISTAKES))):
        return [Problem(name, 0, f"must have tables of {' | '.join(TIMINGS)} and of {' | '.join(MISTAKES)}")]
    problems: list[Problem] = []
    if not timings(page).demo:
        problems.append(Problem(name, 0, "must have a heading with minutes such as Demo script (5 min)"))
    total, last, covered = 0, 0, {}
    minutes_of = {exercise.key: exercise.minutes for exercise in exercises}
    for line, cells in all_timings[0].rows:
        if not cells["min"].isdigit():
            problems.append(Problem(name, line, f"min must be a whole number, but it is {cells['min']!r}"))
            continue
        minutes = int(cells["min"])
        if not cells["section"]:  # the sum
            last = minutes
            continue
        total += minutes
        titles = [title.strip() for title in cells["section"].split(";")]
        covered |= dict.fromkeys(titles, line)
        for title in titles:
            if title not in notebook.headings:
                listed = "; ".join(notebook.headings)
                problems.append(Problem(name, line, f"{notebook.name} has no section {title!r}; it has: {listed}"))
        here = [key for key, title in notebook.exercises.items() if title in titles]
        if 0 < minutes < (needed := sum(minutes_of.get(key, 0) for key in here)):  # 0: for home
            problems.append(Problem(name, line, f"{minutes} min are too few for {' and '.join(here)}: {needed}"))
    at = all_timings[0].line
    if missing := [title for title in notebook.headings if title not in covered]:
        problems.append(Problem(name, at, f"no minutes for the section {missing[0]!r}"))
    if not total == last == notebook.minutes:
        text = f"the parts add up to {total}, the last row says {last}, the notebook says {notebook.minutes}"
        problems.append(Problem(name, at, text))
    checks = {exercise.key: [one.name for one in exercise.checks] for exercise in exercises}
    for line, cells in mistakes[0].rows:
        key, failing = cells["exercise"], cells["check that fails"]
        if key not in checks:
            problems.append(Problem(name, line, f"there is no exercise {key!r} in this notebook"))
        elif failing not in checks[key]:
            problems.append(Problem(name, line, f"{key} has no check {failing!r}; it has: {'; '.join(checks[key])}"))
    named = {cells["exercise"] for _, cells in mistakes[0].rows}
    unnamed = sorted(checks.keys() - named)
    return problems + [Problem(name, mistakes[0].line, f"names no mistake of {key}") for key in unnamed]


# --- schedules -------------------------------------------------------------------------------------------------------


def load(name: str, project: Project) -> Schedule:
    """The schedule of this name. WorkshopError for an unknown one, or one with a mistake, naming it."""
    plans = pages(project.root, SCHEDULES)
    if name not in plans:
        raise WorkshopError(f"unknown schedule {name!r}; there are: {', '.join(plans) or 'none'}")
    schedule, problems = read(name, project.root, notebooks(project))
    if problems:
        raise WorkshopError(str(problems[0]))
    return schedule


def read(
    name: str, root: Path, known: Mapping[str, Notebook], text: str | None = None
) -> tuple[Schedule, list[Problem]]:
    """A schedule, and all that is wrong with it. ``text`` is in place of the page's."""
    page = f"{SCHEDULES}/{name}.md"
    text = pages(root, SCHEDULES)[name] if text is None else text
    durations = {number: timings(one) for number, one in pages(root, FACILITATOR).items()}
    problems: list[Problem] = []

    def wrong(line: int, message: str) -> None:
        problems.append(Problem(page, line, message))

    def work(line: int, cell: str) -> tuple[str | None, tuple[int, ...] | None, int | None]:
        """(notebook, parts, minutes that these take) of a cell with a link; None where it is about no notebook."""
        link = next((link for link in LINK.finditer(cell) if "notebooks/" in link[2]), None)
        if link is None:
            return None, None, None
        notebook, rest = Path(link[2]).stem, cell[link.end() :].strip()
        if notebook not in known:
            wrong(line, f"there is no notebook {notebook!r}; there are: {', '.join(known)}")
            return None, None, None
        takes = durations.get(notebook[:2])
        if takes is None or rest == "":
            return notebook, None, known[notebook].minutes
        if rest == "demo":
            return notebook, (), takes.demo
        parts = _numbers(rest)
        if not parts or not takes.parts.keys() >= set(parts):
            listed = ", ".join(map(str, takes.parts))
            wrong(line, f"{rest!r} must be 'demo', or 'parts' and numbers of {notebook}: {listed}")
            return notebook, parts, None
        return notebook, parts, sum(takes.parts[part] for part in parts)

    days = []
    for table in tables(text, PLAN):
        items: list[Item] = []
        for line, cells in table.rows:
            began = re.fullmatch(r"(\d{1,2}):([0-5]\d)", cells["start"])
            if not began or not re.fullmatch(r"[0-9]{1,6}", cells["minutes"]):
                shown = f"{cells['start'][:20]!r}, {cells['minutes'][:20]!r}"
                wrong(line, f"start must be hours:minutes, and minutes a whole number, but they are {shown}")
                continue
            if cells["GPU"] not in GPU:
                wrong(line, f"GPU must be one of {', '.join(GPU)}, but it is {cells['GPU']!r}")
            start, minutes = 60 * int(began[1]) + int(began[2]), int(cells["minutes"])
            notebook, parts, needed = work(line, cells["file"])
            if needed is not None and needed != minutes:
                wrong(line, f"has {minutes} minutes for what takes {needed} by the facilitator page")
            before = items[-1].start + items[-1].minutes if items else 0
            if start != before:
                wrong(line, f"starts at {_clock(start)}, but the row before ends at {_clock(before)}")
            items.append(Item(line, start, minutes, cells["what"], cells["GPU"], notebook, parts))
        total, spare = sum(item.minutes for item in items), sum(item.minutes for item in items if item.buffer)
        if spare < BUFFER * total:
            wrong(table.line, f"the buffer must be at least {BUFFER:.0%} of {total} minutes, but it is {spare}")
        days.append(tuple(items))
    schedule = Schedule(name, tuple(days))
    promised = re.search(r"\*\*Minutes:\*\* (?:(\d{1,4}) × )?(\d{1,6})\b", text)
    if not promised:
        wrong(0, "must say its length, as in **Minutes:** 90 or **Minutes:** 2 × 480")
    elif schedule.minutes != (promises := int(promised[1] or 1) * int(promised[2])):
        wrong(0, f"the minutes must add up to {promises}, but they add up to {schedule.minutes}")
    planned = {item.notebook for day in days for item in day}
    for table in tables(text, CUTS):
        for line, cells in table.rows:
            notebook, _, needed = work(line, cells["cut"])
            if notebook and notebook not in planned:
                wrong(line, f"cuts {cells['cut']!r}, which is not in the plan")
            elif needed is not None and cells["saves"].isdigit() and int(cells["saves"]) > needed:
                wrong(line, f"saves {cells['saves']} minutes of something that takes {needed}")
    return schedule, problems


def _clock(minutes: int) -> str:
    return f"{minutes // 60}:{minutes % 60:02}"


def _numbers(text: str) -> tuple[int, ...]:
    """ "parts 1–3, 5" as (1, 2, 3, 5); nothing if it does not say that."""
    listed = re.fullmatch(r"parts? ((?:\d+(?:[–-]\d+)?(?:, )?)+)", text)
    if not listed:
        return ()
    spans = [re.split("[–-]", span) for span in listed[1].split(", ")]
    return tuple(number for span in spans for number in range(int(span[0]), int(span[-1]) + 1))
