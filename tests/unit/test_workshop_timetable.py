"""Facilitator pages and schedules add up, name what exists and keep a buffer; mistakes are named with their line."""

from __future__ import annotations

from pathlib import Path

import pytest

from snnkit.course import exercise as registry
from snnkit.tools.project import find
from snnkit.workshop import timetable
from snnkit.workshop.timetable import WorkshopError

PROJECT = find(Path(__file__).parent)
NOTEBOOKS = timetable.notebooks(PROJECT)
FACILITATOR = timetable.pages(PROJECT.root, timetable.FACILITATOR)
SCHEDULES = timetable.pages(PROJECT.root, timetable.SCHEDULES)
LENGTHS = {"90_minutes": 90, "half_day": 240, "two_days": 960}
HEAD = "**Minutes:** 90\n\n| start | minutes | what | file | GPU |\n|---|---|---|---|---|\n"


def test_no_problem():
    assert timetable.check(PROJECT) == []


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_each_facilitator_page_covers_its_notebook(name):
    notebook, page = NOTEBOOKS[name], FACILITATOR[name[:2]]
    timings = timetable.timings(page)
    assert sum(timings.parts.values()) == notebook.minutes and 2 <= timings.demo <= 10
    assert set(notebook.exercises) == {exercise.key for exercise in registry.exercises(notebook.number)}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Demo script (6 min)", "Demo script", "must have a heading with minutes"),
        ("| 1 | 3 | 1. A leaky bucket", "| 1 | 4 | 1. A leaky bucket", "the parts add up to 36"),
        ("| 1 | 3 | 1. A leaky bucket", "| 1 | 3 | 1. A bucket", "has no section '1. A bucket'; it has: 1. A leaky"),
        ("| 2 | 9 | 2. From", "| 2 | 5 | 2. From", "5 min are too few for 01.1: 6"),
        ("| 2 | 9 | 2. From", "| 2 | nine | 2. From", "min must be a whole number, but it is 'nine'"),
        ("| 8 | 2 | Quiz |", "| 8 | 2 | 1. A leaky bucket |", "no minutes for the section 'Quiz'"),
        ("| part | min |", "| nr | min |", "must have tables of part | min"),
        ("| without input it leaks |", "| it leaks |", "01.1 has no check 'it leaks'"),
        ("| 01.1 |", "| 07.1 |", "there is no exercise '07.1' in this notebook"),
        ("| 01.2 |", "| 01.1 |", "names no mistake of 01.2"),
    ],
)
def test_mistakes_in_a_facilitator_page(old, new, said):
    assert old in FACILITATOR["01"]
    page = FACILITATOR["01"].replace(old, new)
    notebook = NOTEBOOKS["01_first_spiking_neuron"]
    problems = timetable.check_facilitator("01.md", page, notebook, registry.exercises("01"))
    assert any(said in str(problem) for problem in problems), problems


# --- schedules --------------------------------------------------------------------------------------------------------


def read(name: str, text: str | None = None) -> tuple[timetable.Schedule, list[str]]:
    """A schedule, from another text if one is given, and what is wrong with it."""
    plan, problems = timetable.read(name, PROJECT.root, NOTEBOOKS, text)
    return plan, [str(problem) for problem in problems]


def changed(old: str, new: str, name: str = "90_minutes") -> list[str]:
    """What is wrong with a schedule after one replacement."""
    assert old in SCHEDULES[name]
    return read(name, SCHEDULES[name].replace(old, new, 1))[1]


@pytest.mark.parametrize("name", LENGTHS)
def test_each_adds_up_and_has_its_buffer(name):
    plan, _ = read(name)
    assert plan.minutes == LENGTHS[name]
    for day in plan.days:
        assert day[0].start == 0
        assert [item.start for item in day[1:]] == [item.start + item.minutes for item in day[:-1]]
        assert sum(item.minutes for item in day if item.buffer) >= 0.15 * sum(item.minutes for item in day)


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


def line_of(fragment: str, name: str = "90_minutes") -> int:
    return next(number for number, line in enumerate(SCHEDULES[name].splitlines(), 1) if fragment in line)


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
    assert any("the minutes must add up to 90, but they add up to 91" in problem for problem in problems)


def test_minutes_that_are_not_those_of_the_notebook():
    problems = changed("| 0:13 | 21 |", "| 0:13 | 11 |")
    assert any("has 11 minutes for what takes 21 by the facilitator page" in problem for problem in problems)
    problems = changed("| 0:05 | 10 |", "| 0:05 | 12 |", "half_day")
    assert any("has 12 minutes for what takes 10" in problem for problem in problems)


def test_too_little_buffer():
    problems = changed("| Buffer: questions |", "| Questions |")
    assert any("the buffer must be at least 15% of 90 minutes, but it is 10" in problem for problem in problems)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("parts 2–3", "parts 2–33", "numbers of 01_first_spiking_neuron: 1, 2, 3"),
        ("parts 2–3", "some parts", "must be 'demo', or 'parts'"),
        ("| – | off |", "| – | of |", "GPU must be one of off, optional, on, but it is 'of'"),
        ("| 0:03 | 7 |", "| 3 | 7 |", "start must be hours:minutes"),
        ("**Minutes:** 90", "Minutes: 90", "must say its length"),
        ("**Minutes:** 90", "**Minutes:** 2 × 90", "must add up to 180, but they add up to 90"),
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


def test_nonsense_in_a_schedule_is_a_problem_of_its_line():
    for row, said in {
        "| 0:00 | ² | a | b | off |": "minutes a whole number",
        f"| 0:00 | {'9' * 5000} | a | b | off |": "minutes a whole number",
        "| 0:00 | 3 |": "GPU must be",
    }.items():
        problems = read("x", f"{HEAD}{row}\n")[1]
        assert any(said in problem and ".md:5:" in problem for problem in problems)
    assert any("must say its length" in problem for problem in read("x", HEAD.replace("90", "9" * 5000))[1])


def test_loading_an_unknown_or_a_wrong_one(tmp_path):
    with pytest.raises(WorkshopError, match="unknown schedule 'noon'; there are: 90_minutes, half_day, two_days"):
        timetable.load("noon", PROJECT)
    (tmp_path / "pyproject.toml").write_text('[tool.snnkit]\nrepository = "https://github.com/someone/kit"\n')
    (tmp_path / "workshop" / "schedules").mkdir(parents=True)
    (tmp_path / "workshop" / "schedules" / "noon.md").write_text("# Noon\n")
    with pytest.raises(WorkshopError, match=r"workshop/schedules/noon\.md: "):
        timetable.load("noon", find(tmp_path))
