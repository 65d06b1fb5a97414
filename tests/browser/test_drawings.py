"""Drawings of the notebooks on light and dark pages, and the slides of all notebooks, in a browser."""

from __future__ import annotations

import base64
import functools
import io
import itertools
import re

import nbformat
import numpy as np
import pytest
import torch
from matplotlib.image import imread
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from snnkit import data, encode, models, neuron, nn
from snnkit.lab import pages
from snnkit.lab.pages import web
from snnkit.lab.tools import pair, run_report
from snnkit.lab.tools.project import find
from snnkit.lab.viz import display, embedded, explorers, figures
from snnkit.lab.workshop import handouts
from tests.unit.test_viz_figures import contrast

PROJECT = find()
DRAWINGS = PROJECT.notebooks / "drawings"
STYLE, _, DARK_STYLE = (DRAWINGS / "style.css").read_text("utf-8").partition("@media")
LIGHT_PAPER, DARK_PAPER = (re.findall(r"\.paper { fill: (#\w+)", style)[0] for style in (STYLE, DARK_STYLE))
INKS = [*re.findall(r"^text {.*?fill: (#\w+)|^\.muted { fill: (#\w+)|tspan\)\.\w+ { fill: (#\w+)", STYLE, re.MULTILINE)]
PAPERS = re.findall(r"\.(?:paper|card|dim|soft-\w+) { fill: (#\w+)", STYLE)
SCHEMES = ("light", "dark")
# Of slides: letters in px by the words that have them, without what lives on them, and whether something sticks out.
ON_SLIDES = """() => slides.map((slide, i) => {
  go(i);
  const words = document.createTreeWalker(slide, NodeFilter.SHOW_TEXT), letters = {};
  while (words.nextNode()) {
    const {parentElement: around, textContent} = words.currentNode;
    if (!textContent.trim() || around.closest("math, script, style, .snn, .snnkit-alt")) continue;
    letters[textContent.trim().slice(0, 40)] = parseFloat(getComputedStyle(around).fontSize);
  }
  for (const {alt, dataset, naturalWidth, offsetWidth, naturalHeight, offsetHeight} of slide.querySelectorAll("img"))
    if (dataset.file) letters[alt] = 26 * Math.min(offsetWidth / naturalWidth, offsetHeight / naturalHeight);
  return {letters, out: slide.scrollHeight > innerHeight || slide.scrollWidth > slide.clientWidth};
})"""

# Of drawings on a canvas: the sizes of letters in px, by what is written.
WRITTEN = """(() => {
  window.written = {};
  const draw = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...more) {
    written[`${this.canvas.ariaLabel ?? this.canvas.id}: ${text}`] = parseFloat(/([\\d.]+)px/.exec(this.font)[1]);
    draw.call(this, text, ...more);
  };
})()"""
# Of what is seen of a page: the sizes of letters in px, by their words.
SEEN = """() => {
  const words = document.createTreeWalker(document.querySelector(".here") ?? document.body, NodeFilter.SHOW_TEXT);
  const letters = {};
  while (words.nextNode()) {
    const {parentElement: around, textContent} = words.currentNode;
    if (!around.checkVisibility() || around.closest("style, script, .visually-hidden, .snnkit-alt")) continue;
    if (textContent.trim())
      letters[`${around.className} ${textContent.trim().slice(0, 40)}`] = parseFloat(getComputedStyle(around).fontSize);
  }
  return letters;
}"""


def of_a_network(explorer, net, **more):
    images, labels = (part[:20] for part in data.load("digits", "test"))
    more |= {"encode": functools.partial(encode.repeat, steps=3), "classes": data.CLASSES["digits"]}
    return explorer(net, images, labels, labels, **more)


def feature_maps():
    net = nn.Sequential(torch.nn.Conv2d(1, 4, 3), neuron.LIF(), torch.nn.Flatten(), torch.nn.Linear(144, 10))
    return of_a_network(explorers.feature_maps, net, layers={"conv": 1})


EXPLORERS = {
    **{name: getattr(explorers, name) for name in ("neuron", "population", "surrogate", "encoder", "event_player")},
    **{name: getattr(explorers, name) for name in ("stdp", "number_lines", "memory_calculator", "conv_costs")},
    "under_the_roof": lambda: explorers.under_the_roof(2e10, 1e10),
    "crossing": lambda: explorers.crossing((0.01, 1e3)),
    "gradient_scales": lambda: explorers.gradient_scales({"g": torch.linspace(1e-6, 1, 99)}),
    "feature_maps": feature_maps,
    "decision": lambda: of_a_network(explorers.decision, models.mlp((64, 20, 10))),
}


def drawing(name="unrolled"):
    bits = base64.b64encode((DRAWINGS / f"{name}.webp").read_bytes()).decode()
    return f'<img width="760" alt="a drawing" src="data:image/webp;base64,{bits}" data-file="drawings/{name}.svg">'


def seen(place):
    """The pixels, [rows, columns, RGB]."""
    return imread(io.BytesIO(place.screenshot()))[..., :3]


def hexed(pixel):
    return "#" + "".join(f"{round(255 * part):02x}" for part in pixel.tolist())


def test_all_that_a_dark_page_makes_of_a_drawing_can_be_read(page):
    """And the paper is that of a drawing whose own style is dark."""
    inks = ["".join(each) for each in INKS]
    swatches = "".join(f'<i style="background:{one};display:block;height:9px;width:9px"></i>' for one in inks + PAPERS)
    page.set_content(f'<style>{web.read("drawings.css")}</style><body data-jp-theme-light="false">{drawing()}')
    look = page.locator("img").evaluate("image => getComputedStyle(image).filter")
    page.set_content(f'<div style="width:9px;filter:{look}">{swatches}</div>')
    shown = [hexed(pixel) for pixel in seen(page.locator("div"))[4::9, 4]]
    assert len(shown) == len(inks) + len(PAPERS) == 17
    pairs = itertools.product(shown[: len(inks)], shown[len(inks) :])
    assert min(contrast(ink, paper) for ink, paper in pairs) >= 4.5
    assert contrast(shown[len(inks)], DARK_PAPER) < 1.02


@pytest.mark.parametrize("kind", ["copy", "slides", "svg"])
def test_drawings_on_our_own_pages_have_the_scheme_of_the_page(page, tmp_path, kind):
    """An SVG, which the site has, follows the page where the system has the other scheme."""
    (tmp_path / "notebooks").mkdir()
    cell = new_markdown_cell(f"# A title\n\n{drawing()}", metadata={"tags": ["slide"]})
    nbformat.write(new_notebook(cells=[cell]), tmp_path / "notebooks" / "x.ipynb")
    if kind == "copy":
        run_report.render_copy(tmp_path, "x")
    file = tmp_path / "html" / "x.html"
    file.parent.mkdir(exist_ok=True)
    if kind == "slides":
        file.write_text(handouts.slides(tmp_path / "notebooks" / "x.ipynb"), encoding="utf-8")
    elif kind == "svg":
        image = f'<img src="{(DRAWINGS / "unrolled.svg").as_uri()}" data-file>'
        file.write_text(f"<!DOCTYPE html><link rel='icon' href='data:,'>{image}", encoding="utf-8")
    page.goto(file.as_uri())
    papers = []
    for scheme in SCHEMES:
        if kind == "svg":
            page.evaluate(f"document.documentElement.style.colorScheme = '{scheme}'")
        else:
            page.emulate_media(color_scheme=scheme)
            page.wait_for_function(f"document.body.dataset.jpThemeLight === '{str(scheme == 'light').lower()}'")
        page.wait_for_timeout(100)
        pixels = seen(page.locator("img[data-file]"))
        papers.append(hexed(pixels[pixels.shape[0] // 2, pixels.shape[1] * 64 // 100]))  # between picture and card
    assert papers[0] == LIGHT_PAPER and contrast(papers[1], DARK_PAPER) < 1.02


def test_plots_on_slides_have_the_scheme_of_the_page(page, tmp_path):
    """And are printed on white paper, whatever the scheme is."""
    figure = figures.lines({"a": torch.tensor([1.0, 3.0, 2.0])}, title="A title")
    plot = new_output("display_data", data=display.mime_bundle(figure))
    cells = [new_markdown_cell("# A title", metadata={"tags": ["slide"]})]
    cells += [new_code_cell("x", outputs=[plot], metadata={"tags": ["slide"]})]
    nbformat.write(new_notebook(cells=cells), tmp_path / "x.ipynb")
    file = tmp_path / "x.html"
    file.write_text(handouts.slides(tmp_path / "x.ipynb").replace("<head>", "<head><link rel='icon' href='data:,'>"))
    page.goto(f"{file.as_uri()}#2")
    for media, scheme in [("screen", "light"), ("screen", "dark"), ("print", "dark")]:
        page.emulate_media(media=media, color_scheme=scheme)
        page.wait_for_timeout(100)
        plotted = seen(page.locator("figure img").last)
        paper = hexed(plotted[0, 0])
        assert paper == page.evaluate("getComputedStyle(document.body).getPropertyValue('--paper')").replace(
            "#fff", "#" + 6 * "f"
        )
        assert (contrast(paper, "#000000") > 15) is ((media, scheme) != ("screen", "dark"))
        pixels = {hexed(pixel) for pixel in np.unique(plotted.reshape(-1, 3), axis=0)}
        assert max(contrast(pixel, paper) for pixel in pixels) > 7


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_letters_of_explorers_can_be_read_from_the_last_row(page, tmp_path, explorer):
    """Those of drawings are as large as the page says; what is beside them, too."""
    shown_on(page, tmp_path, EXPLORERS[explorer]().html())
    page.wait_for_function("document.querySelector('.headline')?.textContent && Object.keys(written).length")
    page.wait_for_timeout(300)
    letters = page.evaluate("written") | page.evaluate(SEEN)
    assert len(letters) > 10 and {words: size for words, size in letters.items() if size < 14} == {}


def test_letters_of_a_network_on_a_slide_can_be_read_and_all_of_it_is_seen(page, tmp_path, monkeypatch):
    """It is a page in a frame, which is as high as the slide has room for."""
    outputs = []
    monkeypatch.setattr(embedded, "in_notebook", lambda: True)
    monkeypatch.setattr("IPython.display.display", lambda what, raw: outputs.append(what["text/html"]))
    embedded.embed(pages.reader(tmp_path / "reader.html"))
    shown_on(page, tmp_path, outputs[0])
    inside = page.frame_locator("iframe").locator("body")
    inside.locator("#reading:not(:empty)").wait_for()
    page.wait_for_timeout(500)
    letters = inside.evaluate("() => written") | inside.evaluate(SEEN)
    assert len(letters) > 10 and {words: size for words, size in letters.items() if size < 14} == {}
    assert inside.evaluate("body => document.documentElement.scrollHeight <= innerHeight")


def shown_on(page, folder, living):
    """Opens the second slide of a page, with an output that is alive."""
    cells = [new_markdown_cell("# A title", metadata={"tags": ["slide"]})]
    output = new_output("display_data", data={"text/html": living})
    cells += [new_code_cell("x", outputs=[output], metadata={"tags": ["slide"]})]
    nbformat.write(new_notebook(cells=cells), folder / "x.ipynb")
    text = handouts.slides(folder / "x.ipynb").replace("<head>", "<head><link rel='icon' href='data:,'>")
    (folder / "x.html").write_text(text, encoding="utf-8")
    page.add_init_script(WRITTEN)
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(f"{(folder / 'x.html').as_uri()}#2")


@pytest.mark.parametrize("name", PROJECT.names())
def test_letters_on_slides_can_be_read_from_the_last_row(page, tmp_path, name):
    """Outputs of code cells are left out, as these have not run."""
    nbformat.write(pair.notebook(PROJECT, name), tmp_path / "x.ipynb")
    file = tmp_path / "x.html"
    file.write_text(handouts.slides(tmp_path / "x.ipynb").replace("<head>", "<head><link rel='icon' href='data:,'>"))
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(file.as_uri())
    shown = page.evaluate(ON_SLIDES)
    assert len(shown) >= 8 and [i + 1 for i, one in enumerate(shown) if one["out"]] == []
    assert [one for one in shown for letters in one["letters"].values() if letters < 14] == []
    page.set_viewport_size({"width": 400, "height": 800})
    wide = [i + 1 for i in range(len(shown)) if page.evaluate(f"go({i}), document.documentElement.scrollWidth > 400")]
    assert wide == []


def test_letters_beside_an_explorer_are_as_large_as_its_height_allows(page, tmp_path):
    """It says how high it is after it is shown; printed lines below code can be read, too."""
    living = new_output("display_data", data={"text/html": explorers.population(neurons=1).html()})
    lines = [new_output("stream", name="stdout", text="0123456789 " * 6 + "\n" + "a line\n" * 40)]
    cells = [new_markdown_cell("# A title", metadata={"tags": ["slide"]})]
    cells += [new_code_cell("x", outputs=[living], metadata={"tags": ["slide"]})]
    cells += [new_code_cell("x = 1\n" * 9, outputs=lines, metadata={"tags": ["slide", "slide-code"]})]
    nbformat.write(new_notebook(cells=cells), tmp_path / "x.ipynb")
    file = tmp_path / "x.html"
    file.write_text(handouts.slides(tmp_path / "x.ipynb").replace("<head>", "<head><link rel='icon' href='data:,'>"))
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(file.as_uri())
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('.explorer canvas')?.offsetHeight > 100")
    page.wait_for_function("parseFloat(getComputedStyle(slides[1]).fontSize) >= 18")
    page.keyboard.press("ArrowRight")
    assert page.locator("section.here pre code").evaluate("e => parseFloat(getComputedStyle(e).fontSize)") >= 14
    assert not page.evaluate("slides[2].scrollHeight > innerHeight")
