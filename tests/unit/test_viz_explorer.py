"""Explorers: what each front end gets, what a change of a control does, and sliders that need no kernel."""

import numpy as np
import plotly.graph_objects as go
import pytest

from snnkit.lab import viz
from snnkit.lab.tools import site
from snnkit.lab.viz import display, explorer
from snnkit.lab.viz.display import PLOTLY_MIME
from snnkit.lab.viz.explorer import ExplorerBox, parse

widgets = pytest.importorskip("ipywidgets")


def line(gain=1.0, kind="a", flip=False):
    return go.Figure(go.Scatter(y=[0.0, -gain if flip else gain])).update_layout(title={"text": kind})


# ---- controls


@pytest.mark.parametrize(
    ("spec", "default", "kind", "first", "trials"),
    [
        ((1, 9), None, "IntSlider", 5, (1, 5, 9)),
        ((1, 10, 3), 4, "IntSlider", 4, (1, 7, 10)),
        ((0.0, 0.3, 0.1), None, "FloatSlider", 0.2, (0.0, 0.2, 0.3)),
        ((0, 1.0), 0.37, "FloatSlider", 0.37, (0.0, 0.5, 1.0)),
        ((np.int64(0), np.float32(2.0)), 9, "FloatSlider", 1.0, (0.0, 1.0, 2.0)),
        (["a", "b", "c"], "b", "Dropdown", "b", ("a", "b", "c")),
        ([1, None], "x", "Dropdown", 1, (1, None, None)),
        (True, False, "Checkbox", False, (False, True, True)),
    ],
)
def test_a_control_is_what_its_argument_says(spec, default, kind, first, trials):
    control = parse("some_name", spec, default)
    assert (control.kind, control.first, control.trials) == (kind, first, trials)
    widget = control.widget("what it is")
    assert type(widget).__name__ == kind and widget.value == first and widget.description == "some name"
    for value in control.trials:
        widget.value = value
        assert widget.value == value


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ((1,), ValueError),
        ((0.0, 1.0, -0.1), ValueError),
        ((0.0, float("nan")), ValueError),
        ([], ValueError),
        (("a", "b"), TypeError),
        ((0, True), TypeError),
    ],
)
def test_a_control_that_makes_no_sense(spec, error):
    with pytest.raises(error, match="beta must"):
        parse("beta", spec)


def test_functions_must_take_the_controls():
    with pytest.raises(TypeError, match="fn does not take the controls tau"):
        viz.explore(lambda beta: line(), tau=(0.0, 1.0))
    with pytest.raises(TypeError, match="at least one control"):
        viz.explore(line)


# ---- what each front end gets


@pytest.fixture
def shown(monkeypatch):
    """What explore hands to IPython and to show in what looks like a notebook."""
    seen = []
    monkeypatch.setattr("IPython.display.display", lambda what, **_: seen.append(what))
    monkeypatch.setattr(explorer, "show", seen.append)
    monkeypatch.setattr(explorer, "in_notebook", lambda: True)
    monkeypatch.delenv("SNNKIT_HEADLESS", raising=False)
    return seen


@pytest.fixture
def front_end(shown, monkeypatch):
    monkeypatch.setattr(explorer, "live", lambda: True)
    return shown


def test_a_headless_run_tries_every_control_at_its_ends(capsys, monkeypatch):
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")
    calls = []

    def fn(gain=0.5, kind="b", flip=False):
        calls.append((gain, kind, flip))
        return line(gain, kind, flip)

    viz.explore(fn, gain=(0.0, 2.0, 0.5), kind=["a", "b", "c"], flip=True)
    assert calls[0] == (0.5, "b", False)
    assert {(0.0, "b", False), (2.0, "b", False), (0.5, "a", False), (0.5, "c", False), (0.5, "b", True)} < set(calls)
    assert capsys.readouterr().out.count("Figure:") == 1
    with pytest.raises(RuntimeError, match=r"fails at gain = 2\.0: ZeroDivisionError"):
        viz.explore(lambda gain: line(1 / (gain - 2)), gain=(0.0, 2.0))


def test_without_a_kernel_one_slider_goes_through_settings_and_words_say_what_more_needs(shown, monkeypatch):
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")
    monkeypatch.setattr(explorer, "QUICK", 99.0)
    viz.explore(line, gain=(0.0, 2.0, 0.25), kind=["a", "b"], flip=False)
    hint, figure = shown
    assert "one setting at a time" in hint["text/plain"] and site.COLAB in hint["text/html"]
    (slider,) = figure.layout.sliders
    labels = [step.label for step in slider.steps]
    assert labels[slider.active] == "gain = 1" and labels[:2] == ["gain = 0", "gain = 0.25"]
    assert labels[-2:] == ["kind = b", "flip = True"] and len(labels) == len(set(labels)) == 11
    assert figure.frames[-1].data[0].y == (0.0, -1.0) and slider.currentvalue.prefix == ""
    shown.clear()
    viz.explore(lambda n: "*" * n, n=(1, 3))
    assert shown[0]["text/plain"].startswith("This is the first setting only") and shown[1:] == ["**"]


def test_jupyterlab_gets_widgets_and_colab_images(front_end, monkeypatch):
    viz.explore(line, gain=(0.0, 2.0, 1.0))
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release")
    viz.explore(line, gain=(0.0, 2.0, 1.0))
    here, colab = front_end
    assert [type(part).__name__ for part in here.children] == ["Box", "HTML", "Output", "Output"]
    assert PLOTLY_MIME in here.children[2].outputs[0]["data"]
    assert "aria-label" in here.children[3].outputs[0]["data"]["text/html"]
    assert "data:image/png;base64," in colab.children[2].value and len(colab.children) == 3


def test_anything_that_is_no_figure_is_displayed(shown):
    viz.explore(lambda n: "*" * n, n=(1, 3))
    assert shown == ["**"]


# ---- what a change does


def boxed(fn, *, seconds=1.0, **controls):
    parsed = [parse(name, spec) for name, spec in controls.items()]
    return ExplorerBox(fn, parsed, fn(**{c.name: c.first for c in parsed}), seconds)


def drawn(box):
    """The data and the layout of the figure that JupyterLab shows now."""
    (output,) = box.view.widget.outputs
    figure = go.Figure(output["data"][PLOTLY_MIME])
    return figure.data, figure.layout


@pytest.mark.parametrize("colab", [False, True])
def test_a_control_updates_the_view(colab, monkeypatch):
    monkeypatch.setattr(display, "on_colab", lambda: colab)
    box = boxed(line, gain=(0.0, 2.0))
    before = box.view.widget.value if colab else drawn(box)[0][0].y
    box.controls["gain"].value = 2.0
    after = box.view.widget.value if colab else drawn(box)[0][0].y
    assert after != before if colab else tuple(after) == (0.0, 2.0)


def test_what_a_page_shows_is_there_when_its_widget_opens_and_needs_no_module(monkeypatch):
    """anywidget gives up a model whose module takes more than 2 s, and what comes after its opening is lost."""
    opened, really = [], widgets.Widget.open
    monkeypatch.setattr(widgets.Widget, "open", lambda self: (really(self), opened.append(self.get_state())))
    box = boxed(line, gain=(0.0, 2.0))
    box.controls["gain"].value = 2.0
    assert len(opened) > 4 and not [state for state in opened if "_esm" in state]
    assert [state for state in opened if PLOTLY_MIME in str(state.get("outputs"))]


@pytest.mark.parametrize("error", [ValueError("<b>too {much}</b>"), KeyboardInterrupt()])
def test_an_error_is_shown_and_raised_and_the_explorer_goes_on(error):
    def fn(gain):
        if gain > 1:
            raise error
        return line(gain)

    box = boxed(fn, gain=(0.0, 2.0))
    with pytest.raises(type(error)):
        box.controls["gain"].value = 2.0
    if isinstance(error, ValueError):
        assert "ValueError: &lt;b&gt;too {much}" in box.words.value and 'role="alert"' in box.words.value
    box.controls["gain"].value = 0.5
    assert "alert" not in box.words.value and tuple(drawn(box)[0][0].y) == (0.0, 0.5)


# ---- sliders without a kernel


def test_frames_hold_what_changes_and_share_their_axes():
    def fn(k):
        figure = go.Figure([go.Scatter(y=[0, k]), go.Scatter(y=[1, 1])]).update_layout(title={"text": f"k = {k}"})
        return figure.add_annotation(text=str(k), x=0, y=k)

    figure = viz.frames(fn, "k", iter([1, 2.5]), start=1)
    assert [frame.traces for frame in figure.frames] == [(0,), (0,)]  # the other line is the same in both
    assert [list(frame.data[0].y) for frame in figure.frames] == [[0, 1], [0, 2.5]]
    assert [frame.layout.title.text for frame in figure.frames] == ["k = 1", "k = 2.5"]
    assert [frame.layout.annotations[0].text for frame in figure.frames] == ["1", "2.5"]
    low, high = figure.layout.yaxis.range
    assert low < 0 and high > 2.5 and {frame.layout.yaxis.range for frame in figure.frames} == {(low, high)}
    (slider,) = figure.layout.sliders
    assert slider.active == 1 and slider.currentvalue.prefix == "k = " and slider.steps[1].label == "2.5"
    assert {frame.layout.height for frame in figure.frames} == {figure.layout.height}


def test_the_first_and_the_last_label_of_a_slider_are_not_cut():
    def fn(k):
        return viz.figures.image_grid(np.eye(4)[None], title=str(k))  # its margins are narrow

    slider = viz.frames(fn, "", ["window = 10", "window = 200"]).layout.sliders[0]
    assert 12 + slider.pad.l >= 4 * len("window = 10") and slider.pad.r >= 4 * len("window = 200")
    assert viz.frames(fn, "k", [1, 2]).layout.sliders[0].pad.l == 0


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((line, "k", []), {}, ValueError, "1 to 60 positions"),
        ((lambda k: go.Figure([go.Scatter(y=[1])] * k), "k", [1, 2]), {}, ValueError, "same number of traces"),
        ((str, "k", [1]), {}, TypeError, "the result of fn must be a plotly Figure, but it is '1'"),
    ],
)
def test_bad_frames(arguments, options, error, message):
    with pytest.raises(error, match=message):
        viz.frames(*arguments, **options)
