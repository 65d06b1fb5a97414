"""Slides from tagged cells, the cheatsheet, and the instructor's notebooks."""

from __future__ import annotations

import base64
import html
import io
import json
import re

import nbformat
import numpy as np
import plotly.graph_objects as go
import pytest
from click.testing import CliRunner
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from snnkit.lab.cli import main
from snnkit.lab.course import exercise as registry, question
from snnkit.lab.tools import pair
from snnkit.lab.tools.project import find
from snnkit.lab.workshop import handouts
from snnkit.lab.workshop.timetable import WorkshopError
from tests.unit import tiny_project

PROJECT = find()
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def tagged(make, text, *tags, **more):
    cell = make(text, **more)
    cell.metadata["tags"] = list(tags)
    return cell


def drawn(text, *tags):
    out = new_output("display_data", {"image/png": PIXEL + "\n"}, metadata={"image/png": {"alt": 'a "dot"'}})
    return tagged(new_code_cell, text, *tags, outputs=[out, new_output("stream", name="stdout", text="2 < 3\n")])


def slides(notebook, folder):
    nbformat.write(notebook, folder / "01_x.ipynb")
    return handouts.slides(folder / "01_x.ipynb")


def test_slides_begin_and_go_on(tmp_path):
    cells = [
        tagged(new_markdown_cell, "# A & B\n\nof $\\beta v$", "slide"),
        new_markdown_cell("not shown"),
        tagged(new_markdown_cell, "## Two\n\n$$v = \\frac{1}{2}$$", "slide"),
        drawn("secret()", "slide-more"),
        drawn("shown(1 < 2)", "slide", "slide-code"),
    ]
    page = slides(new_notebook(cells=cells), tmp_path)
    assert page.count("<section>") == 3 and "<title>A &amp; B</title>" in page
    assert "not shown" not in page and "secret" not in page and "shown(1 &lt; 2)" in page
    assert page.count("<math") == 2 and 'display="block"' in page and "<mfrac>" in page
    assert page.count(f'<img alt="a &quot;dot&quot;" src="data:image/png;base64,{PIXEL}">') == 2
    assert "2 &lt; 3" in page
    assert "http" not in page.replace("http://www.w3.org/1998/Math/MathML", "")  # nothing from a network


def test_what_a_cell_prints_is_one_box_and_blank_lines_are_none(tmp_path):
    said = [new_output("stream", name="stdout", text=text) for text in ("one", "\n", "two\n", "\n")]
    cell = tagged(new_code_cell, "x", "slide", outputs=[*said[:3], *drawn("x").outputs[:1], said[3]])
    assert re.findall(r"<pre>(.*?)</pre>", slides(new_notebook(cells=[cell]), tmp_path), re.DOTALL) == ["one\ntwo"]


@pytest.mark.parametrize(("tags", "shown"), [((), 14), (("slide-code",), 10)])
def test_what_is_printed_below_code_is_cut_sooner(tmp_path, tags, shown):
    said = new_output("stream", name="stdout", text="\n".join(map(str, range(30))))
    cell = tagged(new_code_cell, "x\n" * 10 + "x", "slide", *tags, outputs=[said])
    printed = re.findall(r"<pre>(\d.*?)</pre>", slides(new_notebook(cells=[cell]), tmp_path), re.DOTALL)
    assert printed == ["\n".join([*map(str, range(shown)), "…"])]


def test_what_is_printed_beside_a_figure_leaves_it_most_of_the_slide(tmp_path):
    said = new_output("stream", name="stdout", text="\n".join(map(str, range(30))))
    cell = tagged(new_code_cell, "x", "slide", outputs=[said, *drawn("x").outputs[:1]])
    printed = re.findall(r"<pre>(\d.*?)</pre>", slides(new_notebook(cells=[cell]), tmp_path), re.DOTALL)
    assert printed == ["0\n1\n2\n3\n4\n…"]


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ([new_markdown_cell("x")], "01_x: no cell is tagged 'slide'"),
        ([tagged(new_code_cell, "x = 1", "slide")], "01_x, cell 0: is to be on a slide, but has no picture"),
    ],
)
def test_tags_that_make_no_slides(cells, says, tmp_path):
    with pytest.raises(WorkshopError, match=says):
        slides(new_notebook(cells=cells), tmp_path)


def test_the_commands(tmp_path):
    copies = tmp_path / "copies"
    copies.mkdir()
    notebook = new_notebook(cells=[tagged(new_markdown_cell, "# Hello", "slide")])
    nbformat.write(notebook, copies / "01_first_spiking_neuron.ipynb")
    words = ["workshop", "slides", "--copies", str(copies), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(main, [*words, "01"])
    assert done.exit_code == 0, done.output
    assert "<h1>Hello</h1>" in (tmp_path / "out" / "01_first_spiking_neuron.html").read_text()
    done = CliRunner().invoke(main, [*words, "01", "02"])
    assert done.exit_code == 2 and "no executed copy at" in done.output and "02_surrogate_gradients" in done.output
    page = tmp_path / "sheet.html"
    assert CliRunner().invoke(main, ["workshop", "cheatsheet", "--html", str(page)]).exit_code == 0
    html = page.read_text()
    assert "@page" in html and html.count("<table>") == 2 and "class Mine(neuron.Neuron)" in html
    assert not re.search(r'(src|href)="(?!https?:)', html)  # one file, nothing to load


def test_a_slide_stands_alone():
    long = "First things come first. " + "Then come other things, which are many. " * 20
    cells = [
        tagged(new_markdown_cell, f"# A\n\n$$v = 1 \\tag{{4}}$$\n\n{long}\n\n- one [3]\n- two", "slide"),
        tagged(
            new_markdown_cell,
            "**Notice.** By equation (4) it is. (1) Two.\n\n## B\n\n**Predict first.** What?",
            "slide",
        ),
        drawn("draw()", "slide"),
    ]
    one, two, three, four = handouts.outline(new_notebook(cells=cells), "x")
    (text,) = one
    assert text.startswith("# A\n\n$$v = 1 \\tag{4}$$\n\nFirst things come first. Then") and text.endswith(
        "\n\n- one\n- two"
    )
    assert 50 < handouts.words(text) <= handouts.MOST_WORDS
    assert two == ["# A", "**Notice.** By equation (4) it is. (1) Two.", "$$v = 1 \\tag{4}$$"]
    assert three == ["## B\n\n**Predict first.** What?"]
    assert four[:2] == ["## B", "**What do you see, and what did you expect?**"] and four[2][0].source == "draw()"
    with pytest.raises(WorkshopError, match=r"x: equation \(5\) must have a \\tag\{5\}"):
        handouts.outline(new_notebook(cells=[tagged(new_markdown_cell, "By equation (5).", "slide")]), "x")


def test_a_drawing_has_a_slide_of_its_own_before_the_text_of_its_section():
    drawing = '<img width="760" alt="a drawing" src="data:image/webp;base64,AA==" data-file="drawings/a.svg">'
    texts = [f"# A\n\n{drawing}", f"words\n\n## B\n\nmore\n\n{drawing}\n\nand more", f"{drawing}\n\nlast"]
    cells = [tagged(new_markdown_cell, text, "slide" if i < 2 else "slide-more") for i, text in enumerate(texts)]
    shown = [[part.strip() for part in slide] for slide in handouts.outline(new_notebook(cells=cells), "x")]
    first, last = [["# A", drawing], ["# A", "words"]], [["## B", drawing], ["## B", "last"]]
    assert shown == [*first, ["## B", drawing], ["## B\n\nmore\n\nand more"], *last]


def test_a_figure_alone_asks_the_prediction_of_its_section_and_is_sharp(tmp_path):
    cell = drawn("draw()", "slide")
    figure = json.loads(go.Figure(go.Scatter(x=np.arange(3.0), y=[1, 2, 1])).to_json())
    cell.outputs[0].data["application/vnd.plotly.v1+json"] = figure
    cells = [tagged(new_markdown_cell, "## A", "slide"), new_code_cell('predict("encodings.a")'), cell]
    cells.append(drawn("again()", "slide"))
    page = slides(new_notebook(cells=cells), tmp_path)
    assert page.count(html.escape(question.find("encodings.a")["ask"], quote=False)) >= 1
    both = re.search(
        r'<picture><source media="(.+?)" srcset="data:(.+?)"><img alt="[^>]*" src="data:(.+?)"></pict', page
    )
    assert both and f"@media {both[1]}" in page and f'matchMedia("{both[1]}")' in page
    dark, light = (Image.open(io.BytesIO(base64.b64decode(one.partition(",")[2]))) for one in both.groups()[1:])
    assert light.width == dark.width == 1280  # of 700 in the copy
    assert light.convert("RGBA").getpixel((0, 0)) == (255,) * 4 and dark.convert("RGBA").getpixel((0, 0))[3] == 0
    assert page.count("data:image/png") == 1 and page.count("<picture>") == 1  # what plotly has not drawn is as it was


@pytest.mark.parametrize("name", PROJECT.names())
def test_slides_of_a_notebook_have_few_words_and_a_heading(name):
    """A title first, then at least a handful more; code cells on slides draw or print."""
    made = handouts.outline(pair.notebook(PROJECT, name), name)
    assert len(made) >= 8 and made[0][0].startswith("# ")
    for slide in made:
        texts = "\n\n".join(part for part in slide if isinstance(part, str))
        assert texts.startswith("#") and handouts.words(texts) <= handouts.MOST_WORDS + 10, texts


def test_each_exercise_is_followed_by_its_solution_checks_and_hints():
    cells = handouts.annotated(pair.notebook(PROJECT, "01_first_spiking_neuron"))
    at = next(i for i, cell in enumerate(cells) if 'attempt("first_spiking_neuron.1"' in cell.source)
    page, exercise = cells[at + 1], registry.find("first_spiking_neuron.1")
    assert page.cell_type == "markdown" and page.id == "solution-first_spiking_neuron-1"
    assert f"def {exercise.reference.__name__}" in page.source
    assert all(hint in page.source for hint in exercise.hints)
    assert all(check.name in page.source for check in exercise.checks)
    nbformat.validate(nbformat.v4.new_notebook(cells=cells))


def test_they_run_solved_and_a_solution_that_fails_is_named(tmp_path):
    lines = []
    failing = 'if SOLVE: raise RuntimeError("the reference of exercise 01.1 does not pass its own checks")'
    project = tiny_project.make(tmp_path / "kit", {"00_good": "print('solved', SOLVE)", "01_bad": failing})
    (failed,) = handouts.solutions(project, project.names(), tmp_path / "out", lines.append)
    assert failed.startswith("01_bad, cell 4: RuntimeError: the reference of exercise 01.1")
    assert any(line.startswith("00_good: ok") for line in lines)
    assert "solved True" in (tmp_path / "out" / "notebooks" / "00_good.ipynb").read_text()
    assert (tmp_path / "out" / "html" / "00_good.html").is_file()
