import threading

import plotly.graph_objects as go
import pytest

from snnkit.viz import explorer_box, views
from snnkit.viz.controls import parse
from snnkit.viz.explorer_box import ExplorerBox

widgets = pytest.importorskip("ipywidgets")

PATIENCE = 20  # seconds until a test gives up waiting for another thread


def line(gain=1.0):
    return go.Figure(go.Scatter(y=[0.0, gain])).update_layout(title={"text": f"gain {gain:g}"})


def boxed(fn, *, seconds=1.0, **controls):
    parsed = [parse(name, spec) for name, spec in controls.items()]
    return ExplorerBox(fn, parsed, fn(**{c.name: c.default for c in parsed}), seconds=seconds)


class Counted:
    def __init__(self):
        self.calls = []

    def __call__(self, gain, flip=False):
        self.calls.append((gain, flip))
        return line(gain)


@pytest.fixture(params=[True, False], ids=["figure", "image"])
def work(request, monkeypatch):
    monkeypatch.setattr(views, "figure_widgets_work", lambda: request.param)
    return request.param


def test_a_control_updates_the_view(work):
    fn = Counted()
    box = boxed(fn, gain=(0.0, 2.0))
    before = box.view.widget.data[0].y if work else box.view.widget.value
    box.controls["gain"].value = 2.0
    assert fn.calls == [(1.0, False), (2.0, False)]
    after = box.view.widget.data[0].y if work else box.view.widget.value
    assert tuple(after) == (0.0, 2.0) if work else after != before


def test_both_kinds_of_figures_are_described(work):
    box = boxed(line, gain=(0.0, 2.0))
    for gain in (1, 2):
        box.controls["gain"].value = float(gain)
        told = box.spoken.value if work else box.view.widget.value
        assert f"gain {gain}" in told
        assert 'role="status"' in told if work else ' alt="' in told


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
        return line(gain)

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
        return line(gain)

    box = boxed(fn, gain=(0.0, 2.0))
    with pytest.raises(KeyboardInterrupt):
        box.controls["gain"].value = 2.0
    box.controls["gain"].value = 0.5
    assert tuple(box.view.widget.data[0].y) == (0.0, 0.5)


def test_back_to_start_draws_once():
    fn = Counted()
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
        return line(gain)

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


def test_a_slow_update_says_so_until_it_is_done(monkeypatch):
    monkeypatch.setattr(explorer_box, "LATE", 0.0)
    seen = threading.Event()

    def fn(gain):
        if gain > 1:
            assert seen.wait(PATIENCE)
        return line(gain)

    box = boxed(fn, gain=(0.0, 2.0))
    box.status.observe(lambda change: seen.set() if "computing" in change.new else None, names="value")
    box.controls["gain"].value = 2.0
    assert box.status.value == ""


def test_a_quick_update_says_nothing(monkeypatch):
    monkeypatch.setattr(explorer_box, "LATE", 1000.0)
    box = boxed(line, gain=(0.0, 2.0))
    seen = []
    box.status.observe(seen.append, names="value")
    box.controls["gain"].value = 2.0
    assert seen == []


def test_sliders_are_followed_only_while_updates_are_quick(monkeypatch):
    monkeypatch.setattr(views, "figure_widgets_work", lambda: True)
    clock = [0.0]
    monkeypatch.setattr(explorer_box.time, "perf_counter", lambda: clock[0])
    takes = [10.0]

    def fn(gain):
        clock[0] += takes[0]
        return line(gain)

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


def test_images_are_not_followed(monkeypatch):
    monkeypatch.setattr(views, "figure_widgets_work", lambda: False)
    assert not boxed(line, seconds=0.0, gain=(0.0, 1.0)).controls["gain"].continuous_update
    monkeypatch.setattr(views, "figure_widgets_work", lambda: True)
    assert boxed(line, seconds=0.0, gain=(0.0, 1.0)).controls["gain"].continuous_update


def framed(gain):
    return line(gain).update(frames=[go.Frame(name="0", data=[{"type": "scatter", "y": [1, 2]}])])


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


def test_colab_gets_images(monkeypatch):
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release")
    assert not views.figure_widgets_work()
    assert isinstance(boxed(line, gain=(0.0, 1.0)).view, views.ImageView)
