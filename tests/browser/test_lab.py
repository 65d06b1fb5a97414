"""In a real JupyterLab, notebooks run and what is alive in them lives: sliders, figures and the quiz."""

from __future__ import annotations

import pytest

from snnkit.course import registry

from .conftest import NAMES, chromium

INSTALL = "pip install -e '.[all]'"
pytest.importorskip("jupyterlab", reason=f"JupyterLab is not installed: {INSTALL}")
expect = pytest.importorskip("playwright.sync_api", reason=f"playwright is not installed: {INSTALL}").expect
expect.set_options(timeout=30_000)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium() is None, reason=f"no browser: none of {', '.join(NAMES)} is on the PATH"),
]
in_both = pytest.mark.parametrize("name", ["00_preflight", "01_first_spiking_neuron"])

# What plotly holds as data, typed arrays included.
DATA = "figure => JSON.stringify(figure.data, (_, value) => ArrayBuffer.isView(value) ? Array.from(value) : value)"
HEIGHT = "figure => figure.getBoundingClientRect().height"
# Marks a figure with its slider's position two frames after it was redrawn, when the page has its layout.
MARK_REDRAWN = """figure => figure.on('plotly_redraw', () => requestAnimationFrame(() => requestAnimationFrame(
    () => figure.setAttribute('data-redrawn', figure.layout.sliders[0].active))))"""


@in_both
def test_every_cell_runs_and_none_fails(notebook):
    code = notebook.code()
    assert [error for cell in code for error in cell["errors"]] == []
    assert [cell["source"] for cell in code if not cell["count"]] == []
    assert len(code) > 10


@in_both
def test_moving_a_slider_redraws_the_figure(notebook):
    outputs = notebook.outputs("viz.explore(")
    figure = outputs.locator(".js-plotly-plot")
    title = figure.locator(".gtitle")
    title.wait_for()
    data, told = figure.evaluate(DATA), title.text_content()

    outputs.locator(".noUi-handle").first.focus()
    for _ in range(5):
        notebook.page.keyboard.press("ArrowRight")
    expect(title).not_to_have_text(told)
    assert figure.evaluate(DATA) != data
    expect(outputs.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize("name", ["01_first_spiking_neuron"])
def test_a_figure_with_frames_keeps_its_height(notebook):
    outputs = notebook.outputs("viz.frames(")
    outputs.locator("img").hover(force=True)  # JupyterLab shows the PNG until then, and puts the plot in its place
    figure = outputs.locator(".js-plotly-plot")
    rail = figure.locator(".slider-rail-touch-rect")
    rail.wait_for()
    figure.evaluate(MARK_REDRAWN)
    height, last = figure.evaluate(HEIGHT), figure.evaluate("figure => figure.layout.sliders[0].steps.length - 1")
    assert height > 300

    box = rail.bounding_box()
    for share, position in ((0.98, last), (0.02, 0)):
        rail.click(position={"x": share * box["width"], "y": box["height"] / 2})
        expect(figure).to_have_attribute("data-redrawn", str(position))
        assert figure.evaluate(HEIGHT) == height


@in_both
def test_the_quiz_explains_an_answer(notebook, name):
    outputs = notebook.outputs("quiz(")
    questions = registry.questions(name[:2])
    asked = outputs.locator(".widget-vbox > .widget-vbox")
    expect(asked).to_have_count(len(questions))
    for index, right in ((0, True), (1, False)):
        question = questions[index]
        choice = question.answer if right else (question.answer + 1) % len(question.choices)
        asked.nth(index).get_by_role("radio").nth(choice).check()
        asked.nth(index).get_by_role("button", name="Check").click()
        card = asked.nth(index).locator(".snnkit-card")
        expect(card).to_contain_text("right" if right else "not quite")
        expect(card).to_contain_text(question.why.replace("`", ""))
