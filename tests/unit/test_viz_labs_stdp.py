"""The STDP lab: what it draws is what the rule does, and spikes are dragged by the lines that stand for them."""

import numpy as np
import pytest
import torch

from snnkit.plasticity import PairSTDP, pairwise
from snnkit.viz.controls import parse
from snnkit.viz.labs import stdp as lab

SPIKES = ("pre_1", "pre_2", "post_1", "post_2")


def named(figure, name):
    (trace,) = [trace for trace in figure.data if trace.name == name]
    return np.asarray(trace.x, float), np.asarray(trace.y, float)


def spikes_at(*when):
    spikes = torch.zeros(lab.STEPS, 1, 1)
    spikes[list(when)] = 1
    return spikes


@pytest.mark.parametrize("bound", ["hard", "soft", "none"])
def test_the_weight_ends_where_the_sum_over_all_pairs_ends(bound):
    figure = lab.figure(10, 50, 15, 42, 0.4, 0.3, 12.0, 33.0, bound, 0.7)
    rule = PairSTDP(0.4, 0.3, 12e-3, 33e-3, bound=None if bound == "none" else bound)
    expected = pairwise(rule, spikes_at(10, 50), spikes_at(15, 42), torch.tensor([[0.7]])).item()
    at, weights = named(figure, "weight")
    assert weights[-1] == pytest.approx(expected, abs=1e-6)
    assert f"Δw = {expected - 0.7:+.3f}" in figure.layout.title.text
    # Nothing happens before the second spike of any pair, and something does then.
    assert (weights[at < 15] == weights[0]).all() and weights[0] == pytest.approx(0.7)
    assert weights[at == 15] != weights[0]


def test_every_pair_stands_on_the_window_at_its_lag():
    figure = lab.figure(10, 50, 15, 42)
    lags, changes = named(figure, "pairs")
    assert lags.tolist() == [-35, -8, 5, 32]
    rule = PairSTDP(0.2, 0.21)
    assert changes == pytest.approx([rule.window(lag * 1e-3) for lag in lags], abs=1e-6)
    x, y = named(figure, "window")
    assert y[x > 0] == pytest.approx(0.2 * np.exp(-x[x > 0] / 20), abs=1e-6)
    assert y[x < 0] == pytest.approx(-0.21 * np.exp(x[x < 0] / 20), abs=1e-6)


def test_traces_start_at_their_spikes_and_fade_with_their_own_time_constant():
    figure = lab.figure(10, 10, 30, 30, tau_plus=5.0, tau_minus=40.0)
    for side, first, tau in (("pre", 10, 5), ("post", 30, 40)):
        at, trace = named(figure, f"{side} trace")
        expected = np.where(at < first, 0, np.exp(-np.maximum(at - first, 0) / tau))
        assert trace == pytest.approx(expected, abs=1e-6)
        assert named(figure, f"{side} spikes")[0].tolist() == [first]


def test_bounds_are_drawn_where_there_are_any():
    assert named(lab.figure(bound="hard"), "w_max")[1].tolist() == [1, 1]
    assert np.isnan(named(lab.figure(bound="none"), "w_max")[1]).all()
    assert lab.figure(bound="none", weight=1.0, pre_2=29, a_plus=0.5).layout.yaxis4.range[1] > 1.2


def test_the_lines_have_the_names_and_places_of_the_controls_that_move_them():
    figure = lab.figure()
    shapes = {shape.name: shape for shape in figure.layout.shapes}
    assert set(shapes) == set(SPIKES) <= set(lab.CONTROLS)
    for name in SPIKES:
        assert shapes[name].x0 == shapes[name].x1 == lab.LAB.defaults()[name]


@pytest.fixture
def box(monkeypatch):
    pytest.importorskip("ipywidgets")
    from snnkit.viz import views
    from snnkit.viz.explorer_box import ExplorerBox

    monkeypatch.setattr(views, "figure_widgets_work", lambda: True)
    controls = [parse(name, spec, lab.LAB.defaults()[name]) for name, spec in lab.CONTROLS.items()]
    return ExplorerBox(lab.figure, controls, lab.figure(), seconds=1.0)


def drag(box, name, x, **more):
    """What the browser reports when a shape was moved to ``x``."""
    widget = box.view.widget
    (index,) = [i for i, shape in enumerate(widget.layout.shapes) if shape.name == name]
    moved = {"x0": x, "x1": x} | more
    widget._js2py_relayout = {
        "relayout_data": {f"shapes[{index}].{key}": value for key, value in moved.items()},
        "source_view_id": "",
    }
    return {shape.name: shape for shape in widget.layout.shapes}


def test_the_browser_is_told_to_let_shapes_be_dragged(box):
    assert box.view.widget._config["edits"] == {"shapePosition": True}


def test_a_dragged_spike_moves_its_control_and_all_that_follows_from_it(box):
    shapes = drag(box, "post_1", 44.4, y0=0.3, y1=1.7)
    assert {name: box.controls[name].value for name in SPIKES} == {"pre_1": 20, "pre_2": 60, "post_1": 44, "post_2": 55}
    expected = lab.figure(post_1=44)
    assert box.view.widget.layout.title.text == expected.layout.title.text
    assert named(box.view.widget, "weight")[1].tolist() == named(expected, "weight")[1].tolist()
    shape = shapes["post_1"]
    # It snaps to the millisecond, and stands upright on its axis again.
    assert (shape.x0, shape.x1, shape.y0) == (44, 44, 0)


@pytest.mark.parametrize(("x", "ends_at"), [(-30.0, 0), (140.0, 99), (20.3, 20)])
def test_a_spike_stays_on_its_axis(box, x, ends_at):
    shape = drag(box, "pre_1", x, y0=0.5, y1=2.0)["pre_1"]
    assert box.controls["pre_1"].value == ends_at == shape.x0
    assert shape.y0 == 0


def test_a_line_pulled_at_one_end_goes_where_that_end_went(box):
    drag(box, "pre_2", 60, x1=71.0)
    assert box.controls["pre_2"].value == 71


def test_sliders_still_move_the_lines_and_one_way_back_leads_to_all(box):
    box.controls["pre_1"].value = 33
    assert {shape.name: shape.x0 for shape in box.view.widget.layout.shapes}["pre_1"] == 33
    box.reset.click()
    assert box.controls["pre_1"].value == 20
    assert {shape.name: shape.x0 for shape in box.view.widget.layout.shapes}["pre_1"] == 20


def test_one_change_is_drawn_once(box):
    calls, draw = [], box.fn
    box.fn = lambda **settings: calls.append(settings) or draw(**settings)
    box.controls["pre_1"].value = 33  # moves a line, too: that is not somebody dragging it
    assert len(calls) == 1
    drag(box, "pre_1", 50)
    assert len(calls) == 2
