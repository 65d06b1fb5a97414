"""A learner's progress as one file."""

import json
import os

import pytest

import snnkit
from snnkit import course
from snnkit.course import attempt, export, hint, quiz, solution
from tests.course.examples import ANSWER, EXERCISE, install, question


@pytest.fixture(autouse=True)
def notebook(monkeypatch):
    monkeypatch.setattr("snnkit.course.exercise.notebooks", lambda: ["99"])
    return install(monkeypatch, EXERCISE, ANSWER, questions=[question()])


def test_everything_that_counts_is_in_it(tmp_path):
    for answer in (lambda v, x, beta: v, lambda v, x, beta: v, lambda v, x, beta: beta * v):
        attempt("99.1", answer)
    attempt("99.2", 42.0)
    hint("99.1")
    solution("99.1")
    quiz("99", answers=[2])
    path = export(tmp_path / "new" / "ada.json", name="Ada L.")
    assert path == tmp_path / "new" / "ada.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    assert (data["kind"], data["format"], data["kit"]) == ("snnkit progress", 1, snnkit.__version__)
    assert data["name"] == "Ada L." and data["when"].endswith("+00:00")
    one, two = data["notebooks"]["99"]["exercises"]
    assert (one["key"], one["title"], one["status"], one["attempts"]) == ("99.1", "One leaky step", "failed", 3)
    assert one["failed"] == {"a silent neuron leaks": 2, "input charges": 1}
    assert (one["hints"], one["solution"]) == (1, True)
    assert (two["status"], two["failed"]) == ("passed", {})
    assert data["notebooks"]["99"]["quiz"] == [True]


def test_the_name_is_the_files_unless_given(tmp_path):
    assert json.loads(export(tmp_path / "grace.json").read_text())["name"] == "grace"


def test_an_export_replaces_the_last_in_one_step(tmp_path, monkeypatch):
    path = export(tmp_path / "ada.json")
    before = path.read_text()
    attempt("99.2", 1.0)

    def refuse(*_):
        raise OSError("disk full")

    with monkeypatch.context() as broken, pytest.raises(OSError, match="disk full"):
        broken.setattr(os, "replace", refuse)
        export(path)
    assert path.read_text() == before and os.listdir(tmp_path).count("ada.json") == 1
    export(path)
    assert path.read_text() != before


@pytest.mark.parametrize("name", ["x" * 61, "two\nlines", "  ", "\x1b[31mred"])
def test_names_are_one_short_line(name, tmp_path):
    with pytest.raises(ValueError, match="name must be one line"):
        export(tmp_path / "a.json", name=name)
    assert not list(tmp_path.glob("a.json"))


def test_a_name_is_a_text(tmp_path):
    with pytest.raises(TypeError, match="name must be a text"):
        export(tmp_path / "a.json", name=3)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(FileExistsError):
        export(tmp_path / "pipe.json")
    assert (tmp_path / "pipe.json").is_fifo()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_progress_is_not_kept_in_a_pipe_or_device(tmp_path, monkeypatch):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setenv("SNNKIT_PROGRESS", str(pipe))
    with pytest.warns(UserWarning, match="not a regular file"):
        course.start("99")  # opening the pipe would wait for ever
    attempt("99.2", 42.0)
    assert pipe.is_fifo() and course.scorecard("99").passed == 1
