"""Explorers that need Python draw at every setting, purely, and show what is true."""

import inspect

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from snnkit import models, nn
from snnkit.device import optimize_memory_usage, training_step
from snnkit.engine import cpp_compiler, missing_compiler
from snnkit.neuron import IF, Neuron
from snnkit.viz import explorer, labs
from snnkit.viz.explorer import parse
from snnkit.viz.labs import LABS
from snnkit.viz.labs import engine_explorer as race
from snnkit.viz.labs.memory_explorer import AGAIN, NOTHING, OVER_TIME, Setting, largest_batch, memory_of

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
    monkeypatch.setattr(explorer, "explore", lambda fn, **controls: shown.append((fn, controls)))
    getattr(labs, lab.name)()
    several = {k: c for k, c in lab.controls.items() if not isinstance(c, list) or len(c) > 1}
    assert shown == [(lab.figure, several)]


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
