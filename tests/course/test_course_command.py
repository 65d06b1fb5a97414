"""``snnkit course``: hand in, and look at a room."""

import json

import pytest
from click.testing import CliRunner

from snnkit.cli import main
from snnkit.course import attempt
from tests.course.examples import ANSWER, install


@pytest.fixture(autouse=True)
def notebook(monkeypatch):
    monkeypatch.setattr("snnkit.course.exercise.notebooks", lambda: ["99"])
    install(monkeypatch, ANSWER)
    attempt("99.2", 41.0)


def run(*words):
    return CliRunner().invoke(main, ["course", *map(str, words)])


def test_export_then_board(tmp_path):
    done = run("export", tmp_path / "room" / "ada.json", "--name", "Ada")
    assert done.exit_code == 0 and "ada.json" in done.output
    assert json.loads((tmp_path / "room" / "ada.json").read_text())["name"] == "Ada"
    done = run("board", tmp_path / "room", "--html", tmp_path / "page.html")
    assert done.exit_code == 0
    assert "1 learner, 0 of 1 exercises passed (0%)" in done.output and "page: " in done.output
    assert "Ada" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["board"], 2, "FOLDER"),
        (["board", "nowhere"], 2, "does not exist"),
        (["board", ".", "--html", "."], 2, "is a directory"),
        (["export", "."], 2, "is a directory"),
        (["export", "a.json", "--name", "x" * 99], 2, "name must be one line"),
        (["export", "file/a.json"], 1, "can't write"),
        (["fly"], 2, "No such command 'fly'"),
    ],
)
def test_wrong_usage_is_told(words, code, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("in the way")
    done = run(*words)
    assert (done.exit_code, says in done.output) == (code, True), done.output


def test_help_lists_the_commands():
    done = run("--help")
    assert done.exit_code == 0 and "board" in done.output and "export" in done.output
