"""`snnkit bench training` and `snnkit bench demo`: candidates, that results are compared, and what is shown."""

import contextlib
import copy
import dataclasses

import pytest
import torch
from click.testing import CliRunner

from snnkit import encode, models, records
from snnkit.device import Precision
from snnkit.lab import bench
from snnkit.lab.bench import baselines, demo, training
from snnkit.lab.bench.suite import by_case
from snnkit.lab.bench.training import PRECISIONS, flops_of, measure
from snnkit.lab.bench.workloads import Candidate, Ours, Trainer, conv, dense, ours
from snnkit.lab.cli import main

CPU = torch.device("cpu")
PLAIN, BF16 = Precision(CPU, None), torch.bfloat16
QUICK = ("--device", "cpu", "--quick")


class Twin(Ours):
    """Ours under the name of a library."""


@pytest.fixture(autouse=True)
def one_peer(monkeypatch):
    def twin(workload):
        if workload.equation in ("IF", "Leaky"):
            yield Candidate("Twin", "Twin", Twin("eager"), default=True)

    monkeypatch.setattr(baselines, "networks", twin)


def call(*arguments):
    return CliRunner().invoke(main, ["bench", *arguments])


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A record and what was printed."""
    patch = pytest.MonkeyPatch()
    patch.setattr(baselines, "networks", lambda workload: [Candidate("Twin", "Twin", Twin("eager"), default=True)])
    patch.setitem(training._MATMUL_SIZE, "cpu", 64)  # a large one in bfloat16 takes seconds on many CPUs
    path = tmp_path_factory.mktemp("here") / "r.json"
    result = call("training", *QUICK, "--out", str(path))
    patch.undo()
    assert result.exit_code == 0, result.output
    return path, result.output


@pytest.mark.slow
def test_it_prints_tables_and_ratios_and_writes_a_record(measured):
    path, printed = measured
    for words in ("mlp (Leaky neurons), bfloat16, width 16, T = 25, batch 8", "conv (IF), float32: ", str(path)):
        assert words in printed
    content = records.read(path)
    assert content["complete"] is True and content["kind"] == "training"
    cases = [tuple(rows[0][key] for key in training.KEY[:3]) for rows in by_case(content["rows"], training.KEY)]
    assert cases[:3] == [("conv", "IF", "float32"), ("conv", "IF", "bfloat16"), ("mlp", "Leaky", "float32")]
    names = [row["contestant"] for row in content["rows"][:4]]
    assert names == ["eager", "auto", "contiguous", "Twin"]
    assert content["rows"][0]["spikes_differ"] == 0 and content["rows"][0]["update_differs"] == 0
    assert len(content["matmuls"]) == len(cases)


@pytest.mark.slow
def test_figures_of_a_row_agree(measured):
    for row in records.read(measured[0])["rows"]:
        assert row["samples_per_s"] == pytest.approx(row["batch"] / row["median_s"])
        assert row["over_floor"] == pytest.approx(row["median_s"] / row["floor_s"])
        assert row["p10_s"] <= row["median_s"] <= row["p90_s"] and row["first_s"] < row["ready_s"]
        assert row["peak_bytes"] > 4 * row["batch"] * 784  # on a CPU, too: weights, activity and gradients


def test_ratios_are_those_of_the_best_settings():
    def row(library, dtype, rate):
        case = {"net": "conv", "equation": "IF", "dtype": dtype, "width": 4, "steps": 4, "batch": 8}
        return case | {"library": library, "samples_per_s": rate}

    rows = [row("snnkit", "float32", 30.0), row("snnkit", "float32", 60.0), row("snnkit", "bfloat16", 90.0)]
    assert training.ratios({"rows": rows}) == ""
    rows += [row("P", "float32", 10.0), row("P", "float32", 20.0), row("P", "bfloat16", 45.0)]
    assert training.ratios({"rows": rows}).splitlines()[1:] == [
        "conv (IF), float32: 3.00 times the samples/s of P",
        "conv (IF), bfloat16: 2.00 times the samples/s of P",
    ]


def altered(change):
    return lambda workload, precision: change(Ours("eager")(workload, precision))


def wrong(trainer):
    trainer.optimizer.param_groups[0]["lr"] *= 1.5
    return trainer


def deaf(trainer):
    return Trainer(lambda: 1 - trainer.step(), trainer.parameters, trainer.optimizer)


def refusing(trainer):
    return Trainer(trainer.step, trainer.parameters, trainer.optimizer, lambda: "there is no graph here")


def broken(workload, precision):
    raise KeyError("a bug of theirs")


@pytest.mark.parametrize(
    "make, words",
    [
        (altered(wrong), "its update is 50.00% off"),
        (altered(deaf), "of its output spikes differ"),
        (altered(refusing), "there is no graph here"),
        (broken, "KeyError: 'a bug of theirs'"),
    ],
)
def test_who_computes_something_else_or_fails_is_not_timed(make, words):
    outcome = measure(dense("Leaky", 16, 8), PLAIN, [Candidate("X", "X", make)], 3)
    assert outcome.rows == [] and words in outcome.skipped[0]["reason"]


def test_a_bug_of_ours_does_not_end_the_run_but_is_raised_at_its_end(monkeypatch, tmp_path):
    right = next(iter(ours(dense("Leaky", 16, 8), CPU)))
    monkeypatch.setattr(training, "ours", lambda *_: [right, Candidate("X", "snnkit", broken)])
    outcome = measure(dense("Leaky", 16, 8), PLAIN, training.ours(), 3)
    assert [row["contestant"] for row in outcome.rows] == [right.name]
    assert outcome.skipped[0]["reason"] == "KeyError: 'a bug of theirs'" and isinstance(outcome.defects[0], KeyError)
    arguments = training.Arguments("cpu", ("mlp",), 4, 16, 8, PRECISIONS, False, False, 3)
    with pytest.raises(KeyError, match="a bug of theirs"):
        training.benchmark(arguments, lambda text: None, tmp_path / "r.json")
    record = records.read(tmp_path / "r.json")
    assert record["complete"] and {row["dtype"] for row in record["rows"]} == {"float32", "bfloat16"}
    assert {skip["contestant"] for skip in record["skipped"]} == {"X"}


def test_a_case_that_fails_as_a_whole_does_not_end_the_run(monkeypatch):
    def fails(*arguments, **named):
        raise RuntimeError("no clock")

    monkeypatch.setattr(training.suite, "race", fails)
    lines = []
    with pytest.raises(RuntimeError, match="no clock"):
        training.benchmark(training.Arguments("cpu", ("mlp",), 4, 16, 8, PRECISIONS, False, False, 3), lines.append)
    assert sum("not timed: all" in line and "no clock" in line for line in lines) == len(PRECISIONS)


def test_after_the_time_no_other_candidate_is_prepared():
    workload = dense("Leaky", 16, 8)
    race = training.UpdateRace(workload, PLAIN, [c for c in ours(workload, CPU) if not c.compiles])
    race.ends = -1.0
    outcome = race.measure(3)
    assert [row["contestant"] for row in outcome.rows] == ["eager"]
    assert [skip["reason"] for skip in outcome.skipped] == ["no time was left for it"]


def test_of_the_conv_net_more_may_differ_than_of_a_dense_one():
    """Where rounding moves spikes of convolutions; a dense net in float32 is compared closely."""

    def off(share):
        def make(workload, precision):
            trainer = Ours("eager")(workload, precision)
            before = workload.weights()

            def step():
                out = trainer.step()
                with torch.no_grad():
                    for p, w in zip(trainer.parameters, before, strict=True):
                        p.add_((p - w) * share)
                return out

            return Trainer(step, trainer.parameters, trainer.optimizer)

        return Candidate("X", "X", make)

    kept = [bool(measure(net, PLAIN, [off(0.5)], 3).rows) for net in (conv(4, 8), dense("Leaky", 16, 8))]
    assert kept == [True, False]
    assert not measure(conv(4, 8), PLAIN, [off(0.9)], 3).rows


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


@pytest.mark.parametrize("library", ["spikingjelly", "snntorch", "norse"])
def test_peers_that_are_installed_compute_the_same_update(library, monkeypatch):
    pytest.importorskip(library)
    monkeypatch.undo()
    name = {"spikingjelly": "SpikingJelly", "snntorch": "snnTorch", "norse": "Norse"}[library]
    for workload in (conv(4, 8), *(dense(e, 16, 8) for e in ("Leaky", "LIF", "CubaLIF"))):
        mine = [c for c in baselines.networks(workload) if c.library == name and not c.compiles and c.suits(PLAIN)]
        outcome = measure(workload, PLAIN, mine, 3)
        assert outcome.skipped == [] and len(outcome.rows) == len(mine)


def test_settings_on_each_kind_of_device():
    on_cpu, on_cuda = ([c.name for c in ours(conv(4, 8), torch.device(kind))] for kind in ("cpu", "cuda"))
    assert not any("graphed" in name for name in on_cpu)
    assert "contiguous + compile + graphed" in on_cuda and "graphed" in on_cuda
    assert not any("contiguous" in c.name for c in ours(dense("Leaky", 16, 8), torch.device("cuda")))
    assert len(set(on_cuda)) == len(on_cuda)


def test_every_model_for_images_is_shown():
    images = {name for name in models.__all__ if name == "mlp" or name.endswith("Net") or name.endswith("SNN")}
    assert {name for name in images if not name.startswith("Event")} | {"SpikingEmbedding"} == set(demo.DEMOS)


@pytest.mark.parametrize("name", demo.DEMOS)
def test_demos_run_and_train(name):
    one = demo.DEMOS[name]
    torch.manual_seed(0)
    model = one.make()
    out = one.call(model, one.inputs(2))
    assert out.shape[1] == 2
    one.loss(out.float(), torch.tensor([1, 3])).backward()
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without CUDA")
def test_the_demo_measures_and_compares_devices(tmp_path, monkeypatch):
    mlp = demo.DEMOS["mlp"]
    monkeypatch.setattr(demo, "DEMOS", {"tiny": dataclasses.replace(mlp, make=lambda: models.mlp((784, 8, 10)))})
    path = tmp_path / "d.json"
    arguments = ("demo", "--model", "all", "--batch", "2", "--batch", "1", "--repeats", "3")
    result = call(*arguments, "--out", str(path), "--plot", str(tmp_path / "d.png"))
    assert result.exit_code == 0, result.output
    assert "tiny, 6,370 parameters, T = 25; samples/s" in result.output and "GPU/CPU" not in result.output
    assert (tmp_path / "d.png").read_bytes()[:4] == b"\x89PNG"
    content = records.read(path)
    assert [(r["mode"], r["batch"], r["device"]) for r in content["rows"]] == [
        ("inference", 1, "cpu"), ("inference", 2, "cpu"), ("training", 1, "cpu"), ("training", 2, "cpu"),
    ]  # fmt: skip
    records.write(path, content | {"rows": content["rows"][:2]})  # as of `--mode inference`
    shown = call("show", str(path), "--plot", str(tmp_path / "d.html"))
    assert shown.exit_code == 0, shown.output
    assert "Inference: samples per second" in (tmp_path / "d.html").read_text()
    content["rows"] += [r | {"device": "cuda", "samples_per_s": 7 * r["samples_per_s"]} for r in content["rows"]]
    assert demo.tables(content).count(" 7.00") == 4 and "GPU/CPU" in demo.tables(content)


def test_times_of_layers_are_by_kind_and_leave_the_weights_alone():
    net = models.FashionConvNet(2, 4)
    before = copy.deepcopy([p.detach() for p in net.parameters()])
    for x in (encode.repeat(torch.rand(3, 1, 28, 28), 2), torch.rand(2, 3, 1, 28, 28)):
        for amp in (False, True):
            times = bench.layer_times(net, x, amp=amp, repeats=3)
            assert list(times) == ["Conv2d", "BatchNorm2d", "IF", "MaxPool2d", "Flatten", "Linear"]
            assert all(seconds > 0 for seconds in times.values())
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
    assert all(p.grad is None for p in net.parameters())


class Device:
    """What PyTorch would have of a GPU: streams, and a graph that runs again what it saw."""

    def __init__(self):
        self.usual, self.now, self.seen = object(), None, []
        self.stream = lambda stream: contextlib.nullcontext()
        self.set_stream = lambda stream: self.seen.append(stream)
        self.current_stream = lambda: self
        self.wait_stream = lambda stream: None
        self.Stream, self.CUDAGraph = (lambda: self), (lambda: self)

    @contextlib.contextmanager
    def graph(self, graph):
        yield

    def replay(self):
        self.seen.append("replay")


def test_a_peer_is_recorded_once_and_then_replayed(monkeypatch):
    device, steps = Device(), []
    monkeypatch.setattr(torch, "cuda", device)
    run = baselines.replayed(lambda: steps.append(1) or torch.ones(()))
    assert run() == 1 and run() == 1
    assert len(steps) == 3 + 1 and device.seen.count("replay") == 2

    def fails():
        steps.append(1)
        if len(steps) == 4:
            raise RuntimeError("operation not permitted when stream is capturing")
        return torch.ones(())

    device.seen.clear()
    steps.clear()
    with pytest.raises(RuntimeError, match="capturing"):
        baselines.replayed(fails)()
    assert device.seen == [device]  # the usual stream is set again


def test_graphs_and_low_precision_kernels_of_peers_are_for_gpus(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(baselines, "imported", lambda library: object())
    cuda = torch.device("cuda")
    for net in (conv(4, 8), dense("LIF", 16, 8), dense("Leaky", 16, 8)):
        every = list(baselines.networks(net))
        names = {
            p: [c.name for c in every if c.suits(p)] for p in (PLAIN, Precision(cuda, None), Precision(cuda, BF16))
        }
        graphs, low = (
            [sum(words in name for name in some) for some in names.values()] for words in ("graph", "bfloat16")
        )
        theirs = net.equation != "Leaky"
        assert graphs == [0, 1, 1 + theirs] and low == [0, 0, 2 * theirs]
        assert all(c.make.graphed == ("CUDA graph" in c.name) and c.make.low == ("bfloat16" in c.name) for c in every)
