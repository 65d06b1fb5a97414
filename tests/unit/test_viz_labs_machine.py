"""The memory calculator agrees with the estimates of ``snnkit.device``; the engine race measures or cites."""

import math

import pytest
import torch

from snnkit import models, nn, records
from snnkit.device import optimize_memory_usage, training_step
from snnkit.engine import cpp_compiler, missing_compiler
from snnkit.neuron import IF, Neuron
from snnkit.viz.labs import beside_measured, memory_calculator
from snnkit.viz.labs import engine_explorer as race
from snnkit.viz.labs.memory_explorer import AGAIN, NOTHING, OVER_TIME, Setting, largest_batch, memory_of

SAVINGS = (NOTHING, AGAIN, OVER_TIME)


DENSE = Setting("dense", 1, 1000, 25, 128, "float32", NOTHING)


CONV = Setting("convolutional", 3, 16, 16, 32, "float32", NOTHING)


def test_the_memory_of_784_1000_10():
    memory = memory_of(DENSE)
    count = 784 * 1000 + 1000 + 1000 * 10 + 10
    assert memory.weights == memory.gradients == 4 * count
    assert memory.optimizer == 8 * count
    # The inputs of both Linear layers and of both neurons.
    assert memory.activity == 4 * 25 * 128 * (784 + 1000 + 1000 + 10)


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
    figure = beside_measured(bill_of_a_learner)(steps=16, batch=16, neurons=500)
    by_part = {trace.name: list(trace.x) for trace in figure.data}
    assert by_part["weights"] == pytest.approx([4 * (785 * 500 + 501 * 10) / 1e6] * 2)
    assert by_part["activity"][0] == pytest.approx(16 * 16 * (784 + 1000 + 10) * 4 / 1e6)
    assert by_part["activity"][1] > 0.99 * by_part["activity"][0]


SMALL = {"T": 4, "N": 1024}


def lanes(figure):
    return list(figure.layout.yaxis.ticktext)


def notes(figure):
    return " ".join(note.text for note in figure.layout.annotations).replace("<br>", " ")


def test_every_record_of_this_benchmark_can_be_chosen():
    known = [*records.names("neurons"), *records.names("published")]
    usable = {name for name in known if any("neurons" in row for row in records.load(name)["rows"])}
    assert set(race.RECORDED.values()) == usable


@pytest.mark.skipif(cpp_compiler() is None, reason="no C++ compiler")
def test_an_engine_races_against_the_loop():
    figure = race.figure(**SMALL, engine="cpp", device=race.CPU)
    assert lanes(figure) == ["eager", "cpp", "floor"]
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


def test_what_is_random_stays_as_it_was():
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    race.figure(**SMALL, engine="eager")
    assert torch.equal(torch.rand(4), expected)


@pytest.mark.parametrize("name", race.RECORDED)
def test_a_record_is_shown_with_its_origin(name):
    figure = race.figure(T=16, N=4096, device=name)
    origin = records.load(race.RECORDED[name])["provenance"]
    assert (origin.get("hardware") or origin["device"]["name"]) in notes(figure)
    assert name in figure.layout.title.text


def test_the_nearest_recorded_size_is_said_to_be_that():
    exact = race.figure(T=32, N=65536, device="AMD EPYC, 1 thread (record)")
    assert "nearest" not in notes(exact) and "T = 32, N = 65,536" in exact.layout.title.text
    other = race.figure(T=4, N=65536, device="AMD EPYC, 1 thread (record)")
    assert "nearest" in notes(other) and "T = 8, N = 65,536" in other.layout.title.text
    published = race.figure(T=8, N=65536, dtype="bfloat16", device="RTX 2080 Ti (published)")
    assert "nearest" in notes(published) and "1,048,576, float32" in published.layout.title.text
    row = next(
        r for r in records.load("spikingjelly_rtx2080ti")["rows"] if r["steps"] == 8 and r["mode"] == "inference"
    )
    assert row["seconds"] * 1e3 in [x for trace in published.data for x in trace.x]


@pytest.mark.parametrize(
    ("name", "value"), [("T", 5), ("N", -1), ("dtype", "int8"), ("engine", "warp"), ("device", "a dream")]
)
def test_settings_that_do_not_exist(name, value):
    with pytest.raises(ValueError, match=rf"{name} must be one of .*, but it is {value!r}"):
        race.figure(**{name: value})


def test_the_verdict():
    figure = memory_calculator.figure("dense", layers=1, width=64, T=25, batch=2048, saving=NOTHING, gigabytes=1)
    drawn = Setting("dense", 1, 512, 25, 2048, "float32", NOTHING)
    assert sum(float(trace.x[0]) for trace in figure.data) == pytest.approx(sum(memory_of(drawn)) / 1e9)
    assert figure.layout.title.text == f"Fits in 1 GB: room for up to {largest_batch(drawn, 1e9):,} samples"
    large = memory_calculator.figure("convolutional", layers=2, width=128, T=64, batch=2048, gigabytes=1)
    assert large.layout.title.text.startswith("Does not fit in 1 GB: room for up to")
    assert largest_batch(drawn, 1e3) == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param(name, value, marks=[pytest.mark.slow] if value == "block" else [])
        for name, value in dict.fromkeys(race.engine_race.trials())
    ],
)
def test_every_control_at_its_ends_and_middle(name, value):
    figure = race.figure(**race.engine_race.first() | {"engine": "eager"} | {name: value})
    assert figure.layout.title.text and figure.layout.xaxis.title.text == "milliseconds"
    assert all(value > 0 and math.isfinite(value) for trace in figure.data for value in trace.x if value is not None)
    if name == "engine":
        assert value in lanes(figure)
