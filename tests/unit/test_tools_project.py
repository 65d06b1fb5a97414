"""Finding the project and its notebooks."""

from __future__ import annotations

import pytest

from snnkit.tools.project import ProjectError, find

from .tiny_project import make, settings


@pytest.fixture
def project(tmp_path):
    return make(tmp_path, {"00_start": "1", "04_train": "1", "11_events": "1"})


def test_is_found_from_a_folder_inside_it(project):
    assert find(project.sources) == project
    assert project.names() == ["00_start", "04_train", "11_events"]


def test_outside_any_project_the_one_that_snnkit_came_from_is_meant(tmp_path):
    assert (find(tmp_path).root / "snnkit" / "cli").exists()


@pytest.mark.parametrize("token", ["04", "4", "04_train", "train", "04_train.py", "notebooks/04_train.ipynb"])
def test_a_notebook_is_meant_by_number_name_or_path(project, monkeypatch, token):
    monkeypatch.chdir(project.root)
    assert project.select([token]) == ["04_train"]


def test_selection_keeps_the_order_and_drops_repeats(project):
    assert project.select(["11", "0", "events"]) == ["11_events", "00_start"]
    assert project.select() == project.names()


@pytest.mark.parametrize("token", ["7", "nothing", "", "1", "start.txt"])
def test_an_unknown_notebook_is_refused_with_what_exists(project, token):
    with pytest.raises(ProjectError, match=r"00_start, 04_train, 11_events"):
        project.select([token])


def test_a_path_outside_the_project_is_refused(project, tmp_path_factory):
    with pytest.raises(ProjectError, match="is not in"):
        project.select([str(tmp_path_factory.mktemp("elsewhere") / "04_train.ipynb")])


def test_an_ambiguous_number_is_refused(tmp_path):
    project = make(tmp_path, {"04_a": "1", "04_b": "1"})
    with pytest.raises(ProjectError, match="any of: 04_a, 04_b"):
        project.select(["04"])


def test_no_notebooks_at_all(tmp_path):
    with pytest.raises(ProjectError, match="no notebooks"):
        make(tmp_path, {}).select()


@pytest.mark.parametrize(
    ("repository", "branch", "names"),
    [
        ("git@github.com:someone/kit", "main", "repository"),
        ("https://github.com/someone", "main", "repository"),
        ("https://github.com/someone/kit", "", "branch"),
        ("https://github.com/someone/kit", "a b", "branch"),
    ],
)
def test_settings_that_no_address_can_be_made_of(tmp_path, repository, branch, names):
    settings(tmp_path, repository, branch)
    with pytest.raises(ProjectError, match=names):
        find(tmp_path)


def test_a_broken_pyproject_is_named(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.snnkit\n")
    with pytest.raises(ProjectError, match=r"pyproject.toml can't be read"):
        find(tmp_path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("tool = 3", r"\[tool\] in .*pyproject.toml must be a table, but it is 3"),
        ("[tool]\nsnnkit = 3", r"\[tool.snnkit\] in .*pyproject.toml must be a table, but it is 3"),
        (
            '[tool.snnkit]\nrepository = "https://github.com/someone/kit"\ncolab = {"00_start" = ["a b"]}',
            r"\[tool.snnkit.colab\].*lists of packages",
        ),
        ("[tool.snnkit]", "repository"),
    ],
)
def test_settings_that_are_no_table(tmp_path, content, says):
    (tmp_path / "pyproject.toml").write_text(content)
    with pytest.raises(ProjectError, match=says):
        find(tmp_path)


def test_a_folder_in_the_place_of_pyproject_is_named(tmp_path):
    (tmp_path / "pyproject.toml").mkdir()
    with pytest.raises(ProjectError, match=r"pyproject.toml can't be read"):
        find(tmp_path)
