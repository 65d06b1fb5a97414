from typing import Annotated

import plotly.graph_objects as go
import pytest

from snnkit import viz
from snnkit.viz import explorer

pytest.importorskip("ipywidgets")


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
