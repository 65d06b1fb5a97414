"""Schedules add up, name what exists, and keep a buffer; a schedule that doesn't is told so by its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from snnkit.tools.project import find
from snnkit.workshop import facilitator, material, schedule
from snnkit.workshop.markdown import Page
from snnkit.workshop.problem import WorkshopError

PROJECT = find(Path(__file__).parent)
NOTEBOOKS = material.notebooks(PROJECT)
TIMINGS = {number: facilitator.timings(page) for number, page in facilitator.pages(PROJECT.root).items()}
PAGES = schedule.pages(PROJECT.root)
LENGTHS = {"90_minutes": 90, "half_day": 240, "two_days": 960}


def read(name: str, text: str | None = None) -> tuple[schedule.Schedule, list[str]]:
    """A schedule, from another text if one is given, and what is wrong with it."""
    page = PAGES[name] if text is None else Page(PAGES[name].name, text)
    plan, problems = schedule.read(page, PROJECT.root, NOTEBOOKS, TIMINGS)
    return plan, [str(problem) for problem in problems]


def changed(old: str, new: str, name: str = "90_minutes") -> list[str]:
    """What is wrong with a schedule after one replacement."""
    text = PAGES[name].text
    assert old in text
    return read(name, text.replace(old, new, 1))[1]


def test_there_are_the_three_and_no_problem():
    assert set(PAGES) == set(LENGTHS)
    assert schedule.check(PROJECT.root, NOTEBOOKS) == []


@pytest.mark.parametrize("name", LENGTHS)
def test_each_adds_up_and_has_its_buffer(name):
    plan, _ = read(name)
    assert plan.minutes == LENGTHS[name]
    for day in plan.days:
        assert day[0].start == 0
        assert [item.start for item in day[1:]] == [item.start + item.minutes for item in day[:-1]]
        assert sum(item.minutes for item in day if item.buffer) >= 0.15 * sum(item.minutes for item in day)


@pytest.mark.parametrize("name", LENGTHS)
def test_each_says_where_the_gpu_goes_on_what_to_cut_and_what_to_say(name):
    page = PAGES[name]
    for heading in schedule.HEADINGS:
        assert page.section(heading).text.strip()
    assert len(re.findall('“|"', page.section("When time is short, say").text)) >= 6
    cuts = [int(row.cells["saves"]) for row in page.section("Cut list").tables[0].rows]
    assert sum(cuts) >= 0.07 * LENGTHS[name]


def test_two_days_touch_every_notebook_and_the_short_ones_need_no_gpu():
    plan, _ = read("two_days")
    assert {item.notebook for day in plan.days for item in day if item.notebook} == set(NOTEBOOKS)
    assert plan.gpu_minutes("on") > 0
    for name in ("90_minutes", "half_day"):
        assert read(name)[0].gpu_minutes("on", "optional") == 0


def test_parts_are_read():
    plan, _ = read("90_minutes")
    (first, *_) = [item for item in plan.days[0] if item.notebook == "00_preflight"]
    assert first.parts == (1, 2, 4, 5) and first.minutes == 7
    assert any(item.parts == () for item in plan.days[0])  # a demo
    assert read("half_day")[0].days[0][1].parts is None  # all of it


# --- mistakes, each named with its line -------------------------------------------------------------------------------


def line_of(fragment: str, name: str = "90_minutes") -> int:
    return next(number for number, line in enumerate(PAGES[name].text.splitlines(), 1) if fragment in line)


def test_an_unknown_notebook_is_named():
    (first, *_) = changed("notebooks/00_preflight.ipynb", "notebooks/77_nothing.ipynb")
    assert first.startswith(
        f"workshop/schedules/90_minutes.md:{line_of('00_preflight')}: there is no notebook '77_nothing'"
    )
    assert "01_first_spiking_neuron" in first  # those there are


def test_minutes_that_do_not_add_up():
    line = line_of("| 0:34 | 5 | Buffer")
    problems = changed("| 0:34 | 5 | Buffer", "| 0:34 | 6 | Buffer")
    assert any(f":{line + 1}: starts at 0:39, but the row before ends at 0:40" in problem for problem in problems)
    assert any("the minutes add up to 91, not to 90" in problem for problem in problems)


def test_minutes_that_are_not_those_of_the_notebook():
    problems = changed("| 0:13 | 21 |", "| 0:13 | 11 |")
    assert any("has 11 minutes for what takes 21 by the facilitator page" in problem for problem in problems)
    problems = changed("| 0:05 | 10 |", "| 0:05 | 12 |", "half_day")
    assert any("has 12 minutes for what takes 10" in problem for problem in problems)


def test_too_little_buffer():
    problems = changed("| Buffer: questions |", "| Questions |")
    assert any("the buffer is 10 of 90 minutes (11%), less than 15%" in problem for problem in problems)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("parts 2–3", "parts 2–33", "numbers of 01_first_spiking_neuron: 1, 2, 3"),
        ("parts 2–3", "some parts", "must be 'demo', or 'parts'"),
        ("../feedback.md", "../feedbock.md", "links to ../feedbock.md, which does not exist"),
        ("| – | off |", "| – | of |", "GPU must be one of off, optional, on, but it is 'of'"),
        ("| 0:03 | 7 |", "| 3 | 7 |", "start must be hours:minutes"),
        ("**Minutes:** 90", "Minutes: 90", "must say its length"),
        ("**Minutes:** 90", "**Minutes:** 2 × 90", "has 1 tables"),
        ("## Cut list", "## Cuts", "has nothing under the heading 'Cut list'"),
        (
            "| [02](../../notebooks/02_surrogate_gradients.ipynb) demo | 4 |",
            "| [05](../../notebooks/05_moving_house.ipynb) demo | 4 |",
            "which is not in the plan",
        ),
        ("parts 5 | 1 |", "parts 5 | 9 |", "saves 9 minutes of something that takes 1"),
    ],
)  # fmt: skip
def test_other_mistakes(old, new, said):
    assert any(said in problem for problem in changed(old, new))


def test_a_notebook_without_a_facilitator_page_is_named():
    _, problems = schedule.read(PAGES["half_day"], PROJECT.root, NOTEBOOKS, {})
    assert any("00_preflight has no facilitator page" in problem.text for problem in problems)


def test_loading_an_unknown_or_a_wrong_one(tmp_path):
    with pytest.raises(WorkshopError, match="unknown schedule 'noon'; there are: 90_minutes, half_day, two_days"):
        schedule.load("noon", PROJECT.root, NOTEBOOKS)
    (tmp_path / "workshop" / "schedules").mkdir(parents=True)
    (tmp_path / "workshop" / "schedules" / "noon.md").write_text("# Noon\n")
    with pytest.raises(WorkshopError, match=r"workshop/schedules/noon\.md: "):
        schedule.load("noon", tmp_path, NOTEBOOKS)
