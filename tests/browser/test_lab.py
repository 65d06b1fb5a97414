"""In a real JupyterLab, every cell runs, and what is alive in a notebook lives: frames and the quiz."""

from __future__ import annotations

import pytest

from snnkit.course import exercise as registry

expect = pytest.importorskip("playwright.sync_api", reason="pip install -e '.[all]'").expect

NOTEBOOKS = (
    "00_preflight",
    "01_first_spiking_neuron",
    "02_surrogate_gradients",
    "04_train_your_first_network",
    "06_fused_neurons",
)
HEIGHT = "figure => figure.getBoundingClientRect().height"
# Marks a figure with its slider's position two frames after it was redrawn, when the page has its layout.
MARK_REDRAWN = """figure => figure.on('plotly_redraw', () => requestAnimationFrame(() => requestAnimationFrame(
    () => figure.setAttribute('data-redrawn', figure.layout.sliders[0].active))))"""


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_cell_runs_and_none_fails(notebook):
    code = notebook.code()
    assert [error for cell in code for error in cell["errors"]] == []
    assert [cell["source"] for cell in code if not cell["count"]] == []
    assert len(code) > 10


@pytest.mark.parametrize("name", ["01_first_spiking_neuron"])
def test_a_figure_with_frames_keeps_its_height(notebook):
    outputs = notebook.outputs("viz.frames(")
    outputs.locator(".jp-RenderedPlotly").hover(force=True)  # until then JupyterLab shows the PNG
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


@pytest.mark.parametrize("name", NOTEBOOKS)
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
