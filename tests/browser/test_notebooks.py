"""In a real JupyterLab every cell runs, and what is alive lives: explorers, frames, exercises, the quiz, training."""

from __future__ import annotations

import re

import pytest

from snnkit.lab.course import exercise as registry
from snnkit.lab.tools.project import find

from .conftest import shoot
from .notebook import DATA
from .test_network_page import STROKES, draw

expect = pytest.importorskip("playwright.sync_api", reason="pip install -e '.[all]'").expect

NOTEBOOKS = tuple(find().select(["00", "01", "02", "04", "06"]))
each_notebook = pytest.mark.parametrize("name", NOTEBOOKS)
WITH_EXPLORE = ("02_surrogate_gradients",)
IN_THE_PAGE = (
    ("00_preflight", "viz.explorers.population("),
    ("01_first_spiking_neuron", "viz.explorers.population("),
    ("01_first_spiking_neuron", "viz.explorers.neuron()"),
    ("02_surrogate_gradients", "viz.explorers.surrogate("),
    ("04_train_your_first_network", "viz.explorers.decision("),
    ("11_fused_neurons", "viz.explorers.under_the_roof("),
)
HEIGHT = "figure => figure.getBoundingClientRect().height"
# Marks a figure with its slider's position two frames after it was redrawn, when the page has its layout.
MARK_REDRAWN = """figure => figure.on('plotly_redraw', () => requestAnimationFrame(() => requestAnimationFrame(
    () => figure.setAttribute('data-redrawn', figure.layout.sliders[0].active))))"""
# Pictures without words: neither an alt, nor a text beside them for screen readers (JupyterLab's plots have no alt).
NAMELESS = """cell => {
    const words = text => text.trim().length > 20;
    const all = [...cell.querySelectorAll('.jp-Cell-outputArea :is(.js-plotly-plot, img)')];
    const pictures = all.filter(one => !one.parentElement.closest('.js-plotly-plot') && !words(one.alt || ''));
    const spoken = [...cell.querySelectorAll('.jp-Cell-outputArea .snnkit-alt')].filter(one => words(one.textContent));
    return pictures.slice(spoken.length).map(one => one.outerHTML.slice(0, 100));
}"""
MANY = 500  # epochs; minutes of training, if nothing stops it


@each_notebook
def test_every_cell_runs(notebook):
    code = notebook.code()
    assert [error for cell in code for error in cell["errors"]] == []
    assert [cell["source"] for cell in code if not cell["count"]] == []
    assert len(code) > 10


@pytest.mark.parametrize("name", ["00_preflight"])
def test_the_first_thing_in_the_course_reads_what_one_draws(notebook):
    frame = notebook.outputs("pages.reader(").frame_locator("iframe")
    draw(frame, STROKES[7], notebook.page.mouse)
    expect(frame.locator("#reading")).to_have_text("7")


@pytest.mark.parametrize("name", ["01_first_spiking_neuron"])
def test_figures_are_alive_before_the_mouse_meets_them(notebook):
    """The same before and after but for the label and plotly's buttons, and as wide as their place."""
    for text in ("figures.traces(", "figures.gallery("):
        figure = notebook.outputs(text).locator(".js-plotly-plot").first
        figure.locator(".main-svg").first.wait_for()
        figure.evaluate("plot => plot.querySelectorAll('.hoverlayer, .modebar-container').forEach(e => e.remove())")
        before = figure.screenshot()
        box = figure.bounding_box()
        notebook.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        assert figure.screenshot() == before
        assert figure.evaluate("plot => plot.clientWidth - plot.querySelector('.main-svg').clientWidth") == 0


@pytest.mark.parametrize("name", ["01_first_spiking_neuron"])
def test_drawings_are_sharp_and_follow_the_theme(notebook):
    bucket = "img[alt*=bucket]"
    drawing = next(cell for _, cell in notebook.cells() if cell.locator(bucket).count()).locator(bucket)
    assert drawing.evaluate("image => image.naturalWidth") == 1520
    for theme in notebook.themes():
        look = drawing.evaluate("image => getComputedStyle(image).filter")
        assert look.startswith("invert(") == ("Dark" in theme), (theme, look)
        shoot(notebook.page, f"01-drawing-{theme.split()[-1]}")


@pytest.mark.parametrize("name", ["01_first_spiking_neuron"])
def test_a_figure_with_frames_keeps_its_height(notebook):
    figure = notebook.outputs("viz.frames(").locator(".js-plotly-plot")
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


@pytest.mark.parametrize("name", ["02_surrogate_gradients"])
def test_a_ball_stays_on_the_true_slope_and_follows_the_surrogate(notebook):
    outputs = notebook.outputs("viz.landscape(")
    canvas = outputs.locator("canvas")
    expect(outputs.get_by_role("status")).to_contain_text("Click on it")
    canvas.click(position={"x": canvas.bounding_box()["width"] / 2, "y": 60})  # high above: where no spike is yet
    outputs.get_by_role("button", name="the true slope").click()
    expect(outputs.get_by_role("status")).to_contain_text("nothing moves")
    outputs.get_by_role("button", name="the surrogate").click()
    expect(outputs.get_by_role("status")).to_contain_text("the teacher’s spikes")
    shoot(notebook.page, "02-landscape")


@pytest.mark.parametrize("name", WITH_EXPLORE)
def test_an_explorer_follows_the_mouse_and_the_arrow_keys(notebook, name):
    outputs = notebook.outputs("viz.explore(")
    figure, handle = outputs.locator(".js-plotly-plot"), outputs.locator(".noUi-handle").first
    figure.wait_for()
    before = figure.evaluate(DATA)
    for share in (0.1, 0.9):  # one of them is another setting than the first
        notebook.drag(handle, share)
    notebook.wait_for_other_data(outputs, before)
    before = figure.evaluate(DATA)
    handle.focus()
    for _ in range(8):
        notebook.page.keyboard.press("ArrowLeft")
    notebook.wait_for_other_data(outputs, before)
    expect(outputs.get_by_role("alert")).to_have_count(0)
    shoot(notebook.page, f"{name[:2]}-explore")


@pytest.mark.parametrize(("name", "call"), IN_THE_PAGE)
def test_an_explorer_in_the_page_follows_the_mouse_and_the_arrow_keys(notebook, name, call):
    outputs = notebook.outputs(call)
    headline, mouse = outputs.locator(".headline"), notebook.page.mouse
    before = headline.inner_text()
    handles = outputs.locator("input[type=range], .knob")
    handle = handles.last if "neuron" in call else handles.first
    handle.scroll_into_view_if_needed()
    box = handle.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    mouse.move(x, y)
    mouse.down()
    mouse.move(x + 40, y, steps=12)
    mouse.up()
    expect(headline).not_to_have_text(before)
    before = headline.inner_text()
    outputs.get_by_role("slider").first.focus()
    for _ in range(5):
        notebook.page.keyboard.press("ArrowRight")
    expect(headline).not_to_have_text(before)
    for role in ("slider", "button", "combobox", "textbox", "switch"):
        for control in outputs.get_by_role(role).all():
            expect(control).to_have_accessible_name(re.compile(r"\S"))
    shoot(notebook.page, f"{name[:2]}-{call.strip('()')}")


@pytest.mark.parametrize("name", WITH_EXPLORE)
def test_every_control_has_a_name_and_no_button_uploads(notebook):
    outputs = notebook.outputs("viz.explore(")
    outputs.locator(".js-plotly-plot .modebar-btn").first.wait_for(state="attached")
    handles = outputs.locator(".noUi-handle")
    for handle, label in zip(handles.all(), outputs.locator(".widget-slider label").all(), strict=True):
        expect(handle).to_have_attribute("aria-label", label.inner_text())
    for kind in ("select", "button.widget-button"):
        for control in outputs.locator(kind).all():
            expect(control).to_have_accessible_name(re.compile(r"\S"))
    expect(outputs.locator("[aria-label*=Share], [data-title*=Share]")).to_have_count(0)


@each_notebook
def test_the_hint_button_opens_one_hint_after_the_other(notebook, name):
    exercise = registry.exercises(name[3:])[0]
    outputs = notebook.outputs(f'attempt("{exercise.key}"')
    expect(outputs.locator(".snnkit-card").first).to_contain_text("to do")
    for number, hint in enumerate(exercise.hints[:2], start=1):
        outputs.get_by_role("button", name="Hint").click()
        expect(outputs).to_contain_text(f"Hint {number}")
        expect(outputs).to_contain_text(hint.replace("`", ""))


@each_notebook
def test_the_quiz_explains_an_answer(notebook, name):
    questions, card = registry.questions(name[3:]), notebook.outputs("quiz(").locator(".question")
    expect(card).to_have_count(len(questions))
    for index, right in ((0, True), (1, False)):
        question, one = questions[index], card.nth(index)
        choice = next(i for i, choice in enumerate(question["choices"]) if choice["right"] is right)
        one.get_by_role("radio").nth(choice).check()
        one.get_by_role("button", name="Check").click()
        expect(one.get_by_role("status")).to_contain_text("Right" if right else "Not quite")
        expect(one.get_by_role("status")).to_contain_text(question["choices"][choice]["reply"].replace("`", ""))
    expect(notebook.outputs("scorecard(")).to_contain_text("1 of 3 right")


@pytest.mark.parametrize("name", ["04_train_your_first_network"])
def test_the_stop_button_ends_the_training_and_the_next_cells_run(notebook):
    index, source = notebook.find("train.fit(")
    notebook.write(index, f"epochs = {MANY}\n{source}")
    notebook.start_from(index)
    outputs = notebook.outputs("train.fit(")
    stop = outputs.get_by_role("button", name="Stop training")
    expect(stop).to_be_enabled()
    expect(outputs).to_contain_text(re.compile(r"epoch ([2-9]|[1-9]\d)"))  # one is done: there is something to show
    shoot(notebook.page, "04-training")
    stop.press("Enter")  # the keyboard reaches it; hint buttons are pressed by the mouse

    notebook.wait_until_done(seconds=90)
    notebook.write(index, source)  # JupyterLab saves, and another test may open it
    assert [error for cell in notebook.code() for error in cell["errors"]] == []
    done = re.search(r"(\d+) epochs in", notebook.outputs("train.fit(").inner_text())
    assert done is not None and 0 < int(done[1]) < MANY


@pytest.mark.parametrize("name", find().select(["01", "04"]))
def test_no_figure_is_empty_after_the_theme_has_changed_twice(notebook, name):
    for theme in notebook.themes():
        assert notebook.empty_figures() == {}, theme
        shoot(notebook.page, f"{name[:2]}-{theme.split()[-1]}")


@each_notebook
def test_every_picture_has_a_description(notebook):
    """The last one, as it goes through all cells: a live figure that leaves the page is drawn again."""
    assert {index: found for index, cell in notebook.showing() if (found := cell.evaluate(NAMELESS))} == {}


@pytest.mark.parametrize("name", ["02_surrogate_gradients"])
@pytest.mark.parametrize("mode", ["none", "contentVisibility"])
def test_a_figure_of_an_opened_notebook_lives_when_the_mouse_meets_it(notebook, mode):
    """After the others, as it loads the page anew."""
    notebook.reopen(("@jupyterlab/notebook-extension:tracker", {"windowingMode": mode}))
    figure = notebook.outputs("figures.lines(backward").locator(".jp-RenderedPlotly").first
    figure.hover()
    figure.locator(".main-svg").first.wait_for()
    for theme in notebook.themes():
        assert notebook.empty_figures() == {}, theme
