"""Facilitator pages: one for each notebook, in the same form, with timings that add up."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from snnkit.course import exercise as registry
from snnkit.course.exercise import Exercise

from .markdown import Page, Section
from .material import Notebook
from .problem import Problem

FOLDER = "workshop/facilitator"
HEADINGS = ("Goals", "Timings", "Demo script", "Common mistakes", "Discussion")
TIMINGS = ("part", "min", "section", "what happens", "when late")
MISTAKES = ("exercise", "what they do", "check that fails", "what to answer")
HOME = 0  # minutes of a part that is for home
QUESTIONS = 3  # a page has at least so many for the group


@dataclass(frozen=True)
class Timings:
    """How a notebook's minutes are spent: minutes by the number of the part, and of the demo."""

    parts: Mapping[int, int]
    demo: int

    @property
    def total(self) -> int:
        return sum(self.parts.values())


def pages(root: Path) -> dict[str, Page]:
    """The pages there are, by the notebook's two digits."""
    return {file.stem: Page.read(file, root) for file in sorted((root / FOLDER).glob("[0-9][0-9].md"))}


def check(
    notebooks: Mapping[str, Notebook],
    found: Mapping[str, Page],
    exercises: Callable[[str], Sequence[Exercise]] = registry.exercises,
) -> list[Problem]:
    """What is missing or wrong in the facilitator pages; a notebook without a page, and a page without a notebook."""
    problems = []
    for notebook in notebooks.values():
        page = found.get(notebook.number)
        if page is None:
            problems.append(
                Problem(f"{FOLDER}/{notebook.number}.md", 0, f"missing: the facilitator page of {notebook.name}")
            )
        else:
            problems += _check(page, notebook, exercises(notebook.number))
    numbers = {notebook.number for notebook in notebooks.values()}
    strangers = sorted(set(found) - numbers)
    return problems + [Problem(found[n].name, 0, f"there is no notebook {n}") for n in strangers]


def timings(page: Page) -> Timings:
    """The timings of a page that `check` found to be in order; what can't be read is left out."""
    parts = {}
    for part, minutes, _ in _parts(page.section("Timings")):
        if part.isdigit() and minutes.isdigit():
            parts[int(part)] = int(minutes)
    return Timings(parts, _demo(page))


def _demo(page: Page) -> int:
    section = page.section("Demo script")
    minutes = re.search(r"\((\d+) min\)", section.title) if section else None
    return int(minutes[1]) if minutes else 0


def _parts(section: Section | None) -> list[tuple[str, str, int]]:
    """(part, minutes, line) of each row of the timings, without the sum."""
    tables = section.tables if section else []
    rows = tables[0].rows if tables else ()
    return [(row.cells.get("part", ""), row.cells.get("min", ""), row.line) for row in rows if row.cells.get("section")]


def _check(page: Page, notebook: Notebook, exercises: Sequence[Exercise]) -> list[Problem]:
    problems = []
    for heading in HEADINGS:
        section = page.section(heading)
        if section is None:
            problems.append(Problem(page.name, 0, f"has no heading {heading!r}"))
        elif not section.text.strip():
            problems.append(Problem(page.name, section.line, f"nothing stands under {section.title!r}"))
    if f"{notebook.name}.ipynb" not in {Path(target).name for _, _, target in page.links}:
        problems.append(Problem(page.name, 0, f"has no link to its notebook, {notebook.name}.ipynb"))
    if page.section("Demo script") and not _demo(page):
        line = page.section("Demo script").line  # pyright: ignore[reportOptionalMemberAccess]
        problems.append(Problem(page.name, line, "the demo's heading needs its minutes: Demo script (5 min)"))
    if section := page.section("Timings"):
        problems += _check_timings(page, section, notebook, exercises)
    if section := page.section("Common mistakes"):
        problems += _check_mistakes(page, section, exercises)
    if section := page.section("Discussion"):
        asked = len(re.findall(r"(?m)^\d+\. ", section.text))
        if asked < QUESTIONS:
            text = f"needs at least {QUESTIONS} numbered questions for the group, has {asked}"
            problems.append(Problem(page.name, section.line, text))
    return problems


def _check_timings(page: Page, section: Section, notebook: Notebook, exercises: Sequence[Exercise]) -> list[Problem]:
    tables = section.tables
    if len(tables) != 1 or tables[0].columns != TIMINGS:
        return [Problem(page.name, section.line, f"timings must be one table with the columns {' | '.join(TIMINGS)}")]
    problems, covered, minutes_at = [], {}, {}
    total, last = 0, 0
    for row in tables[0].rows:
        part, minutes, titles = (row.cells.get(name, "") for name in ("part", "min", "section"))
        if not minutes.isdigit():
            problems.append(Problem(page.name, row.line, f"min must be a whole number, but it is {minutes!r}"))
            continue
        if not titles:  # the sum
            last = int(minutes)
            continue
        if part != str(len(minutes_at) + 1):
            problems.append(Problem(page.name, row.line, f"part must be {len(minutes_at) + 1}, but it is {part!r}"))
        minutes_at[row.line] = int(minutes)
        total += int(minutes)
        for title in (title.strip() for title in titles.split(";")):
            if title not in notebook.headings:
                known = "; ".join(notebook.headings)
                problems.append(
                    Problem(page.name, row.line, f"{notebook.name} has no section {title!r}; it has: {known}")
                )
            covered[title] = row.line
    missing = [title for title in notebook.headings if title not in covered]
    if missing:
        problems.append(Problem(page.name, section.line, f"no minutes for the section {missing[0]!r}"))
    if total != notebook.minutes or last != total:
        said = f"the parts add up to {total}, the last row says {last}, the notebook says {notebook.minutes}"
        problems.append(Problem(page.name, section.line, f"timings: {said}"))
    minutes_of = {exercise.key: exercise.minutes for exercise in exercises}
    for line, minutes in minutes_at.items():
        here = [key for key, title in notebook.exercises.items() if covered.get(title) == line]
        needed = sum(minutes_of.get(key, 0) for key in here)
        if minutes != HOME and minutes < needed:
            text = f"{minutes} min are too few for {' and '.join(here)}, which take {needed}"
            problems.append(Problem(page.name, line, text))
    return problems


def _check_mistakes(page: Page, section: Section, exercises: Sequence[Exercise]) -> list[Problem]:
    tables = section.tables
    if not tables or tables[0].columns != MISTAKES:
        return [Problem(page.name, section.line, f"mistakes must be a table with the columns {' | '.join(MISTAKES)}")]
    problems, named = [], set()
    checks = {exercise.key: {check.name for check in exercise.checks} for exercise in exercises}
    for row in tables[0].rows:
        key, check, answer = (row.cells.get(name, "") for name in ("exercise", "check that fails", "what to answer"))
        if key not in checks:
            problems.append(Problem(page.name, row.line, f"there is no exercise {key!r} in this notebook"))
            continue
        named.add(key)
        if check not in checks[key]:
            known = "; ".join(sorted(checks[key]))
            problems.append(Problem(page.name, row.line, f"{key} has no check {check!r}; it has: {known}"))
        if not answer:
            problems.append(Problem(page.name, row.line, "says no answer"))
    problems += [Problem(page.name, section.line, f"names no mistake of {key}") for key in sorted(set(checks) - named)]
    return problems
