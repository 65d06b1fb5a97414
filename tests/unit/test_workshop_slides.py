"""Slides from tagged cells."""

from __future__ import annotations

import nbformat
import pytest
from click.testing import CliRunner
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from snnkit.cli import main
from snnkit.tools import pair
from snnkit.tools.project import find
from snnkit.workshop import slides
from snnkit.workshop.problem import WorkshopError

PROJECT = find()
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def tagged(make, text, *tags, **more):
    cell = make(text, **more)
    cell.metadata["tags"] = list(tags)
    return cell


def drawn(text, *tags):
    out = new_output("display_data", {"image/png": PIXEL + "\n"}, metadata={"image/png": {"alt": 'a "dot"'}})
    return tagged(new_code_cell, text, *tags, outputs=[out, new_output("stream", name="stdout", text="2 < 3\n")])


def test_slides_begin_and_go_on():
    notebook = new_notebook(
        cells=[
            tagged(new_markdown_cell, "# A & B\n\nof $\\beta v$", "slide"),
            new_markdown_cell("not shown"),
            tagged(new_markdown_cell, "## Two\n\n$$v = \\frac{1}{2}$$", "slide"),
            drawn("secret()", "slide-more"),
            drawn("shown(1 < 2)", "slide", "slide-code"),
        ]
    )
    page = slides.html(notebook, "01_x")
    assert page.count("<section>") == 3 and "<title>A &amp; B</title>" in page
    assert "not shown" not in page and "secret" not in page and "shown(1 &lt; 2)" in page
    assert page.count("<math") == 2 and 'display="block"' in page and "<mfrac>" in page
    assert page.count(f'<img alt="a &quot;dot&quot;" src="data:image/png;base64,{PIXEL}">') == 2
    assert "2 &lt; 3" in page
    assert "http" not in page.replace("http://www.w3.org/1998/Math/MathML", "")  # nothing from a network


@pytest.mark.parametrize(
    ("cells", "complaint"),
    [
        ([new_markdown_cell("x")], "01_x: no cell is tagged 'slide'"),
        ([tagged(new_markdown_cell, "x", "slide-more")], "01_x, cell 0: 'slide-more' goes on with a slide"),
        ([tagged(new_code_cell, "1 + 1", "slide")], "01_x, cell 0: is to be on a slide, but has no picture"),
    ],
)
def test_tags_that_make_no_slides(cells, complaint):
    with pytest.raises(WorkshopError, match=complaint):
        slides.html(new_notebook(cells=cells), "01_x")


def test_the_command(tmp_path):
    copies = tmp_path / "copies"
    copies.mkdir()
    notebook = new_notebook(cells=[tagged(new_markdown_cell, "# Hello", "slide")])
    nbformat.write(notebook, copies / "01_first_spiking_neuron.ipynb")
    arguments = ["workshop", "slides", "--copies", str(copies), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(main, [*arguments, "01"])
    assert done.exit_code == 0, done.output
    assert "<h1>Hello</h1>" in (tmp_path / "out" / "01_first_spiking_neuron.html").read_text()
    done = CliRunner().invoke(main, [*arguments, "01", "02"])
    assert done.exit_code == 1 and "no executed copy at" in done.output and "02_surrogate_gradients" in done.output


@pytest.mark.parametrize("name", PROJECT.names())
def test_every_notebook_is_tagged_for_slides(name):
    """A title first, then at least a handful more; code cells on slides draw or print."""
    cells = pair.notebook(PROJECT, name).cells
    chosen = [cell for cell in cells if {slides.NEW, slides.MORE} & set(cell.metadata.get("tags", ()))]
    assert len(chosen) >= 8
    assert chosen[0].source.startswith("# ") and slides.NEW in chosen[0].metadata["tags"]
    for cell in chosen:
        if cell.cell_type == "code":
            assert any(call in cell.source for call in ("viz.show(", "viz.explore(", "print(")), cell.source
