"""Explorers: what each front end gets, and what a change of a control does."""

import threading
from typing import Annotated

import plotly.graph_objects as go
import pytest

from snnkit import viz
from snnkit.viz import explorer, views
from snnkit.viz.controls import parse
from snnkit.viz.explorer import ExplorerBox
from snnkit.viz.views import AnyView, FigureView, FramesView, ImageView

widgets = pytest.importorskip("ipywidgets")


def line(gain=1.0, kind="a", flip=False):
    return go.Figure(go.Scatter(y=[0.0, -gain if flip else gain])).update_layout(title={"text": kind})


class Counted:
    def __init__(self, fn):
        self.fn, self.calls = fn, []

    def __call__(self, gain=1.0):
        self.calls.append(gain)
        return self.fn(gain)


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


def test_outside_a_notebook_the_function_is_called_once_and_shown(capsys, monkeypatch):
    monkeypatch.delenv("SNNKIT_HEADLESS", raising=False)
    fn = Counted(line)
    assert viz.explore(fn, gain=(0.0, 2.0)) is None
    assert fn.calls == [1.0]
    assert capsys.readouterr().out.count("Figure:") == 1


def test_a_headless_run_tries_every_control_at_its_ends(capsys, monkeypatch):
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")
    calls = []

    def fn(gain=0.5, kind="b", flip=False):
        calls.append((gain, kind, flip))
        return line(gain, kind, flip)

    viz.explore(fn, gain=(0.0, 2.0, 0.5), kind=["a", "b", "c"], flip=True)
    assert calls == [
        (0.5, "b", False),
        (0.0, "b", False),
        (1.0, "b", False),
        (2.0, "b", False),
        (0.5, "a", False),
        (0.5, "c", False),
        (0.5, "b", True),
    ]
    assert capsys.readouterr().out.count("Figure:") == 1


def test_a_headless_run_finds_a_broken_extreme(monkeypatch):
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")

    def fn(gain):
        return line(1 / (gain - 2))

    with pytest.raises(RuntimeError, match=r"fails at gain = 2\.0: ZeroDivisionError"):
        viz.explore(fn, gain=(0.0, 2.0))


def test_an_error_in_the_first_call_stops_the_cell():
    with pytest.raises(KeyError):
        viz.explore(lambda gain: {}["missing"], gain=(0.0, 1.0))


def test_an_executed_notebook_keeps_a_slider(shown, monkeypatch):
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")
    viz.explore(line, gain=(0.0, 2.0, 0.5), kind=["a", "b"], flip=False)
    figure, note = shown
    assert [step.label for step in figure.layout.sliders[0].steps] == ["0", "0.5", "1", "1.5", "2"]
    assert figure.layout.sliders[0].active == 2
    assert "moves gain" in note["text/plain"] and "also move kind, flip" in note["text/html"]


def test_an_executed_notebook_has_a_still_figure_where_frames_will_not_do(shown, monkeypatch):
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")
    viz.explore(lambda lines: go.Figure([go.Scatter(y=[1])] * lines), lines=(1, 3))
    (figure,) = shown
    assert not figure.frames and len(figure.data) == 2


def test_jupyterlab_gets_widgets(front_end):
    viz.explore(line, gain=(0.0, 2.0, 1.0))
    (widget,) = front_end
    assert [type(part).__name__ for part in widget.children] == ["Box", "HTML", "FigureWidget", "HTML", "PageHelper"]


def test_colab_gets_a_figure_without_a_kernel_where_one_control_has_few_positions(front_end, monkeypatch):
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release")
    viz.explore(line, gain=(0.0, 2.0, 1.0))
    (figure,) = front_end
    assert len(figure.frames) == 3


@pytest.mark.parametrize("controls", [{"gain": (0.0, 2.0)}, {"gain": (0.0, 2.0, 1.0), "flip": True}])
def test_colab_gets_images_otherwise(controls, front_end, monkeypatch):
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release")
    viz.explore(line, **controls)
    (widget,) = front_end
    assert "data:image/png;base64," in widget.children[2].value


def test_colab_shows_where_a_function_fails(front_end, monkeypatch):
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release")
    viz.explore(lambda gain: line(1 / (gain - 2)), gain=(0.0, 2.0, 1.0))
    assert type(front_end[0]).__name__ == "VBox"


def test_anything_that_is_no_figure_is_displayed(shown):
    viz.explore(lambda n: "*" * n, n=(1, 3))
    assert shown == ["**"]


def test_annotated_arguments_have_a_tooltip(front_end):
    def fn(gain: Annotated[float, "gain, volts per volt"] = 1.0, flip: bool = False):
        return line(gain)

    viz.explore(fn, gain=(0.0, 2.0), flip=True)
    slider, box, *_ = front_end[0].children[0].children
    name = "tooltip" if slider.has_trait("tooltip") else "description_tooltip"  # in ipywidgets 8, and before
    assert getattr(slider, name) == "gain, volts per volt: from 0 to 2 in steps of 0.04"
    assert not getattr(box, name)


def test_functions_must_take_the_controls():
    with pytest.raises(TypeError, match="fn does not take the controls tau"):
        viz.explore(lambda beta: line(), tau=(0.0, 1.0))
    with pytest.raises(TypeError, match="does not take"):
        viz.explore(lambda beta, tau: line(), tau=(0.0, 1.0))
    with pytest.raises(TypeError, match="fn must be a function"):
        viz.explore(3, tau=(0.0, 1.0))
    with pytest.raises(TypeError, match="at least one control"):
        viz.explore(line)


PATIENCE = 20  # seconds until a test stops waiting for another thread


def titled(gain=1.0):
    return go.Figure(go.Scatter(y=[0.0, gain])).update_layout(title={"text": f"gain {gain:g}"})


def boxed(fn, *, seconds=1.0, **controls):
    parsed = [parse(name, spec) for name, spec in controls.items()]
    return ExplorerBox(fn, parsed, fn(**{c.name: c.default for c in parsed}), seconds=seconds)


class Recording:
    def __init__(self):
        self.calls = []

    def __call__(self, gain, flip=False):
        self.calls.append((gain, flip))
        return titled(gain)


@pytest.fixture(params=[True, False], ids=["figure", "image"])
def work(request, monkeypatch):
    monkeypatch.setattr(views, "figure_widgets_work", lambda: request.param)
    return request.param


def test_a_control_updates_the_view(work):
    fn = Recording()
    box = boxed(fn, gain=(0.0, 2.0))
    before = box.view.widget.data[0].y if work else box.view.widget.value
    box.controls["gain"].value = 2.0
    assert fn.calls == [(1.0, False), (2.0, False)]
    after = box.view.widget.data[0].y if work else box.view.widget.value
    assert tuple(after) == (0.0, 2.0) if work else after != before


def test_traces_and_layout_follow(monkeypatch):
    monkeypatch.setattr(views, "figure_widgets_work", lambda: True)

    def fn(lines):
        figure = go.Figure([go.Scatter(y=[i, i]) for i in range(lines)])
        if lines == 1:
            figure.add_hline(y=0.5)
        return figure.update_layout(title={"text": f"{lines} lines"})

    box = boxed(fn, lines=(1, 3))
    box.controls["lines"].value = 3
    assert len(box.view.widget.data) == 3 and box.view.widget.layout.title.text == "3 lines"
    assert len(box.view.widget.layout.shapes) == 0
    box.controls["lines"].value = 1
    assert len(box.view.widget.data) == 1 and len(box.view.widget.layout.shapes) == 1


def test_properties_that_vanish_are_taken_back(monkeypatch):
    monkeypatch.setattr(views, "figure_widgets_work", lambda: True)

    def fn(marked):
        return go.Figure(go.Scatter(y=[0, 1], text=["a", "b"] if marked else None))

    box = boxed(fn, marked=True)
    box.controls["marked"].value = False
    assert box.view.widget.data[0].text is None


def test_an_error_is_shown_escaped_and_raised():
    def fn(gain):
        if gain > 1:
            raise ValueError("<b>too {much}</b>")
        return titled(gain)

    box = boxed(fn, gain=(0.0, 2.0))
    with pytest.raises(ValueError, match="too"):
        box.controls["gain"].value = 2.0
    assert "&lt;b&gt;too {much}" in box.error.value and "ValueError" in box.error.value
    assert 'role="alert"' in box.error.value
    box.controls["gain"].value = 0.5
    assert box.error.value == ""


def test_an_interrupt_does_not_end_the_explorer():
    def fn(gain):
        if gain > 1:
            raise KeyboardInterrupt
        return titled(gain)

    box = boxed(fn, gain=(0.0, 2.0))
    with pytest.raises(KeyboardInterrupt):
        box.controls["gain"].value = 2.0
    box.controls["gain"].value = 0.5
    assert tuple(box.view.widget.data[0].y) == (0.0, 0.5)


def test_back_to_start_draws_once():
    fn = Recording()
    box = boxed(fn, gain=(0.0, 2.0), flip=False)
    box.controls["gain"].value = 2.0
    box.controls["flip"].value = True
    fn.calls.clear()
    box.reset.click()
    assert fn.calls == [(1.0, False)]
    assert (box.controls["gain"].value, box.controls["flip"].value) == (1.0, False)


def test_what_changes_while_drawing_is_drawn_once_and_by_one_thread():
    started, go_on = threading.Event(), threading.Event()
    calls, at_once = [], []

    def fn(gain):
        at_once.append(1)
        calls.append((gain, len(at_once)))
        if gain == 0.5:
            started.set()
            assert go_on.wait(PATIENCE)
        at_once.pop()
        return titled(gain)

    box = boxed(fn, gain=(0.0, 2.0))
    other = threading.Thread(target=lambda: setattr(box.controls["gain"], "value", 0.5))
    other.start()
    assert started.wait(PATIENCE)
    for gain in (0.6, 0.7, 0.8):  # comes back at once, as the other thread is at work
        box.controls["gain"].value = gain
    go_on.set()
    other.join(PATIENCE)
    assert calls == [(1.0, 1), (0.5, 1), (0.8, 1)]
    assert tuple(box.view.widget.data[0].y) == (0.0, 0.8)


@pytest.mark.parametrize("seconds", [0.1, 1.0])
def test_a_slow_update_says_so_until_it_is_done(seconds):
    box = boxed(titled, seconds=seconds, gain=(0.0, 2.0))
    seen = []
    box.status.observe(lambda change: seen.append(change.new), names="value")
    box.controls["gain"].value = 2.0
    assert seen == (['<span role="status">computing…</span>', ""] if seconds > explorer.LATE else [])


def test_sliders_are_followed_only_while_updates_are_quick(monkeypatch):
    monkeypatch.setattr(views, "figure_widgets_work", lambda: True)
    clock = [0.0]
    monkeypatch.setattr(explorer.time, "perf_counter", lambda: clock[0])
    takes = [10.0]

    def fn(gain):
        clock[0] += takes[0]
        return titled(gain)

    box = boxed(fn, seconds=10.0, gain=(0.0, 2.0))
    slider = box.controls["gain"]
    assert not slider.continuous_update
    takes[0] = 0.01
    slider.value = 0.1  # the first call had something to compile
    assert slider.continuous_update
    slider.value = 0.2
    takes[0] = 0.5
    slider.value = 0.3  # half a second now and then is nothing to worry about
    assert slider.continuous_update
    slider.value = 0.4
    slider.value = 0.5
    assert not slider.continuous_update


def framed(gain):
    return titled(gain).update(frames=[go.Frame(name="0", data=[{"type": "scatter", "y": [1, 2]}])])


def test_figures_with_frames_play_in_the_browser(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda what, **_: shown.append(what))
    box = boxed(framed, gain=(0.0, 2.0))
    box.controls["gain"].value = 2.0
    assert isinstance(box.view.widget, widgets.Output)
    assert [len(bundle["application/vnd.plotly.v1+json"]["frames"]) for bundle in shown] == [1, 1]
    assert all("image/png" not in bundle for bundle in shown)


def test_on_colab_figures_with_frames_are_pages(monkeypatch):
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release")
    box = boxed(framed, gain=(0.0, 2.0))
    before = box.view.widget.value
    box.controls["gain"].value = 2.0
    assert before.startswith("<iframe srcdoc=") and box.view.widget.value != before
    assert len(before) < 100_000  # plotly.js comes from elsewhere


def played(_):
    return viz.frames(titled, "gain", [1, 2])


@pytest.fixture(params=[True, False], ids=["figure", "image"])
def still(request, monkeypatch):
    monkeypatch.setattr(views, "figure_widgets_work", lambda: request.param)
    return FigureView if request.param else ImageView


def test_a_view_gives_way_to_one_of_another_kind(still):
    kinds = {"line": titled, "text": str, "nothing": lambda _: None, "frames": played}
    box = boxed(lambda kind: kinds[kind](1), kind=list(kinds))
    for kind, view in (("text", AnyView), ("frames", FramesView), ("nothing", AnyView), ("line", still)):
        box.controls["kind"].value = kind
        assert type(box.view) is view and box.error.value == ""
        shown = box.widget.children
        assert shown[2] is box.view.widget and shown[3] is box.spoken
        assert [type(one).__name__ for one in shown[4:]] == (["PageHelper"] if still is FigureView else [])
        assert ("gain 1" in box.spoken.value) == (view is FigureView)


def test_exit_does_not_leave_the_kernel():
    def fn(height):
        if height == 2:
            raise SystemExit("bye")
        return titled(height)

    box = boxed(fn, height=(0, 2))
    with pytest.raises(RuntimeError, match="SystemExit"):
        box.controls["height"].value = 2
    assert "SystemExit: bye" in box.error.value
    box.controls["height"].value = 0
    assert box.error.value == ""
