"""Every ready-made explorer draws at every setting, purely, with everything a reader needs; their timing."""

import inspect
import random
import subprocess
import sys

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from click.testing import CliRunner

from snnkit import viz
from snnkit.cli.bench import explorers
from snnkit.viz import labs
from snnkit.viz.controls import parse
from snnkit.viz.labs import LABS, Lab
from snnkit.viz.labs import lab as lab_module

widgets = pytest.importorskip("ipywidgets")


BY_NAME = pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
# A race is measured anew each time; its own tests draw it at every setting.
PURE = [lab for lab in LABS if lab.name != "engine_race"]
BY_PURE = pytest.mark.parametrize("lab", PURE, ids=lambda lab: lab.name)
RANDOM_SETTINGS = 3


def controls_of(lab):
    return [parse(name, spec, lab.defaults()[name]) for name, spec in lab.controls.items()]


def numbers_of(figure):
    """Every number that a trace is drawn from, by "trace.attribute"."""
    for trace in figure.data:
        for letter in "xyz":
            values = getattr(trace, letter, None)
            if values is not None:
                array = np.asarray(values, dtype=object)
                if not any(isinstance(value, str) for value in array.flat):
                    yield f"{trace.name}.{letter}", np.array(array, dtype=float)


def check(figure):
    assert isinstance(figure, go.Figure)
    assert figure.layout.title.text
    drawn = 0
    for where, values in numbers_of(figure):
        assert not np.isinf(values).any(), where
        drawn += int(np.isfinite(values).sum())
    assert drawn
    axes = [figure.layout[name] for name in figure.layout if name.startswith("xaxis")]
    assert any(axis.title.text for axis in axes)
    return figure


@BY_PURE
def test_every_control_at_its_ends_and_middle(lab):
    figures = [
        check(lab.figure(**{control.name: value})) for control in controls_of(lab) for value in set(control.trials)
    ]
    # The kinds of traces never change, so that a figure is updated in place, and can be put into frames.
    assert len({tuple(trace.type for trace in figure.data) for figure in figures}) == 1


@BY_PURE
def test_settings_at_random(lab):
    draw = random.Random(lab.name)
    for _ in range(RANDOM_SETTINGS):
        check(lab.figure(**{control.name: draw.choice(control.trials) for control in controls_of(lab)}))


@BY_PURE
def test_a_figure_is_a_function_of_its_settings(lab):
    first = lab.figure()
    torch.manual_seed(3)
    before = torch.get_rng_state()
    control = next(one for one in controls_of(lab) if one.trials[0] != one.default)
    other = lab.figure(**{control.name: control.trials[0]})
    assert torch.equal(torch.get_rng_state(), before)
    assert other.to_json() != first.to_json()
    assert lab.figure().to_json() == first.to_json()


@BY_PURE
def test_it_has_a_png_and_says_what_is_under_the_mouse(lab):
    figure = lab.figure()
    assert viz.png_bytes(figure).startswith(b"\x89PNG")
    assert any(trace.hovertemplate for trace in figure.data)


@BY_NAME
def test_what_it_says_of_itself(lab):
    assert getattr(labs, lab.name) is lab and lab.doc in lab.__doc__
    assert lab.title and lab.doc.endswith((".", "?"))
    assert lab.name.isidentifier()
    assert set(lab.controls) == set(lab.defaults())
    for control in controls_of(lab):
        assert control.default == lab.defaults()[control.name]


@BY_PURE
def test_showing_one_hands_its_figure_and_controls_to_explore(lab, monkeypatch):
    shown = []
    monkeypatch.setattr(lab_module, "explore", lambda fn, **controls: shown.append((fn, controls)))
    control = controls_of(lab)[0]
    getattr(labs, lab.name)(**{control.name: control.trials[-1]})
    ((fn, controls),) = shown
    assert controls == dict(lab.controls)
    assert fn().to_json() == lab.figure(**{control.name: control.trials[-1]}).to_json()


def test_names_are_different():
    assert len({lab.name for lab in LABS}) == len(LABS)


def drawn(size=3, gain=0.5, kind="a", flip=False):
    return go.Figure(go.Scatter(y=[gain] * size))


TOY = Lab("toy", "Toy", drawn, {"size": (1, 5), "gain": (0.0, 1.0), "kind": ["a", "b"], "flip": True}, "A toy.")


def test_first_values_of_ones_own_become_the_defaults(capsys):
    fn = TOY.starting(size=5, flip=True)
    assert len(fn().data[0].y) == 5
    assert inspect.signature(fn).parameters["size"].default == 5  # where explore looks for it
    TOY(gain=1)
    assert capsys.readouterr().out.startswith("Figure")


@pytest.mark.parametrize(
    ("start", "error", "match"),
    [
        ({"sise": 3}, TypeError, "toy has no setting 'sise'; it has size, gain, kind, flip"),
        ({"size": 2.5}, TypeError, r"size of toy must be an integer, but it is 2\.5"),
        ({"size": True}, TypeError, "size of toy must be an integer, but it is True"),
        ({"size": 6}, ValueError, "size of toy must be at most 5, but it is 6"),
        ({"gain": -0.1}, ValueError, r"gain of toy must be at least 0\.0, but it is -0\.1"),
        ({"gain": float("nan")}, ValueError, "gain of toy must be finite"),
        ({"gain": "1"}, TypeError, "gain of toy must be a number, but it is '1'"),
        ({"kind": "c"}, ValueError, "kind of toy must be one of 'a', 'b', but it is 'c'"),
        ({"flip": 1}, TypeError, "flip of toy must be True or False, but it is 1"),
    ],
)
def test_first_values_that_no_control_can_take(start, error, match):
    with pytest.raises(error, match=match):
        TOY(**start)


@pytest.mark.slow
def test_a_first_figure_does_not_wake_the_compiler():
    # Its imports take seconds, and a learner would wait for them at the first plot.
    program = """
import sys, torch
before = set(sys.modules)
from snnkit.viz.labs import memory_calculator, neuron_lab
neuron_lab.figure()
memory_calculator.figure()
woken = {"sympy", "torch._dynamo"} & (set(sys.modules) - before)
sys.exit(f"imported {woken}" if woken else 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@BY_NAME
def test_labs_refuse_arrays_and_strange_settings_by_name(lab):
    for name in lab.controls:
        for bad in (np.array([1, 2]), torch.ones(2), None, object()):
            with pytest.raises((TypeError, ValueError), match=f"{name} of {lab.name} must"):
                lab.starting(**{name: bad})
    for name in ("self", "start", "nonsense"):
        with pytest.raises(TypeError, match=f"has no setting '{name}'"):
            lab.starting(**{name: 1})


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(lab_module.time, "perf_counter", lambda: now[0])
    return now


@pytest.fixture
def slow_lab(clock):
    """Ten milliseconds at gain 1, half a second at gain 2; the first call pays another second."""
    paid = []

    def figure(gain=1, flip=False):
        clock[0] += 0.5 if gain == 2 else 0.01
        if gain not in paid:
            clock[0] += 1.0
            paid.append(gain)
        return go.Figure(go.Scatter(y=[0, gain])).update_layout(title={"text": str(flip)})

    return Lab("some_lab", "Some lab", figure, {"gain": (0, 2), "flip": False}, "")


def test_every_setting_is_timed_without_what_is_paid_once(slow_lab):
    times = lab_module.time_updates(slow_lab)
    assert times.tried == 5
    assert times.first == pytest.approx(1.01)
    assert times.median == pytest.approx(0.01)
    assert times.worst == pytest.approx(0.5)
    assert (times.slowest, times.over) == ("gain = 2", 1)


def test_the_table_marks_what_is_slow(slow_lab):
    text = lab_module.update_table([lab_module.time_updates(slow_lab)])
    assert "some_lab" in text and "500.0" in text
    assert "gain = 2" in text and "over 100 ms: 1 of 5 settings" in text


def test_the_command(slow_lab, monkeypatch):
    monkeypatch.setattr(labs, "LABS", (slow_lab,))
    done = CliRunner().invoke(explorers, [])
    assert done.exit_code == 0 and "some_lab" in done.output
    done = CliRunner().invoke(explorers, ["other_lab"])
    assert done.exit_code == 2 and "must be one of some_lab, but it is 'other_lab'" in done.output
