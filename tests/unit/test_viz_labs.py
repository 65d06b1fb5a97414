"""Every ready-made explorer draws at every setting, purely; knobs, codes, gradients and rules are what they say."""

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from click.testing import CliRunner

from snnkit import encode, neuron, surrogate
from snnkit.cli.bench import explorers
from snnkit.data.events import events_of, saccades
from snnkit.neuron import LIF
from snnkit.plasticity import PairSTDP
from snnkit.viz import labs
from snnkit.viz.labs import LABS, Lab, encoder_lab, event_player, neuron_lab, stdp_lab
from snnkit.viz.labs import lab as lab_module
from snnkit.viz.labs.encoder_explorer import CODES, DELTA, GAIN
from snnkit.viz.labs.event_explorer import STEPS as CAMERA_STEPS
from snnkit.viz.labs.event_explorer import _images
from snnkit.viz.labs.neuron_explorer import CELLS, NEURONS, Knobs, run
from snnkit.viz.labs.stdp_explorer import STEPS as STDP_STEPS
from snnkit.viz.labs.surrogate_explorer import gradient_flow, ingredients
from tests.unit.stdp_by_sums import pairwise

# A race is measured anew each time; its own tests draw it at every setting.
BY_PURE = pytest.mark.parametrize("lab", [lab for lab in LABS if lab.name != "engine_race"], ids=lambda lab: lab.name)


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
    pytest.importorskip("ipywidgets")
    drawn = [check(lab.figure(**{name: value})) for name, value in dict.fromkeys(lab.trials())]
    # The kinds of traces never change, so that a figure is updated in place, and can be put into frames.
    assert len({tuple(trace.type for trace in figure.data) for figure in drawn}) == 1


@BY_PURE
def test_a_figure_is_a_function_of_its_settings(lab):
    first = lab.figure()
    torch.manual_seed(3)
    before = torch.get_rng_state()
    name, value = next((name, value) for name, value in lab.trials() if value != lab.first()[name])
    other = lab.figure(**{name: value})
    assert torch.equal(torch.get_rng_state(), before)
    assert other.to_json() != first.to_json()
    assert lab.figure().to_json() == first.to_json()


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_calling_one_explores_it(lab, monkeypatch):
    shown = []
    monkeypatch.setattr(lab_module, "explore", lambda fn, **controls: shown.append((fn, controls)))
    getattr(labs, lab.name)()
    assert shown == [(lab.figure, lab.controls)] and lab.question.endswith("?")


def test_every_setting_is_timed_without_what_is_paid_once(monkeypatch):
    now, paid = [0.0], []
    monkeypatch.setattr(lab_module.time, "perf_counter", lambda: now[0])

    def figure(gain=1, flip=False):
        """Ten milliseconds at gain 1, half a second at gain 2; the first call pays another second."""
        now[0] += (0.5 if gain == 2 else 0.01) + (gain not in paid)
        paid.append(gain)
        return go.Figure(go.Scatter(y=[0, gain])).update_layout(title={"text": str(flip)})

    monkeypatch.setattr(labs, "LABS", (Lab("some_lab", figure, {"gain": (0, 2), "flip": False}, ""),))
    done = CliRunner().invoke(explorers, [])
    assert done.exit_code == 0
    row = done.output.splitlines()[-1].split()
    assert row[:7] == ["some_lab", "gain", "=", "2", "1010.0", "10.0", "500.0"]
    assert "over 100 ms: 1 of 5 settings" in done.output
    done = CliRunner().invoke(explorers, ["other_lab"])
    assert done.exit_code == 2 and "must be one of some_lab, but it is 'other_lab'" in done.output


# ---- neurons


KNOBS = Knobs(tau=10.0, threshold=0.8, reset="hard")


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
    alone = CELLS["LIF"] if name == "Recurrent" else cell
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
    inner = state.neuron if name == "Recurrent" else state
    assert torch.allclose(ran.v[-1], inner[0], atol=1e-5)


@pytest.mark.parametrize("name", ["LIF", "PLIF", "Leaky", "ALIF", "CubaLIF", "LI", "Recurrent"])
@pytest.mark.parametrize("tau", [2.0, 25.0])
def test_the_current_is_where_a_leaky_membrane_settles(name, tau):
    cell = CELLS[name]
    x = torch.full((400, 1, 1), cell.scale(tau) * 0.7)
    v = run(cell.module(Knobs(tau, 5.0, "soft"), 1), x).v[-1]
    assert v.item() == pytest.approx(0.7, rel=1e-3)


def test_the_rate_of_a_lif_is_the_one_that_theory_has():
    curve, _ = curve_and_mark(neuron_lab.figure("LIF", tau=20.0, threshold=1.0))
    rates = dict(zip(curve.x, curve.y, strict=True))
    assert rates[1.0] == 0
    period = -20 * np.log(1 - 1 / 3.0)
    assert rates[3.0] == pytest.approx(1 / period, rel=0.15)


def test_spikes_of_the_raster_are_those_of_the_neuron():
    figure = neuron_lab.figure("LIF", current=1.5, noise=0.7)
    raster = next(trace for trace in figure.data if trace.name == "spikes")
    own = next(trace for trace in figure.data if trace.name == "spike")
    assert sorted(own.x) == sorted(x for x, row in zip(raster.x, raster.y, strict=True) if row == 0)
    assert len(own.x) > 3
    assert f"{len(raster.x) / NEURONS / 300:.3f} spikes per step" in figure.layout.title.text


def test_the_threshold_of_an_alif_rises_with_its_spikes():
    figure = neuron_lab.figure("ALIF", current=3.0)
    named = {trace.name: trace for trace in figure.data}
    level, first = np.asarray(named["threshold"].y, float), int(named["spike"].x[0])
    assert (level[: first + 1] == 1.0).all()
    assert level[first + 1] == pytest.approx(1.2)


def test_narrow_at_constant_area_explodes_and_at_constant_peak_vanishes():
    def ratio(chosen):
        by_layer = gradient_flow(chosen, 8, True).by_layer
        return by_layer[0] / by_layer[-1]

    assert ratio(surrogate.ATan(20.0)) > 100
    assert ratio(surrogate.FastSigmoid(25.0)) < 0.1
    assert 0.02 < ratio(surrogate.ATan(2.0)) < 50


def test_through_the_reset_a_narrow_surrogate_explodes_in_time_and_a_wide_one_fades():
    def earliest(alpha, detach):
        return gradient_flow(surrogate.ATan(alpha), 2, detach).by_step[0]

    assert earliest(128.0, False) > 10 * earliest(128.0, True)
    assert earliest(2.0, False) < 0.5 * earliest(2.0, True)


def test_the_flow_is_that_of_a_network_of_the_kit():
    # The same, written out with steps instead of a Sequential, and layer 2 only.
    chosen = surrogate.Sigmoid(4.0)
    flow = gradient_flow(chosen, 2, False)
    (first, second), x, direction = ingredients()[0][:2], *ingredients()[1:]
    cell = LIF(2.0, 1.0, None, decay_input=False, surrogate=chosen)
    second = second.clone().requires_grad_()
    states = [cell.initial_state(x[0]), cell.initial_state(x[0])]
    for x_t in x:
        hidden, states[0] = cell.step(x_t @ first.T, states[0])
        out, states[1] = cell.step(hidden @ second.T, states[1])
    (out * direction).sum().backward()
    assert flow.by_layer[1] == pytest.approx(second.grad.norm().item(), rel=1e-9)


@pytest.mark.parametrize("knob", ["tau", "threshold", "reset", "current", "noise"])
@pytest.mark.parametrize("name", CELLS)
def test_a_knob_does_something_unless_the_lab_says_that_it_does_not(name, knob):
    other = {"tau": 8.0, "threshold": 0.6, "reset": "soft", "current": 2.5, "noise": 0.8}
    before, after = neuron_lab.figure(name, current=2.0), neuron_lab.figure(name, **{"current": 2.0, knob: other[knob]})
    same = all(
        np.array_equal(np.asarray(a.y, float), np.asarray(b.y, float), equal_nan=True)
        for a, b in zip(before.data, after.data, strict=True)
    )
    unused = {"CubaLIF": ["reset"], "Izhikevich": ["threshold", "reset"], "LI": ["threshold", "reset"]}
    assert same == (knob in unused.get(name, ()))


def curve_and_mark(figure):
    names = ("spikes per step", "potential at the end", "error")
    return [next(trace for trace in figure.data if trace.name in wanted) for wanted in (names, ("now",))]


@pytest.mark.parametrize("name", CELLS)
def test_the_mark_of_a_neuron_lies_on_its_curve(name):
    curve, mark = curve_and_mark(neuron_lab.figure(name, current=2.0, noise=0.4))
    assert mark.x[0] == 2.0 and mark.y[0] == pytest.approx(curve.y[list(curve.x).index(2.0)], abs=0.02)


@pytest.mark.parametrize("name", CODES)
def test_the_mark_of_a_code_lies_on_its_curve(name):
    curve, mark = curve_and_mark(encoder_lab.figure(name, T=16))
    assert mark.y[0] == pytest.approx(dict(zip(curve.x, curve.y, strict=True))[16])


# ---- codes, events and plasticity


GREYS = torch.linspace(0, 1, 41).view(1, -1)


def test_a_latency_is_read_to_within_half_a_step():
    write, read = CODES["latency"]
    assert torch.equal(write(GREYS, 21), encode.latency(GREYS, 21, linear=True))
    error = (read(write(GREYS, 21)) - GREYS).abs()
    assert error.max() <= 1 / (2 * 20) + 1e-6
    assert error.max() > 0.01


def test_the_lif_code_is_read_back_above_its_dead_zone():
    write, read = CODES["LIF neuron"]
    dark, bright = GREYS[GREYS <= 1 / GAIN], GREYS[GREYS > 1.2 / GAIN]
    assert not read(write(dark[None], 400)).any()
    back = read(write(bright[None], 400))[0]
    middle = bright < 0.6  # beyond, the period is a few steps only
    assert (back - bright)[middle].abs().max() < 0.03
    assert (back - bright)[middle].mean().abs() < 0.01


def test_the_title_tells_error_and_spikes_of_what_is_drawn():
    figure = encoder_lab.figure("latency", digit=4, contrast=0.6, T=12)
    before, raster, after = (np.asarray(trace.z, float) for trace in figure.data[:3])
    error = float(np.sqrt(((before - after) ** 2).mean()))
    assert f"error {error:.3f} for {raster.sum() / 64:.2g} spikes per pixel" in figure.layout.title.text
    assert before.max() == pytest.approx(0.6)
    assert raster.shape == (64, 12)


def named(figure, name):
    (trace,) = [trace for trace in figure.data if trace.name == name]
    return np.asarray(trace.x, float), np.asarray(trace.y, float)


def spikes_at(*when):
    spikes = torch.zeros(STDP_STEPS, 1, 1)
    spikes[list(when)] = 1
    return spikes


@pytest.mark.parametrize("bound", ["hard", "soft", "none"])
def test_the_weight_ends_where_the_sum_over_all_pairs_ends(bound):
    figure = stdp_lab.figure(10, 50, 15, 42, 0.4, 0.3, 12.0, 33.0, bound, 0.7)
    rule = PairSTDP(0.4, 0.3, 12e-3, 33e-3, bound=None if bound == "none" else bound)
    expected = pairwise(rule, spikes_at(10, 50), spikes_at(15, 42), torch.tensor([[0.7]])).item()
    at, weights = named(figure, "weight")
    assert weights[-1] == pytest.approx(expected, abs=1e-6)
    assert f"Δw = {expected - 0.7:+.3f}" in figure.layout.title.text
    # Nothing happens before the second spike of any pair, and something does then.
    assert (weights[at < 15] == weights[0]).all() and weights[0] == pytest.approx(0.7)
    assert weights[at == 15] != weights[0]


def test_every_pair_stands_on_the_window_at_its_lag():
    figure = stdp_lab.figure(10, 50, 15, 42)
    lags, changes = named(figure, "pairs")
    assert lags.tolist() == [-35, -8, 5, 32]
    rule = PairSTDP(0.2, 0.21)
    assert changes == pytest.approx([rule.window(lag * 1e-3) for lag in lags], abs=1e-6)
    x, y = named(figure, "window")
    assert y[x > 0] == pytest.approx(0.2 * np.exp(-x[x > 0] / 20), abs=1e-6)
    assert y[x < 0] == pytest.approx(-0.21 * np.exp(x[x < 0] / 20), abs=1e-6)


def test_traces_start_at_their_spikes_and_fade_with_their_own_time_constant():
    figure = stdp_lab.figure(10, 10, 30, 30, tau_plus=5.0, tau_minus=40.0)
    for side, first, tau in (("pre", 10, 5), ("post", 30, 40)):
        at, trace = named(figure, f"{side} trace")
        expected = np.where(at < first, 0, np.exp(-np.maximum(at - first, 0) / tau))
        assert trace == pytest.approx(expected, abs=1e-6)
        assert named(figure, f"{side} spikes")[0].tolist() == [first]


def test_direct_coding_loses_nothing_and_a_still_image_has_one_change():
    write, read = CODES["direct"]
    assert torch.allclose(read(write(GREYS, 7)), GREYS)
    write, read = CODES["delta"]
    spikes = write(GREYS, 9)
    assert torch.equal(spikes[0], (GREYS >= DELTA).float()) and not spikes[1:].any()
    assert read(spikes).max() == pytest.approx(DELTA)


@pytest.mark.parametrize("step", [0, 9, CAMERA_STEPS - 1])
def test_the_player_shows_the_events_of_its_step_and_a_picture_that_moves_against_the_gaze(step):
    page = event_player.figure(step, digit=7)
    path = saccades(CAMERA_STEPS, 2.0)
    seen = events_of(_images()[7][None, None], path, threshold=0.2, generator=torch.Generator())[0]
    on, off = (trace for trace in page.data if trace.type == "scatter")
    for channel, trace in enumerate((on, off)):
        rows, columns = np.nonzero(seen[step, channel].numpy())
        np.testing.assert_array_equal(np.asarray(trace.x), columns)
        np.testing.assert_array_equal(np.asarray(trace.y), rows)
    (picture,) = (trace for trace in page.data if trace.type == "heatmap")
    assert [picture.x0, picture.y0] == pytest.approx((-path[step + 1]).tolist())
    assert sum(len(trace.x) for trace in page.data if trace.type == "scatter3d") == seen.sum()
