"""The machine at hand: what it predicts from what was measured, and how it is judged. No test looks at real time."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from snnkit.hardware import roofline
from snnkit.hardware.roofline import Machine, Range, count, fitting, fitting_eager, fitting_engines, fitting_others
from snnkit.hardware.roofline.choosing import engines_of
from snnkit.hardware.roofline.curves import Curve
from snnkit.hardware.roofline.judging import Report, Row, judge
from snnkit.hardware.roofline.machine import Fused, Product
from snnkit.hardware.roofline.probes import Probe, Processor, Recipe
from snnkit.hardware.roofline.timings import less, scatter
from snnkit.hardware.roofline.unseen import Unseen, nets
from snnkit.loss import count_cross_entropy
from snnkit.neuron import LIF
from snnkit.nn import Sequential

T, B = 4, 3
CLASSES = ("product", "sum", "compare", "cast", "select", "divide", "costly")


def flat(seconds):
    """The same for every size that is met here."""
    return Curve.through([(1, Range.of(seconds)), (1e12, Range.of(seconds))])


def machine(**different):
    fused = Fused(Range.of(1e-2), Range.of(1e-3), flat(5e-4), flat(2e-4), flat(1e-5), flat(1e-4))
    fields = {
        "device": "a desk", "kind": "cpu", "threads": torch.get_num_threads(), "clock": "processor",
        "torch": torch.__version__,
        "overhead": dict.fromkeys(("call", "step", "forward", "backward", "function", "view", "module"), Range.of(0.0)),
        "surcharge": {"forward": flat(0.0), "backward": flat(0.0)},
        "elementwise": {f"{name} {how}": flat(1.0) for name in CLASSES for how in ("kept", "recycled")},
        "streams": {
            name: flat(0.0) for name in (
                "copy", "reduction", *(f"{n} {w}" for n in ("norm", "pool", "other") for w in ("forward", "backward"))
            )
        },
        "product": Product(Range.of(1e-9), {}, Range.of(0.0)),
        "convolution": dict.fromkeys(("forward", "backward"), Product(Range.of(1e-9), {}, Range.of(0.0))),
        "update": flat(0.0), "fused": {"cpp": {"forward": fused, "backward": fused}},
        "rate": {"bytes": Range(1e10, 2e10, 3e10), "flops": Range.of(1e11)},
    }  # fmt: skip
    return Machine(**(fields | different))


def net(engine="eager"):
    return Sequential(nn.Linear(5, 6), LIF(engine=engine), nn.Linear(6, 2), LIF(engine=engine))


def labels(count=B):
    return torch.zeros(count, dtype=torch.long)


@pytest.fixture(scope="module")
def work():
    return count(net(), torch.rand(T, B, 5), labels(), count_cross_entropy)


# Curves


def test_a_curve_goes_through_its_points_and_grows_beyond_them():
    curve = Curve.through([(100, Range.of(8.0)), (1, Range.of(2.0)), (10, Range(3.0, 4.0, 5.0))])
    assert curve.at(1) == Range.of(2.0) == curve.at(0.5) == curve.at(0)
    assert curve.at(10).value == pytest.approx(4.0) and curve.at(10).high == pytest.approx(5.0)
    assert curve.at(10**0.5).value == pytest.approx(8**0.5)
    assert curve.at(1000) == Range.of(80.0)
    assert Curve.from_json(json.loads(json.dumps(curve.to_json()))) == curve
    zero = Curve.through([(1, Range.of(0.0)), (100, Range.of(2.0))])
    assert zero.at(10).value == pytest.approx(1.0)


@pytest.mark.parametrize("sizes", [(), (0, 1), (1, 1)])
def test_a_curve_that_can_not_be(sizes):
    with pytest.raises(ValueError, match="points must have rising sizes"):
        Curve.through([(size, Range.of(1.0)) for size in sizes])


def test_a_product_with_a_small_side_is_slower():
    n = Curve.through([(1, Range.of(8.0)), (100, Range.of(1.0))])
    product = Product(Range.of(1e-9), {"n": n}, Range.of(1e-6))
    assert product.seconds(1e6, (50, 200, 50)).value == pytest.approx(1e-3 + 1e-6)
    assert product.seconds(1e6, (50, 1, 50)).value == pytest.approx(8e-3 + 1e-6)


# Predictions


def test_every_operation_is_paid_for_once(work):
    said = machine().predict(work)
    in_layers = [op for op in work.operations if op.kind == "elementwise" or op.name == "_to_copy"]
    in_layers = [op for op in in_layers if op.layer is not None]
    assert said.parts["neurons"].value == len(in_layers) > 50
    assert said.parts["matmul"].value == pytest.approx(work.flops * 1e-9)
    assert said.parts["overhead"] == said.parts["optimizer"] == Range.of(0.0)
    assert said.seconds.value == pytest.approx(sum(part.value for part in said.parts.values()))
    assert said.samples == B and said.mark == "predicted" and "none of them a network" in said.source


@pytest.mark.parametrize(
    ("field", "value", "part", "times"),
    [
        ("overhead", {"call": Range.of(1.0)}, "overhead", lambda w: len(w.layers)),
        ("overhead", {"step": Range.of(1.0)}, "overhead", lambda w: T * len(w.layers)),
        ("overhead", {"function": Range.of(1.0)}, "neurons", lambda w: sum(op.function for op in w.operations)),
        ("overhead", {"view": Range.of(1.0)}, "overhead",
         lambda w: sum(op.kind == "view" and op.layer is None and op.phase != "optimizer" for op in w.operations)),
        ("surcharge", {"forward": flat(1.0)}, "neurons",
         lambda w: sum(op.phase == "forward" and (op.kind == "elementwise" or op.name == "_to_copy")
                       for op in w.operations if op.layer is not None)),
        ("update", None, "optimizer", lambda w: sum(op.phase == "optimizer" for op in w.running)),
        ("streams", {"copy": flat(1.0)}, "neurons",
         lambda w: sum(op.kind == "copy" and op.layer is not None and op.name != "_to_copy" for op in w.running)),
    ],
)  # fmt: skip
def test_each_measured_number_counts_as_often_as_it_happens(work, field, value, part, times):
    plain = machine()
    changed = flat(1.0) if value is None else {**getattr(plain, field), **value}
    more = replace(plain, **{field: changed}).predict(work).parts[part].value - plain.predict(work).parts[part].value
    assert more == pytest.approx(times(work)) and times(work) > 0


def test_a_compiled_engine_pays_its_calls_steps_and_operations(work):
    said = machine().predict(work, "cpp")
    kernels = list(work.fused().of("fused"))
    each = 1e-2 + 1e-3 * T + 5e-4
    wanted = sum(each + 1e-5 * op.simple / op.numel + 1e-4 * op.costly / op.numel for op in kernels)
    assert len(kernels) == 4 and said.parts["neurons"].value == pytest.approx(wanted)
    assert said.parts["matmul"] == machine().predict(work).parts["matmul"]
    assert said.mode == "cpp"


def test_an_image_that_stays_has_a_price_of_its_own():
    still = count(net(), torch.rand(B, 5).expand(T, B, 5), labels(), count_cross_entropy)
    moving = count(net(), torch.rand(T, B, 5), labels(), count_cross_entropy)
    prices = [machine().predict(work, "cpp").parts["neurons"].value for work in (moving, still)]
    assert prices[0] - prices[1] == pytest.approx(2 * (5e-4 - 2e-4), rel=1e-3)  # the first layer, forward and backward


def test_ranges_are_those_of_the_measurements(work):
    noisy = machine(product=Product(Range(1e-9, 2e-9, 4e-9), {}, Range.of(0.0)))
    said = noisy.predict(work).parts["matmul"]
    assert said.low == pytest.approx(said.value / 2) and said.high == pytest.approx(2 * said.value)


def test_which_engine_auto_takes():
    def counted(steps):
        x = torch.empty(steps, 2, 600, device="meta")
        net = Sequential(nn.Linear(600, 600), LIF(), nn.Linear(600, 2), LIF())
        return count(net, x, labels(2), count_cross_entropy)

    # Small layers, too, in a run of training; but not if there are few steps to win on.
    assert engines_of(counted(64), "auto", "cpu", ("cpp",)) == {0: "cpp", 1: "cpp"}
    short = counted(3)
    assert engines_of(short, "auto", "cpu", ("cpp",)) == {0: "eager", 1: "eager"}
    assert engines_of(counted(64), "auto", "cpu", ()) == {0: "eager", 1: "eager"}
    assert engines_of(short, "cpp", "cpu", ("cpp",)) == {0: "cpp", 1: "cpp"}
    said = {engine: machine().predict(short, engine).parts["neurons"].value for engine in ("eager", "auto", "cpp")}
    assert said["cpp"] < said["auto"] == said["eager"]


def test_an_engine_that_was_not_fitted(work):
    with pytest.raises(ValueError, match="engine must be one of 'eager', 'auto', 'cpp', which were fitted"):
        machine().predict(work, "triton")


def test_a_machine_is_a_file_and_an_entry_of_the_catalogue(work):
    here = machine()
    again = Machine.from_json(json.loads(json.dumps(here.to_json())))
    assert again == here and again.predict(work) == here.predict(work)
    chip = here.chip()
    assert chip.name == "this machine" and chip.kind == "cpu" and chip.value("memory_bandwidth") == 2e10
    assert {figure.mark for figure in chip.figures.values()} == {"measured"}
    assert here.launch.value == 1.0 and here.launch.mark == "measured"


# Fitting


class Still:
    """A clock by which everything takes a millisecond; nothing is run."""

    name = "processor"

    def seconds(self, function, calls=1):
        assert callable(function)
        return 1e-3, 1e-3


def test_fitting_measures_all_that_a_prediction_needs(work, monkeypatch):
    monkeypatch.setattr(fitting, "keep_freed_memory", lambda: True)
    monkeypatch.setattr(fitting_eager, "_SIZES", (1, 64))
    monkeypatch.setattr(fitting_eager, "_LAYER_SIZES", (8,))
    monkeypatch.setattr(fitting_engines, "_SIZES", (2, 8))
    monkeypatch.setattr(fitting_others, "_UPDATE_SIZES", (1, 8))
    said = []
    here = fitting.fit("cpu", engines=("cpp", "block"), repeats=3, clock=Still(), say=said.append)
    assert here.engines == ("eager", "auto", "cpp", "block") and len(said) == 5
    for engine in here.engines:
        assert here.predict(work, engine).seconds.value > 0
    assert Machine.from_json(here.to_json()) == here
    assert here.rate["flops"].value == pytest.approx(2 * 2048 * 512 * 512 / 1e-3)
    assert here.chip().value("memory_bandwidth") == pytest.approx(8 * 64 / (1e-3 / 16))


def test_what_can_not_be_fitted():
    with pytest.raises(ValueError, match="device must be 'cpu' or a CUDA device, but it is 'meta'"):
        roofline.fit("meta")
    with pytest.raises(ValueError, match="engines must be of 'cpp', 'block' on a cpu device, but there is 'triton'"):
        roofline.fit("cpu", engines=("triton",))
    with pytest.raises(TypeError, match="engines must be several names"):
        roofline.fit("cpu", engines="cpp")
    for nowhere in ("gpu", "", None, 3.5):
        with pytest.raises(ValueError, match="device must be 'cpu' or a CUDA device"):
            roofline.fit(nowhere)  # type: ignore[arg-type]


def test_fixed_costs_are_found_in_times_that_they_explain():
    """Times made of known costs give the costs back."""
    elementwise = {f"{name} {how}": flat(1e-6) for name in CLASSES for how in ("kept", "recycled")}
    truth = {"call": 5e-5, "step": 7e-6, "forward": 2e-6, "backward": 4e-6, "function": 9e-6}

    def timed(contestants):
        found = {}
        for name in contestants:
            if name in ("view", "module"):
                found[name] = Range.of(64e-6)
                continue
            steps, i = map(int, name.split())
            recipe = fitting_eager._TINY[i]
            inside = {w: fitting_eager._inside(Probe(recipe), steps, 1, w) for w in ("forward", "backward")}
            seconds = truth["call"] + steps * truth["step"]
            for way, operations in inside.items():
                seconds += len(operations) * (1e-6 + truth[way])
            found[name] = Range.of(seconds + truth["function"] * steps * recipe.spikes)
        return found

    found = fitting_eager.fixed_costs(torch.device("cpu"), timed, elementwise)
    assert {name: found[name].value for name in truth} == pytest.approx(truth, rel=1e-3)
    assert found["view"].value == pytest.approx(1e-6) and found["module"].value == pytest.approx(3e-6)


def test_costs_of_an_engine_are_found_in_times_that_they_explain():
    call, step, base, simple, costly = 1e-4, 1e-6, 3e-9, 2e-10, 5e-9

    def timed(contestants):
        found = {}
        for name in contestants:
            way, kind, number = name.split()
            neurons, steps = (1, int(number)) if kind == "tiny" else (int(number), fitting_engines._STEPS)
            recipe = fitting_engines._RECIPES.get(kind, fitting_engines._LIGHT)
            seconds = 0.0
            for phase in ("forward",) if way == "forward" else ("forward", "backward"):
                op = fitting_engines._kernel(recipe, phase, neurons)
                each = (base / 3 if kind == "static" else base) if kind != "tiny" else 0.0
                seconds += call + step * steps + each * neurons * steps
                seconds += (op.simple * simple + op.costly * costly) if kind != "tiny" else 0.0
            found[name] = Range.of(seconds)
        return found

    for fused in fitting_engines.engine_costs("cpp", torch.device("cpu"), timed).values():
        assert fused.call.value == pytest.approx(call) and fused.step.value == pytest.approx(step)
        size = 2**13 * fitting_engines._STEPS
        for name, each in {"base": base, "static": base / 3, "simple": simple, "costly": costly}.items():
            assert getattr(fused, name).at(size).value == pytest.approx(each * size, rel=1e-3), name


def test_scatter_and_what_is_left():
    left = less(Range(9, 10, 12), Range(3, 4, 5))
    assert (left.low, left.value, left.high) == pytest.approx((5.4, 6, 7.2))
    assert less(Range.of(1.0), Range.of(2.0)).value == pytest.approx(0.05)
    assert scatter([Range(0.5, 1, 2), Range(0.9, 1, 1.1), Range(0.8, 1, 1.5)]) == Range(0.8, 1.0, 1.5)


def test_the_clock_of_the_processor_counts_work_only():
    took, _ = Processor().seconds(lambda: sum(range(10**5)))
    slept, _ = Processor().seconds(lambda: torch.zeros(()) if __import__("time").sleep(0.05) else None)
    assert took > 0 and slept < 0.04


def test_a_probe_has_as_many_operations_as_its_recipe():
    from snnkit.hardware.roofline.counting import count_layer

    for recipe in (Recipe(products=3), Recipe(differences=5), Recipe(spikes=2), Recipe(costly=4)):
        found = count_layer(Probe(recipe), T, 10)
        forward = [op for op in found.running if op.phase == "forward"]
        names = [op.name for op in forward]
        assert names.count("mul") == T * (1 + recipe.products + recipe.costly)
        assert names.count("sub") == T * (recipe.differences + recipe.spikes)
        assert names.count("exp") == T * recipe.costly
        assert sum(op.function for op in found.operations) == T * recipe.spikes
        out, _ = Probe(recipe)(torch.rand(T, 10))
        assert out.shape == (T, 10) and torch.isfinite(out).all()


# Judging


def test_nets_are_many_and_different_and_none_is_used_to_fit():
    every = nets()
    assert len(every) >= 8 and len({net.name for net in every}) == len(every)
    kinds = {type(module).__name__ for net in every for module in net.make("eager").modules()}
    assert kinds >= {
        "Leaky",
        "LIF",
        "CubaLIF",
        "ALIF",
        "PLIF",
        "IF",
        "Izhikevich",
        "Recurrent",
        "Conv2d",
        "BatchNorm2d",
    }
    small = next(net for net in every if net.name == "64-100-10 Leaky").work()
    assert small.name == "64-100-10 Leaky" and small.samples == 32 and small.parameters == 64 * 100 + 100 + 1000 + 10
    folder = Path(fitting.__file__).parent
    for module in ("fitting", "fitting_eager", "fitting_engines", "fitting_others", "probes", "timings", "machine"):
        text = (folder / f"{module}.py").read_text()
        assert "unseen" not in text and "judging" not in text and "models" not in text, module


@pytest.mark.parametrize("name", ["64-100-10 Leaky", "128-256-10 recurrent LIF", "conv CubaLIF, 8 × 8"])
def test_a_net_learns_in_its_step(name):
    net = next(net for net in nets() if net.name == name)
    made = []
    watched = replace(net, make=lambda engine: made.append(net.make(engine)) or made[-1])
    step = watched.step("eager", torch.device("cpu"))
    before = [p.detach().clone() for p in made[0].parameters()]
    step()
    assert all(not torch.equal(a, b) for a, b in zip(before, made[0].parameters(), strict=True))


def small(name, said):
    def make(engine):
        said.append(f"make {name} {engine}")
        return net(engine)

    def batch(generator):
        return torch.rand(T, B, 5, generator=generator), labels()

    return Unseen(name, make, batch, count_cross_entropy)


def test_all_is_predicted_before_anything_is_measured(monkeypatch):
    import snnkit.hardware.roofline.judging as judging

    monkeypatch.setattr(judging, "keep_freed_memory", lambda: True)
    said = []
    unseen = [small("one", said), small("two", said)]
    report = judge(machine(), engines=("eager",), unseen=unseen, repeats=3, clock=Still(), say=said.append)
    assert said == ["make one eager", "make two eager", "one", "make one eager", "two", "make two eager"]
    assert [row.net for row in report.rows] == ["one", "two"]
    expected = machine().predict(unseen[0].work()).seconds.value
    assert report.rows[0].predicted.value == expected and report.rows[0].measured == Range.of(1e-3)
    assert report.rows[0].error == pytest.approx(expected / 1e-3 - 1)
    assert report.drift == pytest.approx(1e-3 / (2 * 2048 * 512 * 512 * 1e-9))


def test_the_report():
    def row(net, engine, predicted, measured):
        return Row(net, engine, 8, Range.of(predicted), Range.of(measured))

    rows = (
        row("a", "eager", 1.1, 1.0),
        row("b", "eager", 0.5, 1.0),
        row("c", "eager", 1.0, 1.25),
        row("a", "cpp", 2.0, 1.0),
    )
    report = Report("a desk", "2.13", "processor", 1.02, rows)
    assert report.engines == ("eager", "cpp")
    assert report.errors("eager") == pytest.approx([0.1, -0.5, -0.2])
    assert report.median_error("eager") == pytest.approx(0.2) and report.median_error("cpp") == 1.0
    assert "eager: median error 20%, largest 50%, of 3 networks" in str(report) and "drift 1.02" in str(report)
    assert Report.from_json(json.loads(json.dumps(report.to_json()))) == report
    with pytest.raises(ValueError, match="engine must be one of 'eager', 'cpp'"):
        report.errors("block")


def test_what_can_not_be_judged():
    with pytest.raises(ValueError, match="unseen must hold at least one network"):
        judge(machine(), unseen=[])
    with pytest.raises(ValueError, match="fitted with 64 thread"):
        judge(machine(threads=64), unseen=[small("one", [])])
    with pytest.raises(ValueError, match="engine must be one of"):
        judge(machine(), engines=("triton",), unseen=[small("one", [])])
    with pytest.raises(TypeError, match="machine must be a Machine"):
        judge("cpu")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="engines must be several names"):
        judge(machine(), engines="eager")
    with pytest.raises(ValueError, match="engines must hold at least one"):
        judge(machine(), engines=())
    with pytest.raises(TypeError, match="work must be a Work"):
        machine().predict("784-1000-10")  # type: ignore[arg-type]
