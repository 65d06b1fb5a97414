"""The neuron lab: the neurons are the catalogue's, and every knob is what the lab says it is."""

import itertools

import numpy as np
import pytest
import torch

from snnkit import neuron
from snnkit.viz.labs import neuron_lab as lab
from snnkit.viz.labs.neuron_explorer import CELLS, NEURONS, STEPS, Knobs, run

KNOBS = Knobs(tau=10.0, threshold=0.8, reset="hard")
KNOBBED = list(itertools.product(CELLS, ["tau", "threshold", "reset", "current", "noise"]))


def test_every_neuron_of_the_catalogue_is_there():
    made = {name for name in neuron.__all__ if isinstance(getattr(neuron, name), type)}
    states = {name for name in made if name.endswith("State")}
    assert made - states - {"Neuron"} == set(CELLS)


@pytest.mark.parametrize("name", CELLS)
def test_the_line_of_code_makes_this_neuron(name):
    cell = CELLS[name]
    line = cell.code(KNOBS).removeprefix("Recurrent(").removesuffix(", …)")
    made = eval(line, vars(neuron))
    x = cell.scale(KNOBS.tau) * 1.7 * torch.ones(80, 1, 1)
    alone = CELLS["LIF"] if cell.recurrent else cell
    assert torch.allclose(run(made, x).v, run(alone.module(KNOBS, 1), x).v, atol=1e-2)


@pytest.mark.parametrize("name", CELLS)
def test_running_step_by_step_gives_what_a_call_gives(name):
    cell = CELLS[name]
    x = cell.scale(KNOBS.tau) * (1.5 + torch.randn(60, 2, 4, generator=torch.Generator().manual_seed(1)))
    module = cell.module(KNOBS, 4)
    ran = run(module, x)
    with torch.no_grad():
        out, state = module(x)
    assert torch.allclose(ran.out, out, atol=1e-5)
    inner = state.neuron if cell.recurrent else state
    assert torch.allclose(ran.v[-1], inner[0], atol=1e-5)


@pytest.mark.parametrize("name", ["LIF", "PLIF", "Leaky", "ALIF", "CubaLIF", "LI", "Recurrent"])
@pytest.mark.parametrize("tau", [2.0, 25.0])
def test_the_current_is_where_a_leaky_membrane_settles(name, tau):
    cell = CELLS[name]
    x = torch.full((400, 1, 1), cell.scale(tau) * 0.7)
    v = run(cell.module(Knobs(tau, 5.0, "soft"), 1), x).v[-1]
    assert v.item() == pytest.approx(0.7, rel=1e-3)


@pytest.mark.parametrize(("name", "knob"), KNOBBED)
def test_a_knob_does_something_unless_the_lab_says_that_it_does_not(name, knob):
    other = {"tau": 8.0, "threshold": 0.6, "reset": "soft", "current": 2.5, "noise": 0.8}
    before, after = lab.figure(name, current=2.0), lab.figure(name, **{"current": 2.0, knob: other[knob]})
    same = all(
        np.array_equal(np.asarray(a.y, float), np.asarray(b.y, float), equal_nan=True)
        for a, b in zip(before.data, after.data, strict=True)
    )
    assert same == (knob in CELLS[name].unused)


def curve_and_mark(figure):
    curve = next(trace for trace in figure.data if trace.name in ("spikes per step", "potential at the end"))
    mark = next(trace for trace in figure.data if trace.name == "now")
    return curve, mark


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_the_mark_lies_on_the_curve(name, noise):
    curve, mark = curve_and_mark(lab.figure(name, current=2.0, noise=noise))
    here = list(curve.x).index(2.0)
    assert mark.x[0] == 2.0
    assert mark.y[0] == pytest.approx(curve.y[here], abs=0.02)


def test_the_rate_of_a_lif_is_the_one_that_theory_has():
    curve, _ = curve_and_mark(lab.figure("LIF", tau=20.0, threshold=1.0))
    rates = dict(zip(curve.x, curve.y, strict=True))
    assert rates[1.0] == 0
    period = -20 * np.log(1 - 1 / 3.0)
    assert rates[3.0] == pytest.approx(1 / period, rel=0.15)


def test_spikes_of_the_raster_are_those_of_the_neuron():
    figure = lab.figure("LIF", current=1.5, noise=0.7)
    raster = next(trace for trace in figure.data if trace.name == "spikes")
    own = next(trace for trace in figure.data if trace.name == "spike")
    assert sorted(own.x) == sorted(x for x, row in zip(raster.x, raster.y, strict=True) if row == 0)
    assert len(own.x) > 3
    assert f"{len(raster.x) / NEURONS / STEPS:.3f} spikes per step" in figure.layout.title.text


def test_silence_is_called_so():
    assert "silence" in lab.figure("LIF", current=0.5).layout.title.text


def test_a_readout_has_no_spikes_and_no_threshold():
    figure = lab.figure("LI", current=3.0)
    named = {trace.name: trace for trace in figure.data}
    assert not len(named["spikes"].x) and not len(named["spike"].x)
    assert np.isnan(np.asarray(named["threshold"].y, float)).all()
    assert "potential at the end 3" in figure.layout.title.text


def test_the_threshold_of_an_alif_rises_with_its_spikes():
    figure = lab.figure("ALIF", current=3.0)
    named = {trace.name: trace for trace in figure.data}
    level, first = np.asarray(named["threshold"].y, float), int(named["spike"].x[0])
    assert (level[: first + 1] == 1.0).all()
    assert level[first + 1] == pytest.approx(1.2)


def test_inhibition_slows_a_recurrent_layer_down():
    _, alone = curve_and_mark(lab.figure("LIF", current=2.5, noise=1.0))
    _, inhibited = curve_and_mark(lab.figure("Recurrent", current=2.5, noise=1.0))
    assert inhibited.y[0] < alone.y[0]
