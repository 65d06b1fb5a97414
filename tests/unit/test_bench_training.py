"""`snnkit bench training` and `snnkit bench demo`: candidates, that results are compared, and what is shown."""

import copy
import json
import re

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from snnkit import encode, models, neuron, records, viz
from snnkit.bench import baselines, demo
from snnkit.bench import training_speed as training
from snnkit.bench.suite import by_case
from snnkit.bench.training_speed import UpdateRace, flops_of, layer_times, measure
from snnkit.bench.workloads import Candidate, Ours, Trainer, conv, dense, ours
from snnkit.cli import main
from snnkit.device import Precision
from snnkit.measure import ThroughputClock
from snnkit.nn import Sequential, is_static

CPU = torch.device("cpu")
PLAIN = Precision(CPU, None)
QUICK = ("--device", "cpu", "--quick", "--no-keep-memory")


class Twin(Ours):
    """Ours under the name of a library."""


@pytest.fixture(autouse=True)
def one_peer(monkeypatch):
    def twin(workload, device):
        if workload.equation in ("IF", "Leaky"):
            yield Candidate("Twin", "Twin", Twin("eager"), default=True)

    monkeypatch.setattr(baselines, "networks", twin)


def call(*arguments):
    return CliRunner().invoke(main, ["bench", *arguments])


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A record and what was printed."""
    patch = pytest.MonkeyPatch()
    patch.setattr(baselines, "networks", lambda w, d: [Candidate("Twin", "Twin", Twin("eager"), default=True)])
    path = tmp_path_factory.mktemp("here") / "r.json"
    result = call("training", *QUICK, "--out", str(path))
    patch.undo()
    assert result.exit_code == 0, result.output
    return path, result.output


# -- training --------------------------------------------------------------------------------------------------------


def test_it_prints_tables_and_ratios_and_writes_a_record(measured):
    path, printed = measured
    for words in (
        "conv (IF neurons), float32, width 4, T = 4, batch 8",
        "mlp (Leaky neurons), bfloat16, width 16, T = 25, batch 8",
        "GFLOP per update; matrix product:",
        "x floor",
        "conv (IF): samples/s over Twin's, best setting by best:",
        f"record: {path}",
    ):
        assert words in printed
    content = records.read(path)
    assert content["complete"] is True and content["kind"] == "training"
    cases = [(net, equation, dtype) for (net, equation, dtype, *_), _ in by_case(content["rows"], training.KEY)]
    assert cases[:4] == [
        ("conv", "IF", "float32"),
        ("conv", "IF", "bfloat16"),
        ("mlp", "Leaky", "float32"),
        ("mlp", "Leaky", "bfloat16"),
    ]
    names = [row["contestant"] for row in content["rows"][:4]]
    assert names == ["eager", "auto", "channels-last", "Twin"]
    assert content["rows"][0]["spikes_differ"] == 0 and content["rows"][0]["update_differs"] == 0
    assert len(content["matmuls"]) == len(cases)


def test_figures_of_a_row_agree(measured):
    for row in records.read(measured[0])["rows"]:
        assert row["samples_per_s"] == pytest.approx(row["batch"] / row["median_s"])
        assert row["over_floor"] == pytest.approx(row["median_s"] / row["floor_s"])
        assert row["p10_s"] <= row["median_s"] <= row["p90_s"] and row["first_s"] < row["ready_s"]
        assert row["peak_bytes"] > 4 * row["batch"] * 784  # on a CPU, too: weights, activity and gradients


def test_show_and_plot(measured, tmp_path):
    path, printed = measured
    result = call("show", str(path), "--plot", str(tmp_path / "p.png"))
    assert result.exit_code == 0, result.output
    assert printed.partition("\n\n")[2].partition("\n\nrecord:")[0] in result.output
    assert (tmp_path / "p.png").read_bytes()[:4] == b"\x89PNG"


def test_ratios_are_those_of_the_best_settings():
    def row(library, dtype, rate, default=False):
        return {
            "net": "conv", "equation": "IF", "library": library, "dtype": dtype, "samples_per_s": rate,
            "default": default,
        }  # fmt: skip

    rows = [
        row("snnkit", "float32", 30.0), row("snnkit", "float32", 60.0), row("snnkit", "bfloat16", 90.0),
        row("P", "float32", 10.0, default=True), row("P", "float32", 20.0), row("P", "bfloat16", 45.0, default=True),
    ]  # fmt: skip
    found = re.findall(r"([\d.]+) \(([^)]*)\)", training.ratios({"rows": rows}).partition(": samples")[2])
    assert found == [
        ("3.00", "float32"),
        ("2.00", "bfloat16"),
        ("2.00", "any dtype"),
        ("6.00", "over its default, float32"),
    ]
    assert training.ratios({"rows": rows[:3]}) == ""


class Wrong(Ours):
    def __call__(self, workload, precision):
        trainer = super().__call__(workload, precision)
        group = trainer.optimizer.param_groups[0]
        group["lr"] *= 1.5
        return trainer


class Deaf(Ours):
    def __call__(self, workload, precision):
        trainer = super().__call__(workload, precision)
        return Trainer(lambda: 1 - trainer.step(), trainer.parameters, trainer.optimizer)


class Refusing(Ours):
    def __call__(self, workload, precision):
        trainer = super().__call__(workload, precision)
        return Trainer(trainer.step, trainer.parameters, trainer.optimizer, lambda: "there is no graph here")


def broken(workload, precision):
    raise KeyError("a bug of theirs")


@pytest.mark.parametrize(
    "make, words",
    [
        (Wrong("eager"), "its update is 50.00% off"),
        (Deaf("eager"), "of its output spikes differ"),
        (Refusing("eager"), "there is no graph here"),
        (broken, "KeyError: 'a bug of theirs'"),
    ],
)
def test_who_computes_something_else_or_fails_is_not_timed(make, words):
    outcome = measure(dense("Leaky", 16, 8), PLAIN, [Candidate("X", "X", make)], 3)
    assert outcome.rows == [] and words in outcome.skipped[0]["reason"]


def test_a_bug_of_ours_is_raised():
    with pytest.raises(KeyError):
        measure(dense("Leaky", 16, 8), PLAIN, [Candidate("X", "snnkit", broken)], 3)


@pytest.mark.parametrize("workload", [conv(4, 8), *(dense(e, 16, 8) for e in ("Leaky", "LIF", "CubaLIF"))])
def test_the_networks_fire_and_learn_from_their_first_weights_on(workload):
    """Silent networks would compare as equal whatever they compute."""
    trainer = next(iter(ours(workload, CPU))).make(workload, PLAIN)
    before = [p.detach().clone() for p in trainer.parameters]
    out = trainer.step()
    assert out.shape == (workload.steps, 8, 10) and 0.01 < out.mean() < 0.9
    changes = [(p - b).norm() / b.norm().clamp_min(1e-3) for p, b in zip(trainer.parameters, before, strict=True)]
    assert all(change > 1e-5 for change in changes)


def test_operations_are_counted_by_hand():
    # conv net, per sample: conv 1 once (static), conv 2 and the linear layers in each of 4 steps; 2 per multiply-add.
    width, batch = 4, 8
    first = 28 * 28 * 9 * width
    second = 4 * 14 * 14 * 9 * width**2
    linear = 4 * (49 * width * 16 * width + 16 * width * 10)
    # Backward needs each twice; the first layer's only once, as nobody asks for the gradient of an image.
    assert flops_of(conv(width, batch), CPU) == batch * 2 * (2 * first + 3 * second + 3 * linear)
    assert flops_of(dense("Leaky", 16, 8), CPU) == 8 * 2 * (2 * 784 * 16 + 25 * 3 * 16 * 10)


def test_the_clock_takes_steps_in_a_row():
    clock, calls = ThroughputClock(CPU), []
    seconds, host = clock.seconds(lambda: calls.append(1), 7)
    assert len(calls) == 7 and 0 <= host <= seconds
    clock.least = 10
    clock.seconds(lambda: calls.append(1))
    assert len(calls) == 17


@pytest.mark.parametrize("library", ["spikingjelly", "snntorch", "norse"])
def test_peers_that_are_installed_compute_the_same_update(library, monkeypatch):
    pytest.importorskip(library)
    monkeypatch.undo()
    name = {"spikingjelly": "SpikingJelly", "snntorch": "snnTorch", "norse": "Norse"}[library]
    for workload in (conv(4, 8), *(dense(e, 16, 8) for e in ("Leaky", "LIF", "CubaLIF"))):
        mine = [c for c in baselines.networks(workload, CPU) if c.library == name and not c.compiles]
        outcome = measure(workload, PLAIN, mine, 3)
        assert outcome.skipped == [] and len(outcome.rows) == len(mine)


def test_settings_on_each_kind_of_device():
    on_cpu, on_cuda = ([c.name for c in ours(conv(4, 8), torch.device(kind))] for kind in ("cpu", "cuda"))
    assert not any("graphed" in name for name in on_cpu)
    assert "channels-last + compile + graphed" in on_cuda and "graphed" in on_cuda
    assert not any("channels-last" in c.name for c in ours(dense("Leaky", 16, 8), torch.device("cuda")))
    assert len(set(on_cuda)) == len(on_cuda)


def test_what_was_measured_before_an_interruption_is_in_the_record(tmp_path, monkeypatch):
    done = []

    plain = UpdateRace.measure

    def interrupted(case, repeats):
        if done:
            raise KeyboardInterrupt
        done.append(1)
        return plain(case, repeats)

    monkeypatch.setattr(UpdateRace, "measure", interrupted)
    path = tmp_path / "r.json"
    call("training", *QUICK, "--net", "mlp", "--out", str(path))
    content = records.read(path)
    assert content["complete"] is False and len(content["rows"]) == 3


@pytest.mark.parametrize(
    "arguments, says",
    [
        (("training", *QUICK, "--net", "rnn"), "rnn"),
        (("training", *QUICK, "--plot", "p.svg"), "--plot must end in .png or .html"),
        (("training", *QUICK, "--repeats", "2"), "--repeats"),
        (("demo", "--model", "nothing"), "--model must be one of all, mlp, ConvNet"),
        (("demo", "--plot", "p.svg"), "--plot must end in .png or .html"),
        (("demo", "--batch", "0"), "--batch"),
    ],
)
def test_wrong_usage_is_an_error(arguments, says):
    result = call(*arguments)
    assert result.exit_code == 2 and says in " ".join(result.output.split())


def test_a_record_must_be_complete(measured):
    content = json.loads(measured[0].read_text())
    for path, words in ((("rows", 0, "over_floor"), "over_floor"), (("matmuls", 0, "flops_per_s"), "flops_per_s")):
        damaged = copy.deepcopy(content)
        del damaged[path[0]][path[1]][path[2]]
        with pytest.raises(records.RecordError, match=rf"{path[0]}\[0\]\.{words} must be .*, but it is missing"):
            records.validate(damaged, "r.json")


# -- demo ------------------------------------------------------------------------------------------------------------


def test_every_model_for_images_is_shown():
    images = {name for name in models.__all__ if name == "mlp" or name.endswith("Net") or name.endswith("SNN")}
    assert {name for name in images if not name.startswith("Event")} | {"SpikingEmbedding"} == set(demo.demos())


@pytest.mark.parametrize("name", demo.demos())
def test_demos_run_and_train(name):
    one = demo.demos()[name]
    torch.manual_seed(0)
    model = one.make()
    assert isinstance(model, nn.Module)
    out = one.call(model, one.inputs(2))
    assert out.shape[1] == 2
    one.loss(out.float(), torch.tensor([1, 3])).backward()
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


DEMOS = demo.demos()


def small():
    """A demo of a tiny network, in place of the kit's."""
    mlp = DEMOS["mlp"]
    return {"tiny": demo.Demo("tiny", 25, lambda: models.mlp((784, 8, 10)), mlp.inputs, mlp.call, mlp.loss)}


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(demo, "demos", small)


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without CUDA")
def test_the_demo_without_a_gpu_says_what_it_cannot_measure_and_shows_records(tiny, tmp_path, monkeypatch):
    path = tmp_path / "d.json"
    arguments = ("demo", "--model", "all", "--batch", "2", "--batch", "1", "--repeats", "3", "--no-keep-memory")
    result = call(*arguments, "--out", str(path), "--plot", str(tmp_path / "d.png"))
    assert result.exit_code == 0, result.output
    assert "only the CPU was measured" in result.output and "tiny, 6,370 parameters, T = 25; samples/s" in result.output
    assert (tmp_path / "d.png").read_bytes()[:4] == b"\x89PNG"
    content = records.read(path)
    assert [(r["mode"], r["batch"], r["device"]) for r in content["rows"]] == [
        ("inference", 1, "cpu"), ("inference", 2, "cpu"), ("training", 1, "cpu"), ("training", 2, "cpu"),
    ]  # fmt: skip
    assert (
        call("show", str(path)).output.strip().endswith(result.output.partition("\n\ntiny")[2].split("\n\n")[0][-30:])
    )

    elsewhere = on_a_gpu(content)
    monkeypatch.setattr(records, "names", lambda kind=None: ["demo_some_gpu"])
    monkeypatch.setattr(records, "load", lambda name: elsewhere)
    shown = call(*arguments)
    assert "Measured elsewhere, record 'demo_some_gpu'" in shown.output and "Some GPU" in shown.output
    assert "GPU/CPU" in shown.output and "7.00" in shown.output


def on_a_gpu(content):
    """A record of the CPU as if a GPU had been there that was seven times as fast."""
    elsewhere = copy.deepcopy(content)
    elsewhere["provenance"]["device"] = {"type": "cuda", "name": "Some GPU"}
    elsewhere["rows"] += [r | {"device": "cuda", "samples_per_s": 7 * r["samples_per_s"]} for r in content["rows"]]
    return elsewhere


# -- figures ---------------------------------------------------------------------------------------------------------


def test_the_figure_of_training_has_a_bar_for_each_row_with_the_fastest_on_top(measured):
    content = records.read(measured[0])
    figure = viz.figures.training_rates(content, net="conv")
    rows = [row for row in content["rows"] if row["net"] == "conv"]
    cases = {row["equation"] for row in rows}
    assert sum(len(trace.x) for trace in figure.data) == len(rows) and len(cases) == 1
    bars = sorted((place, rate) for trace in figure.data for place, rate in zip(trace.y, trace.x, strict=True))
    assert [rate for _, rate in bars] == sorted(row["samples_per_s"] for row in rows)
    best = max(rows, key=lambda row: row["samples_per_s"])
    assert figure.layout.yaxis.ticktext[-1] == f"{best['contestant']}, {best['dtype']}"
    with pytest.raises(ValueError, match="no record has rows of the net 'rnn'"):
        viz.figures.training_rates(content, net="rnn")


# -- layer by layer


class CountingClock:
    """Runs what it is given, and takes every call for a second."""

    name = "counting"

    def seconds(self, function, calls=1):
        for _ in range(calls):
            function()
        return 1.0, 1.0


class Spy(torch.nn.Module):
    """Hands on its input, and notes what it saw, and whether its gradient was asked for."""

    def __init__(self):
        super().__init__()
        self.seen, self.backward = [], 0

    def forward(self, x):
        self.seen.append((tuple(x.shape), x.dtype, x.requires_grad))
        if x.requires_grad:
            x = x * 1
            x.register_hook(self._note)
        return x

    def _note(self, gradient):
        self.backward += 1


def test_a_time_for_each_layer_and_the_net_as_it_was():
    net = models.FashionConvNet(2, 4, size=8, engine="eager")
    before = {key: value.clone() for key, value in net.state_dict().items()}
    times = layer_times(net, encode.repeat(torch.rand(3, 1, 8, 8), 4), repeats=3)
    assert len(times) == len(net) and all(seconds > 0 for seconds in times)
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    assert net.training and all(p.grad is None for p in net.parameters())


def test_layers_get_the_input_that_they_have_in_the_net():
    first, second = Spy(), Spy()
    net = Sequential(first, torch.nn.Linear(3, 5), neuron.Leaky(0.9, engine="eager"), second)
    assert layer_times(net, torch.rand(4, 2, 3), repeats=3, clock=CountingClock()) == [1.0] * 4
    assert first.seen[-1] == ((8, 3), torch.float32, False) and first.backward == 0
    assert second.seen[-1] == ((8, 5), torch.float32, True) and second.backward > 3


def test_what_is_static_stays_static(monkeypatch):
    spy, given = Spy(), []
    both_ways = training._both_ways
    monkeypatch.setattr(
        training, "_both_ways", lambda layer, x, *rest, **more: given.append(x) or both_ways(layer, x, *rest, **more)
    )
    net = Sequential(torch.nn.Linear(3, 5), spy, neuron.Leaky(0.9, engine="eager"))
    layer_times(net, encode.repeat(torch.rand(2, 3), 4), repeats=3, clock=CountingClock())
    assert {shape for shape, _, _ in spy.seen} == {(2, 5)}
    assert [x.shape[0] for x in given] == [1, 1, 4] and is_static(given[2])


def test_under_autocast():
    spy, seen = Spy(), []
    net = Sequential(torch.nn.Linear(3, 5), spy)
    net[0].register_forward_hook(lambda module, args, out: seen.append(out.dtype))
    precision = Precision(torch.device("cpu"), torch.bfloat16)
    layer_times(net, torch.rand(4, 2, 3), precision=precision, repeats=3, clock=CountingClock())
    assert spy.seen[-1][1] == torch.bfloat16 and set(seen) == {torch.bfloat16} and len(seen) > 4


def test_what_is_refused():
    with pytest.raises(TypeError, match=r"net must be a snnkit\.nn\.Sequential"):
        layer_times(torch.nn.Linear(2, 2), torch.rand(1, 1, 2))
    with pytest.raises(ValueError, match="repeats"):
        layer_times(Sequential(torch.nn.Linear(2, 2)), torch.rand(1, 1, 2), repeats=2)
