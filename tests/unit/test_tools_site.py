"""The site of a small project, its faults, and that of this one."""

from __future__ import annotations

import json
import re
import runpy
from types import SimpleNamespace
from xml.etree import ElementTree

import nbformat
import pytest
from click.testing import CliRunner

import snnkit
from snnkit.lab.cli import main
from snnkit.lab.tools import pair, site
from snnkit.lab.tools.project import ProjectError, find
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


def test_pages_hold_the_living_plot_and_no_widget_and_load_no_picture(tmp_path):
    plot = {site.PLOT: {"data": [{"name": "</script>"}]}, "image/png": "aGk=", "text/plain": "a plot"}
    widget = {site.WIDGET: {}, "text/plain": "a widget"}
    outputs = [plot, widget, {"text/html": f"<b>{site.COLAB}</b>", site.WIDGET: {"model_id": ""}}]
    cell = nbformat.v4.new_code_cell("x", outputs=[nbformat.v4.new_output("display_data", data=one) for one in outputs])
    cell.metadata.jupyter = {"source_hidden": True}
    badge = nbformat.v4.new_markdown_cell(
        "[![Open](https://a.com/b.svg)](https://colab.research.google.com/x) ![own](b.svg)"
    )
    nbformat.write(nbformat.v4.new_notebook(cells=[cell, badge], metadata={"widgets": {}}), tmp_path / "x.ipynb")
    read = site.read(tmp_path / "x.ipynb")
    assert (
        "widgets" not in read.metadata
        and read.cells[1].source == "[Open](https://colab.research.google.com/x) ![own](b.svg)"
    )
    assert read.cells[0].metadata.tags == ["hide-input"]  # which the site and our pages fold
    first, second = read.cells[0].outputs
    assert set(first.data) == {"text/html", "text/plain"} and set(second.data) == {"text/html"}
    assert second.data["text/html"] == '<b><a href="https://colab.research.google.com/x">Colab</a></b>'
    assert first.data["text/html"].count("</script>") == 1 and "min-height:380px" in first.data["text/html"]


@pytest.mark.parametrize(
    ("tex", "parts"),
    [
        (r"a = \max\big\{b\big\} \tag{4}", ("(4)", "<mo>max</mo>", "&#x0007B;")),
        (r"\arg\max_k \operatorname{sign} c", ('normal">r</mi>', "<msub><mo>max</mo>", 'normal">s</mi>')),
        (r"\Delta t / \tau := 1", ('normal">&#x00394;', 'lspace="0"', "≔")),
    ],
)
def test_formulas_are_mathml(tex, parts):
    made = site.formula(tex, block="tag" in tex)
    assert "\\" not in made and all(part in made for part in parts)


# --- docs/conf.py -----------------------------------------------------------------------------------------------------


def test_a_formula_stays_with_the_full_stop_behind_it():
    one, block = site.formula("x"), site.formula("x", block=True)
    held = '<span style="white-space: nowrap">'
    assert site.glued(f"a {one}, b ({one}) {one} c {block}.") == (
        f"a {held}{one},</span> b {held}({one})</span> {one} c {block}."
    )
    wrapped = f'<span class="math inline">{one}</span>'  # as on slides
    assert site.glued(f"<i>a {wrapped}</i>. {wrapped}.") == f"<i>a {wrapped}</i>. {held}{wrapped}.</span>"


def test_formulas_have_the_spaces_of_tex_and_the_labels_of_arrows_fit():
    space = '<mspace width="0.167em" />'
    assert site.formula(r"\tau \ln x").count(space) == 2 and site.formula(r"2\ln(x)").count(space) == 1
    assert site.formula(r"\ln p_k").count(space) == 1 and space not in site.formula(r"-\log_2 x, \exp(-x)")
    arrow = site.formula(r"a \xrightarrow{\text{encode}} b")
    assert "mpadded" not in arrow and "<mover>" in arrow and "&#x27F6;" in arrow and "<mtext>encode</mtext>" in arrow


@pytest.fixture(scope="module")
def conf():
    return runpy.run_path(str(find().root / "docs" / "conf.py"))


def test_every_room_and_only_public_names_are_in_the_reference(conf):
    pages_of = {module.split(".")[1] for modules in conf["PAGES"].values() for module in modules}
    assert set(snnkit.__all__) - {"tools", "records", "measure"} <= pages_of
    assert conf["public"](snnkit.encode) == list(snnkit.encode.__all__)
    offered = set(conf["public"](snnkit.lab.course))
    assert {"attempt", "quiz"} <= offered and not {"exercise", "registry"} & offered  # no modules


@pytest.mark.parametrize("what", ["attribute", "property", "data"])
def test_a_docstring_with_a_colon_names_no_type(conf, what):
    napoleon, docstrings = pytest.importorskip("sphinx.ext.napoleon"), "autodoc-process-docstring"
    handlers = [(500, napoleon._process_docstring)]

    def connect(event, handler, priority=500):
        if event == docstrings:
            handlers.append((priority, handler))

    nothing = {"add_html_math_renderer": lambda *_: None, "add_js_file": lambda _: None}
    app = SimpleNamespace(connect=connect, config=napoleon.Config(), **nothing)
    conf["setup"](app)
    lines = ["None: it does not fire.", "", "Then: more.", ""]
    for _, handler in sorted(handlers, key=lambda each: each[0]):
        handler(app, what, "snnkit.neuron.LI.threshold", SimpleNamespace(__doc__="its own"), None, lines)
    assert [line for line in lines if line] == ["..", "None: it does not fire.", "Then: more."]


DRAWINGS = find().notebooks / "drawings"
NARROW = json.loads((DRAWINGS / "narrow.json").read_text("utf-8"))


@pytest.mark.parametrize("name", NARROW)
def test_a_narrow_drawing_has_all_the_texts_of_the_wide_one_and_they_can_be_read(name):
    drawing, rows = (DRAWINGS / f"{name}.svg").read_text("utf-8"), NARROW[name]
    begun = tuple(row for row in rows if isinstance(row, str))
    parts = [part for row in rows if row not in begun for part in row]
    left_out = []
    for text in ElementTree.fromstring(drawing).iter("{http://www.w3.org/2000/svg}text"):
        x, y, words = float(text.attrib["x"]), float(text.attrib["y"]), "".join(text.itertext())
        inside = any(left <= x <= left + wide and top <= y <= top + high for left, top, wide, high in parts)
        if not inside and not words.startswith(begun):
            left_out.append(words)
    assert left_out == []
    made = site.narrow(drawing, rows)
    assert made.startswith('<svg xmlns="http://www.w3.org/2000/svg" width="400"')
    sizes = re.findall(r'<svg x="[\d.]+" y="[\d.]+" width="([\d.]+)" height="[\d.]+" viewBox="\d+ \d+ (\d+)', made)
    assert len(sizes) == len(parts) and min(float(shown) / float(wide) for shown, wide in sizes) > 0.85


def test_each_drawing_that_is_wider_than_two_phones_has_a_narrow_form():
    wide = [path.stem for path in sorted(DRAWINGS.glob("*.svg")) if ' width="760"' in path.read_text("utf-8")]
    assert wide == sorted(NARROW)


def test_a_narrow_drawing_wraps_what_a_text_says_and_knows_its_texts():
    long = "a & b, " * 20
    svg = '<svg width="9" height="9" viewBox="0 0 9 9"><style></style><defs>\n</defs>\n<rect width="7" height="7"/>\n'
    svg += f'<text x="1" y="2">{long.replace("&", "&amp;")}</text>\n</svg>\n'
    lines = re.findall('<text class="small mid".*?>(.*?)</text>', site.narrow(svg, ["a & b"]))
    assert len(lines) == 3 and " ".join(lines).replace("&amp;", "&") == long.strip()
    with pytest.raises(ValueError, match="none begins with 'c'"):
        site.narrow(svg, ["c"])
    with pytest.raises(ValueError, match="definitions before"):
        site.narrow("<svg/>", [])


@pytest.mark.slow
def test_the_site_of_this_project(tmp_path):
    """Without a warning; the outputs of notebooks are left out, as it takes minutes to make them."""
    html = site.build(find(), tmp_path / "site", find().notebooks, echo=lambda line: None).parent
    assert "Bellec" in (html / "api" / "neurons.html").read_text(encoding="utf-8")
    assert {path.stem for path in (html / "notebooks").glob("*.html")} == set(find().names())
    pages = [path.read_text(encoding="utf-8") for path in html.rglob("*.html")]
    assert not [found for page in pages for found in re.findall(r'<[^>]*\ssrc="https?:[^>]*>', page)]
    assert 'href="playground.html"' in (html / "index.html").read_text(encoding="utf-8")
    for drawing in NARROW:
        assert (html / "_images" / f"{drawing}-narrow.svg").is_file()
    assert '../_images/membrane-narrow.svg"' in (html / "notebooks" / "01_first_spiking_neuron.html").read_text("utf-8")
    assert (html / "playground.html").is_file() and (html / "reader.html").is_file()
    assert (html / "search.html").is_file() and (html / "searchindex.js").stat().st_size > 10_000
