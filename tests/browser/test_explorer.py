"""An explorer follows its controls, by mouse and by keyboard."""

from __future__ import annotations

import re

import pytest

from .conftest import shoot
from .notebook import DATA
from .test_lab import NOTEBOOKS

expect = pytest.importorskip("playwright.sync_api", reason="pip install -e '.[all]'").expect

each_notebook = pytest.mark.parametrize("name", NOTEBOOKS)
LABS = (("01_first_spiking_neuron", "viz.labs.neuron_lab("), ("02_surrogate_gradients", "viz.labs.surrogate_lab("))
# Which control of an explorer has the focus, as a number; -1 for none.
FOCUSED = "controls => controls.findIndex(control => control.contains(document.activeElement))"
# Whether a live figure is as wide as its place, and that satisfies a condition on the width.
FITS = """figure => {
    const place = figure.closest('.widget-vbox').clientWidth;
    return Math.abs(figure.querySelector('.main-svg').clientWidth - place) <= 1 && (width => %s)(place);
}"""


@pytest.mark.parametrize(("name", "call"), [*((name, "viz.explore(") for name in NOTEBOOKS), *LABS])
def test_dragging_a_slider_by_the_mouse_changes_the_data(notebook, name, call):
    outputs = notebook.outputs(call)
    figure = outputs.locator(".js-plotly-plot")
    figure.wait_for()
    before = figure.evaluate(DATA)
    for share in (0.1, 0.9):  # one of them is another setting than the first
        notebook.drag(outputs.locator(".noUi-handle").first, share)
    notebook.wait_for_other_data(figure, before)
    expect(outputs.get_by_role("alert")).to_have_count(0)
    shoot(notebook.page, f"{name[:2]}-{call.strip('(')}")


@each_notebook
def test_the_arrow_keys_move_a_slider(notebook):
    outputs = notebook.outputs("viz.explore(")
    figure = outputs.locator(".js-plotly-plot")
    figure.wait_for()
    before = figure.evaluate(DATA)
    handle = outputs.locator(".noUi-handle").first
    low, now, high = (float(handle.get_attribute(f"aria-value{name}")) for name in ("min", "now", "max"))
    handle.focus()
    key = "ArrowRight" if now < (low + high) / 2 else "ArrowLeft"
    for _ in range(8):
        notebook.page.keyboard.press(key)
    notebook.wait_for_other_data(figure, before)
    expect(outputs.get_by_role("alert")).to_have_count(0)


@each_notebook
def test_the_tab_key_reaches_every_control(notebook):
    outputs = notebook.outputs("viz.explore(")
    outputs.locator(".js-plotly-plot").wait_for()
    controls = outputs.locator(".widget-hslider, .widget-dropdown, .widget-checkbox, .widget-button")
    reached = [0]
    outputs.locator(".noUi-handle").first.focus()
    for _ in range(4 * controls.count()):
        notebook.page.keyboard.press("Tab")
        reached.append(controls.evaluate_all(FOCUSED))
    assert [index for index in range(controls.count()) if index not in reached] == []
    assert reached[-1] == -1, "the focus can't leave the controls"


@each_notebook
def test_every_control_has_a_name_and_no_button_uploads(notebook):
    outputs = notebook.outputs("viz.explore(")
    outputs.locator(".js-plotly-plot .modebar-btn").first.wait_for(state="attached")
    handles = outputs.locator(".noUi-handle")
    for handle, label in zip(handles.all(), outputs.locator(".widget-slider label").all(), strict=True):
        expect(handle).to_have_attribute("aria-label", label.inner_text())
    for kind in ("select", "button.widget-button"):
        for control in outputs.locator(kind).all():
            expect(control).to_have_accessible_name(re.compile(r"\w+"))
    expect(outputs.locator("[aria-label*=Share], [data-title*=Share]")).to_have_count(0)


@pytest.mark.parametrize("name", ["01_first_spiking_neuron"])
def test_a_live_figure_stays_as_wide_as_its_place(notebook):
    page = notebook.page
    normal = page.viewport_size

    def fits(condition):
        figure = notebook.outputs("viz.explore(").locator(".js-plotly-plot")
        figure.wait_for()
        page.wait_for_function(FITS % condition, arg=figure.element_handle())
        return figure.evaluate("figure => figure.clientWidth")

    first = fits("true")
    try:
        list(notebook.cells())  # to the end of the notebook, where the figure is no longer on the page
        page.set_viewport_size(normal | {"width": 800})
        fits(f"width < {first}")
        list(notebook.cells())
        page.set_viewport_size(normal)
        fits(f"width === {first}")
        page.evaluate("() => window.jupyterapp.shell.collapseLeft()")  # in view, and the window is as it was
        fits(f"width > {first}")
    finally:
        page.set_viewport_size(normal)
        page.evaluate("() => window.jupyterapp.shell.expandLeft()")
