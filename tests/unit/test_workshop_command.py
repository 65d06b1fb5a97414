"""The command `snnkit workshop`, and the figures of the budget page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from snnkit.cli.workshop import workshop
from snnkit.tools.project import find
from snnkit.workshop import handouts, timetable
from snnkit.workshop import preflight as preflight_module

PROJECT = find(Path(__file__).parent)
NOTEBOOKS = timetable.notebooks(PROJECT)
BUDGET = (PROJECT.root / "workshop" / "gpu_budget.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.chdir(PROJECT.root)
    monkeypatch.setattr(preflight_module, "reachable", lambda: None)


def run(*words: str, code: int = 0, stdin: str | None = None) -> str:
    result = CliRunner().invoke(workshop, list(words), input=stdin)
    assert result.exit_code == code, result.output
    return result.output


def test_check_finds_nothing():
    assert run("check") == f"3 schedules and {len(NOTEBOOKS)} facilitator pages fit the notebooks\n"


def test_check_names_what_is_wrong(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[tool.snnkit]\nrepository = "https://github.com/someone/kit"\n')
    source = tmp_path / "notebooks" / "src" / "00_one.py"
    source.parent.mkdir(parents=True)
    source.write_text("# %% [markdown]\n# # One\n# 10 minutes\n#\n# ## Only\n")
    monkeypatch.chdir(tmp_path)
    said = run("check", code=1)
    assert "workshop/facilitator/00.md: missing: the facilitator page of 00_one" in said


def test_a_schedule_by_the_clock():
    said = run("schedule", "90_minutes", "--start", "14:05").splitlines()
    assert said[0].startswith("14:05    3 min  Welcome") and said[-1] == "15:35           end"
    assert any("(01 parts 2, 3)" in line for line in said)
    assert run("schedule").split() == ["90_minutes", "half_day", "two_days"]
    two = run("schedule", "two_days", "--start", "9:00")
    assert two.count("end") >= 2 and "Day 2" in two and "[GPU on]" in two
    assert "unknown schedule 'noon'" in run("schedule", "noon", code=2)
    assert "--start must be a time such as 09:00, but it is '25:00'" in run(
        "schedule", "half_day", "--start", "25:00", code=2
    )


def test_preflight_prints_one_line_and_collects_it():
    line = run("preflight", "--name", "Ada L.").splitlines()[0]
    assert "name=Ada%20L." in line
    said = run("preflight", "--collect", "-", "--expect", "2", stdin=f"[9:00] Ada: {line}\n")
    assert "1 machines" in said and "1 of 2 have not answered" in said
    assert "1 STOP" in run("preflight", "--collect", "-", code=1, stdin=stopped(line))


def stopped(line: str) -> str:
    """The same machine, with a verdict that stops it."""
    from snnkit.workshop.preflight import Verdict, read_line

    found = read_line(line)
    assert found is not None
    return Verdict("STOP", found.facts).line()


def test_preflight_refuses_what_it_does_not_know(tmp_path):
    assert "needs must be of gpu, network, mnist, fashion" in run("preflight", "--need", "tea", code=2)
    assert "there is no file or folder" in run("preflight", "--collect", str(tmp_path / "no"), code=2)
    assert "go with --collect" in run("preflight", "--expect", "3", code=2)


def test_preflight_writes_a_csv(tmp_path):
    line = run("preflight", "--name", "ada").splitlines()[0]
    file = tmp_path / "lines.txt"
    file.write_text(line)
    table = tmp_path / "room.csv"
    run("preflight", "--collect", str(file), "--csv", str(table))
    assert table.read_text().count("\n") == 2
    assert "can't read or write" in run("preflight", "--collect", str(file), "--csv", str(file / "x.csv"), code=1)


# --- the cheatsheet ---------------------------------------------------------------------------------------------------


def test_the_cheatsheet_as_text_and_as_a_page_for_a_printer(tmp_path):
    assert run("cheatsheet").startswith("# snnkit: the cheatsheet")
    page = tmp_path / "sheet.html"
    run("cheatsheet", "--html", str(page))
    html = page.read_text()
    assert "@page" in html and "@media print" in html and "prefers" not in html
    assert html.count("<table>") == 2 and "class Mine(neuron.Neuron)" in html
    assert not re.search(r'(src|href)="(?!https?:)', html)  # one file, nothing to load


def test_without_a_cheatsheet_there_is_an_error_that_names_it(tmp_path):
    with pytest.raises(ValueError, match=r"can't read .*cheatsheet\.md"):
        handouts.cheatsheet(tmp_path)


# --- the budget -------------------------------------------------------------------------------------------------------


def table_of(first):
    """The columns and rows of the table whose first column is called so."""
    head = next(line for line in BUDGET.splitlines() if line.startswith(f"| {first} |"))
    columns = [cell.strip() for cell in head.strip("|").split("|")]
    (table,) = timetable.tables(BUDGET, columns)
    return columns, [row for _, row in table.rows]


def test_the_budget_of_a_schedule():
    said = run("budget", "two_days", "--people", "30")
    assert said.startswith("two_days, 30 people: 35.0 GPU hours (70 min each), 85.0 with what is optional")
    assert "unknown schedule" in run("budget", "noon", code=2)


def test_the_table_of_rooms_is_what_the_schedules_say():
    _, rows = table_of("schedule")
    assert {row["schedule"] for row in rows} == set(timetable.pages(PROJECT.root, timetable.SCHEDULES))
    for row in rows:
        name, people, on, both = row.values()
        least, most = timetable.load(name, PROJECT).gpu_hours(int(people))
        assert (f"{least:.1f}", f"{most:.1f}") == (on, both)


def test_the_table_of_shared_gpus_is_what_the_formula_says():
    columns, rows = table_of("people")
    headings = [re.fullmatch(r"busy (\d+) % \(guess\), (\d+) GiB", column) for column in columns[1:]]
    assert [int(row["people"]) for row in rows] == [10, 30, 200]
    for row in rows:
        people, *counts = map(int, row.values())
        for column, count in zip(headings, counts, strict=True):
            assert timetable.gpus_to_share(people, int(column[1]) / 100, int(column[2])) == count


def test_the_measured_column_is_what_the_programs_reports_say():
    files = sorted((PROJECT.root / "workshop" / "quick_runs").glob("*.json"))
    reports = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    measured = {one["name"]: one for report in reports for one in report["notebooks"]}
    _, rows = table_of("notebook")
    assert [row["notebook"][1:3] for row in rows] == [name[:2] for name in NOTEBOOKS]
    for name, row in zip(NOTEBOOKS, rows, strict=True):
        assert int(row["connected (min)"]) == NOTEBOOKS[name].minutes
        if name in measured:
            assert measured[name]["status"] == "ok"
            expected = f"{measured[name]['seconds']:.0f}", f"{round(measured[name]['peak_mb'], -1):.0f}"
        else:
            expected = "–", "–"  # not measured yet, and no guess in its place
        assert (row["quick run (s)"], row["memory (MB)"]) == expected
    for report in reports:
        environment = report["environment"]
        assert environment["parameters"] == {"SOLVE": True, "QUICK": True}
        for fact in (environment["torch"], environment["python"], environment["date"][:10], environment["processor"]):
            assert fact in BUDGET


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((0, 0.1, 16), "people must be at least 1, but it is 0"),
        ((10, 0.0, 16), "busy must be above 0 and at most 1, but it is 0.0"),
        ((10, 1.5, 16), "busy must be above 0 and at most 1, but it is 1.5"),
        ((10, 0.5, 1), "memory_gib must be at least each_gib, 2.0, but it is 1"),
    ],
)
def test_budgets_of_nothing_are_refused(arguments, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        timetable.gpus_to_share(*arguments)


def test_a_budget_needs_people():
    with pytest.raises(ValueError, match="people must be at least 1, but it is 0"):
        timetable.load("half_day", PROJECT).gpu_hours(0)
