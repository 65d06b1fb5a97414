"""Pages that run without Python: neurons as JavaScript in a browser, and explorers."""

import io
import re

import nbformat
import numpy as np
import pytest
import torch
from nbformat.v4 import new_markdown_cell, new_notebook
from PIL import Image

from snnkit.lab import pages, viz
from snnkit.lab.pages import web
from snnkit.lab.tools import run_report, site
from snnkit.lab.tools.project import find
from snnkit.lab.viz import embedded, explorers
from tests.engine import javascript
from tests.engine.test_js import check_zoo

expect = pytest.importorskip("playwright.sync_api", reason="pip install -e '.[all]'").expect


def test_every_neuron_in_chromium_as_eager(page):
    def run(sources, cases):
        page.set_content("<title>neurons</title>")
        return javascript.read(page.evaluate(f"() => {{ {javascript.module(sources, cases)}; return results; }}"))

    check_zoo(run)


EXPLORERS = ["neuron", "population", "surrogate", "encoder", "event_player", "stdp"]
EXPLORERS += ["memory_calculator", "number_lines", "conv_costs", "under_the_roof", "crossing"]
MEASURED = {"under_the_roof": (2e10, 1e10), "crossing": ((0.01, 1e3),)}  # their arguments


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_an_explorer_as_a_file_answers_mouse_and_keyboard(page, explorer, tmp_path):
    file, requests = tmp_path / "lab.html", []
    policy = f'<meta http-equiv="Content-Security-Policy" content="{web.POLICY}">'
    shown = getattr(explorers, explorer)(*MEASURED.get(explorer, ()))
    file.write_text(f"<!DOCTYPE html><meta charset='utf-8'>{policy}<link rel='icon' href='data:,'>{shown.html()}")
    page.on("request", lambda request: requests.append(request.url))
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto(file.as_uri())
    headline = page.locator(".headline")
    expect(headline).to_have_text(re.compile(r"\d"))
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for role in ("slider", "button", "combobox", "textbox", "switch", "img"):
        for control in page.get_by_role(role).all():
            expect(control).to_have_accessible_name(re.compile(r"\S"))
    before = values = page.evaluate("Object.values(snnkitExplorers)[0].values()")
    reached = set()
    for _ in range(60):  # with the keyboard alone
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.ariaLabel || document.activeElement.outerHTML"))
        if page.evaluate("document.activeElement.matches('input[type=range], .handle')"):
            page.keyboard.press("ArrowRight")
    moved = page.evaluate("Object.values(snnkitExplorers)[0].values()")
    sliders = page.locator("input[type=range], .handle:not([hidden])").count()
    assert len([name for name in values if values[name] != moved[name]]) >= min(sliders, 2)
    assert len(reached) >= sliders
    if page.get_by_role("button", name="Reset all").count():
        page.get_by_role("button", name="Reset all").click()
        assert page.evaluate("Object.values(snnkitExplorers)[0].values()") == before
    words = headline.inner_text()
    for handle in page.locator(".handle:not([hidden]), input[type=range]").all()[:2]:
        box = handle.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 30, y + 15, steps=5)
        page.mouse.up()
    expect(headline).not_to_have_text(words)
    taken_out_and_back(page, ".snn", "document.body.dataset.theme = 'dark'")
    expect(headline).not_to_have_text(words)
    assert requests == [file.as_uri()]


def test_words_of_a_text_light_up_what_they_name_in_the_nearest_explorer(page, tmp_path):
    word = '<p>The <span class="show-{0}">{0}</span> counts.</p>'
    text = [word.format("threshold"), explorers.neuron().html(), word.format("nonsense"), word.format("potential")]
    text += [explorers.surrogate().html(), word.format("detach_reset"), '<p style="height: 900px">']
    file = tmp_path / "text.html"
    file.write_text(f"<!DOCTYPE html><meta charset='utf-8'><link rel='icon' href='data:,'>{''.join(text)}")
    page.goto(file.as_uri())
    expect(page.locator(".headline").nth(1)).to_have_text(re.compile(r"\d"))
    words = {name: page.locator(f".show-{name}") for name in ("threshold", "nonsense", "potential", "detach_reset")}
    lit = page.locator(".control.lit")
    words["threshold"].hover()
    expect(lit).to_have_count(1)
    expect(lit).to_contain_text("threshold")
    words["potential"].hover()  # a line, which no control sets
    expect(lit).to_have_count(0)
    before = page.locator("canvas").nth(1).evaluate("canvas => canvas.toDataURL()")
    words["nonsense"].hover()  # which nobody knows
    page.wait_for_timeout(100)
    assert page.locator("canvas").nth(1).evaluate("canvas => canvas.toDataURL()") != before
    assert words["nonsense"].get_attribute("role") is None
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    words["detach_reset"].focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.role") == "switch"
    control = page.locator(".control", has_text="threshold").first
    control.hover()
    assert "rgba" in words["threshold"].get_attribute("style")


def taken_out_and_back(page, selector, change):
    """As JupyterLab does with cells that are far from view; in between, ``change`` runs."""
    page.evaluate(f"""async () => {{
        const one = document.querySelector({selector!r}), mark = new Comment();
        const frame = () => new Promise(requestAnimationFrame);
        one.replaceWith(mark);
        {change};
        await frame(); await frame();
        mark.replaceWith(one);
        await frame(); await frame();
    }}""")


def test_figures_of_a_saved_page_follow_the_scheme_and_their_titles_the_width(page, tmp_path):
    title = "A title that is much longer than the screen of a phone is wide"
    data = viz.display.mime_bundle(viz.figures.lines({"a": [1.0, 2.0], "b": [2.0, 1.0]}, title=title))
    cell = nbformat.v4.new_code_cell("x", outputs=[nbformat.v4.new_output("display_data", data=data)])
    (tmp_path / "notebooks").mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "notebooks" / "x.ipynb")
    run_report.render_copy(tmp_path, "x")
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto((tmp_path / "html" / "x.html").as_uri())
    expect(page.locator(".gtitle tspan")).to_have_count(2)
    assert page.locator(".gtitle").evaluate("title => title.getBoundingClientRect().right") <= 400
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.locator("figure").evaluate("figure => figure.scrollWidth - figure.clientWidth") <= 0
    expect(page.locator(".legendtext")).to_have_text(["a", "b"])  # which are beside the lines on a wider page
    inks, papers = [], []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        expect(page.locator("body")).to_have_attribute("data-jp-theme-light", str(scheme == "light").lower())
        if inks:
            expect(page.locator(".xtick text").first).not_to_have_css("fill", inks[0])
        inks.append(page.locator(".xtick text").first.evaluate("text => getComputedStyle(text).fill"))
        papers.append(page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor"))
    assert papers == ["rgb(255, 255, 255)", "rgb(17, 17, 17)"]


def test_figures_in_space_of_a_saved_page_have_its_scheme(page, tmp_path):
    """Not white paper with dark letters, which they have where the page does not say what it is."""
    events = (torch.arange(2 * 64).reshape(1, 2, 8, 8) % 5 == 0).float()
    data = viz.display.mime_bundle(viz.figures.event_cloud(events, title="A cloud"))
    cell = nbformat.v4.new_code_cell("x", outputs=[nbformat.v4.new_output("display_data", data=data)])
    (tmp_path / "notebooks").mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "notebooks" / "x.ipynb")
    run_report.render_copy(tmp_path, "x")
    page.emulate_media(color_scheme="dark")
    page.goto((tmp_path / "html" / "x.html").as_uri())
    colour = """ink => {
      const scene = document.querySelector(".js-plotly-plot")?.layout.scene;
      return scene?.bgcolor === "rgba(0,0,0,0)" && scene.xaxis.tickfont.color === ink && scene.zaxis.color === ink;
    }"""
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        expect(page.locator("body")).to_have_attribute("data-jp-theme-light", str(scheme == "light").lower())
        ink = page.locator("figure").evaluate("figure => getComputedStyle(figure).color")
        assert sum(map(int, re.findall(r"\d+", ink)[:3])) > 382 or scheme == "light"
        page.wait_for_function(colour, arg=ink)


@pytest.fixture
def embedded_in_the_dark(page, tmp_path, monkeypatch):
    """Embeds a page as a notebook does, in a dark page; its body."""
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append(data["text/html"]))
    monkeypatch.setattr(embedded, "in_notebook", lambda: True)

    def embed(path, **options):
        viz.embed(path, **options)
        file = tmp_path / "page.html"
        head = "<!DOCTYPE html><meta charset='utf-8'><link rel='icon' href='data:,'>"
        file.write_text(f"{head}<body style='background: #111; color: #eee'>{shown[0]}")
        page.goto(file.as_uri())
        body = page.frame_locator("iframe").locator("body")
        expect(body).to_have_css("background-color", "rgb(17, 17, 17)")
        return body

    return embed


def test_a_handle_is_told_from_the_line_under_it(page):
    line = '<div style="position: absolute; left: 0; top: 48px; width: 100px; height: 4px; background: #c2578f"></div>'
    knob = '<div class="handle knob" style="--handle: var(--accent); left: 50px; top: 50px"></div>'
    page.set_content(f'<style>{web.read("style.css")}</style><div class="snn">{line}{knob}</div>')
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    handle, edge, beyond = (image.getpixel((50 + off, 50)) for off in (4, 10, 16))
    assert edge == (255, 255, 255) and beyond == (0xC2, 0x57, 0x8F) and handle not in (edge, beyond)


def test_an_embedded_playground_has_the_scheme_of_its_page(page, tmp_path, embedded_in_the_dark):
    body = embedded_in_the_dark(pages.playground(tmp_path / "playground.html"), height=700)
    page.evaluate("() => { document.body.style.color = '#111'; document.body.dataset.jpThemeLight = 'true'; }")
    expect(body).to_have_css("background-color", "rgb(255, 255, 255)")
    assert page.locator("iframe").evaluate("frame => frame.clientHeight") == 700


@pytest.mark.parametrize("compact", [True, False])
def test_an_embedded_page_has_the_scheme_of_its_page_and_shows_all(page, tmp_path, compact, embedded_in_the_dark):
    """A dark page where the system is light, as JupyterLab can be."""
    body = embedded_in_the_dark(pages.reader(tmp_path / "reader.html"), height=100, compact=compact)
    fits = "frame => frame.clientHeight === frame.contentDocument.querySelector('#page').offsetHeight"
    page.wait_for_function(f"frame => frame.clientHeight > 300 && ({fits})(frame)", arg=page.query_selector("iframe"))
    page.evaluate("() => { document.body.style.color = '#111'; document.body.dataset.jpThemeLight = 'true'; }")
    expect(body).to_have_css("background-color", "rgb(255, 255, 255)")
    taken_out_and_back(
        page, "iframe", "document.body.style.color = '#eee'; document.body.dataset.jpThemeLight = 'false'"
    )
    expect(body).to_have_css("background-color", "rgb(17, 17, 17)")


def test_an_embedded_page_that_says_less_leaves_the_text_below_it_where_it_is(page, tmp_path, embedded_in_the_dark):
    """While a network runs, the lines of its answer change."""
    embedded_in_the_dark(pages.reader(tmp_path / "reader.html"), height=100, compact=True)
    inside, frame = page.frame_locator("iframe").locator("#page"), page.query_selector("iframe")
    inside.evaluate("one => { one.style.minHeight = '900px'; }")
    page.wait_for_function("frame => frame.clientHeight >= 900", arg=frame)
    high = frame.evaluate("frame => frame.clientHeight")
    inside.evaluate("one => { one.style.minHeight = ''; }")
    page.wait_for_timeout(300)
    assert inside.evaluate("one => one.offsetHeight") < 900 and frame.evaluate("frame => frame.clientHeight") == high
    page.set_viewport_size({"width": 900, "height": 800})
    page.wait_for_function("([frame, high]) => frame.clientHeight !== high", arg=[frame, high])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_notes_in_figures_are_outlined_in_the_colour_of_the_page(page, theme):
    """A line that passes behind a note, such as the name of a level, doesn't make it unreadable."""
    note, look = '<svg><text class="annotation-text">chance</text></svg>', web.read("plot_text.css")
    colour = {"light": "rgb(255, 255, 255)", "dark": "rgb(17, 17, 17)"}[theme]
    body = f'<body data-jp-theme-light="{str(theme == "light").lower()}" style="--jp-layout-color0:{colour}">'
    page.set_content(f'<style>{look}</style>{body}<div class="js-plotly-plot">{note}</div>')
    shown = page.locator("text").evaluate("e => [getComputedStyle(e).paintOrder, getComputedStyle(e).stroke]")
    assert shown == ["stroke", colour]


THEME = "html { --pst-color-background: #fff; --pst-color-surface: #fff; color-scheme: light; }"


@pytest.mark.parametrize("long", [True, False])
@pytest.mark.parametrize("kind", ["site", "copy", "table", "printed"])
def test_a_shadow_on_a_phone_says_on_which_side_there_is_more(page, tmp_path, kind, long):
    """Of formulas, tables and what cells print."""
    formula = site.formula("x = " + " + ".join("abcdefgh" * (5 if long else 1)), block=True)
    row = "<td>12345</td>" * (20 if long else 2)
    table = f"<table class='table'><tbody><tr>{row}</tr><tr>{row}</tr></tbody></table>"
    printed = f"<pre style='overflow-x: auto'>{'0123456789 ' * (20 if long else 2)}</pre>"
    page.set_viewport_size({"width": 400, "height": 600})
    if kind == "copy":
        (tmp_path / "notebooks").mkdir()
        text = f"$$x = {' + '.join('abcdefgh' * (5 if long else 1))}$$"
        nbformat.write(new_notebook(cells=[new_markdown_cell(text)]), tmp_path / "notebooks" / "x.ipynb")
        run_report.render_copy(tmp_path, "x")
        page.goto((tmp_path / "html" / "x.html").as_uri())
    else:
        style = (find().root / "docs" / "_static" / "site.css").read_text("utf-8")
        body = {"site": formula, "table": table, "printed": printed}[kind]
        page.set_content(f"<style>{THEME}{style}</style><article class='bd-article'>{body}</article>")
    place = page.locator(".snn-formula, table, pre").first
    assert place.evaluate("e => e.scrollWidth > e.clientWidth") is long

    def edges(scrolled):
        place.evaluate("(e, to) => { e.scrollLeft = to; }", scrolled)
        page.wait_for_timeout(100)
        image = Image.open(io.BytesIO(place.screenshot())).convert("L")
        return [image.getpixel((x, image.height - 4)) < 230 for x in (2, image.width - 3)]  # below what is written

    assert edges(0) == [False, long]
    assert edges(150) == [long, long]
    assert edges(99_999) == [long, False]


@pytest.mark.parametrize("path", sorted((find().root / "docs").glob("*.png")), ids=lambda path: path.name)
def test_pictures_of_the_documentation_are_dark_on_dark_pages(page, path):
    style = (find().root / "docs" / "_static" / "site.css").read_text("utf-8")
    page.goto(path.as_uri())  # a page without an address may show no file
    page.evaluate("""([style, file]) => {
      document.documentElement.dataset.theme = "dark";
      document.body.style.cssText = "margin: 0; background: #121212";
      document.body.innerHTML = `<style>${style}</style><div class="bd-content"><p><img src="${file}"></p></div>`;
    }""", [style, path.as_uri()])  # fmt: skip
    page.wait_for_function("document.querySelector('p > img')?.complete")
    image = np.array(Image.open(io.BytesIO(page.locator("p > img").screenshot())).convert("RGB"))
    paper = image[3, 3]
    assert paper.max() < 0x20 and image.max() > 200 and np.median(image) < 0x20


def test_long_signatures_of_the_reference_break_on_a_phone(page):
    style = (find().root / "docs" / "_static" / "site.css").read_text("utf-8")
    name = '<span class="property"><span class="pre">{"a": "' + "b" * 99 + '"}</span></span>'
    page.set_viewport_size({"width": 400, "height": 600})
    entry = f'<article class="bd-article"><dl><dt class="sig">{name}</dt></dl></article>'
    page.set_content(f"<style>{style}</style>{entry}")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
