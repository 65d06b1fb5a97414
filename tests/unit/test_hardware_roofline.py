"""Chips with sources; the models of IPU and GPU: operations counted against real runs and by hand, ranges, refusals."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from snnkit import encode, models
from snnkit.lab.bench.neurons import bytes_per_neuron_step
from snnkit.lab.hardware import chips, roofline
from snnkit.lab.hardware.chips import FIGURES
from snnkit.lab.hardware.roofline import Assumptions, DoesNotFit, Operation, Range, Work, count
from snnkit.lab.tools.project import find
from snnkit.loss import count_cross_entropy, rate_mse
from snnkit.measure.traffic import Traffic
from snnkit.neuron import IF, LIF, CubaLIF
from snnkit.nn import Sequential

T, B = 6, 5


def net():
    return Sequential(nn.Linear(8, 7), LIF(engine="eager"), nn.Linear(7, 3), CubaLIF(engine="eager"))


def labels():
    return torch.zeros(B, dtype=torch.long)


@pytest.fixture(scope="module")
def work():
    return count(net(), torch.rand(T, B, 8), labels(), count_cross_entropy)


def one(**fields):
    """Work of a single operation."""
    usual = {"name": "add", "kind": "elementwise", "phase": "forward", "reads": 8, "writes": 4, "numel": 1}
    return Work("one", 1, (Operation(**(usual | fields)),), (), 10, 0, 2)


def real_step(x, network, loss, optimizer):
    def step():
        optimizer.zero_grad()
        loss(network(x)[0], labels()).backward()
        optimizer.step()

    step()
    with Traffic() as seen:
        step()
    return seen.kernels


@pytest.mark.parametrize("static", [False, True])
def test_what_is_counted_is_what_a_real_step_runs(static):
    network = net()
    x = encode.repeat(torch.rand(B, 8), T) if static else torch.rand(T, B, 8)
    optimizer = torch.optim.Adam(network.parameters(), foreach=False)
    found = count(network, x, labels(), count_cross_entropy)
    real = real_step(x, network, count_cross_entropy, optimizer)
    # A CPU also looks whether results are finite, and keeps the optimizer's number of steps: one number each.
    host = ("_local_scalar_dense", "aminmax", "_record_function_enter_new", "_record_function_exit")
    real = [k for k in real if k.name not in host and (max((*k.reads, *k.writes), default=0) > 4 or k.name == "sum")]
    ours = Counter(op.name for op in found.running if max(op.reads, op.writes) > 4 or op.name == "sum")
    theirs = Counter(k.name for k in real if not k.name.startswith("empty") and k.name != "new_empty")
    names = ("mul", "add", "sub", "ge", "reciprocal", "mm", "addmm", "stack", "lerp_", "addcdiv_")
    assert {n: ours[n] for n in names} == {n: theirs[n] for n in names} and ours["mul"] > 50
    in_bytes = {n: sum(op.bytes for op in found.running if op.name == n) for n in ("mul", "mm", "addmm", "stack")}
    assert in_bytes == {n: sum(k.bytes for k in real if k.name == n) for n in in_bytes}


def test_counting_by_hand():
    class Sum(IF):
        def step(self, x, state):
            return x * 2.0, type(state)(state.v + x)

    network = Sequential(nn.Linear(3, 4, bias=False), Sum())
    found = count(network, torch.rand(T, B, 3), labels(), lambda out, y: out.sum(), optimizer="sgd")
    forward = [op for op in found.running if op.phase == "forward" and op.layer == 0]
    state = {"new_full": 1}  # at rest
    assert Counter(op.name for op in forward) == {"mul": T, "add": T, "stack": 1, **state}
    backward = Counter(op.name for op in found.running if op.phase == "backward" and op.layer == 0)
    assert backward == {"mul": T, "stack": 1}
    assert found.flops == 2 * (2 * T * B * 3 * 4)  # x W and the gradient of W; x wants none
    assert found.parameters == 12 and found.samples == B and found.optimizer_states == 1
    assert found.inputs == T * B * 3 * 4 + B * 8
    layer = found.layers[0]
    assert (layer.name, layer.steps, layer.neurons, layer.static, layer.gradient) == ("Sum", T, B * 4, False, True)
    assert [op.flops for op in found.of("matmul")] == [2 * T * B * 3 * 4] * 2


def test_the_tutorial_is_as_its_source_says():
    plain, hoisted = roofline.tutorial(hoisted=False), roofline.tutorial()
    assert plain.parameters == 795_010 and plain.samples == 128
    first, second = 2 * 128 * 784 * 1000, 2 * 25 * 128 * 1000 * 10
    assert plain.flops == 25 * 2 * first + 3 * second == 10_227_200_000
    assert hoisted.flops == 2 * first + 3 * second
    assert plain.inputs == hoisted.inputs == 128 * 784 * 4 + 128 * 8
    assert 800 < hoisted.launches < 1000
    assert hoisted.layers[0].static and not plain.layers[0].static


def test_counting_leaves_the_net_and_torch_as_they_were(work):
    network = net().eval()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    count(network, torch.rand(T, B, 8), labels(), count_cross_entropy)
    assert all(torch.equal(before[key], value) for key, value in network.state_dict().items())
    assert not network.training and all(p.grad is None for p in network.parameters())
    assert network[1].engine == "eager" and not nn.modules.module._global_forward_hooks
    # A batch without memory counts as one with.
    meta = torch.empty(T, B, 8, device="meta")
    assert count(net(), meta, labels().to("meta"), count_cross_entropy).operations == work.operations


class Looks(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return x * self.weight if x.sum() > 0 else x


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"net": Looks(), "loss": rate_mse}, ValueError, "net and loss must not read values"),
        ({"net": Sequential(IF())}, ValueError, "net must have parameters"),
        ({"loss": lambda out, y: out.sum((0, 2))}, ValueError, r"loss must return one scalar .* shape \[5\]"),
        ({"loss": lambda out, y: out.detach().sum()}, ValueError, "loss must return one scalar that has a gradient"),
        ({"x": torch.rand(T, B, 9)}, ValueError, "must run on x and targets|x of Linear .* must be"),
        ({"targets": torch.zeros(B + 1).long()}, ValueError, r"\[6, 5, 8\] and \[6\]"),
    ],
)
def test_what_is_wrong_with_a_count_is_named(given, error, message):
    usual = {"net": net(), "x": torch.rand(T, B, 8), "targets": labels(), "loss": count_cross_entropy}
    with pytest.raises(error, match=message):
        count(**(usual | given))


def test_a_fused_layer_moves_the_least_that_it_can(work):
    fused = work.fused()
    kernels = list(fused.of("fused"))
    assert len(kernels) == 4 and fused.flops == work.flops and fused.parameters == work.parameters
    for number, neurons in enumerate((7 * B, 3 * B)):
        moved = sum(op.bytes for op in kernels if op.layer == number)
        assert moved == bytes_per_neuron_step("training", torch.float32) * T * neurons
    inside = [op for op in work.operations if op.layer == 0 and op.kind == "elementwise"]
    forward, backward = (next(op for op in kernels if op.layer == 0 and op.phase == p) for p in ("forward", "backward"))
    assert forward.simple == sum(op.simple for op in inside if op.phase == "forward")
    assert backward.simple == sum(op.simple for op in inside)
    assert fused.launches < work.launches / 4


def test_an_image_that_stays_is_read_once_and_its_gradient_is_summed():
    still = count(net(), encode.repeat(torch.rand(B, 8), T), labels(), count_cross_entropy).fused()
    forward, backward = (op for op in still.of("fused") if op.layer == 0)
    assert still.layers[0].static
    assert forward.reads == 7 * B * 4 and forward.writes == T * 7 * B * 4
    assert backward.writes == 7 * B * 4


def test_assumptions_are_named_and_ranged():
    free = Assumptions(launch=5e-6, ipu_sync_cycles=(10, 20, 40))
    assert free["launch"].range == Range(5e-6, 5e-6, 5e-6) and free["launch"].source == "given"
    assert free["ipu_sync_cycles"].range == Range(10, 20, 40)
    assert free.with_(launch=6e-6)["ipu_sync_cycles"].range == Range(10, 20, 40)
    for name, assumed in Assumptions().items():
        assert assumed.range.low < assumed.range.high and assumed.source, name


def test_elementwise_cycles_are_those_of_the_open_cost_model():
    big = one(reads=2 * 512_000, writes=512_000, numel=128_000)
    clock = chips.get("GC200").value("clock")
    assert roofline.ipu(big).parts["elementwise"].value * clock == pytest.approx(503)
    assert roofline.ipu(big, precision="float16").parts["elementwise"].value * clock == pytest.approx(431)
    small = roofline.ipu(one()).parts["elementwise"].value * clock
    assert small == pytest.approx(6 * (58 + 3) + 11)  # almost all of it is fixed


def test_what_an_ipu_spends_its_time_on():
    step = roofline.tutorial()
    free = Assumptions(ipu_matmul_efficiency=0.5, ipu_sync_cycles=100, ipu_host_seconds=1e-5, ipu_vertices=1.0)
    said = roofline.ipu(step, assumptions=free)
    gc200 = chips.get("GC200")
    assert said.parts["matmul"].value == pytest.approx(step.flops / gc200.value("fp32_flops") / 0.5)
    products = sum(1 for _ in step.of("matmul"))
    assert said.parts["sync"].value == pytest.approx(step.launches * 100 / gc200.value("clock")) and products == 5
    assert said.seconds.value == pytest.approx(sum(part.value for part in said.parts.values()))
    assert said.samples_per_s.value == pytest.approx(128 / said.seconds.value)
    assert "never run on an IPU" in said.source
    often = roofline.ipu(step, assumptions=free, device_iterations=10)
    assert said.parts["host"].value - often.parts["host"].value == pytest.approx(0.9e-5)
    assert roofline.ipu(step, "Bow", assumptions=free).seconds.value < said.seconds.value
    assert roofline.ipu(step, precision="float16", assumptions=free).seconds.value < said.seconds.value


def test_wider_assumptions_give_wider_ranges():
    step = roofline.tutorial()
    for name in [name for name in Assumptions() if name.startswith("ipu") and name != "ipu_always_live"]:
        default = Assumptions()[name].range
        fixed = roofline.ipu(step, assumptions=Assumptions(**{name: default.value})).seconds
        wide = roofline.ipu(step).seconds
        assert wide.high - wide.low > fixed.high - fixed.low and wide.value == fixed.value, name
    exact = Assumptions(**{name: a.range.value for name, a in Assumptions().items()})
    said = roofline.ipu(step, assumptions=exact).seconds
    assert said.low == said.value == said.high


def test_what_notebook_10_says_of_its_sliders():
    """The ratios in "What would have to be true?", with all four sliders at one of their ends."""
    text = find(Path(__file__).parent).source("16_ipu_cuda").read_text(encoding="utf-8")
    said = " ".join(line.removeprefix("#").strip() for line in text.splitlines())
    against = {"launch": 4e-6, "gpu_step_seconds": 0.02e-6, "ipu_sync_cycles": 500, "ipu_vertices": 1.5}
    ours = {"launch": 15e-6, "gpu_step_seconds": 0.6e-6, "ipu_sync_cycles": 50, "ipu_vertices": 0.25}
    free, works = roofline.Assumptions(), {batch: roofline.tutorial(batch) for batch in (16, 128, 1024)}

    def over(gpu, mode, batch, assumptions):
        both = (
            roofline.ipu(works[batch], "GC200", assumptions=assumptions),
            roofline.gpu(works[batch], gpu, mode=mode, assumptions=assumptions),
        )
        return (both[0].samples_per_s / both[1].samples_per_s).value

    worst = free.best_for("gpu").with_(**against)
    eager = {gpu: [f"{over(gpu, 'eager', b, worst):.1f}" for b in works] for gpu in ("A100", "H200")}
    assert "{}, {} and {} times at batches of 16, 128 and 1024".format(*eager["A100"]) in said
    assert "(of an H200: {}, {} and {})".format(*eager["H200"]) in said
    assert f"({over('H200', 'fused graph', 128, free.with_(**ours)):.2f} times)" in said
    best = [over("H200", "fused graph", batch, free.best_for("ipu").with_(**ours)) for batch in (128, 16)]
    assert f"{best[0]:.2f} times at 128, and {best[1]:.2f} at 16" in said and min(best) > 1
    for fewer, ahead in (
        ({"ipu_vertices"}, False),
        ({"gpu_step_seconds"}, False),
        ({"ipu_vertices", "gpu_step_seconds"}, True),
    ):
        some = free.with_(launch=8e-6, ipu_sync_cycles=150, gpu_step_seconds=0.1e-6, ipu_vertices=1.0)
        some = some.with_(**{name: ours[name] for name in fewer})
        assert (over("A100", "fused graph", 128, some) > 1) is ahead


def test_what_does_not_fit_on_chip():
    with pytest.raises(DoesNotFit, match=r"784-4096-10 with a batch of 3072 needs at least .* MB, but GC200 has"):
        roofline.ipu(roofline.tutorial(batch=3072, hidden=4096))
    roofline.ipu(roofline.tutorial(batch=3072, hidden=4096), precision="float16")  # half as many bytes


def test_a_step_of_small_kernels_takes_its_launches():
    step = roofline.tutorial(batch=1, hidden=8)
    said = roofline.gpu(step, "H200", assumptions=Assumptions(launch=(4e-6, 8e-6, 15e-6)))
    kernels = round(said.seconds.value / 8e-6)
    assert said.seconds.low == pytest.approx(kernels * 4e-6) and said.seconds.high == pytest.approx(kernels * 15e-6)
    optimizer = [op for op in step.running if op.phase == "optimizer"]
    merged = len({op.name for op in optimizer})
    assert kernels == step.launches - len(optimizer) + merged


def test_a_large_product_takes_its_arithmetic_and_a_large_sum_its_bytes():
    free = Assumptions(gpu_matmul_efficiency=0.5, gpu_bandwidth_efficiency=0.5)
    a100 = chips.get("A100")
    product = one(name="mm", kind="matmul", flops=10**13, numel=10**6)
    for precision, key in (("float32", "fp32_flops"), ("float16", "fp16_flops")):
        said = roofline.gpu(product, "A100", precision=precision, assumptions=free).seconds.value
        assert said == pytest.approx(10**13 / a100.value(key) / 0.5)
    addition = one(reads=2 * 10**9, writes=10**9, numel=25 * 10**7, simple=25 * 10**7)
    said = roofline.gpu(addition, "A100", assumptions=free).seconds.value
    assert said == pytest.approx(3e9 / 1555e9 / 0.5)
    half = roofline.gpu(addition, "A100", precision="float16", assumptions=free).seconds.value
    assert half == pytest.approx(said / 2)


@pytest.mark.parametrize("name", ["T4", "H200"])
def test_fewer_launches_are_never_slower(name):
    step = roofline.tutorial()
    eager, fused, graph, both = (roofline.gpu(step, name, mode=mode).seconds for mode in roofline.MODES)
    for end in ("low", "value", "high"):
        assert getattr(both, end) <= getattr(fused, end) < getattr(eager, end)
        assert getattr(both, end) < getattr(graph, end) < getattr(eager, end)


def test_a_cache_helps_small_operations_only():
    free = Assumptions(gpu_cache_gain=4.0, launch=1e-9)
    small, large = one(reads=2**21, writes=2**21, numel=2**19), one(reads=2**26, writes=2**26, numel=2**24)
    for work, gain in ((small, 4), (large, 1)):
        without = roofline.gpu(work, "A100", assumptions=Assumptions(gpu_cache_gain=1.0, launch=1e-9)).seconds.value
        assert without / roofline.gpu(work, "A100", assumptions=free).seconds.value == pytest.approx(gain)
    roofline.gpu(small, "RTX 2080 Ti", assumptions=free)  # of which no cache is known


def test_convolutions_are_counted():
    network = models.FashionConvNet(4, 8, size=8, engine="eager")
    found = count(network, torch.rand(2, B, 1, 8, 8), labels(), rate_mse, optimizer="sgd")
    first, second = 2 * 2 * B * 64 * 9 * 4, 2 * 2 * B * 16 * 36 * 4
    assert sum(op.flops for op in found.of("convolution") if op.phase == "forward") == first + second
    assert {op.kind for op in found.running} >= {"norm", "pool", "convolution", "matmul", "reduction"}


def test_what_can_not_be_predicted(work):
    for call, says in (
        (lambda: roofline.ipu(work, "A100"), "chip must be of kind ipu, but A100 is of kind gpu"),
        (lambda: roofline.gpu(work, "RTX 2080 Ti", precision="float16"), "fp16_flops of RTX 2080 Ti"),
        (lambda: roofline.gpu(replace(work, samples=0)), "must have operations and samples"),
        (lambda: Assumptions(launch=(3e-6, 2e-6, 4e-6)), "0 <= low <= value <= high < 1e38"),
        (lambda: chips.get("GC200").value("memory_bandwidth"), "memory_bandwidth of GC200"),
    ):
        with pytest.raises(ValueError, match=says):
            call()


CHIPS = ("GC200", "Bow", "T4", "V100", "RTX 2080 Ti", "A100", "A100 80GB", "L4", "H100", "H200")


def test_chips_side_by_side_and_assumptions_at_their_ends():
    text = chips.compare("GC200", "A100")
    assert re.search(r"tile bytes +639 kB \(derived, \d+\) +-\n", text) and "1.555 TB/s (secondary" in text
    assert text.count("glennklockwood.com/garden/processors/A100, after") == 1
    best = roofline.Assumptions().best_for("ipu")
    assert (best["ipu_sync_cycles"].range.value, best["gpu_cache_gain"].range.value) == (50, 1.0)
    worst = roofline.Assumptions().best_for("gpu")
    assert (worst["ipu_matmul_efficiency"].range.value, worst["launch"].range.value) == (0.1, 4e-6)


def test_the_chips_are_there():
    assert chips.names("ipu") == ("GC200", "Bow") and chips.names() == CHIPS == chips.names("ipu") + chips.names("gpu")
    assert chips.get(" gc200 ") is chips.get("GC200")


@pytest.mark.parametrize("name", CHIPS)
def test_every_figure_says_where_it_comes_from_and_how_far_to_trust_it(name):
    chip = chips.get(name)
    assert len(chip.figures) >= 4
    for key, figure in chip.figures.items():
        assert len(figure.source) > 5, key
        assert figure.mark != "measured", "nothing of the catalogue was measured here"
        assert figure.unit == FIGURES[key][1]
        assert figure.source in str(figure)


def test_derived_figures_give_what_is_sold_within_half_a_percent():
    gc200, bow = chips.get("GC200"), chips.get("Bow")
    assert gc200.value("fp16_flops") == pytest.approx(250e12, rel=0.005)
    assert gc200.value("fp32_flops") == pytest.approx(62.5e12, rel=0.005)
    assert bow.value("fp16_flops") == pytest.approx(350e12, rel=0.005)
    assert gc200.value("on_chip_bytes") == pytest.approx(900 * 2**20, rel=0.005)
    assert gc200.value("exchange_bandwidth") == pytest.approx(8e12, rel=0.03)
    assert bow.value("sram_bandwidth") > gc200.value("sram_bandwidth")


def test_counting_allocates_no_weights_and_has_a_bound_in_time():
    assert roofline.tutorial(batch=1, hidden=100_000_000, steps=1).name == "784-100000000-10"  # 314 GB of weights
    with pytest.raises(ValueError, match="steps must be at most 1000, but it is 25000"):
        roofline.tutorial(steps=25_000)
