"""Pages that run without Python: neurons as JavaScript in a browser, and explorers."""

import re

import pytest

from snnkit.export import web
from snnkit.viz import labs
from tests.engine import javascript
from tests.engine.test_js import check_zoo

expect = pytest.importorskip("playwright.sync_api", reason="pip install -e '.[all]'").expect


def test_every_neuron_in_chromium_as_eager(page):
    def run(sources, cases):
        page.set_content("<title>neurons</title>")
        return javascript.read(page.evaluate(f"() => {{ {javascript.module(sources, cases)}; return results; }}"))

    check_zoo(run)


LABS = ["neuron_lab", "population_lab", "surrogate_lab", "encoder_lab", "event_player", "stdp_lab"]
LABS += ["memory_calculator", "number_lines", "conv_costs", "under_the_roof", "crossing"]
MEASURED = {"under_the_roof": (2e10, 1e10), "crossing": ((0.01, 1e3),)}  # their arguments


@pytest.mark.parametrize("explorer", LABS)
def test_an_explorer_as_a_file_answers_mouse_and_keyboard(page, explorer, tmp_path):
    file, requests = tmp_path / "lab.html", []
    policy = f'<meta http-equiv="Content-Security-Policy" content="{web.POLICY}">'
    shown = getattr(labs, explorer)(*MEASURED.get(explorer, ()))
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
    assert requests == [file.as_uri()]
