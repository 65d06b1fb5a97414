"""The project and its notebooks: finding them, building them from sources, seeing where a pair has come apart."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from snnkit.lab.tools import pair
from snnkit.lab.tools.project import ProjectError, find

from .tiny_project import HEADER, make, settings

OF_SOMEONE = '[tool.snnkit]\nrepository = "https://github.com/someone/kit"\n'
NO_VERSIONS = ('">=1"', '"1.*"', '"main"', '" 1.0"', "1.0", "true")
CELLS = "a = 1---def f(x):\n    return x\n---print(f(a))---a = 1"


@pytest.fixture
def project(tmp_path):
    project = make(tmp_path, {"00_start": CELLS, "04_train": "b = 2", "11_events": "1"})
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


def test_texts_say_how_to_install_an_extra_as_the_errors_do():
    from snnkit import checks

    home = find()
    assert home.repository == checks.REPOSITORY
    for file in [home.root / "README.md", *home.sources.glob("*.py"), *(home.root / "workshop").rglob("*.md")]:
        extras = re.findall(r'pip install "snnkit(\[[^"]*)"', file.read_text(encoding="utf-8"))
        # An archive needs no git. On no index is the name ours yet, so it stands nowhere without an address.
        sources = (f"] @ git+{checks.REPOSITORY}", f"] @ {checks.REPOSITORY}/archive/{home.branch}.zip")
        assert all(extra.endswith(sources) for extra in extras), file


# --- the project ------------------------------------------------------------------------------------------------------


def test_a_project_is_where_its_settings_are_or_where_snnkit_came_from(project, tmp_path_factory):
    assert find(project.sources) == project
    assert project.names() == ["00_start", "04_train", "11_events"]
    assert (find(tmp_path_factory.mktemp("elsewhere")).root / "snnkit" / "lab" / "cli").exists()


@pytest.mark.parametrize("word", ["04", "4", "04_train", "train", "04_train.py", "notebooks/04_train.ipynb"])
def test_a_notebook_is_meant_by_number_name_or_path(project, word):
    assert project.select([word]) == ["04_train"]


@pytest.mark.parametrize("word", ["7", "nothing", "", "1", "start.txt", "²"])
def test_an_unknown_notebook_is_refused_with_what_exists(project, word):
    with pytest.raises(ProjectError, match=r"00_start, 04_train, 11_events"):
        project.select([word])


def test_ambiguous_numbers_and_empty_projects_are_refused(tmp_path):
    with pytest.raises(ProjectError, match="no notebooks"):
        make(tmp_path, {}).select()
    with pytest.raises(ProjectError, match="any of: 04_a, 04_b"):
        make(tmp_path, {"04_a": "1", "04_b": "1"}).select(["04"])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[tool.snnkit\n", r"pyproject.toml can't be read"),
        ("[tool.snnkit]", "repository in .* must be https://github.com/OWNER/NAME"),
        ('[tool.snnkit]\nrepository = "git@github.com:someone/kit"', "repository in "),
        *((f"{OF_SOMEONE}released = {wrong}", "released in .* must be a version") for wrong in NO_VERSIONS),
    ],
)
def test_settings_that_no_address_can_be_made_of(tmp_path, content, says):
    (tmp_path / "pyproject.toml").write_text(content)
    with pytest.raises(ProjectError, match=says):
        find(tmp_path)


# --- pairs ------------------------------------------------------------------------------------------------------------


def test_a_built_pair_is_in_sync_and_building_again_writes_nothing(project):
    before = {path: path.stat().st_mtime_ns for path in project.root.rglob("*") if path.is_file()}
    assert pair.check(project, "00_start") == pair.build(project, "00_start") == []
    assert before == {path: path.stat().st_mtime_ns for path in project.root.rglob("*") if path.is_file()}


def test_a_stale_or_missing_notebook_is_named_and_built(project):
    edit(project, "return x", "return -x")
    (difference,) = pair.check(project, "00_start")
    assert difference.startswith("notebooks/00_start.ipynb: line ") and pair.check(project, "04_train") == []
    assert pair.build(project, "00_start") == ["notebooks/00_start.ipynb"]
    assert pair.check(project, "00_start") == []
    project.pair("00_start").unlink()
    assert pair.check(project, "00_start") == ["notebooks/00_start.ipynb: is missing"]


def test_ids_are_unique_and_editing_a_cell_keeps_those_of_the_others(project):
    before = ids(project)
    assert len(set(before)) == len(before)  # two cells are equal
    assert not set(before) & set(ids(project, "04_train")) - set(pair.NAMED_CELLS)
    edit(project, "return x", "return x + 1")
    after = ids(project)
    assert [a == b for a, b in zip(after, before, strict=True)] == [i != 5 for i in range(len(before))]
    edit(project, "# %%\nprint", "# %%\nnew = 1\n\n# %%\nprint")
    assert [i for i in ids(project) if i in after] == after


def test_new_settings_change_the_badge_and_the_bootstrap_and_no_id(project):
    before = ids(project)
    settings(project.root, "https://github.com/other/place", "v2")
    moved = find(project.root)
    assert len(pair.check(moved, "00_start")) == 2
    pair.build(moved, "00_start")
    assert ids(moved) == before
    for path in (moved.source("00_start"), moved.pair("00_start")):
        text = path.read_text()
        assert "colab.research.google.com/github/other/place/blob/v2/notebooks/00_start.ipynb" in text
        assert "snnkit @ git+https://github.com/other/place@v2" in text
        assert "someone" not in text


def test_a_badge_of_the_projects_own_needs_no_network(project):
    svg = project.notebooks / pair.BADGE
    svg.parent.mkdir()
    svg.write_text('<svg xmlns="http://www.w3.org/2000/svg" width="124" height="24"></svg>')
    svg.with_suffix(".webp").write_bytes(hashlib.sha256(svg.read_bytes()).hexdigest().encode())
    badge = pair.notebook(project, "00_start").cells[0].source
    assert re.fullmatch(
        r'\[<img width="124" alt="Open In Colab" src="data:image/webp;base64,[^>]*>\]\(https://colab[^)]*\)', badge
    )


def test_no_notebook_of_the_course_fetches_a_picture():
    here = find(Path(__file__).parent)
    texts = {name: here.pair(name).read_text("utf-8") for name in here.names()}
    assert {
        name: found for name, text in texts.items() if (found := re.findall(r"!\[[^]]*\]\(http|src=.{0,2}http", text))
    } == {}


def test_only_generated_cells_of_the_source_are_touched_and_the_badge_is_first(tmp_path):
    project = make(tmp_path, {"00_start": CELLS})
    source = project.source("00_start")
    before = source.read_text()
    pair.build(project, "00_start")
    after = source.read_text()
    assert set(before.splitlines()) <= set(after.splitlines())
    badge = f"{pair.BADGE_MARKER}\n# {pair.badge(project, '00_start')}\n"
    source.write_text(after.replace(badge, "") + f"\n{badge}")
    pair.build(project, "00_start")
    assert ids(project).index("badge") == 0
    assert source.read_text().count("Open In Colab") == source.read_text().count('tags=["bootstrap"]') == 1


def test_the_bootstrap_cell_says_what_to_do_where_snnkit_is_missing(project, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.delenv("COLAB_RELEASE_TAG", raising=False)
    with pytest.raises(
        ModuleNotFoundError, match=r'snnkit lab.*%pip install "snnkit @ git\+https://github.com/someone'
    ):
        exec(pair.bootstrap(project, "00_start"), {})


def test_on_colab_the_bootstrap_cell_installs_the_kit_and_nothing_else(project, monkeypatch):
    commands = []

    class Shell:
        def run_line_magic(self, *command):
            commands.append(command)

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release")
    exec(pair.bootstrap(project, "00_start"), {"get_ipython": Shell})
    assert commands == [("pip", "install -q --no-deps 'snnkit @ git+https://github.com/someone/kit@main'")]
    wants_more = replace(project, colab={"01_more": ["lightning", "torchmetrics"]})
    assert pair.bootstrap(wants_more, "00_start") == pair.bootstrap(project, "00_start")
    exec(pair.bootstrap(wants_more, "01_more"), {"get_ipython": Shell})
    assert commands[1] == ("pip", f"{commands[0][1]} lightning torchmetrics")


def test_once_released_the_bootstrap_cell_asks_for_exactly_that_version(project, monkeypatch):
    commands = []
    settings(project.root, "https://github.com/someone/kit", released="0.2.0")
    cell = pair.bootstrap(find(project.root), "00_start")
    assert "git+" not in cell
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release")
    exec(cell, {"get_ipython": lambda: SimpleNamespace(run_line_magic=lambda *words: commands.append(words))})
    assert commands == [("pip", "install -q --no-deps 'snnkit==0.2.0'")]
    monkeypatch.delenv("COLAB_RELEASE_TAG")
    with pytest.raises(ModuleNotFoundError, match=r'%pip install "snnkit==0\.2\.0"'):
        exec(cell, {})


@pytest.mark.parametrize("text", ["# ---\n# jupyter: [\n# ---\n" + HEADER, "import os\n" + HEADER])
def test_a_source_that_is_not_a_notebook_is_named(project, text):
    project.source("00_start").write_text(text)
    with pytest.raises(ProjectError, match=r"00_start.py is not a py:percent notebook"):
        pair.build(project, "00_start")
    assert "a = 1" in project.pair("00_start").read_text()  # as it was


def test_a_drawing_is_within_the_text_and_must_be_up_to_date(project):
    edit(project, "# %%", '# %% [markdown]\n# ![a "b" c](drawings/one.svg)\n\n# %%', "04_train")
    folder = project.notebooks / "drawings"
    folder.mkdir()
    for drawing, picture, fault in ((None, b"", "must be"), (b"<svg/>", b"old", "run `python docs/drawings.py one`")):
        if drawing:
            (folder / "one.svg").write_bytes(drawing)
        (folder / "one.webp").write_bytes(picture)
        with pytest.raises(ProjectError, match=re.escape(fault)):
            pair.build(project, "04_train")
    (folder / "one.webp").write_bytes(hashlib.sha256(b"<svg/>").hexdigest().encode())
    (cell,) = [cell for cell in pair.notebook(project, "04_train").cells if "<img" in cell.source]
    assert 'alt="a &quot;b&quot; c" src="data:image/webp;base64,' in cell.source
