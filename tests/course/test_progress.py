"""A learner's progress: counted, saved, shown on a scorecard, handed in."""

import json
import os

import pytest

import snnkit
from snnkit.lab import course
from snnkit.lab.course import attempt, export, hint, order, quiz, scorecard, solution
from snnkit.lab.course.progress import Progress, current, default_path
from tests.course.examples import ANSWER, EXERCISE, install


@pytest.fixture(autouse=True)
def notebook(monkeypatch):
    monkeypatch.setattr("snnkit.lab.course.exercise.notebooks", lambda: ["trial"])
    return install(monkeypatch, EXERCISE, ANSWER)


def right(v, x, beta):
    return beta * v + x


def unwritten(v, x, beta):
    return ...


def test_attempts_hints_and_solutions_are_counted(capsys):
    for answer in (lambda v, x, beta: v, right, lambda v, x, beta: v, unwritten, ...):
        attempt("trial.1", answer)
    hint("trial.1")
    solution("trial.2")
    card = scorecard("trial")
    one, two = card.exercises
    assert (one.status, one.attempts, one.hints) == ("passed", 3, 1) and card.quiz == (None,)
    assert (two.status, two.attempts, two.solution_seen, card.passed) == ("to do", 0, True, 1)
    assert "✓ trial.1 One leaky step: passed, 3 attempts, 1 hint" in repr(card)
    assert "trial.2 A number: to do, solution seen" in card._repr_html_() and "1 of 2 exercises passed" in repr(card)
    course.start("trial")  # in the next kernel
    assert scorecard("trial") == card


def test_two_notebooks_do_not_undo_each_other(progress_file):
    one, two = Progress(progress_file), Progress(progress_file)
    one.attempted("trial.1", "passed")
    two.attempted("trial.2", "failed", "a")
    one.answered("trial", 0, True, 1)
    two.locked("trial.a", 2.5, 70)
    one.locked("trial.a", 3.0, 99)  # too late
    one.judged("trial.a", False)
    two.judged("trial.a", True)  # the first outcome counts
    fresh = Progress(progress_file)
    assert fresh.exercise("trial.1")["status"] == "passed" and fresh.quiz("trial", 1) == [True]
    assert fresh.exercise("trial.2")["failed"] == {"a": 1}
    assert fresh.predictions()["trial.a"] | {"when": ""} == {"guess": 2.5, "sure": 70, "right": False, "when": ""}


def test_a_file_from_before_checks_were_counted_is_read(progress_file, capsys):
    old = {"status": "failed", "attempts": 2, "hints": 1, "solution": False, "when": ""}
    progress_file.write_text(json.dumps({"format": 1, "exercises": {"trial.2": old}, "quiz": {}}))
    attempt("trial.2", 1.0)
    assert Progress(progress_file).exercise("trial.2") | {"when": ""} == old | {
        "attempts": 3,
        "failed": {"the number": 1},
    }


def test_solved_exercises_are_not_passed(capsys):
    course.start("trial", solve=True)
    attempt("trial.1", ...)
    card = scorecard("trial")
    assert card.passed == 0 and card.exercises[0].status == "solution" and "1 solved" in repr(card)


def test_a_failed_write_leaves_the_old_file(progress_file, monkeypatch):
    progress = Progress(progress_file)
    progress.attempted("trial.1", "passed")
    before = progress_file.read_text()

    def refuse(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.warns(UserWarning, match=r"disk full.*SNNKIT_PROGRESS"):
        progress.attempted("trial.2", "passed")
    assert progress_file.read_text() == before
    assert progress.exercise("trial.2")["status"] == "passed"  # it goes on in memory


ENTRY = {"status": "failed", "attempts": 1, "hints": 0}


def test_a_file_of_the_format_before_is_read_and_its_numbers_are_names_from_then_on(progress_file):
    made = {"guess": 1, "sure": 90, "right": None, "when": ""}
    old = {"exercises": {"03.1": ENTRY}, "quiz": {"03": [True]}, "predictions": {"03.a": made}, "skipped": ["03.b"]}
    progress_file.write_text(json.dumps({"format": 1} | old))
    progress = Progress(progress_file)
    assert progress.exercise("encodings.1")["status"] == "failed" and progress.quiz("encodings", 2) == [True, None]
    assert progress.predictions() == {"encodings.a": made} and progress.skipped() == ["encodings.b"]
    progress.attempted("encodings.1", "passed")
    saved = json.loads(progress_file.read_text())
    assert saved["format"] == 3 and saved["exercises"]["encodings.1"]["status"] == "passed"


def test_what_was_solved_in_the_first_edition_keeps_its_exercise(progress_file):
    passed = ENTRY | {"status": "passed"}
    numbers = {"05.1": passed, "13.1": passed, "15.2": passed, "17.3": passed}
    progress_file.write_text(json.dumps({"format": 1, "exercises": numbers, "quiz": {"10": [True]}}))
    progress = Progress(progress_file)
    places = ("moving_house.1", order.named("sweeps_and_challenge.1"), "microspike.2", "your_own_data.3")
    assert [progress.exercise(key)["status"] for key in places] == ["passed"] * 4
    assert progress.quiz("ipu_cuda", 1) == [True]


def test_an_exercise_that_is_another_one_today_keeps_its_old_result_and_is_to_do(progress_file):
    old = {"exercises": {"scaling_out.2": ENTRY | {"status": "passed"}}, "quiz": {}}
    progress_file.write_text(json.dumps({"format": 2} | old))
    progress = Progress(progress_file)
    assert progress.exercise("scaling_out.2")["status"] == "to do"
    progress.attempted("scaling_out.2", "passed")
    saved = json.loads(progress_file.read_text())
    assert saved["exercises"]["scaling_out.2 of the first edition"]["status"] == "passed"
    assert Progress(progress_file).exercise("scaling_out.2")["status"] == "passed"  # in the file of today


def test_a_question_of_a_quiz_that_is_another_one_today_is_open(progress_file):
    marks = {"train_your_first_network": [True, False, True], "scaling_out": [True], "encodings": [True, True, True]}
    progress_file.write_text(json.dumps({"format": 2, "exercises": {}, "quiz": marks}))
    progress = Progress(progress_file)
    assert progress.quiz("train_your_first_network", 3) == [True, False, None]
    assert progress.quiz("scaling_out", 3) == [True, None, None] and progress.quiz("encodings", 3) == [True] * 3
    progress.answered("scaling_out", 1, True, 3)
    assert Progress(progress_file).quiz("scaling_out", 3) == [True, True, None]  # in the file of today


def test_the_better_result_of_an_exercise_that_has_moved_counts(progress_file, monkeypatch):
    monkeypatch.setitem(order.MOVED, "old_place.2", "trial.1")
    entries = {"old_place.2": ENTRY | {"status": "passed"}, "trial.1": ENTRY}
    progress_file.write_text(json.dumps({"format": 2, "exercises": entries, "quiz": {}}))
    assert Progress(progress_file).exercise("trial.1")["status"] == "passed"


@pytest.mark.parametrize(
    "content",
    [
        b"{ not json",
        b"[]",
        b"\xff\xfe",
        {"format": 9, "exercises": {}, "quiz": {}},
        {"format": 1, "exercises": [], "quiz": {}},
        {"format": 1, "exercises": {"trial.1": 3}, "quiz": {}},
        {"format": 1, "exercises": {"trial.1": ENTRY | {"status": []}}, "quiz": {}},
        {"format": 1, "exercises": {"trial.1": ENTRY | {"attempts": -1}}, "quiz": {}},
        {"format": 1, "exercises": {"trial.1": ENTRY | {"failed": 3}}, "quiz": {}},
        {"format": 1, "exercises": {}, "quiz": {"trial": "yes"}},
        {"format": 1, "exercises": {}, "quiz": {}, "predictions": []},
        {"format": 1, "exercises": {}, "quiz": {}, "skipped": "trial.a"},
        {"format": 1, "exercises": {}, "quiz": {}, "predictions": {"trial.a": {"guess": 1, "sure": 80, "right": None}}},
        b'{"format":1,"exercises":{},"quiz":{},"predictions":{"trial.a":{"guess":NaN,"sure":50,"right":true}}}',
    ],
)
def test_a_damaged_file_is_set_aside(content, progress_file):
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    progress_file.write_bytes(content)
    with pytest.warns(UserWarning, match="damaged"):
        course.start("trial")
    assert scorecard("trial").passed == 0
    assert progress_file.with_suffix(".damaged.json").read_bytes() == content and not progress_file.exists()


def test_progress_is_not_saved_in_a_pipe_or_device(tmp_path, monkeypatch, capsys):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setenv("SNNKIT_PROGRESS", str(pipe))
    course.start("trial")  # opening the pipe would wait for ever
    with pytest.warns(UserWarning, match="only a regular file"):
        attempt("trial.2", 42.0)
    assert pipe.is_fifo() and scorecard("trial").passed == 1
    with pytest.raises(FileExistsError):
        export(pipe)


def test_a_headless_run_has_its_progress_in_memory(monkeypatch):
    monkeypatch.delenv("SNNKIT_PROGRESS")
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")
    assert default_path() is None
    monkeypatch.setenv("SNNKIT_HEADLESS", "0")
    assert default_path().name == "progress.json"


def test_an_export_holds_everything_that_counts(tmp_path, capsys):
    for answer in (lambda v, x, beta: v, lambda v, x, beta: v, lambda v, x, beta: beta * v):
        attempt("trial.1", answer)
    attempt("trial.2", 42.0)
    current().progress.answered("trial", 0, True, 1)
    path = export(tmp_path / "new" / "ada.json", name="Ada L.")
    data = json.loads(path.read_text(encoding="utf-8"))
    assert (data["kind"], data["format"], data["kit"]) == ("snnkit progress", 3, snnkit.__version__)
    assert data["name"] == "Ada L." and data["when"].endswith("+00:00")
    one, two = data["notebooks"]["trial"]["exercises"]
    assert (one["key"], one["title"], one["status"], one["attempts"]) == ("trial.1", "One leaky step", "failed", 3)
    assert one["failed"] == {"a silent neuron leaks": 2, "input charges": 1}
    assert (two["status"], two["failed"]) == ("passed", {}) and data["notebooks"]["trial"]["quiz"] == [True]
    assert json.loads(export(tmp_path / "grace.json").read_text())["name"] == "grace"
    for name in ("x" * 61, "two\nlines", "  ", "\x1b[31mred"):
        with pytest.raises(ValueError, match="name must be one line"):
            export(tmp_path / "a.json", name=name)
    assert not (tmp_path / "a.json").exists()


def test_unknown_notebooks_are_refused():
    for bad in ("77", "", 1, "../../etc", "first_spiking_neuron.x"):
        for ask in (scorecard, course.start, quiz, course.exercises):
            with pytest.raises((TypeError, ValueError), match="notebook must be"):
                ask(bad)
