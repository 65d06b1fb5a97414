"""Building notebooks from sources, and seeing where a pair has come apart."""

from __future__ import annotations

import json
from dataclasses import replace

import nbformat
import pytest

from snnkit.tools import pair
from snnkit.tools.project import ProjectError, find

from .tiny_project import HEADER, make, settings

CELLS = "a = 1---def f(x):\n    return x\n---print(f(a))---a = 1"


@pytest.fixture
def project(tmp_path):
    project = make(tmp_path, {"00_start": CELLS, "01_next": "b = 2"})
    for name in project.names():
        pair.build(project, name)
    return project


def ids(project, name="00_start"):
    return [cell.id for cell in pair.notebook(project, name).cells]


def edit(project, old, new, name="00_start"):
    path = project.source(name)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def edit_pair(project, change, name="00_start"):
    path = project.pair(name)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_a_built_pair_is_in_sync_and_building_again_writes_nothing(project):
    before = {path: path.stat().st_mtime_ns for path in project.root.rglob("*") if path.is_file()}
    assert pair.check(project, "00_start") == []
    assert pair.build(project, "00_start") == []
    assert before == {path: path.stat().st_mtime_ns for path in project.root.rglob("*") if path.is_file()}


def test_the_notebook_is_valid_and_bare(project):
    notebook = nbformat.read(project.pair("00_start"), as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata == {"kernelspec": pair.KERNELSPEC}
    assert [cell.metadata.get("tags") for cell in notebook.cells][:4] == [
        ["badge"],
        None,
        ["bootstrap"],
        ["parameters"],
    ]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)


def test_a_stale_notebook_is_found(project):
    edit(project, "return x", "return -x")
    assert [str(found) for found in pair.check(project, "00_start")] != []
    assert pair.check(project, "01_next") == []
    assert pair.build(project, "00_start") == ["notebooks/00_start.ipynb"]
    assert pair.check(project, "00_start") == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda nb: nb["cells"][-1]["outputs"].append({"output_type": "stream", "name": "stdout", "text": "1"}),
            "outputs",
        ),
        (lambda nb: nb["cells"][-1].update(execution_count=3), "execution_count"),
        (lambda nb: nb["cells"][-1].update(id="another"), "id differs"),
        (lambda nb: nb["cells"].pop(), "cells, its source"),
        (lambda nb: nb["metadata"].update(accelerator="GPU"), "metadata differs"),
        (lambda nb: nb.update(nbformat_minor=4), "nbformat_minor"),
        (lambda nb: nb.update(cells=3), "not a notebook"),
    ],
)
def test_what_was_changed_in_the_notebook_is_named(project, change, says):
    edit_pair(project, change)
    assert any(says in str(found) for found in pair.check(project, "00_start"))


def test_missing_or_damaged_notebooks_are_found(project):
    project.pair("00_start").write_text("{")
    assert "not JSON" in str(pair.check(project, "00_start")[0])
    project.pair("00_start").unlink()
    assert "is missing" in str(pair.check(project, "00_start")[0])


def test_ids_are_unique_and_the_same_every_time(project):
    assert len(set(ids(project))) == len(ids(project))  # two cells are equal
    assert ids(project) == ids(project)
    assert not set(ids(project)) & set(ids(project, "01_next")) - set(pair.NAMED_CELLS)


def test_editing_inserting_and_removing_a_cell_keeps_the_ids_of_the_others(project):
    before = ids(project)
    edit(project, "return x", "return x + 1")
    after = ids(project)
    assert [a == b for a, b in zip(after, before, strict=True)] == [i != 5 for i in range(len(before))]
    edit(project, "# %%\nprint", "# %%\nnew = 1\n\n# %%\nprint")
    assert [i for i in ids(project) if i in after] == after


def test_new_settings_change_the_badge_and_the_bootstrap_and_no_id(project):
    before = ids(project)
    settings(project.root, "https://github.com/other/place", "v2")
    moved = find(project.root)
    assert {found.file for found in pair.check(moved, "00_start")} == {
        "notebooks/src/00_start.py",
        "notebooks/00_start.ipynb",
    }
    pair.build(moved, "00_start")
    assert ids(moved) == before
    for path in (moved.source("00_start"), moved.pair("00_start")):
        text = path.read_text()
        assert "colab.research.google.com/github/other/place/blob/v2/notebooks/00_start.ipynb" in text
        assert "snnkit @ git+https://github.com/other/place@v2" in text
        assert "someone" not in text


def test_only_generated_cells_of_the_source_are_touched(tmp_path):
    project = make(tmp_path, {"00_start": CELLS})
    before = project.source("00_start").read_text()
    pair.build(project, "00_start")
    after = project.source("00_start").read_text()
    for line in before.splitlines():
        assert line in after.splitlines()
    assert after.count("Open In Colab") == after.count('tags=["bootstrap"]') == 1


def test_the_badge_is_first_even_if_it_was_moved(project):
    source = project.source("00_start")
    badge = f"\n{pair.BADGE_MARKER}\n# {pair.badge(project, '00_start')}\n"
    source.write_text(source.read_text().replace(badge[1:], "") + badge)
    pair.build(project, "00_start")
    assert [cell.id for cell in pair.notebook(project, "00_start").cells].index("badge") == 0
    assert source.read_text().count("Open In Colab") == 1


def test_a_gpu_is_asked_for_in_the_header(project):
    edit(project, "# jupyter:\n", "# jupyter:\n#   accelerator: GPU\n")
    metadata = pair.notebook(project, "00_start").metadata
    assert metadata["accelerator"] == "GPU"
    assert metadata["colab"] == {"gpuType": "T4", "provenance": []}
    edit(project, "accelerator: GPU", "accelerator: TPU")
    with pytest.raises(ProjectError, match="GPU or absent, but it is 'TPU'"):
        pair.notebook(project, "00_start")


def test_the_bootstrap_cell_says_what_to_do_where_snnkit_is_missing(project, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.delenv("COLAB_RELEASE_TAG", raising=False)
    with pytest.raises(
        ModuleNotFoundError, match=r"make lab.*%pip install 'snnkit @ git\+https://github.com/someone/kit@main'"
    ):
        exec(pair.bootstrap(project, "00_start"), {})


def test_on_colab_the_bootstrap_cell_installs_the_kit_and_nothing_else(project, monkeypatch):
    asked = []

    class Shell:
        def run_line_magic(self, *command):
            asked.append(command)

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release")
    exec(pair.bootstrap(project, "00_start"), {"get_ipython": Shell})
    assert asked == [("pip", "install -q --no-deps 'snnkit @ git+https://github.com/someone/kit@main'")]
    wants_more = replace(project, colab={"01_more": ["lightning", "torchmetrics"]})
    assert pair.bootstrap(wants_more, "00_start") == pair.bootstrap(project, "00_start")
    exec(pair.bootstrap(wants_more, "01_more"), {"get_ipython": Shell})
    assert asked[1] == ("pip", f"{asked[0][1]} lightning torchmetrics")


def test_a_source_that_is_not_a_notebook_is_named(project):
    project.source("00_start").write_text("# ---\n# jupyter: [\n# ---\n" + HEADER)
    with pytest.raises(ProjectError, match=r"00_start.py is not a py:percent notebook"):
        pair.build(project, "00_start")
    assert "a = 1" in project.pair("00_start").read_text()  # as it was
