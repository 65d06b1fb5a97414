"""The site of a small project, its faults, and that of this one."""

from __future__ import annotations

import runpy

import nbformat
import pytest
from click.testing import CliRunner

import snnkit
from snnkit.cli import main
from snnkit.tools import pair, site
from snnkit.tools.project import ProjectError, find
from tests.unit import tiny_project

CONF = "extensions = ['myst_nb']\nnb_execution_mode = 'off'\nroot_doc = 'README'\nmyst_heading_anchors = 2\n"


@pytest.fixture
def project(tmp_path):
    """One notebook, three pages, and settings for Sphinx without the reference."""
    made = tiny_project.make(tmp_path / "kit", {"00_one": "print(6 * 7)"})
    pair.build(made, "00_one")
    menu = "\n```{toctree}\nnotebooks/00_one\nworkshop/README\nCONTRIBUTING\nCHANGELOG\n```\n"
    for name, text in {
        "README.md": f"# Kit\n\n[one](notebooks/00_one.ipynb) [plan](workshop/README.md)\n{menu}",
        "CONTRIBUTING.md": "# Contributing\n\n[home](README.md#kit)\n",
        "CHANGELOG.md": "# Changes\n",
        "workshop/README.md": "# Workshop\n\n[home](../README.md)\n",
        "docs/conf.py": CONF,
    }.items():
        path = made.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return made


@pytest.mark.slow
def test_a_site_is_built_and_a_fault_leaves_the_old_one(project, tmp_path, monkeypatch):
    first = site.build(project, tmp_path / "site", project.notebooks, echo=lambda line: None)
    assert "print" in (first.parent / "notebooks" / "00_one.html").read_text()
    before = first.read_text()
    (project.root / "CHANGELOG.md").write_text("# Changes\n\n[gone](nowhere.md)\n")
    monkeypatch.chdir(project.root)
    done = CliRunner().invoke(main, ["site", "--no-run", "--out", str(tmp_path / "site")])
    assert done.exit_code == 2 and "nowhere.md" in done.output
    assert first.read_text() == before


def test_notebooks_that_were_not_executed_are_named(project, tmp_path):
    with pytest.raises(ProjectError, match=r"00_one; `snnkit run` makes executed notebooks"):
        site.build(project, tmp_path / "site", tmp_path)


def test_pages_show_the_picture_of_a_plot_and_no_widget(tmp_path):
    plot = {site.PLOT: {}, "image/png": "aGk=", "text/plain": "a plot"}
    outputs = [plot, {site.WIDGET: {}, "text/plain": "a widget"}, {"text/html": "<b>card</b>", site.WIDGET: {}}]
    cell = nbformat.v4.new_code_cell("x", outputs=[nbformat.v4.new_output("display_data", data=one) for one in outputs])
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata={"widgets": {}}), tmp_path / "x.ipynb")
    read = site.without_widgets(tmp_path / "x.ipynb")
    assert "widgets" not in read.metadata
    first, second = read.cells[0].outputs
    assert set(first.data) == {"image/png", "text/plain"} and set(second.data) == {"text/html"}


# --- docs/conf.py -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def conf():
    return runpy.run_path(str(find().root / "docs" / "conf.py"))


def test_every_room_and_only_public_names_are_in_the_reference(conf):
    pages_of = {module.split(".")[1] for modules in conf["PAGES"].values() for module in modules}
    assert set(snnkit.__all__) - {"tools", "records", "measure"} <= pages_of
    assert conf["public"](snnkit.encode) == list(snnkit.encode.__all__)
    offered = set(conf["public"](snnkit.course))
    assert {"attempt", "quiz"} <= offered and not {"exercise", "registry"} & offered  # no modules


@pytest.mark.slow
def test_the_site_of_this_project(tmp_path):
    """Without a warning; the outputs of notebooks are left out, as it takes minutes to make them."""
    html = site.build(find(), tmp_path / "site", find().notebooks, echo=lambda line: None).parent
    assert "Bellec" in (html / "api" / "neurons.html").read_text(encoding="utf-8")
    assert {path.stem for path in (html / "notebooks").glob("*.html")} == set(find().names())
    assert (html / "search.html").is_file() and (html / "searchindex.js").stat().st_size > 10_000
