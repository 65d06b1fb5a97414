"""Every ready-made explorer draws at every setting, purely, and shows what is true."""

import inspect

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from snnkit import encode, models, neuron, nn, surrogate
from snnkit.data.events import events_of, saccades
from snnkit.device import optimize_memory_usage, training_step
from snnkit.engine import cpp_compiler, missing_compiler
from snnkit.neuron import IF, LIF, Neuron
from snnkit.plasticity import PairSTDP
from snnkit.viz import labs
from snnkit.viz.explorer import parse
from snnkit.viz.labs import LABS, encoder_lab, event_player, neuron_lab, stdp_lab
from snnkit.viz.labs import engine_explorer as race
from snnkit.viz.labs import lab as lab_module
from snnkit.viz.labs.encoder_explorer import CODES, GAIN
from snnkit.viz.labs.event_explorer import STEPS as CAMERA_STEPS
from snnkit.viz.labs.event_explorer import _images
from snnkit.viz.labs.memory_explorer import AGAIN, NOTHING, OVER_TIME, Setting, largest_batch, memory_of
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


def trials(lab):
    """The minimum, middle and maximum of each control, with its name."""
    return dict.fromkeys((name, value) for name, spec in lab.controls.items() for value in parse(name, spec).trials)


@BY_PURE
def test_every_control_at_its_ends_and_middle(lab):
    drawn = [check(lab.figure(**{name: value})) for name, value in trials(lab)]
    # The kinds of traces never change, so that a figure is updated in place, and can be put into frames.
    assert len({tuple(trace.type for trace in figure.data) for figure in drawn}) == 1


@BY_PURE
def test_a_figure_is_a_function_of_its_settings(lab):
    first = lab.figure()
    torch.manual_seed(3)
    before = torch.get_rng_state()
    defaults = inspect.signature(lab.figure).parameters
    name, value = next((name, value) for name, value in trials(lab) if value != defaults[name].default)
    other = lab.figure(**{name: value})
    assert torch.equal(torch.get_rng_state(), before)
    assert other.to_json() != first.to_json()
    assert lab.figure().to_json() == first.to_json()


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_calling_one_explores_it(lab, monkeypatch):
    shown = []
    monkeypatch.setattr(lab_module, "explore", lambda fn, **controls: shown.append((fn, controls)))
    getattr(labs, lab.name)()
    several = {k: c for k, c in lab.controls.items() if not isinstance(c, list) or len(c) > 1}
    assert shown == [(lab.figure, several)]


# ---- neurons


KNOBS = Knobs(tau=10.0, threshold=0.8, reset="hard")


def test_every_neuron_of_the_catalogue_is_there():
    made = {name for name in neuron.__all__ if isinstance(getattr(neuron, name), type)}
    states = {name for name in made if name.endswith("State")}
    assert made - states - {"Neuron", "Recurrent"} == set(CELLS)


@pytest.mark.parametrize("name", CELLS)
def test_the_line_of_code_makes_this_neuron(name):
    cell = CELLS[name]
    made = eval(cell.code(KNOBS), vars(neuron))
    x = cell.scale(KNOBS.tau) * 1.7 * torch.ones(80, 1, 1)
    assert torch.allclose(run(made, x).v, run(cell.module(KNOBS), x).v, atol=1e-2)


@pytest.mark.parametrize("name", CELLS)
def test_running_step_by_step_gives_what_a_call_gives(name):
    cell = CELLS[name]
    x = cell.scale(KNOBS.tau) * (1.5 + torch.randn(60, 2, 4, generator=torch.Generator().manual_seed(1)))
    module = cell.module(KNOBS)
    ran = run(module, x)
    with torch.no_grad():
        out, state = module(x)
    assert torch.allclose(ran.out, out, atol=1e-5)
    assert torch.allclose(ran.v[-1], state[0], atol=1e-5)


@pytest.mark.parametrize("name", ["LIF", "PLIF", "Leaky", "ALIF", "CubaLIF", "LI"])
@pytest.mark.parametrize("tau", [2.0, 25.0])
def test_the_current_is_where_a_leaky_membrane_settles(name, tau):
    cell = CELLS[name]
    x = torch.full((400, 1, 1), cell.scale(tau) * 0.7)
    v = run(cell.module(Knobs(tau, 5.0, "soft")), x).v[-1]
    assert v.item() == pytest.approx(0.7, rel=1e-3)


def test_spikes_of_the_raster_are_those_of_the_neuron():
    figure = neuron_lab.figure("LIF", current=1.5, noise=0.7)
    raster = next(trace for trace in figure.data if trace.name == "spikes")
    own = next(trace for trace in figure.data if trace.name == "spike")
    assert sorted(own.x) == sorted(x for x, row in zip(raster.x, raster.y, strict=True) if row == 0)
    assert len(own.x) > 3
    assert f"{len(raster.x) / NEURONS:.3g} spikes in 300 steps" in figure.layout.title.text


def test_the_title_says_the_mean_interval_and_a_spike_reaches_its_peak():
    # Not 300 steps / 13 spikes = 23.1: from rest, Euler's steps reach the threshold every 22 steps; equation: 21.97.
    assert neuron_lab.figure("LIF", current=1.5).layout.title.text == (
        "LIF: 13 spikes in 300 steps, 22.0 steps apart on average"
    )
    assert neuron_lab.figure("LIF", current=1.02, tau=60.0).layout.title.text == "LIF: 1 spike in 300 steps"
    figure = neuron_lab.figure("Izhikevich", current=2.0)
    v, peaks = (next(trace for trace in figure.data if trace.name == name) for name in ("potential", "spike"))
    assert len(peaks.x) > 2 and all(v.y[int(step)] == 30 for step in peaks.x)


def test_narrow_at_constant_area_explodes_and_at_constant_peak_vanishes():
    def ratio(chosen):
        by_layer = gradient_flow(chosen, 8, True).by_layer
        return by_layer[0] / by_layer[-1]

    assert ratio(surrogate.ATan(20.0)) > 100
    assert ratio(surrogate.FastSigmoid(25.0)) < 0.1
    assert 0.02 < ratio(surrogate.ATan(2.0)) < 50


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


@pytest.mark.parametrize("name", CELLS)
def test_a_knob_does_something_unless_the_lab_says_that_it_does_not(name):
    unused = {"CubaLIF": ["reset"], "Izhikevich": ["threshold", "reset"], "LI": ["threshold", "reset"]}
    before = neuron_lab.figure(name, current=2.0)
    for knob, other in {"tau": 8.0, "threshold": 0.6, "reset": "soft", "current": 2.5, "noise": 0.8}.items():
        after = neuron_lab.figure(name, **{"current": 2.0, knob: other})
        pairs = [(a.y, b.y) for a, b in zip(before.data, after.data, strict=True)]
        same = all(np.array_equal(np.asarray(a, float), np.asarray(b, float), equal_nan=True) for a, b in pairs)
        assert same == (knob in unused.get(name, ())), knob


def curve_and_mark(figure):
    names = ("spikes per step", "potential at the end", "error")
    return [next(trace for trace in figure.data if trace.name in wanted) for wanted in (names, ("now",))]


@pytest.mark.parametrize("name", CELLS)
def test_the_mark_of_a_neuron_lies_on_its_curve(name):
    curve, mark = curve_and_mark(neuron_lab.figure(name, current=2.0, noise=0.4))
    assert mark.x[0] == 2.0 and mark.y[0] == pytest.approx(curve.y[list(curve.x).index(2.0)], abs=0.02)


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


# ---- memory and engines


SAVINGS = (NOTHING, AGAIN, OVER_TIME)
DENSE = Setting("dense", 1, 1000, 25, 128, "float32", NOTHING)
CONV = Setting("convolutional", 3, 16, 16, 32, "float32", NOTHING)


@pytest.mark.parametrize("saving", SAVINGS)
@pytest.mark.parametrize("numbers", ["float32", "bfloat16"])
@pytest.mark.parametrize("of", [DENSE, CONV], ids=["dense", "convolutional"])
def test_the_largest_batch_fits_and_one_a_little_larger_does_not(of, numbers, saving):
    of = of._replace(numbers=numbers, saving=saving)
    limit = 4 * sum(memory_of(of))
    most = largest_batch(of, limit)
    assert most > of.batch
    assert sum(memory_of(of._replace(batch=most))) <= 1.001 * limit
    assert sum(memory_of(of._replace(batch=most + 2 + most // 50))) > limit


def network(of):
    if of.network == "dense":
        return models.mlp((784, *[of.width] * of.layers, 10), flatten=False)
    modules, channels, side = [], 1, 28
    for i in range(of.layers):
        modules += [torch.nn.Conv2d(channels, of.width, 3, padding=1, bias=False), IF()]
        if i < 2:
            modules.append(torch.nn.MaxPool2d(2))
            side //= 2
        channels = of.width
    return nn.Sequential(*modules, torch.nn.Flatten(), torch.nn.Linear(of.width * side * side, 10), IF())


@pytest.mark.skipif(bool(missing_compiler("cpu")), reason="no compiler for the C++ engine")
@pytest.mark.parametrize("saving", [NOTHING, AGAIN])
@pytest.mark.parametrize("of", [DENSE._replace(width=40, steps=7, batch=3), CONV._replace(width=4, steps=5, batch=2)])
def test_the_formula_agrees_with_what_a_step_holds(of, saving):
    of = of._replace(saving=saving)
    net = network(of)
    for module in net.modules():
        if isinstance(module, Neuron):
            module.engine = "cpp"
    x = (torch.rand(of.steps, of.batch, *((784,) if of.network == "dense" else (1, 28, 28))) < 0.2).float()
    out, state = net(x)
    if saving == AGAIN:
        optimize_memory_usage(net)
    # What is handed out is not held for backward.
    handed_out = out.nbytes + sum(part.nbytes for state in state if state for part in state)
    held = training_step(net, x).held + x.nbytes - handed_out
    assert sum(p.nbytes for p in net.parameters()) == memory_of(of).weights
    assert memory_of(of).activity == pytest.approx(held, rel=0.02)


def bill_of_a_learner(weights, kept, steps, batch, copies=1, width=4):
    return 4 * weights * (2 + copies), steps * batch * kept * width


def test_a_formula_stands_beside_a_step_that_is_counted():
    # Enough neuron-steps for a compiled neuron, which keeps its input and no more.
    figure = labs.beside_measured(bill_of_a_learner)(steps=16, batch=16, neurons=500)
    by_part = {trace.name: list(trace.x) for trace in figure.data}
    assert by_part["weights"] == pytest.approx([4 * (785 * 500 + 501 * 10) / 1e6] * 2)
    assert by_part["activity"][0] == pytest.approx(16 * 16 * (784 + 1000 + 10) * 4 / 1e6)
    assert by_part["activity"][1] > 0.99 * by_part["activity"][0]


SMALL = {"T": 4, "N": 1024}


def lanes(figure):
    return list(figure.layout.yaxis.ticktext)


def notes(figure):
    return " ".join(note.text for note in figure.layout.annotations).replace("<br>", " ")


@pytest.mark.skipif(cpp_compiler() is None, reason="no C++ compiler")
def test_an_engine_races_against_the_loop():
    state = torch.get_rng_state()
    figure = race.figure(**SMALL, engine="cpp", device=race.CPU)
    assert lanes(figure) == ["eager", "cpp", "floor"] and torch.equal(torch.get_rng_state(), state)
    assert "times as fast as the loop" in figure.layout.title.text or "neither wins" in figure.layout.title.text
    assert "first call" in " ".join(text for trace in figure.data for text in trace.text or ())


@pytest.mark.parametrize(
    ("p10", "p90", "said"),
    [(0.1, 0.3, "cpp is 5 times as fast as the loop"), (0.1, 0.95, "neither wins"), (0.1, 1.5, "neither wins")],
)
def test_there_is_no_winner_where_spreads_overlap(p10, p90, said):
    size = {"steps": 4, "neurons": 1024, "dtype": "float32"}
    loop = {"contestant": "eager", "p10_s": 0.9, "median_s": 1.0, "p90_s": 1.1} | size
    other = {"contestant": "cpp", "p10_s": p10, "median_s": 0.2, "p90_s": p90} | size
    assert said in race._result([loop, other], "cpp")


@pytest.mark.skipif(cpp_compiler() is None, reason="no C++ compiler")
def test_an_engine_that_refuses_says_why(monkeypatch):
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    monkeypatch.setattr(race, "_candidates", race._candidates.__wrapped__)  # so that none is remembered
    figure = race.figure(**SMALL, engine="cpp", device=race.CPU)
    assert lanes(figure) == ["eager", "floor"]
    assert "TORCH_COMPILE_DISABLE" in notes(figure)


def test_the_verdict():
    figure = labs.memory_calculator.figure("dense", layers=1, width=64, T=25, batch=2048, saving=NOTHING, gigabytes=1)
    drawn = Setting("dense", 1, 512, 25, 2048, "float32", NOTHING)
    assert sum(float(trace.x[0]) for trace in figure.data) == pytest.approx(sum(memory_of(drawn)) / 1e9)
    assert figure.layout.title.text == f"Fits in 1 GB: room for up to {largest_batch(drawn, 1e9):,} samples"
    large = labs.memory_calculator.figure("convolutional", layers=2, width=128, T=64, batch=2048, gigabytes=1)
    assert large.layout.title.text.startswith("Does not fit in 1 GB: room for up to")
    assert largest_batch(drawn, 1e3) == 0
