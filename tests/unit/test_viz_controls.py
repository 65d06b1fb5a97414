import numpy as np
import pytest
import torch

from snnkit.viz.controls import parse

widgets = pytest.importorskip("ipywidgets")


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


@pytest.mark.parametrize(
    ("spec", "positions"),
    [
        ((0, 6, 2), [0, 2, 4, 6]),
        ((0, 7, 2), [0, 2, 4, 6]),
        ((0.0, 0.5, 0.1), [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]),
        (["b", "a"], ["b", "a"]),
        (False, [False, True]),
        (widgets.IntSlider(value=3, min=1, max=9, step=4), [1, 5, 9]),
        (widgets.Dropdown(options=[("one", 1), ("two", 2)]), [1, 2]),
        (widgets.FloatLogSlider(min=0, max=4), []),
        (widgets.Text("free"), []),
    ],
)
def test_positions(spec, positions):
    found = parse("n", spec).positions
    assert list(found) == positions
    assert list(found[1:]) == positions[1:]


def test_widgets_are_taken_as_they_are():
    slider = widgets.IntSlider(value=3, min=1, max=9)
    assert parse("n", slider).build() is slider and parse("n", slider).trials == (1, 3, 9)
    buttons = widgets.ToggleButtons(options=[("one", 1), ("two", 2), ("three", 3)])
    assert parse("n", buttons).trials == (1, 2, 3)
    assert parse("n", widgets.Checkbox(value=True)).trials == (False, True)
    assert parse("n", widgets.FloatLogSlider(value=10.0, min=0, max=4)).trials == (1.0, 10.0, 10_000.0)


def test_sliders_tell_their_range():
    for hint, text in {"": "from 0 to 10 in steps of 5", "spikes": "spikes: from 0 to 10 in steps of 5"}.items():
        slider = parse("n", (0, 10, 5), hint=hint).build()
        name = "tooltip" if slider.has_trait("tooltip") else "description_tooltip"  # in ipywidgets 8, and before
        assert getattr(slider, name) == text


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
        parse("gain", spec)


@pytest.mark.parametrize("number", [np.float32, np.float64, np.int64, int])
def test_numbers_of_numpy_make_sliders(number):
    control = parse("n", (number(0), number(4)), number(3))
    assert control.build().value == control.default == 3
    assert isinstance(control.build(), widgets.IntSlider) == (number in (np.int64, int))


@pytest.mark.parametrize("spec", [(-1e308, 1e308), (0, 10**30), (0.0, 1.0, 1e-12), (0.0, 1.0, 5e-5), (0, 10**10)])
def test_sliders_beyond_what_a_browser_can_count(spec):
    with pytest.raises(ValueError, match="control n must"):
        parse("n", spec)


@pytest.mark.parametrize("option", [np.ones(2), torch.ones(2), float("nan")])
def test_choices_that_cannot_be_compared(option):
    with pytest.raises(TypeError, match="control n must offer choices that can be compared"):
        parse("n", [option, "other"])
