"""An explorer follows its controls, by mouse and by keyboard."""

from __future__ import annotations

import pytest

from .conftest import shoot
from .notebook import DATA
from .test_lab import NOTEBOOKS

expect = pytest.importorskip("playwright.sync_api", reason="pip install -e '.[all]'").expect

each_notebook = pytest.mark.parametrize("name", NOTEBOOKS)
LABS = (("01_first_spiking_neuron", "viz.labs.neuron_lab("), ("02_surrogate_gradients", "viz.labs.surrogate_lab("))
# Which control of an explorer has the focus, as a number; -1 for none.
FOCUSED = "controls => controls.findIndex(control => control.contains(document.activeElement))"


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
