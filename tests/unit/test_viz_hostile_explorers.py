"""Explorers under functions and controls that nobody should write, and that somebody will."""

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from snnkit import viz
from snnkit.viz import views
from snnkit.viz.controls import parse
from snnkit.viz.explorer_box import ExplorerBox
from snnkit.viz.sweep import Grid, swept
from snnkit.viz.views import AnyView, FigureView, FramesView, ImageView

widgets = pytest.importorskip("ipywidgets")


def line(height):
    return go.Figure(go.Scatter(y=[0, height])).update_layout(title={"text": f"height {height}"})


def played(_):
    return viz.frames(line, "height", [1, 2])


def boxed(fn, **controls):
    parsed = [parse(name, spec) for name, spec in controls.items()]
    return ExplorerBox(fn, parsed, fn(**{c.name: c.default for c in parsed}), seconds=0.001)


@pytest.fixture(params=[True, False], ids=["figure", "image"])
def still(request, monkeypatch):
    monkeypatch.setattr(views, "figure_widgets_work", lambda: request.param)
    return FigureView if request.param else ImageView


def test_a_view_gives_way_to_one_of_another_kind(still):
    kinds = {"line": line, "text": str, "nothing": lambda _: None, "frames": played}
    box = boxed(lambda kind: kinds[kind](1), kind=list(kinds))
    for kind, view in (("text", AnyView), ("frames", FramesView), ("nothing", AnyView), ("line", still)):
        box.controls["kind"].value = kind
        assert type(box.view) is view and box.error.value == ""
        shown = box.widget.children
        assert shown[2] is box.view.widget and shown[3] is box.spoken
        assert [type(one).__name__ for one in shown[4:]] == (["PageHelper"] if still is FigureView else [])
        assert ("height 1" in box.spoken.value) == (view is FigureView)


def test_handles_belong_to_the_view_that_is_shown(monkeypatch):
    monkeypatch.setattr(views, "figure_widgets_work", lambda: True)

    def fn(at):
        return "nothing to drag" if at == 0 else line(at).add_vline(x=at, name="at")

    box = boxed(fn, at=(0, 4))
    box.controls["at"].value = 0
    assert box.handles is None
    box.controls["at"].value = 1
    box.view.widget.layout.shapes[0].update(x0=3, x1=3)
    assert box.controls["at"].value == 3


def test_a_figure_that_is_handed_out_again_and_again():
    only = line(0)

    def fn(height):
        only.data[0].y = [0, height]
        return only

    parsed = [parse("height", (0, 2))]
    figure, _ = swept(Grid(fn, parsed, fn(1), 0.001))
    assert [frame.data[0].y[1] for frame in figure.frames] == [0, 1, 2]
    assert figure.data[0].y[1] == 1


def test_exit_does_not_leave_the_kernel():
    def fn(height):
        if height == 2:
            raise SystemExit("bye")
        return line(height)

    box = boxed(fn, height=(0, 2))
    with pytest.raises(RuntimeError, match="SystemExit"):
        box.controls["height"].value = 2
    assert "SystemExit: bye" in box.error.value
    box.controls["height"].value = 0
    assert box.error.value == ""


@pytest.mark.parametrize("number", [np.float32, np.float64, np.int64, int])
def test_numbers_of_numpy_make_sliders(number):
    control = parse("n", (number(0), number(4)), number(3))
    assert control.build().value == control.default == 3
    assert isinstance(control.build(), widgets.IntSlider) == (number in (np.int64, int))


@pytest.mark.parametrize("spec", [(-1e308, 1e308), (0, 10**30), (0.0, 1.0, 1e-12)])
def test_sliders_beyond_what_a_browser_can_count(spec):
    with pytest.raises(ValueError, match="control n must"):
        parse("n", spec)


@pytest.mark.parametrize("option", [np.ones(2), torch.ones(2), float("nan")])
def test_choices_that_cannot_be_compared(option):
    with pytest.raises(TypeError, match="control n must offer choices that can be compared"):
        parse("n", [option, "other"])


def test_a_default_that_cannot_be_compared_is_none_of_the_choices():
    assert parse("n", [1, 2], np.array([2, 2])).default == 1


@pytest.mark.parametrize("lab", viz.labs.LABS, ids=lambda lab: lab.name)
def test_labs_refuse_arrays_and_strange_settings_by_name(lab):
    for name in lab.controls:
        for bad in (np.array([1, 2]), torch.ones(2), None, object()):
            with pytest.raises((TypeError, ValueError), match=f"{name} of {lab.name} must"):
                lab.starting(**{name: bad})
    for name in ("self", "start", "nonsense"):
        with pytest.raises(TypeError, match=f"has no setting '{name}'"):
            lab.starting(**{name: 1})
