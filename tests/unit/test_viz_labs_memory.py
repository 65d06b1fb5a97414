"""The memory calculator: its formula agrees with the estimates of ``snnkit.device``."""

import pytest
import torch

from snnkit import models, nn
from snnkit.device.layers import layers_of, predicted_held
from snnkit.device.plan import Settings
from snnkit.engine.missing import missing_compiler
from snnkit.neuron import IF, Neuron
from snnkit.viz.labs import beside_measured
from snnkit.viz.labs import memory_calculator as lab
from snnkit.viz.labs.memory_explorer import AGAIN, NOTHING, OVER_TIME, SAVINGS, Setting, largest_batch, memory_of

DENSE = Setting("dense", 1, 1000, 25, 128, "float32", NOTHING)
CONV = Setting("convolutional", 3, 16, 16, 32, "float32", NOTHING)


def test_the_memory_of_784_1000_10():
    memory = memory_of(DENSE)
    count = 784 * 1000 + 1000 + 1000 * 10 + 10
    assert memory.weights == memory.gradients == 4 * count
    assert memory.optimizer == 8 * count
    # The inputs of both Linear layers and of both neurons.
    assert memory.activity == 4 * 25 * 128 * (784 + 1000 + 1000 + 10)


@pytest.mark.parametrize("of", [DENSE, CONV], ids=["dense", "convolutional"])
def test_activity_grows_with_time_and_batch_and_the_model_does_not(of):
    one, longer, more = (
        memory_of(of),
        memory_of(of._replace(steps=2 * of.steps)),
        memory_of(of._replace(batch=2 * of.batch)),
    )
    assert one.model == longer.model == more.model
    assert more.activity == pytest.approx(2 * one.activity, rel=1e-3)
    assert longer.activity == pytest.approx(2 * one.activity, rel=0.05)


@pytest.mark.parametrize("of", [DENSE, CONV], ids=["dense", "convolutional"])
def test_bfloat16_narrows_the_activity_and_not_the_model(of):
    wide, narrow = memory_of(of), memory_of(of._replace(numbers="bfloat16"))
    assert narrow.model == wide.model
    assert 0.4 * wide.activity < narrow.activity < 0.8 * wide.activity


@pytest.mark.parametrize("of", [DENSE._replace(layers=3), CONV], ids=["dense", "convolutional"])
def test_what_is_saved(of):
    held = {saving: memory_of(of._replace(saving=saving)).activity for saving in SAVINGS}
    assert held[AGAIN] < 0.8 * held[NOTHING]
    assert held[OVER_TIME] < 0.5 * held[NOTHING]


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
@pytest.mark.parametrize("saving", SAVINGS)
@pytest.mark.parametrize("numbers", ["float32", "bfloat16"])
@pytest.mark.parametrize("of", [DENSE._replace(width=40, steps=7, batch=3), CONV._replace(width=4, steps=5, batch=2)])
def test_the_formula_agrees_with_the_estimates_of_the_device(of, numbers, saving):
    of = of._replace(numbers=numbers, saving=saving)
    shape = (of.steps, of.batch, *((784,) if of.network == "dense" else (1, 28, 28)))
    net = network(of)
    for module in net.modules():
        if isinstance(module, Neuron):
            module.engine = "cpp"
    plain = Settings(recompute=False, pool=False, pack=False)
    settings = {NOTHING: plain, AGAIN: Settings(), OVER_TIME: Settings(steps=3)}[saving]
    with torch.autocast("cpu", getattr(torch, numbers), enabled=numbers != "float32"):
        held = predicted_held(net, settings, layers_of(net, shape), steps=of.steps)
    assert sum(p.nbytes for p in net.parameters()) == memory_of(of).weights
    assert memory_of(of).activity == pytest.approx(held, abs=4 * of.layers + 8)  # a state at rest is one number


def test_a_model_that_is_too_large_has_no_batch():
    assert largest_batch(DENSE, memory_of(DENSE).model) == 0


def totals(figure):
    return [sum(float(trace.x[i]) for trace in figure.data) for i in range(len(figure.data[0].x))]


def test_the_verdict():
    figure = lab.figure("dense", layers=1, width=64, T=25, batch=2048, saving=NOTHING, gigabytes=1)
    drawn = Setting("dense", 1, 512, 25, 2048, "float32", NOTHING)
    assert totals(figure) == [pytest.approx(sum(memory_of(drawn)) / 1e6)]
    assert figure.layout.title.text == f"Fits in 1 GB: room for up to {largest_batch(drawn, 1e9):,} samples"
    large = lab.figure("convolutional", layers=2, width=128, T=64, batch=2048, gigabytes=1)
    assert large.layout.title.text.startswith("Does not fit in 1 GB: room for up to")


def test_the_limit_is_drawn_where_it_is_near_and_written_where_it_is_far():
    near = lab.figure("convolutional", layers=2, width=128, T=16, batch=256, gigabytes=8)
    assert near.layout.shapes and near.layout.xaxis.range[1] > near.layout.shapes[0].x0
    far = lab.figure("dense", layers=1, width=8, T=1, batch=8, gigabytes=141)
    assert not far.layout.shapes
    assert any("→" in note.text for note in far.layout.annotations)


def test_a_saving_stands_beside_what_it_saves_from():
    figure = lab.figure("convolutional", saving=OVER_TIME)
    plain, saved = totals(figure)
    assert saved < plain
    assert len(totals(lab.figure("convolutional", saving=NOTHING))) == 1


def bill_of_a_learner(weights, kept, steps, batch, copies=1, width=4):
    return 4 * weights * (2 + copies), steps * batch * kept * width


def test_a_formula_stands_beside_a_step_that_is_counted():
    # Enough neuron-steps for a compiled neuron, which keeps its input and no more.
    figure = beside_measured(bill_of_a_learner)(steps=16, batch=16, neurons=500)
    by_part = {trace.name: list(trace.x) for trace in figure.data}
    assert by_part["weights"] == pytest.approx([4 * (785 * 500 + 501 * 10) / 1e6] * 2)
    assert by_part["activity"][0] == pytest.approx(16 * 16 * (784 + 1000 + 10) * 4 / 1e6)
    assert by_part["activity"][1] > 0.99 * by_part["activity"][0]


def test_a_wrong_formula_is_seen_to_be_wrong():
    figure = beside_measured(lambda *sizes: (0, 0))()
    activity = next(trace for trace in figure.data if trace.name == "activity")
    assert activity.x[0] == 0 < activity.x[1]


def test_a_bill_that_is_no_function():
    with pytest.raises(TypeError, match="bill must be a function, but it is 3"):
        beside_measured(3)
