"""Facilitator pages and schedules add up, name what exists and keep a buffer; mistakes are named with their line."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from snnkit.lab.cli.workshop import workshop
from snnkit.lab.course import exercise as registry, order
from snnkit.lab.tools.project import find
from snnkit.lab.workshop import minutes, timetable

PROJECT = find(Path(__file__).parent)
NOTEBOOKS = timetable.notebooks(PROJECT)
FACILITATOR = timetable.pages(PROJECT.root, timetable.FACILITATOR)
SCHEDULES = timetable.pages(PROJECT.root, timetable.SCHEDULES)
LENGTHS = {"90_minutes": 90, "half_day": 240, "two_days": 960}
HOME = {"05", "07", "11", "14", "16", "17", "20", "21"}  # in no schedule
HEAD = (
    "**Minutes:** 90\n\n| start | minutes | what | file | GPU | cut when | rejoin at |\n|---|---|---|---|---|---|---|\n"
)
BUDGET = (PROJECT.root / "workshop" / "gpu_budget.md").read_text(encoding="utf-8")


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(workshop, list(words))
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.chdir(PROJECT.root)


# --- facilitator pages ------------------------------------------------------------------------------------------------


def test_all_pages_fit_the_notebooks():
    assert timetable.check(PROJECT) == []
    assert run("check") == f"3 schedules and {len(NOTEBOOKS)} facilitator pages fit the notebooks\n"


OUTRO = {"Next", "Where next", "Sources", "References"}  # headings that take no time in class
MISTAKES = ("exercise", "what they do", "check that fails", "what to answer")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_facilitator_page_names_each_section_and_checks_that_exist(name):
    page = FACILITATOR[name[:2]]
    headings = re.findall(r"(?m)^# ## (.+?)\s*$", PROJECT.source(name).read_text(encoding="utf-8"))
    (rows,) = timetable.tables(page, timetable.TIMINGS)
    sections = {title.strip() for _, cells in rows for title in cells["section"].split(";") if title}
    assert sections == set(headings) - OUTRO
    checks = {
        order.label(exercise.key): [one.name for one in exercise.checks] for exercise in registry.exercises(name[3:])
    }
    (rows,) = timetable.tables(page, MISTAKES)
    assert {cells["exercise"] for _, cells in rows} == set(checks)
    assert [cells for _, cells in rows if cells["check that fails"] not in checks[cells["exercise"]]] == []
    assert 2 <= timetable.timings(page)[0] <= 10  # the demo


def test_stated_minutes_are_those_of_the_rule(monkeypatch):
    """To one step of five; `snnkit workshop minutes --write` brings them up to date."""
    assert minutes.stale(PROJECT) == []
    longer, known = dataclasses.replace(registry.find("preflight.1"), minutes=40), registry.find
    monkeypatch.setattr(registry, "find", lambda key: longer if key == longer.key else known(key))
    (problem,) = minutes.stale(PROJECT)
    said = r"00_preflight.py: says 25 minutes and 0 .*, but its text and exercises take 6\d and 0; `snnkit"
    assert re.search(said, problem)


def test_what_counts_as_minutes(tmp_path):
    head = '# %% [markdown] tags=["badge"]\n# x\n\n'
    prose = "# %% [markdown]\n# # T\n#\n# 5 minutes\n#\n# ## A (3 minutes)\n# " + "word " * 400 + "$x$ [a](b/c)\n"
    code = "\n# %%\n" + "a = 1\n\n" * 24 + '\n# %%\npredict("preflight.a")\npredict("preflight.b")\n'
    apart = '\n# %% tags=["exercise"]\nb = attempt("preflight.1", b)\n\n# %% [markdown]\n# ### B (optional)\n'
    apart += "# three more words\n"
    (tmp_path / "notebooks" / "src").mkdir(parents=True)
    project = dataclasses.replace(PROJECT, root=tmp_path)
    project.source("00_x").write_text(
        head + prose + code + apart + "#\n# ## References\n# not read\n", encoding="utf-8"
    )
    found = minutes.count(project, "00_x")
    (exercise,) = [one.minutes for one in registry.exercises("preflight")[:1]]
    assert found.sections["A (3 minutes)"] == (400 + 3 + 1, 24, 1, 2, exercise + 3)
    assert found.optional["A (3 minutes)"][:2] == (5, 0) and found.more == 5
    assert found.minutes == 5 * round((406 / 130 + 24 / 8 + 2 + exercise + 3) / 5)


# --- schedules --------------------------------------------------------------------------------------------------------


def read(name: str, text: str | None = None) -> tuple[timetable.Schedule, list[str]]:
    """A schedule, from another text if one is given, and what is wrong with it."""
    return timetable.read(name, PROJECT.root, NOTEBOOKS, text)


@pytest.mark.parametrize("name", LENGTHS)
def test_each_adds_up_and_has_its_buffer(name):
    plan, problems = read(name)
    assert sum(day[-1].end for day in plan.days) == LENGTHS[name] and problems == []
    for day in plan.days:
        assert [item.start for item in day] == [0, *(item.end for item in day[:-1])]
        assert sum(item.minutes for item in day if item.what.lower().startswith("buffer")) >= 0.15 * day[-1].end
    if name == "two_days":
        taught = {item.notebook[:2] for day in plan.days for item in day if item.notebook}
        assert taught == {name[:2] for name in NOTEBOOKS} - HOME
    assert (plan.gpu_minutes("on", "optional") > 0) == (name == "two_days")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("notebooks/00_preflight.ipynb", "notebooks/77_nothing.ipynb", "15: there is no notebook '77_nothing'; there"),
        ("| 0:00 | 3 | Welcome", "| 0:00 | 4 | Welcome", "starts at 0:03, but the row before ends at 0:04"),
        ("| 0:00 | 3 | Welcome", "| 0:00 | 4 | Welcome", "but it says 90 and has 91"),
        ("| 0:03 | ", "| 0:03 | 9", " minutes, but its parts take "),
        ("| Buffer: ", "| ", "the buffer must be at least 15% of 90 minutes, but it is "),
        ("parts 1–2", "parts 1–33", "numbers of 01_first_spiking_neuron: 0, 1, 2, 3"),
        (
            " | the next slide: nobody needs 01.2 |",
            " | – |",
            "needs a sign when to cut it, and a place where those who",
        ),
        ("**Minutes:** 90", "**Minutes:** 2 × 90", "but it says 180 and has 90"),
    ],
)
def test_mistakes_in_a_schedule(old, new, says):
    assert old in SCHEDULES["90_minutes"]
    problems = read("90_minutes", SCHEDULES["90_minutes"].replace(old, new, 1))[1]
    assert any(says in problem for problem in problems), problems


@pytest.mark.parametrize(
    "row", ["| 0:00 | ² | a | b | off |", f"| 0:00 | {'9' * 5000} | a | b | off |", "| 0:00 | 3 |"]
)
def test_nonsense_in_a_schedule_is_a_problem_of_its_line(row):
    assert read("x", f"{HEAD}{row}\n")[1][0].startswith("workshop/schedules/x.md:5: start, minutes and GPU must be")


# --- commands, and the figures of the budget page ---------------------------------------------------------------------


def test_check_names_what_is_wrong(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[tool.snnkit]\nrepository = "https://github.com/someone/kit"\n')
    source = tmp_path / "notebooks" / "src" / "00_one.py"
    source.parent.mkdir(parents=True)
    source.write_text("# %% [markdown]\n# # One\n# 10 minutes\n#\n# ## Only\n")
    monkeypatch.chdir(tmp_path)
    assert "facilitator/00.md: is missing; it says how many minutes the parts of 00_one take" in run("check", code=1)


def test_a_schedule_by_the_clock():
    lines = run("schedule", "90_minutes", "--start", "14:05").splitlines()
    assert lines[0].startswith("14:05    3 min  Welcome") and lines[-1] == "15:35           end"
    assert any("(01 parts 1, 2)" in line for line in lines)
    assert run("schedule").split() == ["90_minutes", "half_day", "two_days"]
    two = run("schedule", "two_days", "--start", "9:00")
    assert two.count("end") >= 2 and "Day 2" in two and "[GPU on]" in two
    assert "unknown schedule 'noon'" in run("schedule", "noon", code=2)
    assert "'25:00' does not match" in run("schedule", "half_day", "--start", "25:00", code=2)


def rows_of(first):
    """The rows of the page's table whose first column is called so."""
    head = next(line for line in BUDGET.splitlines() if line.startswith(f"| {first} |"))
    (rows,) = timetable.tables(BUDGET, [cell.strip() for cell in head.strip("|").split("|")])
    return [row for _, row in rows]


def test_the_budget_of_a_schedule_is_what_the_page_says():
    text = run("budget", "two_days", "--people", "30")
    plan = timetable.load("two_days", PROJECT)
    on, both = plan.gpu_minutes("on"), plan.gpu_minutes("on", "optional")
    hours = f"{on / 2:.1f} GPU hours ({on} min each), {both / 2:.1f} with what is opt"
    assert text.startswith(f"two_days, 30 people: {hours}")
    assert "unknown schedule" in run("budget", "noon", code=2)
    rows = rows_of("schedule")
    assert {row["schedule"] for row in rows} == set(SCHEDULES)
    for row in rows:
        name, people, on, both = row.values()
        assert f" {on} GPU hours" in run("budget", name, "--people", people)
        assert f" {both} with what is optional" in run("budget", name, "--people", people)


def test_the_measured_column_is_what_the_programs_reports_say():
    files = sorted((PROJECT.root / "workshop" / "quick_runs").glob("*.json"))
    reports = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    measured = {one["name"]: one for report in reports for one in report["notebooks"]}
    rows = rows_of("notebook")
    assert [row["notebook"][1:3] for row in rows] == [name[:2] for name in NOTEBOOKS]
    for name, row in zip(NOTEBOOKS, rows, strict=True):
        assert int(row["connected (min)"]) == NOTEBOOKS[name]
        expected = "–", "–"  # not measured yet, and no guess in its place
        if name in measured:
            assert measured[name]["status"] == "ok"
            expected = f"{measured[name]['seconds']:.0f}", f"{round(measured[name]['peak_mb'], -1):.0f}"
        assert (row["quick run (s)"], row["memory (MB)"]) == expected
    for report in reports:
        environment = report["environment"]
        assert environment["parameters"] == {"SOLVE": True, "QUICK": True}
        for fact in (environment["torch"], environment["python"], environment["date"][:10], environment["processor"]):
            assert fact in BUDGET
