import plotly.graph_objects as go
import pytest

from snnkit import viz
from snnkit.viz import views
from snnkit.viz.controls import parse
from snnkit.viz.explorer import Explorer

widgets = pytest.importorskip("ipywidgets")


def line(gain=1.0, kind="a", flip=False):
    return go.Figure(go.Scatter(y=[0.0, -gain if flip else gain])).update_layout(title={"text": kind})


def explorer(fn, *, follow=False, **controls):
    parsed = [parse(name, spec) for name, spec in controls.items()]
    return Explorer(fn, parsed, fn(**{c.name: c.default for c in parsed}), follow=follow)


class Counted:
    def __init__(self, fn):
        self.fn, self.calls = fn, []

    def __call__(self, gain=1.0):
        self.calls.append(gain)
        return self.fn(gain)


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


@pytest.mark.parametrize("work", [True, False])
def test_a_control_updates_the_view(work, monkeypatch):
    monkeypatch.setattr(views, "figure_widgets_work", lambda: work)
    fn = Counted(line)
    box = explorer(fn, gain=(0.0, 2.0))
    before = box.view.widget.data[0].y if work else box.view.widget.value
    box.controls["gain"].value = 2.0
    assert fn.calls == [1.0, 2.0]
    after = box.view.widget.data[0].y if work else box.view.widget.value
    assert (tuple(after) == (0.0, 2.0)) if work else (after != before and after[:4] == b"\x89PNG")


def test_traces_and_layout_follow(monkeypatch):
    monkeypatch.setattr(views, "figure_widgets_work", lambda: True)

    def fn(lines):
        figure = go.Figure([go.Scatter(y=[i, i]) for i in range(lines)])
        if lines == 1:
            figure.add_hline(y=0.5)
        return figure.update_layout(title={"text": f"{lines} lines"})

    box = explorer(fn, lines=(1, 3))
    box.controls["lines"].value = 3
    assert len(box.view.widget.data) == 3 and box.view.widget.layout.title.text == "3 lines"
    assert len(box.view.widget.layout.shapes) == 0
    box.controls["lines"].value = 1
    assert len(box.view.widget.data) == 1 and len(box.view.widget.layout.shapes) == 1


def test_properties_that_vanish_are_taken_back(monkeypatch):
    monkeypatch.setattr(views, "figure_widgets_work", lambda: True)

    def fn(marked):
        return go.Figure(go.Scatter(y=[0, 1], text=["a", "b"] if marked else None))

    box = explorer(fn, marked=True)
    box.controls["marked"].value = False
    assert box.view.widget.data[0].text is None


def test_an_error_is_shown_escaped_and_raised():
    def fn(gain):
        if gain > 1:
            raise ValueError("<b>too much</b>")
        return line(gain)

    box = explorer(fn, gain=(0.0, 2.0))
    with pytest.raises(ValueError, match="too much"):
        box.controls["gain"].value = 2.0
    assert "&lt;b&gt;too much" in box.error.value and "ValueError" in box.error.value
    box.controls["gain"].value = 0.5
    assert box.error.value == ""


def test_only_quick_functions_are_followed_while_dragging(monkeypatch):
    monkeypatch.setattr(views, "figure_widgets_work", lambda: True)
    assert explorer(line, follow=True, gain=(0.0, 1.0)).controls["gain"].continuous_update
    assert not explorer(line, follow=False, gain=(0.0, 1.0)).controls["gain"].continuous_update
    monkeypatch.setattr(views, "figure_widgets_work", lambda: False)
    assert not explorer(line, follow=True, gain=(0.0, 1.0)).controls["gain"].continuous_update


def test_colab_gets_images(monkeypatch):
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release")
    assert not views.figure_widgets_work()
    assert isinstance(explorer(line, gain=(0.0, 1.0)).view, views.ImageView)


@pytest.mark.parametrize(
    ("spec", "default", "kind", "first", "trials"),
    [
        ((0, 10), None, "IntSlider", 5, (0, 5, 10)),
        ((0, 10, 2), 4, "IntSlider", 4, (0, 4, 10)),
        ((0.0, 1.0), None, "FloatSlider", 0.5, (0.0, 0.5, 1.0)),
        ((0.0, 1.0), 7.0, "FloatSlider", 0.5, (0.0, 0.5, 1.0)),
        ((0.5, 1), 0.75, "FloatSlider", 0.75, (0.5, 0.75, 1)),
        (["a", "b", "c"], "c", "Dropdown", "c", ("a", "b", "c")),
        ([1, 2], None, "Dropdown", 1, (1, 2, 2)),
        (True, None, "Checkbox", True, (False, True)),
    ],
)
def test_controls_become_widgets(spec, default, kind, first, trials):
    control = parse("some_name", spec, default)
    widget = control.build()
    assert type(widget).__name__ == kind
    assert widget.value == control.default == first
    assert control.trials == pytest.approx(trials) if kind.endswith("Slider") else control.trials == trials
    assert widget.description == "some name"


def test_widgets_are_taken_as_they_are():
    slider = widgets.IntSlider(value=3, min=1, max=9)
    assert parse("n", slider).build() is slider and parse("n", slider).trials == (1, 3, 9)
    buttons = widgets.ToggleButtons(options=[("one", 1), ("two", 2), ("three", 3)])
    assert parse("n", buttons).trials == (1, 2, 3)
    assert parse("n", widgets.Checkbox(value=True)).trials == (False, True)


@pytest.mark.parametrize(
    ("spec", "error", "words"),
    [
        ((1, 0), ValueError, "min < max"),
        ((1, 1), ValueError, "min < max"),
        ((0, 1, 0), ValueError, "step above 0"),
        ((0.0, float("nan")), ValueError, "finite"),
        ((0, 1, 2, 3), ValueError, r"\(min, max\) or"),
        (("a", "b"), TypeError, "must hold numbers"),
        ([], ValueError, "at least one choice"),
        (3, TypeError, "control gain must be"),
        ("abc", TypeError, "control gain must be"),
    ],
)
def test_senseless_controls_are_named(spec, error, words):
    with pytest.raises(error, match=words):
        viz.explore(line, gain=spec)


def test_functions_must_take_the_controls():
    with pytest.raises(TypeError, match="fn does not take the controls tau"):
        viz.explore(lambda beta: line(), tau=(0.0, 1.0))
    with pytest.raises(TypeError, match="does not take"):
        viz.explore(lambda beta, tau: line(), tau=(0.0, 1.0))
    with pytest.raises(TypeError, match="fn must be a function"):
        viz.explore(3, tau=(0.0, 1.0))
    with pytest.raises(TypeError, match="at least one control"):
        viz.explore(line)
