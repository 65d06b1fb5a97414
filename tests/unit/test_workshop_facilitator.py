"""Every notebook has its facilitator page, in the same form, with timings that add up and every exercise in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from snnkit.course import exercise as registry
from snnkit.tools.project import find
from snnkit.workshop import facilitator, links, material
from snnkit.workshop.markdown import Page

from .tiny_project import make

PROJECT = find(Path(__file__).parent)
NOTEBOOKS = material.notebooks(PROJECT)
PAGES = facilitator.pages(PROJECT.root)


def wrong(old: str = "", new: str = "", number: str = "01") -> list[str]:
    """What is wrong with one page after a replacement."""
    page = PAGES[number]
    assert old in page.text
    text = page.text.replace(old, new, 1) if old else page.text
    (notebook,) = [one for one in NOTEBOOKS.values() if one.number == number]
    return [str(p) for p in facilitator.check({notebook.name: notebook}, {number: Page(page.name, text)})]


def test_no_problem():
    assert facilitator.check(NOTEBOOKS, PAGES) == []
    assert material.check(PROJECT, NOTEBOOKS) == []
    assert links.check(PROJECT.root) == []


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_each_page_has_all_of_its_parts(name):
    notebook, page = NOTEBOOKS[name], PAGES[name[:2]]
    for heading in facilitator.HEADINGS:
        assert page.section(heading).text.strip()
    assert facilitator.timings(page).total == notebook.minutes
    assert 2 <= facilitator.timings(page).demo <= 10
    mistakes = page.section("Common mistakes").text
    for exercise in registry.exercises(notebook.number):
        assert f"| {exercise.key} |" in mistakes
    assert set(notebook.exercises) == {exercise.key for exercise in registry.exercises(notebook.number)}


def test_a_missing_page_is_named():
    pages = {number: page for number, page in PAGES.items() if number != "04"}
    (problem,) = facilitator.check(NOTEBOOKS, pages)
    assert str(problem) == "workshop/facilitator/04.md: missing: the facilitator page of 04_train_your_first_network"


def test_a_page_without_a_notebook_is_named():
    (problem,) = facilitator.check(NOTEBOOKS, {**PAGES, "77": Page("workshop/facilitator/77.md", "# 77\n")})
    assert str(problem) == "workshop/facilitator/77.md: there is no notebook 77"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("## Goals", "## Gaols", "has no heading 'Goals'"),
        ("01_first_spiking_neuron.ipynb", "01.ipynb", "has no link to its notebook"),
        ("Demo script (6 min)", "Demo script", "needs its minutes"),
        ("| 1 | 3 | 1. A leaky bucket", "| 1 | 4 | 1. A leaky bucket", "the parts add up to 36"),
        ("| 1 | 3 | 1. A leaky bucket", "| 1 | 3 | 1. A bucket", "has no section '1. A bucket'; it has: 1. A leaky"),
        ("| 1 | 3 | 1. A leaky bucket", "| 9 | 3 | 1. A leaky bucket", "part must be 1, but it is '9'"),
        ("| 2 | 9 | 2. From", "| 2 | 5 | 2. From", "5 min are too few for 01.1, which take 6"),
        ("| 2 | 9 | 2. From", "| 2 | nine | 2. From", "min must be a whole number, but it is 'nine'"),
        ("| 8 | 2 | Quiz |", "| 8 | 2 | 1. A leaky bucket |", "no minutes for the section 'Quiz'"),
        ("| part | min |", "| nr | min |", "timings must be one table"),
        ("| without input it leaks |", "| it leaks |", "01.1 has no check 'it leaks'"),
        ("| 01.1 |", "| 07.1 |", "there is no exercise '07.1' in this notebook"),
        ("4. *", "Also: *", ""),
    ],
)
def test_mistakes_in_a_page(old, new, said):
    found = wrong(old, new)
    assert any(said in problem for problem in found) if said else found == []


def test_an_exercise_that_no_row_names():
    rows = [line for line in PAGES["01"].text.splitlines() if line.startswith("| 01.2 |")]
    assert any("names no mistake of 01.2" in problem for problem in wrong("\n".join(rows), ""))


def test_too_few_questions():
    text = PAGES["01"].text
    start = text.index("## Discussion")
    assert any(
        "at least 3 numbered questions" in problem for problem in wrong(text[start:], "## Discussion\n\n1. *Why?*\n")
    )


def test_the_readme_and_the_notebook_must_agree(tmp_path):
    project = make(tmp_path, {"00_one": "# ## A\n"})
    source = project.source("00_one")
    source.write_text(source.read_text().replace("# # A title", "# # A title\n#\n# 20 minutes\n#\n# ## First"))
    (notebook,) = material.notebooks(project).values()
    assert (notebook.minutes, notebook.headings) == (20, ("First", "A"))
    assert "can't be read" in str(material.check(project, {"00_one": notebook})[0])
    readme = tmp_path / "README.md"
    readme.write_text("# Kit\n")
    assert "has no row with the minutes of 00_one" in str(material.check(project, {"00_one": notebook})[0])
    readme.write_text("# Kit\n\n| [One](notebooks/00_one.ipynb) | 25 | what |\n")
    (problem,) = material.check(project, {"00_one": notebook})
    assert str(problem) == "README.md:3: says 25 minutes, and 00_one itself 20"
    assert material.check(project, {"00_one": replace(notebook, minutes=25)}) == []


def test_links_that_lead_nowhere_are_named(tmp_path):
    (tmp_path / "workshop").mkdir()
    (tmp_path / "workshop" / "a.md").write_text(
        "# A b\n\n[x](b.md) [y](#a-b) [z](a.md#no) [w](https://nowhere.example)\n"
    )
    assert [str(problem) for problem in links.check(tmp_path)] == [
        "workshop/a.md:3: links to b.md, which does not exist",
        "workshop/a.md:3: links to a.md#no, but there is no such heading",
    ]
