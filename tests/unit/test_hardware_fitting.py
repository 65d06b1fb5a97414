"""The cost model of the machine at hand: what it is fitted to, predicts, and how it is validated. Nothing is timed."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch import nn

from snnkit.lab.hardware import roofline
from snnkit.lab.hardware.chips import Figure
from snnkit.lab.hardware.roofline import HoldoutNet, Machine, Range, count, fitting
from snnkit.lab.hardware.roofline.fitting import Report, Row, fit_prices, units_of, validate
from snnkit.loss import count_cross_entropy
from snnkit.neuron import LIF
from snnkit.nn import Sequential

T, B = 4, 3


def machine(**different):
    rate = Figure(1e11, "FLOP/s", "measured", "here")
    fields = {
        "device": "a desk", "kind": "cpu", "threads": torch.get_num_threads(), "fused": ("cpp",), "prices": {},
        "spread": Range(0.5, 1.0, 2.0), "figures": {"fp32_flops": rate},
    }  # fmt: skip
    return Machine(**(fields | different))


def net(engine="eager"):
    return Sequential(nn.Linear(5, 6), LIF(engine=engine), nn.Linear(6, 2), LIF(engine=engine))


def labels(count=B):
    return torch.zeros(count, dtype=torch.long)


@pytest.fixture(scope="module")
def work():
    return count(net(), torch.rand(T, B, 5), labels(), count_cross_entropy)


class Still:
    """A clock by which everything takes a millisecond; nothing is run."""

    name = "processor"

    def seconds(self, function, calls=1):
        assert callable(function)
        return 1e-3, 1e-3


def test_every_running_operation_is_counted_once(work):
    units, moved = units_of(work), sum(op.bytes for op in work.running)
    assert sum(amount for price, amount in units.items() if "launches" in price) == work.launches
    assert units["layer calls"] == 2 and units["layer steps"] == 2 * T
    assert units["matmul flops"] == work.flops
    assert sum(amount for price, amount in units.items() if price.endswith("bytes")) == moved
    assert units["casts"] == 2 * T


def test_a_compiled_engine_pays_calls_steps_and_operations(work):
    units, kernels = units_of(work, "cpp"), list(work.fused().of("fused"))
    assert len(kernels) == 4 and units["cpp calls"] == 4 and units["cpp steps"] == 4 * T
    assert units["cpp bytes"] == sum(op.bytes for op in kernels)
    assert units["cpp simple"] == sum(op.simple for op in kernels) > 0
    assert units["layer calls"] == 0 and units["cpp static"] == 0
    still = count(net(), torch.rand(B, 5).expand(T, B, 5), labels(), count_cross_entropy)
    assert units_of(still, "cpp")["cpp static"] == 2 * T * B * 6


def test_a_prediction_is_the_sum_of_prices_with_the_spread_of_the_fit(work):
    said = machine(prices={"matmul flops": 1e-9, "layer steps": 1e-3, "cpp steps": 1e-4}).predict(work)
    assert said.parts["matmul flops"] == Range(0.5, 1.0, 2.0) * (work.flops * 1e-9)
    assert said.parts["layer steps"].value == pytest.approx(2 * T * 1e-3)
    assert said.seconds.value == pytest.approx(sum(part.value for part in said.parts.values()))
    assert said.samples == B and "none of them a network" in said.source
    cpp = machine(prices={"cpp steps": 1e-4}).predict(work, "cpp")
    assert cpp.seconds.value == pytest.approx(4 * T * 1e-4) and cpp.mode == "cpp"


def test_prices_are_recovered_from_times_that_they_explain():
    truth = {"launches": 2e-6, "bytes": 1e-10, "flops": 0.0}
    units = [
        Counter(launches=launches, bytes=size, flops=size if launches == 3 else 0)
        for launches in (1, 3, 30) for size in (10, 10**5, 10**7)
    ]  # fmt: skip
    seconds = [sum(truth[price] * amount for price, amount in one.items()) for one in units]
    prices, spread = fit_prices(units, seconds)
    assert prices == pytest.approx(truth, rel=1e-4, abs=1e-15)
    assert spread.low == pytest.approx(1, abs=1e-6) and spread.high == pytest.approx(1, abs=1e-6)
    _, wide = fit_prices(units, [took * (1 + i // 6) for i, took in enumerate(seconds)])
    assert wide.low < 0.95 and wide.high > 1.05


def test_fitting_measures_all_that_a_prediction_needs_and_no_network(work, monkeypatch):
    for held_out in ("holdout_nets", "HoldoutNet", "ConvNet", "FashionConvNet"):
        monkeypatch.delattr(fitting, held_out)
    monkeypatch.setattr(fitting, "_SHAPES", ((2, 1), (4, 8), (2, 64), (3, 2), (5, 2), (2, 3)))
    monkeypatch.setattr(fitting, "_NEURONS", fitting._NEURONS[2:3])
    monkeypatch.setattr(fitting, "_PRODUCTS", ((1, 1, 1), (8, 4, 2)))
    monkeypatch.setattr(fitting, "_CONVOLUTIONS", ((1, 1, 1, 1), (2, 3, 4, 5)))
    monkeypatch.setattr(fitting, "_IMAGES", (256, 2048))
    monkeypatch.setattr(fitting, "clock_of", lambda device: Still())
    here = fitting.fit("cpu", repeats=3)
    assert here.fused == ("cpp",)
    for engine in ("eager", "cpp"):
        missing = {price for price, amount in units_of(work, engine).items() if amount} - set(here.prices)
        assert not missing - {"views"} and here.predict(work, engine).seconds.value > 0
    assert here.figures["fp32_flops"].value == pytest.approx(2 * 1024**3 / 1e-3)
    assert here.figures["memory_bandwidth"].value == pytest.approx(8 * 2**23 / 1e-3)
    assert here.figures["launch"].value == 1e-3 and {f.mark for f in here.figures.values()} == {"measured"}


def test_holdout_nets_differ():
    nets = roofline.holdout_nets()
    assert len(nets) >= 8 and len({net.name for net in nets}) == len(nets)
    kinds = {type(module).__name__ for net in nets for module in net.make("eager").modules()}
    assert kinds >= {"Leaky", "LIF", "CubaLIF", "ALIF", "PLIF", "IF", "Izhikevich", "Recurrent", "Conv2d"}
    small = next(net for net in nets if net.name == "64-100-10 Leaky").work()
    assert small.samples == 32 and small.parameters == 64 * 100 + 100 + 1000 + 10


@pytest.mark.parametrize("name", ["64-100-10 Leaky", "128-256-10 recurrent LIF", "conv CubaLIF, 8 × 8"])
def test_a_net_learns_in_its_step(name):
    holdout = next(net for net in roofline.holdout_nets() if net.name == name)
    made = holdout.make("eager")
    before = [p.detach().clone() for p in made.parameters()]
    replace(holdout, make=lambda engine: made).step("eager", torch.device("cpu"))()
    assert all(not torch.equal(a, b) for a, b in zip(before, made.parameters(), strict=True))


def small(name, said):
    def make(engine):
        said.append(f"make {name} {engine}")
        return Sequential(nn.Linear(5, 6), LIF(engine=engine), nn.Linear(6, 10), LIF(engine=engine))

    return HoldoutNet(name, make, (T, B, 5))


def test_all_is_predicted_before_anything_is_measured(monkeypatch):
    monkeypatch.setattr(fitting, "clock_of", lambda device: Still())
    said = []
    nets = [small("one", said), small("two", said)]
    here = machine(prices={"layer steps": 1e-3}, fused=())
    report = validate(here, nets=nets, repeats=3)
    assert said == ["make one eager", "make two eager"] * 2
    expected = here.predict(nets[0].work()).seconds.value
    assert [row.net for row in report.rows] == ["one", "two"] and report.rows[0].predicted.value == expected
    assert report.rows[0].measured == Range.of(1e-3) and report.rows[0].error == pytest.approx(expected / 1e-3 - 1)
    assert report.drift == pytest.approx(1e11 / (2 * 1024**3 / 1e-3))


def test_the_report_states_the_error():
    def row(net, engine, predicted, measured):
        return Row(net, engine, 8, Range.of(predicted), Range.of(measured))

    eager = [row("a", "eager", 1.1, 1.0), row("b", "eager", 0.5, 1.0), row("c", "eager", 1.0, 1.25)]
    report = Report("a desk", 1.02, (*eager, row("a", "cpp", 2.0, 1.0)))
    assert [row.error for row in eager] == pytest.approx([0.1, -0.5, -0.2])
    assert "eager: median error 20%, largest 50%, of 3 networks" in str(report) and "drift 1.02" in str(report)
    assert "cpp: median error 100%, largest 100%, of 1 networks" in str(report)
