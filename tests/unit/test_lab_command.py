"""`snnkit lab`: what it copies and opens, what it leaves alone, and `snnkit run` in the folder that it made."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
import types

import nbformat
import pytest
from click.testing import CliRunner

import snnkit
from snnkit import files
from snnkit.lab.cli import lab as command, main
from snnkit.lab.tools import project as projects
from snnkit.lab.tools.project import MARK, carried, find, find_notebooks

NAMES = find().names()


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """An empty current folder, and a cache without memories."""
    monkeypatch.setattr(files, "user_cache", lambda: tmp_path / "cache")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def opened(monkeypatch):
    """What JupyterLab would have been called with."""
    calls = []
    monkeypatch.setitem(sys.modules, "jupyterlab.labapp", types.SimpleNamespace(main=calls.append))
    return calls


def call(*words, answer=None):
    return CliRunner().invoke(main, ["lab", *map(str, words)], input=answer)


def said(result):
    return " ".join(result.output.split())


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_copies_every_notebook_and_those_for_sweeps_and_nothing_else(tmp_path):
    result = call("--to", tmp_path / "new" / "course", "--no-open")
    assert result.exit_code == 0, result.output
    assert said(result) == f"{len(NAMES)} notebooks copied to {tmp_path / 'new' / 'course'}"
    copies = content(tmp_path / "new" / "course")
    assert copies.pop(MARK) == f"{snnkit.__version__}\n".encode()
    wanted = {f"{name}.ipynb" for name in NAMES} | {os.path.join("workers", "xor_in_time.ipynb")}
    assert copies == {name: (carried() / name).read_bytes() for name in wanted}


def test_it_opens_the_first_notebook_and_later_the_folder_as_it_was_left(tmp_path, opened):
    assert call("--to", "course").exit_code == 0
    folder = tmp_path / "here" / "course"
    (folder / f"{NAMES[0]}.ipynb").write_text("mine")
    before = content(folder)
    assert said(call("--to", "course")) == f"{len(NAMES)} notebooks are in {folder}"
    assert opened == [[str(folder / f"{NAMES[0]}.ipynb")], [str(folder)]] and content(folder) == before


def test_it_asks_and_finds_the_folder_again_from_anywhere(tmp_path, opened, monkeypatch):
    first = call(answer="\n")
    folder = tmp_path / "here" / command.SUGGESTED
    assert f"Folder for the notebooks [{command.SUGGESTED}]:" in first.output and (folder / MARK).is_file()
    (tmp_path / "away").mkdir()
    for place in (tmp_path / "here", folder / "workers", tmp_path / "away"):
        monkeypatch.chdir(place)
        assert said(call()) == f"{len(NAMES)} notebooks are in {folder}"
    assert opened[1:] == [[str(folder)]] * 3
    monkeypatch.chdir(tmp_path / "away")
    shutil.rmtree(folder)
    call(answer="again\n")
    assert (tmp_path / "away" / "again" / MARK).is_file()


def test_where_nobody_answers_it_says_what_to_type(tmp_path, opened):
    result = call(answer="")
    assert result.exit_code == 2 and "no folder for the notebooks was given: snnkit lab --to FOLDER" in said(result)
    assert content(tmp_path) == {} and opened == []


@pytest.mark.parametrize(
    ("place", "code", "says"),
    [
        ("full", 2, "full is not empty (thesis.tex), and nothing is overwritten: name a new folder by --to"),
        ("full/thesis.tex", 2, "the notebooks need a folder, but "),
        ("full/thesis.tex/course", 1, "can't read or write "),
        ("~nobody-of-this-name/course", 1, "there is no such home folder"),
    ],
)
def test_what_is_there_stays_as_it_is(place, code, says, tmp_path, opened):
    (tmp_path / "here" / "full").mkdir()
    (tmp_path / "here" / "full" / "thesis.tex").write_text("years")
    result = call("--to", place)
    assert result.exit_code == code and says in said(result), result.output
    assert content(tmp_path) == {os.path.join("here", "full", "thesis.tex"): b"years"} and opened == []


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("reason", [errno.EACCES, errno.ENOSPC])
def test_a_copy_that_fails_leaves_nothing(reason, there, tmp_path, monkeypatch, opened):
    copy, copied = shutil.copyfile, []

    def fails(source, target):
        copied.append(target)
        if "workers" in str(target):
            raise OSError(reason, os.strerror(reason), str(target))
        copy(source, target)

    monkeypatch.setattr(shutil, "copyfile", fails)
    if there:
        (tmp_path / "here" / "course").mkdir()
    result = call("--to", "course")
    assert result.exit_code == 1 and os.strerror(reason) in said(result) and "xor_in_time.ipynb" in said(result)
    assert len(copied) > 1 and content(tmp_path) == {} and (tmp_path / "here" / "course").exists() is there
    assert opened == []


@pytest.mark.parametrize("name", ["a folder of mine", "Füße", r"C:\Users\ada lovelace\course", "a'b;c&d"])
def test_a_path_is_one_word_for_jupyterlab_whatever_is_in_it(name, tmp_path, opened):
    assert call("--to", name).exit_code == 0
    ((word,),) = opened
    assert word == str((tmp_path / "here").joinpath(name).resolve() / f"{NAMES[0]}.ipynb")
    assert os.path.isfile(word)


def test_the_home_folder_may_be_a_tilde(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "ada"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "ada"))
    assert call("--no-open", answer="~/course\n").exit_code == 0
    assert (tmp_path / "ada" / "course" / MARK).is_file()


def test_without_jupyterlab_it_says_what_to_install_and_copies_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    result = call("--to", "course")
    assert result.exit_code == 1 and content(tmp_path) == {}
    assert 'JupyterLab is missing here: pip install "snnkit[course] @ git+' in said(result)
    assert call("--to", "course", "--no-open").exit_code == 0


def test_notebooks_of_another_version_are_kept_and_named(tmp_path):
    call("--to", "course", "--no-open")
    (tmp_path / "here" / "course" / MARK).write_text("0.0.1\n")
    told = f"They are of snnkit 0.0.1; `snnkit lab --to NEW_FOLDER` copies those of {snnkit.__version__}"
    assert told in said(call("--no-open"))


# --- in the folder ----------------------------------------------------------------------------------------------------


@pytest.fixture
def copies(tmp_path, monkeypatch):
    """A folder as of `snnkit lab`, with one notebook that the learner has changed."""
    folder = tmp_path / "course"
    folder.mkdir()
    (folder / MARK).write_text("1\n")
    cells = [
        nbformat.v4.new_code_cell("QUICK: bool = False\nSTEPS: int = 8", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell("print('mine', QUICK, STEPS)"),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "00_mine.ipynb")
    (folder / "Untitled.ipynb").write_text("{}")
    monkeypatch.chdir(folder)
    return folder


def test_run_executes_the_notebook_as_the_learner_left_it(copies, tmp_path):
    before = content(copies)
    result = CliRunner().invoke(main, ["run", "0", "-p", "STEPS=3", "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    executed = json.loads((tmp_path / "out" / "notebooks" / "00_mine.ipynb").read_text())
    assert executed["cells"][-1]["outputs"][0]["text"] == ["mine True 3\n"] and content(copies) == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("run", "04"), "unknown notebook '04'; there are: 00_mine"),
        (("run", "-p", "WIDTH=3"), "has no parameter 'WIDTH'"),
        (("build",), "run this inside a clone of the repository"),
    ],
)
def test_wrong_usage_in_it_is_refused(words, says, copies, tmp_path, monkeypatch):
    monkeypatch.setattr(projects, "_CLONE", tmp_path)  # as in a wheel, which no project is around
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2 and says in said(result), result.output


def test_a_file_that_is_no_notebook_is_named(copies):
    (copies / "01_torn.ipynb").write_text("{")
    result = CliRunner().invoke(main, ["run", "01"])
    assert result.exit_code == 2 and "01_torn.ipynb is not a notebook" in said(result)


def test_a_folder_in_a_clone_is_nearer_than_the_clone(copies, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.snnkit]\nrepository = "https://github.com/someone/kit"\n')
    assert find_notebooks().notebooks == copies and find().root == tmp_path
    assert find_notebooks(tmp_path) == find(tmp_path)
