import json
import os
import pkgutil
import sys
from types import ModuleType

import pytest

from snnkit import course
from snnkit.course import attempt, expect, hint, scorecard, solution
from snnkit.course.exercise import Check, Exercise, Question
from snnkit.course.progress import Progress, default_path


def double(x):
    return 2 * x


def _doubles(candidate, reference):
    expect.close(candidate(3.0), reference(3.0), "It doubles.")


@pytest.fixture(autouse=True)
def notebook(monkeypatch):
    module = ModuleType("snnkit.course.nb99")
    module.EXERCISES = [
        Exercise(f"99.{n}", f"Double <{n}>", double, [Check("doubles", _doubles)], hints=("twice",)) for n in (1, 2)
    ]
    module.QUIZ = [Question("?", ("a", "b"), 0, "why")]
    monkeypatch.setitem(sys.modules, "snnkit.course.nb99", module)


def test_a_fresh_card_is_all_to_do():
    card = scorecard("99")
    assert card.passed == 0 and card.quiz == (None,)
    assert [row.status for row in card.exercises] == ["to do", "to do"]
    assert "0 of 2 exercises passed" in repr(card)


def test_attempts_hints_and_solutions_are_counted(capsys):
    attempt("99.1", lambda x: x)
    attempt("99.1", lambda x: x + x)
    attempt("99.1", lambda x: x)
    hint("99.2")
    solution("99.2")
    one, two = scorecard("99").exercises
    assert (one.status, one.attempts) == ("passed", 3)
    assert (two.status, two.hints, two.solution_seen) == ("to do", 1, True)
    card = scorecard("99")
    assert "✓ 99.1 Double <1>: passed, 3 attempts" in repr(card)
    assert "99.2 Double <2>: to do, 1 hint, solution seen" in repr(card)
    assert "Double &lt;1&gt;" in card._repr_html_()


def unwritten(x):
    return ...


@pytest.mark.parametrize("stub", [unwritten, ..., None])
def test_a_stub_left_to_do_is_no_attempt(stub, capsys):
    attempt("99.1", stub)
    row = scorecard("99").exercises[0]
    assert (row.status, row.attempts) == ("to do", 0)
    assert "99.1 Double <1>: to do\n" in repr(scorecard("99")) + "\n"
    attempt("99.1", lambda x: x + x)
    attempt("99.1", stub)
    assert scorecard("99").exercises[0].status == "passed"


def test_no_public_function_hides_its_module():
    modules = {module.name for module in pkgutil.iter_modules(course.__path__)}
    assert not {name for name in modules if callable(getattr(course, name, None))}


def test_progress_outlives_the_kernel(capsys):
    attempt("99.1", lambda x: x + x)
    course.start("99")
    assert scorecard("99").passed == 1


def test_two_notebooks_do_not_undo_each_other(progress_file):
    one, two = Progress(progress_file), Progress(progress_file)
    one.attempted("99.1", "passed")
    two.attempted("99.2", "failed")
    one.answered("99", 0, True, 1)
    fresh = Progress(progress_file)
    assert fresh.exercise("99.1")["status"] == "passed"
    assert fresh.exercise("99.2")["status"] == "failed"
    assert fresh.quiz("99", 1) == [True]


def test_the_checks_that_failed_are_counted(progress_file, capsys):
    for answer in (lambda x: x, lambda x: 1.0, lambda x: x + x):
        attempt("99.1", answer)
    assert Progress(progress_file).exercise("99.1")["failed"] == {"doubles": 2}
    assert Progress(progress_file).exercise("99.2")["failed"] == {}


def test_a_file_from_before_checks_were_counted_is_read(progress_file, capsys):
    old = {"status": "failed", "attempts": 2, "hints": 1, "solution": False, "when": ""}
    progress_file.write_text(json.dumps({"format": 1, "exercises": {"99.1": old}, "quiz": {}}))
    attempt("99.1", lambda x: x)
    assert Progress(progress_file).exercise("99.1") | {"when": ""} == old | {"attempts": 3, "failed": {"doubles": 1}}


def test_solved_exercises_are_not_passed(capsys):
    course.start("99", solve=True)
    attempt("99.1", ...)
    card = scorecard("99")
    assert card.passed == 0 and card.exercises[0].status == "solution"
    assert "1 solved" in repr(card)


def test_json_and_save(tmp_path, capsys):
    attempt("99.1", lambda x: x + x)
    path = scorecard("99").save(tmp_path / "card.json")
    data = json.loads(path.read_text())
    assert (data["notebook"], data["passed"], data["of"], data["quiz"]) == ("99", 1, 2, [None])
    assert data["exercises"][0]["key"] == "99.1" and data["exercises"][0]["attempts"] == 1
    assert [p.name for p in tmp_path.glob("*card*")] == ["card.json"]
    assert scorecard("99").save(tmp_path / "new" / "card.json").is_file()


def test_a_failed_write_leaves_the_old_file(progress_file, monkeypatch):
    progress = Progress(progress_file)
    progress.attempted("99.1", "passed")
    before = progress_file.read_text()

    def refuse(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.warns(UserWarning, match="disk full"):
        progress.attempted("99.2", "passed")
    assert progress_file.read_text() == before
    assert list(progress_file.parent.glob(".progress-*")) == []
    assert progress.exercise("99.2")["status"] == "passed"  # it goes on in memory


@pytest.mark.parametrize(
    "content",
    [
        b"{ not json",
        b"[]",
        b"\xff\xfe",
        b'{"format": 9, "exercises": {}, "quiz": {}}',
        b'{"format": 1, "exercises": {"99.1": {"status": "magic"}}, "quiz": {}}',
        b'{"format": 1, "exercises": {"99.1": {"status": "passed", "attempts": "x", "hints": 0}}, "quiz": {}}',
        b'{"format": 1, "exercises": {}, "quiz": {"99": "yes"}}',
        b'{"format": 1, "exercises": {"99.1": {"status": [], "attempts": 1, "hints": 0}}, "quiz": {}}',
        b'{"format": 1, "exercises": {"99.1": {"status": "failed", "attempts": -1, "hints": 0}}, "quiz": {}}',
        b'{"format": 1, "exercises": {"9": {"status": "failed", "attempts": 1, "hints": 0, "failed": 3}}, "quiz": {}}',
    ],
)
def test_a_damaged_file_is_set_aside(content, progress_file):
    progress_file.write_bytes(content)
    with pytest.warns(UserWarning, match="damaged"):
        course.start("99")
    assert scorecard("99").passed == 0
    assert progress_file.with_suffix(".damaged.json").read_bytes() == content
    assert not progress_file.exists()


def test_a_place_that_cannot_be_written_is_tolerated(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SNNKIT_PROGRESS", str(tmp_path / "file" / "progress.json"))
    course.start("99")
    with pytest.warns(UserWarning, match="SNNKIT_PROGRESS"):
        attempt("99.1", lambda x: x + x)
    assert scorecard("99").passed == 1


def test_a_headless_run_keeps_progress_in_memory(monkeypatch):
    monkeypatch.delenv("SNNKIT_PROGRESS")
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")
    assert default_path() is None
    monkeypatch.setenv("SNNKIT_HEADLESS", "0")
    assert default_path().name == "progress.json"


def test_unknown_notebooks_are_refused():
    for bad in ("77", ""):
        with pytest.raises(ValueError, match="notebook must be"):
            scorecard(bad)
    with pytest.raises(ValueError, match="notebook must be"):
        course.start("77")
    with pytest.raises(TypeError, match="notebook must be a text"):
        scorecard(1)
