"""The notebooks as the workshop's pages see them: minutes, headings, and which exercise stands under which heading."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from snnkit.tools.project import Project

from .problem import Problem, WorkshopError

OUTRO = {"Next", "Where next", "Sources", "References"}  # headings that take no time in class


@dataclass(frozen=True)
class Notebook:
    """What a notebook promises.

    Attributes:
        name: "01_first_spiking_neuron"
        minutes: of the whole notebook in class, as it says at its top.
        headings: its headings of level 2, in order, without those after the end.
        exercises: the keys of its exercises, each with the heading that it stands under.
    """

    name: str
    minutes: int
    headings: tuple[str, ...]
    exercises: Mapping[str, str]

    @property
    def number(self) -> str:
        return self.name[:2]


def notebooks(project: Project) -> dict[str, Notebook]:
    """All notebooks of the project by name, in order. WorkshopError if one does not say how many minutes it takes."""
    return {name: _notebook(name, project.source(name)) for name in project.names()}


def check(project: Project, known: Mapping[str, Notebook]) -> list[Problem]:
    """Where the README's table of notebooks says other minutes than the notebooks themselves, or none."""
    try:
        readme = (project.root / "README.md").read_text(encoding="utf-8")
    except OSError as error:
        return [Problem("README.md", 0, f"can't be read: {error.strerror or error}")]
    said = {}
    for line, text in enumerate(readme.splitlines(), 1):
        if row := re.match(r"\| *\[[^\]]*\]\(notebooks/(\w+)\.ipynb\) *\| *(\d+) *\|", text):
            said[row[1]] = line, int(row[2])
    problems = []
    for name, notebook in known.items():
        line, minutes = said.get(name, (0, 0))
        if not line:
            problems.append(Problem("README.md", 0, f"the table of notebooks has no row with the minutes of {name}"))
        elif minutes != notebook.minutes:
            problems.append(Problem("README.md", line, f"says {minutes} minutes, and {name} itself {notebook.minutes}"))
    return problems


def _notebook(name: str, source: Path) -> Notebook:
    text = source.read_text(encoding="utf-8")
    top = re.search(r"(\d+) min", text.partition('tags=["bootstrap"]')[0])
    if not top:
        raise WorkshopError(f"{source.name}: says nowhere at its top how many minutes it takes")
    heading, headings, exercises = "", [], {}
    for line in text.splitlines():
        if title := re.fullmatch(r"# ## (.+?)\s*", line):
            heading = title[1]
            if heading not in OUTRO:
                headings.append(heading)
        elif key := re.search(r'\battempt\("(\d\d\.\d+)"', line):
            exercises.setdefault(key[1], heading)
    return Notebook(name, int(top[1]), tuple(headings), exercises)
