"""The site of a small project, its faults, and that of this one."""

from __future__ import annotations

import nbformat
import pytest
from click.testing import CliRunner

import snnkit
from snnkit.cli import main
from snnkit.site import api, executed, pages
from snnkit.site.build import SiteError, build
from snnkit.tools import pair
from snnkit.tools.project import ProjectError, find
from tests.unit import tiny_project

CONF = 'extensions = ["myst_nb"]\nnb_execution_mode = "off"\nexclude_patterns = []\nhtml_theme = "sphinx_book_theme"\n'


def quiet(line):
    pass


@pytest.fixture
def project(tmp_path, monkeypatch):
    """One notebook, a README, a workshop page; the reference is another test's."""
    monkeypatch.setattr(api, "PAGES", {})
    made = tiny_project.make(tmp_path / "kit", {"00_one": "print(6 * 7)"})
    pair.build(made, "00_one")
    for name, text in {
        "README.md": "# Kit\n\n[one](notebooks/00_one.ipynb) [plan](workshop/README.md) [license](LICENSE) "
        "[src](notebooks/src)\n![picture](docs/p.png)\n\n```text\n[code](nowhere.md)\n```\n",
        "CONTRIBUTING.md": "# Contributing\n\n[home](README.md)\n",
        "CHANGELOG.md": "# Changes\n",
        "LICENSE": "MIT",
        "workshop/README.md": "# Workshop\n\n[home](../README.md) [again](../README.md#kit)\n",
        "docs/site/conf.py": CONF + "myst_heading_anchors = 2\n",
        "docs/site/_static/site.css": "",
    }.items():
        path = made.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (made.root / "docs" / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    return made


def test_links_lead_to_pages_pictures_and_the_repository(project, tmp_path):
    pages.stage(project, None, tmp_path / "source")
    index = (tmp_path / "source" / "index.md").read_text()
    assert "(notebooks/00_one.ipynb) [plan](workshop/README.md)" in index
    assert "(https://github.com/someone/kit/blob/main/LICENSE)" in index
    assert "(https://github.com/someone/kit/tree/main/notebooks/src)" in index
    assert "[code](nowhere.md)" in index and ":caption: Workshop" in index
    assert (tmp_path / "source" / "docs" / "p.png").exists()
    assert (
        "[home](../index.md) [again](../index.md#kit)" in (tmp_path / "source" / "workshop" / "README.md").read_text()
    )


def test_a_site_is_built_with_outputs(project, tmp_path):
    said = []
    first = build(project, tmp_path / "out" / "site", told=said.append)
    assert first.is_file() and said[0] == "executing 1 notebooks first: 00_one"
    page = first.parent / "notebooks" / "00_one.html"
    assert "42" in page.read_text()
    said.clear()
    build(project, tmp_path / "out" / "site", told=said.append)
    assert said == ["building the pages"]  # the copy that is there is of the same text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("# Changes\n\n[gone](nowhere.md)\n", "nowhere.md"),
        ("# Changes\n\n<a href='no.html'>x</a>\n", "CHANGELOG.html: no.html"),
    ],
    ids=["Sphinx sees it", "in HTML"],
)
def test_a_link_to_nowhere_leaves_the_old_site(project, tmp_path, text, complaint):
    first = build(project, tmp_path / "site", run=False, told=quiet)
    before = first.read_text()
    (project.root / "CHANGELOG.md").write_text(text)
    with pytest.raises(SiteError, match=complaint):
        build(project, tmp_path / "site", run=False, told=quiet)
    assert first.read_text() == before


def test_a_notebook_that_fails_is_named(project, tmp_path):
    tiny_project.make(project.root, {"00_one": "1 / 0"})
    pair.build(project, "00_one")
    with pytest.raises(ProjectError, match=r"00_one, cell .: ZeroDivisionError"):
        build(project, tmp_path / "site", told=quiet)
    assert not (tmp_path / "site").exists()


def test_copies_that_are_no_longer_current(project, tmp_path):
    copy = pair.notebook(project, "00_one")
    for number, cell in enumerate(copy.cells):
        if cell.cell_type == "code":
            cell.execution_count = number
    copy.cells.insert(2, nbformat.v4.new_code_cell("QUICK = True", execution_count=1))
    copy.cells[2].metadata["tags"] = ["injected-parameters"]
    path = tmp_path / "00_one.ipynb"

    def stale():
        nbformat.write(copy, path)
        return executed.stale(project, tmp_path, ["00_one"])

    assert stale() == []
    copy.cells[-1].outputs = [nbformat.v4.new_output("error", ename="E", evalue="", traceback=[])]
    assert stale() == ["00_one"]
    copy.cells[-1].outputs = []
    copy.cells[-1].execution_count = None
    assert stale() == ["00_one"]
    copy.cells[-1].execution_count = 9
    copy.cells[-1].source = "print(43)"
    assert stale() == ["00_one"]
    path.write_text("{")
    assert executed.stale(project, tmp_path, ["00_one"]) == ["00_one"]


def test_pages_show_the_picture_of_a_plot_and_no_widget(tmp_path):
    plot = {executed.PLOT: {}, "image/png": "aGk=", "text/plain": "a plot"}
    outputs = [plot, {executed.WIDGET: {}, "text/plain": "a widget"}, {"text/html": "<b>card</b>", executed.WIDGET: {}}]
    cell = nbformat.v4.new_code_cell("x", outputs=[nbformat.v4.new_output("display_data", data=one) for one in outputs])
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"widgets": {}})
    nbformat.write(notebook, tmp_path / "x.ipynb")
    read = executed.read(tmp_path / "x.ipynb")
    assert "widgets" not in read.metadata
    first, second = read.cells[0].outputs
    assert set(first.data) == {"image/png", "text/plain"} and set(second.data) == {"text/html"}


def test_every_room_is_in_the_reference():
    pages_of = {module.split(".")[1] for modules in api.PAGES.values() for module in modules}
    assert set(snnkit.__all__) - {"tools"} <= pages_of


def test_names_that_a_module_offers():
    assert api.public(snnkit.encode) == list(snnkit.encode.__all__)
    assert {"attempt", "quiz", "Scorecard"} <= set(api.public(snnkit.course))
    assert not {"exercise", "registry"} & set(api.public(snnkit.course))  # modules


def test_the_site_of_this_project(tmp_path):
    """No warning, no broken link; the outputs of notebooks are left out, as it takes minutes to make them."""
    first = build(find(), tmp_path / "site", run=False, told=quiet)
    html = first.parent
    assert "Bellec" in (html / "api" / "neurons.html").read_text(encoding="utf-8")
    assert {path.stem for path in (html / "notebooks").glob("*.html")} == set(find().names())
    assert (html / "search.html").is_file() and (html / "searchindex.js").stat().st_size > 10_000
    assert "https://doi.org/" in (tmp_path / "site" / "external_links.txt").read_text()


def test_the_command_says_what_is_wrong(project, monkeypatch, tmp_path):
    monkeypatch.chdir(project.root)
    (project.root / "CHANGELOG.md").write_text("# Changes\n\n<a href='no.html'>x</a>\n")
    done = CliRunner().invoke(main, ["site", "--no-run", "--out", str(tmp_path / "site")])
    assert done.exit_code == 1 and "CHANGELOG.html: no.html" in done.output
