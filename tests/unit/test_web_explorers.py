"""The explorers' JavaScript, run by node, computes what the kit computes, and their pages need nothing else."""

import itertools
import math
import re
import shutil
import subprocess
from functools import partial

import pytest
import torch

from snnkit import data, device, encode, loss, neuron, nn, surrogate
from snnkit.data.events import events_of, saccades
from snnkit.engine import missing_compiler
from snnkit.lab import pages, viz
from snnkit.lab.exercises.fused_neurons import least_seconds
from snnkit.lab.pages import web
from snnkit.lab.viz import explorers
from snnkit.lab.viz.explorers import equations
from snnkit.models import FashionConvNet, mlp
from snnkit.plasticity import PairSTDP

from ..javascript import run


def node(name, script, **given):
    """What ``script`` returns, with the exports of an explorer's modules and ``given`` in scope."""
    equations = ("explorers/equations.js",) if name in ("neuron", "surrogate") else ()
    return run(script, *SHARED, *equations, f"explorers/{name}.js", **given)


# Modules whose functions tests call beside the explorers'.
SHARED = ("bytes.js", "controls.js", "network.js", "explorers/explorer.js", "explorers/formats.js")

RUN = """
const x = normal(T * N, 3).map((one) => 1.6 + one);
const ran = {};
for (const [name, kind] of Object.entries(KINDS)) for (const way of ["hard", "soft"]) {
  const k = {tau: 12, threshold: 0.8, reset: way}, call = kind.call(k), found = EQUATIONS.neurons[name];
  const equation = found[way] ?? found.hard, scale = kind.scale?.(k) ?? 1, scaled = x.map((one) => scale * one);
  const {out, states} = recorded(equation, parametersOf(equation, {...call, ...kind.numbers?.(k)}), scaled, T, N);
  ran[`${name} ${way}`] = [codeOf(name, call), [...scaled], [...out], [...states[0]]];
}
return ran;
"""


def test_each_neuron_does_what_its_line_of_code_does():
    ran = node("neuron", RUN, T=120, N=6)
    assert {name.split()[0] for name in ran} <= set(equations.neurons())
    for name, (code, *arrays) in ran.items():
        x, out, v = (torch.tensor(array) for array in arrays)
        cell = eval(code, vars(neuron))
        spikes, state, first = [], cell.initial_state(torch.zeros(6)), []
        for now in x.view(120, 6):
            spike, state = cell.step(now, state)
            spikes.append(spike)
            first.append(state[0][0].item())
        # The line of code is rounded to four digits; then a spike may come a step earlier or later.
        assert first[:8] == pytest.approx(v[:8].tolist(), rel=5e-3, abs=2e-3), name
        assert abs(out.sum() - torch.stack(spikes).sum()) <= 0.05 * out.sum() + 2, name


def test_the_current_is_where_a_leaky_membrane_settles():
    script = """
    return Object.entries(KINDS).map(([name, kind]) => {
      const k = {tau: 25, threshold: 5, reset: "soft"}, {soft, hard} = EQUATIONS.neurons[name], equation = soft ?? hard;
      const numbers = {...kind.call(k), ...kind.numbers?.(k)}, scale = kind.scale?.(k) ?? 1;
      const x = new Float32Array(400).fill(0.7 * scale);
      return [name, recorded(equation, parametersOf(equation, numbers), x, 400, 1).states[0][399]];
    });"""
    ends = dict(node("neuron", script))
    for name in set(ends) - {"IF", "Izhikevich"}:
        assert ends[name] == pytest.approx(0.7, rel=1e-3), name


def test_rates_and_intervals_of_a_constant_current():
    # Not 300 steps / 13 spikes = 23.1: from rest, Euler's steps reach the threshold every 22 steps; equation: 21.97.
    script = """
    const lif = EQUATIONS.neurons.LIF.hard, p = parametersOf(lif, {tau: 20, v_threshold: 1, v_reset: 0});
    const {out} = recorded(lif, p, new Float32Array(900).fill(1.5), 300, 3), {when, interval} = firing(out, 300, 3);
    return [when.length, interval, rates(lif, p, [0.5, 1.5], {scale: 1, steps: 300, count: 3})];"""
    count, interval, rates = node("neuron", script)
    assert (count, interval, rates) == (39, 22.0, pytest.approx([0, 13 / 300]))


@pytest.mark.parametrize("detach", [True, False])
@pytest.mark.parametrize("shape", [surrogate.ATan(2.0), surrogate.FastSigmoid(8.0), surrogate.Triangle(1.5)])
def test_the_flow_of_the_gradient_is_that_of_a_network_of_the_kit(shape, detach):
    script = """
    const net = network(), layers = activity(net).slice(0, 3), {derivative} = EQUATIONS.surrogates[shape];
    const flow = gradientFlow(layers, net.direction, derivative, slope, detach);
    return [flow, layers.map((one) => [...one.weight]), [...net.x], [...net.direction], [...layers[2].u]];"""
    slope = shape.slope if isinstance(shape, surrogate.FastSigmoid) else shape.alpha
    flow, weights, x, direction, u = node("surrogate", script, shape=type(shape).__name__, slope=slope, detach=detach)
    leaf = torch.tensor(x, dtype=torch.float64).view(10, 16, 64).requires_grad_()
    modules = []
    for weight in weights:
        linear = torch.nn.Linear(64, 64, bias=False, dtype=torch.float64)
        linear.weight.data = torch.tensor(weight, dtype=torch.float64).view(64, 64)
        modules += [linear, neuron.LIF(2.0, 1.0, None, decay_input=False, detach_reset=detach, surrogate=shape)]
    out, _ = nn.Sequential(*modules)(leaf)
    (out[-1] * torch.tensor(direction, dtype=torch.float64).view(16, 64)).sum().backward()
    assert out.sum() == sum(value >= 0 for value in u)
    assert flow["byLayer"] == pytest.approx([one.weight.grad.norm().item() for one in modules[::2]], rel=1e-4)
    assert flow["byStep"] == pytest.approx(leaf.grad.flatten(1).norm(dim=1).tolist(), rel=1e-4)


def test_curves_of_surrogates():
    u = [-2.0, -0.3, 0.0, 0.01, 1.5]
    script = """
    return Object.entries(EQUATIONS.surrogates).map(([name, both]) =>
      [name, ...["primitive", "derivative"].map((which) => [...curveOf(both[which], 3, Float32Array.from(u))])]);"""
    for name, *values in node("surrogate", script, u=u):
        kind = getattr(surrogate, name)
        shape = kind() if name == "StraightThrough" else kind(3.0)
        for which, found in zip(("primitive", "derivative"), values, strict=True):
            assert found == pytest.approx(getattr(shape, which)(torch.tensor(u)).tolist(), rel=1e-5, abs=1e-6), name


@pytest.mark.parametrize("steps", [1, 7, 33])
def test_codes_are_those_of_the_kit(steps):
    x = torch.linspace(0, 1, 41)
    script = """
    const draws = [], draw = uniform(1), values = Float32Array.from(x);
    const found = Object.entries(CODES).map(([name, {write, read}]) => {
      const out = write(values, steps, () => (draws.push(draw()), draws.at(-1)));
      return [name, [...out], [...read(out, steps, values.length)]];
    });
    return [found, draws];"""
    found, draws = node("encoder", script, x=x.tolist(), steps=steps)
    drawn = torch.tensor(draws).view(steps, -1)
    expected = {
        "Poisson": (drawn < x).float(),
        "latency": encode.latency(x, steps, linear=True),
        "latency (logarithm)": encode.latency(x, steps),
        "LIF neuron": encode.constant_current_lif(4 * x, steps),
        "delta": encode.delta(encode.repeat(x, steps)),
        "direct": encode.repeat(x, steps),
    }
    assert [name for name, _, _ in found] == list(expected)
    for name, out, back in found:
        assert torch.equal(torch.tensor(out).view(steps, -1), expected[name]), name
        if name in ("direct", "Poisson"):
            assert back == pytest.approx(expected[name].mean(0).tolist(), abs=1e-6)
        if name == "latency" and steps > 1:
            assert back == pytest.approx(x.tolist(), abs=0.51 / (steps - 1))
        if name == "LIF neuron" and steps == 33:
            assert (torch.tensor(back) - x)[15:25].abs().max() < 0.08  # brighter, the period is a few steps only


@pytest.mark.parametrize("bound", ["hard", "soft", "none"])
def test_the_weight_follows_the_rule(bound):
    before, after = [10, 50, 52], [15, 42, 50]
    rule = PairSTDP(0.4, 0.3, 12e-3, 33e-3, bound=None if bound == "none" else bound)
    spikes = torch.zeros(2, 100, 1, 1, dtype=torch.float64)
    spikes[0, before], spikes[1, after] = 1, 1
    weight, state, rows = torch.full((1, 1), 0.7, dtype=torch.float64), None, []
    for pre, post in zip(*spikes, strict=True):
        weight, state = rule.step(pre, post, weight, state)
        rows.append([state.pre.item(), state.post.item(), weight.item()])
    script = """
    const rule = {aPlus: 0.4, aMinus: 0.3, tauPlus: 12, tauMinus: 33, bound};
    const {pre, post, weights} = course(rule, before, after, 0.7);
    const rows = [...pre].map((one, t) => [one, post[t], weights[t]]);
    return [rows, [-20, -1, 0, 3, 40].map((lag) => windowAt(rule, lag))];"""
    found, window = node("stdp", script, bound=bound, before=before, after=after)
    assert torch.allclose(torch.tensor(found), torch.tensor(rows), atol=1e-6)
    assert window == pytest.approx([rule.window(lag * 1e-3) for lag in (-20, -1, 0, 3, 40)], abs=1e-9)


def test_the_camera_sees_what_that_of_the_kit_sees():
    image = torch.rand(16, 16, generator=torch.Generator().manual_seed(0))
    path = saccades(24, 2.0)
    script = """
    const path = saccades(24, 2), events = eventsOf(image, 16, path, {threshold: 0.2});
    return [path, events.map((both) => both.map((one) => [...one]))];"""
    walked, events = node("events", script, image=image.flatten().tolist())
    assert torch.allclose(torch.tensor(walked), path, atol=1e-6)
    expected = events_of(image[None, None], path, threshold=0.2)[0].flatten(2)
    assert (torch.tensor(events) != expected).float().mean() < 1e-3  # changes within rounding of a threshold
    assert expected.mean() > 0.1


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16"])
def test_numbers_of_a_format_are_those_of_pytorch(kind):
    dtype, info = getattr(torch, kind), torch.finfo(getattr(torch, kind))
    bits = {2: torch.int16, 4: torch.int32}[dtype.itemsize]
    values = [digits * 10.0**power for power in range(-10, 7) for digits in (1, 1.0005, 1.234, 2.0625, 4.999, 9.99)]
    least = info.smallest_normal
    values += [2.0**power for power in range(-33, 20)] + [1 + 3 * info.eps / 2, -1.001, 0.0, least, 0.99 * least]
    script = """
    const format = FORMATS[kind];
    return [values.map((one) => nearestIn(one, format)).map((one) => (Number.isFinite(one) ? one : "inf")),
      windows.map(([low, high]) => [low, high, between(low, high, format)]), largestOf(format), smallestOf(format)];"""
    windows = [[v * (1 - share), v * (1 + share)] for v in values[:-5:4] for share in (0.001, 0.1)]
    nearest, found, *ends = node("formats", script, kind=kind, values=values, windows=windows)
    assert [float(one) for one in nearest] == torch.tensor(values, dtype=torch.float64).to(dtype).tolist()
    assert ends == [info.max, info.smallest_normal * info.eps]
    for low, high, window in found:
        first, last = torch.tensor([low, min(high, info.max)], dtype=torch.float64).to(dtype).view(bits).tolist()
        first, last = max(first - 1, 1), min(last + 1, torch.tensor(info.max, dtype=dtype).view(bits).item())
        numbers = torch.arange(first, last + 1).to(bits).view(dtype).double()  # their bits count positive numbers
        numbers = numbers[(numbers >= low) & (numbers <= high)].tolist()
        assert window == {"count": len(numbers), "numbers": numbers if len(numbers) <= 200 else None}


def within(lab, name, script, **given):
    """``node`` with ``data``, all that Python sends to the explorer."""
    sent = lab._script.removeprefix(web.bundle(f"explorers/{name}.js"))
    head = f"const snnkit = {{{name}Explorer: (place, data) => data}};\n{sent}\nconst data = start();"
    return node(name, f"{head}\n{script}", **given)


def test_a_network_decides_in_the_page_as_in_pytorch():
    net, encoder = pages.reader_network(), partial(encode.repeat, steps=20)
    images, labels = data.load("digits", "test")
    answers = loss.answers(net(encoder(data.to_unit(images)))[0])
    lab = explorers.decision(net, images, labels, answers, encode=encoder, classes=data.CLASSES["digits"])
    script = """
    const net = new Network(data.network, data.own), bytes = bytesOf(data.images), {length} = net.image;
    const look = (at) => {
      const picture = Float32Array.from(bytes.subarray(at * length, (at + 1) * length), (value) => value / 255);
      const {spikes, busy, votes, index} = decide(net, picture);
      return [spikes, busy, votes.map((one) => [...one]), index];
    };
    return [[...Array(8).keys(), ...data.wrong].map(look), data.wrong.map((at) => data.labels[at])];"""
    looks, right = within(lab, "decision", script)
    wrong = (answers != labels).nonzero().flatten()
    assert len(wrong) > 3 and right == labels[wrong].tolist()
    some = torch.cat([torch.arange(8), wrong])
    recording = net.record(encoder(data.to_unit(images[some])))
    assert sum(look[3] == answer for look, answer in zip(looks, answers[some], strict=True)) >= len(some) - 1
    spikes, votes = torch.zeros(20, len(some), 128), torch.tensor([look[2] for look in looks]).transpose(0, 1)
    for i, (fired, busy, _, _) in enumerate(looks):
        spikes[[step for step, _ in fired], i, [one for _, one in fired]] = 1
        counts = spikes[:, i].sum(0)
        assert busy == counts.argsort(descending=True, stable=True)[: int((counts > 0).sum())].tolist()
    # Sums in another order: a membrane within rounding of its threshold.
    assert (spikes != recording.layers[2]).float().mean() < 1e-3
    assert (votes != recording.out.cumsum(0)).float().mean() < 1e-2


@pytest.mark.parametrize(
    ("votes", "t", "leaders", "sure", "settled"),
    [
        ([0, 0, 0], 5, [], False, False),
        ([1, 4, 4], 20, [1, 2], False, False),
        ([0, 2, 1], 5, [1], False, False),
        ([0, 7, 1], 9, [1], True, False),
        ([0, 3, 1], 19, [1], False, True),
        ([0, 3, 2], 20, [1], False, True),
    ],
)
def test_an_answer_names_all_that_lead(votes, t, leaders, sure, settled):
    script = "return Network.prototype.answer.call({votes: Float64Array.from(votes), t, steps: 20, rates: true});"
    found = run(script, "network.js", votes=votes, t=t)
    assert (found["leaders"], found["sure"], found["settled"]) == (leaders, sure, settled)
    assert found["index"] == (leaders[0] if leaders else -1)
    most = torch.tensor(votes, dtype=torch.float64).softmax(0).max().item()
    assert found["share"] == pytest.approx(most) and sure == (len(leaders) == 1 and most >= 0.99)


def test_noise_of_a_picture_stays_within_it():
    script = """
    const grey = new Float32Array(4000).fill(0.5), found = [0.1, 1].map((noise) => [...noisy(grey, noise, 7)]);
    return [...found, [...noisy(grey, 0.1, 7)], [...noisy(grey, 0.1, 8)]];"""
    little, much, again, other = (torch.tensor(one) for one in node("decision", script))
    assert little.std() == pytest.approx(0.1, rel=0.05) and little.mean() == pytest.approx(0.5, abs=0.01)
    assert torch.equal(little, again) and not torch.equal(little, other)
    assert (much.min(), much.max()) == (0, 1)


def test_the_price_of_a_convolution_is_what_pytorch_counts():
    settings = list(itertools.product((8, 128, 256), (1, 4, 16), (1, 64), (True, False)))
    found = node("convolution", "return settings.map((one) => Object.values(flops(...one)));", settings=settings)
    for (channels, steps, inputs, once), (first, second, linear) in zip(settings, found, strict=True):
        with torch.device("meta"):
            net = FashionConvNet(channels, 16 * channels, in_channels=inputs)
            x = encode.repeat(torch.zeros(1, inputs, 28, 28), steps)
        costs = [layer.flops for layer in viz.layer_costs(net, x if once else x.contiguous())]
        assert [first, second, linear] == [costs[0], costs[4], sum(costs[5:])]


def test_a_scaled_gradient_is_lost_where_pytorch_rounds_it():
    most = torch.finfo(torch.float32).max
    edges = [2.0**-25, 2.0**-24, 2.0**-40, 65504.0, 65519.0, 65520.0, 65536.0, 2.0**-60, 2.0**-65, 1e38, most]
    values = {"edges": torch.tensor([*edges, -1.0, 0.0]), "drawn": torch.randn(3000).exp().pow(9) * 2.0**-30}
    settings = list(itertools.product(values, ("float16", "bfloat16"), range(0, 41, 5)))
    script = "return settings.map(([name, held, k]) => Object.values(rounded(data.values[name], held, k)));"
    found = within(explorers.gradient_scales(values), "scales", script, settings=settings)
    for (name, held, power), shares in zip(settings, found, strict=True):
        sizes = values[name][values[name] != 0].double() * 2.0**power
        narrow = sizes.to(getattr(torch, held))
        expected = [(narrow == 0).double().mean().item(), narrow.isinf().double().mean().item()]
        assert shares == pytest.approx(expected, abs=1e-9), (name, held, power)


def conv_and_images():
    torch.manual_seed(0)
    images, labels = data.load("digits", "test")
    net = FashionConvNet(8, 32, size=8).eval()
    for weight in net.parameters():
        weight.data *= 3  # so that most channels fire
    return net, images, labels, partial(encode.repeat, steps=4)


def test_feature_maps_are_the_spikes_of_the_busiest_channels():
    net, images, labels, encoder = conv_and_images()
    layers = {"conv 1": 2, "conv 2": 6}
    names = data.CLASSES["digits"]
    lab = explorers.feature_maps(net, images, labels, labels, encode=encoder, layers=layers, classes=names)
    script = """
    const of = (layer) => mapsOf({...layer, spikes: bitsOf(layer.spikes), shown: 6}, 9, data.steps);
    return Object.values(data.layers).map((layer) =>
      [layer.channels[9], of(layer).map((row) => row.map((one) => [...one]))]);"""
    recording = net.record(encoder(data.to_unit(images[9:10])))
    for i, (channels, maps) in zip(layers.values(), within(lab, "maps", script), strict=True):
        expected = recording.layers[i][:, 0]
        totals = expected.sum((0, 2, 3))
        assert totals[channels].tolist() == totals.sort(descending=True).values[:6].tolist()
        expected = torch.cat([expected, expected.mean(0, keepdim=True)])[:, channels].flatten(2)
        assert torch.equal(torch.tensor(maps), expected) and expected.sum() > 50


SAVINGS = ("nothing", "recompute and pack", "checkpoints in time")
DENSE = {"network": "dense", "layers": 1, "width": 40, "T": 7, "batch": 3}
CONV = {"network": "convolutional", "layers": 3, "width": 4, "T": 5, "batch": 2}


def net_of(network, layers, width, **_):
    """The network that the memory calculator means, with neurons of the engine that stores least."""
    if network == "dense":
        net = mlp((784, *[width] * layers, 10), flatten=False)
    else:
        modules, channels, side = [], 1, 28
        for i in range(layers):
            modules += [torch.nn.Conv2d(channels, width, 3, padding=1, bias=False), neuron.IF()]
            if i < 2:
                modules.append(torch.nn.MaxPool2d(2))
                side //= 2
            channels = width
        last = torch.nn.Linear(width * side * side, 10)
        net = nn.Sequential(*modules, torch.nn.Flatten(), last, neuron.IF())
    for module in net.modules():
        if isinstance(module, neuron.Neuron):
            module.engine = "cpp"
    return net


@pytest.mark.skipif(bool(missing_compiler("cpu")), reason="no compiler for the C++ engine")
@pytest.mark.parametrize("saving", SAVINGS)
@pytest.mark.parametrize("numbers", ["float32", "bfloat16"])
@pytest.mark.parametrize("of", [DENSE, CONV], ids=["dense", "convolutional"])
def test_the_memory_calculator_agrees_with_a_training_step(of, numbers, saving):
    net, dtype = net_of(**of), getattr(torch, numbers)
    narrow = torch.autocast("cpu", dtype, enabled=numbers != "float32")
    shape = (784,) if of["network"] == "dense" else (1, 28, 28)
    x = (torch.rand(of["T"], of["batch"], *shape) < 0.2).to(dtype)
    with narrow:
        out, state = net(x)  # compiles
    chunk = math.ceil(math.sqrt(of["T"])) if saving == "checkpoints in time" else None
    if saving != "nothing":
        device.optimize_memory_usage(net, steps=chunk)
    with narrow:
        step = device.training_step(net, x)
    # What is handed out is not held for backward.
    held = step.held + x.nbytes - out.nbytes - sum(part.nbytes for one in state if one for part in one)
    memory = node("memory", "return memoryOf(setting);", setting=of | {"numbers": numbers, "saving": saving})
    weights = sum(p.nbytes for p in net.parameters())
    assert [memory[part] for part in ("weights", "gradients", "optimizer")] == [weights, weights, 2 * weights]
    if chunk is None:
        assert memory["activity"] == pytest.approx(held, rel=0.02)
    elif numbers == "float32":  # one chunk at a time is in memory, beside what this takes
        assert held < memory["activity"] < step.peak + x.nbytes


@pytest.mark.parametrize("saving", SAVINGS)
@pytest.mark.parametrize("numbers", ["float32", "bfloat16"])
@pytest.mark.parametrize("of", [DENSE, CONV], ids=["dense", "convolutional"])
def test_the_largest_batch_fits_and_one_a_little_larger_does_not(of, numbers, saving):
    script = """
    const limit = 4 * totalOf(setting), most = largestBatch(setting, limit);
    const larger = [most, most + 2 + Math.floor(most / 50)];
    return [most, largestBatch(setting, 1e3), ...larger.map((batch) => totalOf({...setting, batch}) / limit)];"""
    setting = of | {"batch": 32, "numbers": numbers, "saving": saving}
    most, none, fits, too_much = node("memory", script, setting=setting)
    assert most > 32 and none == 0 and fits <= 1.001 and too_much > 1


def test_a_slider_with_one_place_stands_at_its_start():
    script = """
    const found = [], style = {setProperty: (_, value) => found.push(value)}, classList = {toggle() {}};
    const element = () => ({style, classList, append() {}, setAttribute() {}, addEventListener() {}});
    globalThis.document = {createElement: element};
    for (const max of [0, 4]) slider({label: "image", min: 0, max, step: 1, value: 3});
    return found;"""
    assert node("crossing", script) == ["0%", "75%"]


def test_nothing_is_faster_than_the_roof_allows():
    settings = [
        {"operations": count, "log2_neurons": size, "steps": 8, "launch_us": launch, "numbers": numbers}
        for count, size, launch in itertools.product((1, 30, 500), (8, 24), (0, 20))
        for numbers in ("float32", "bfloat16", "float32, uint8 spikes")
    ]
    limits = {"rate": 2e10, "bandwidth": 1e10}
    models = node("roof", "return settings.map((one) => modelOf(one, limits));", settings=settings, limits=limits)
    for setting, model in zip(settings, models, strict=True):
        (operations, steps), numbers = (setting[key] for key in ("operations", "steps")), setting["numbers"]
        neuron_steps = steps * 2 ** setting["log2_neurons"]
        wide = 2 if numbers == "bfloat16" else 4
        spike = 1 if "uint8" in numbers else wide
        # Two of three operations read two numbers and write one, the others read one and write one.
        moved = {"loop": 9 / 4 * wide * operations, "fused": wide + spike}
        for name, launches in (("loop", operations * steps), ("fused", 1)):
            least = least_seconds(operations * neuron_steps, moved[name] * neuron_steps, **limits)
            assert model[name]["seconds"] == pytest.approx(least + launches * setting["launch_us"] * 1e-6), name


def test_another_device_pays_where_it_is_faster():
    batches = [1, *(2**i + 1 for i in range(12))]
    cpu = (0.01, 1500.0)
    others = [[overhead, 1500 * times] for overhead in (0.0005, 0.01, 0.2) for times in (0.5, 1, 1.1, 20, 200)]
    script = "return others.map((one) => [pays(cpu, one), batches.map((batch) => speedOf(one, batch))]);"
    found = node("crossing", script, others=others, cpu=cpu, batches=batches)
    for (overhead, rate), (where, speeds) in zip(others, found, strict=True):
        low, high = where or (math.inf, math.inf)
        for batch, speed in zip(batches, speeds, strict=True):
            seconds = overhead + batch / rate
            assert speed == pytest.approx(batch / seconds)
            gain = cpu[0] + batch / cpu[1] - seconds
            if abs(gain) > 1e-9:
                assert (gain > 0) == (low <= batch <= (high or math.inf)), (overhead, rate, batch)


class Doubling(neuron.Neuron):
    """A learner's."""

    def __init__(self, growth=1.5):
        super().__init__(surrogate=surrogate.ATan())
        self.growth = growth

    def initial_state(self, x):
        return neuron.MembraneState(torch.zeros_like(x))

    def step(self, x, state):
        v = self.growth * state.v + x
        spike = self.spike(v - 1)
        return spike, neuron.MembraneState(v * (1 - spike))


@pytest.mark.parametrize(
    "lab",
    [
        *(
            explorers.neuron,
            explorers.population,
            explorers.surrogate,
            explorers.encoder,
            explorers.event_player,
            explorers.stdp,
        ),
        *(explorers.number_lines, explorers.memory_calculator, explorers.conv_costs),
        *(lambda: explorers.under_the_roof(2e10, 1e10), lambda: explorers.crossing((0.01, 1e3))),
        *[lambda: explorers.gradient_scales({"g": torch.randn(9)})],
        *(lambda: explorers.neuron(Doubling()), lambda: explorers.surrogate(surrogate.ATan(3.0))),
    ],
)
def test_an_explorer_is_a_page_that_loads_nothing(lab):
    shown = lab()
    assert isinstance(shown, explorers.in_page.explorer_class())
    assert shown.comm is None  # as there is no viewer
    html = shown._repr_mimebundle_()["text/html"]
    script = re.search(r'<script type="module">\n(.*)</script>$', html, re.DOTALL)[1]
    assert not re.search(r"</script|https?:|\bimport\b|\beval\b|new Function|fetch\(", script)
    assert len(html) < 80_000
    if shutil.which("node"):
        for text in (script, shown._esm):
            checked = subprocess.run(["node", "--input-type=module", "--check", "-"], input=text, text=True, timeout=60)
            assert checked.returncode == 0


def decided(net, answers=None, encoder=None, classes=10, change=lambda images: images):
    images, labels = data.load("digits", "test")
    answers, encoder = labels if answers is None else answers, encoder or partial(encode.repeat, steps=3)
    return explorers.decision(net, change(images), labels, answers, encode=encoder, classes=["0"] * classes)


def mapped(*layers, encoder=None, module=None):
    net, images, labels, repeat = conv_and_images()
    layers, names = {str(i): layer for i, layer in enumerate(layers)}, ["0"] * 10
    return explorers.feature_maps(
        module or net, images, labels, labels, encode=encoder or repeat, layers=layers, classes=names
    )


def test_numbers_of_an_encoder_may_be_tensors():
    html = decided(mlp((64, 5, 10)), encoder=partial(encode.latency, steps=3, threshold=torch.tensor(0.25))).html()
    assert '"threshold": 0.25, "linear": false' in html


def test_feature_maps_leave_a_network_in_training_as_it_is():
    net = nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), neuron.LIF())
    mapped(2, module=net)
    assert net.training and net[1].num_batches_tracked == 0


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: explorers.neuron("LIF"), TypeError, "neuron must be"),
        (lambda: explorers.population(0), ValueError, "neurons must be"),
        (lambda: explorers.population(steps=1), ValueError, "steps must be"),
        (lambda: explorers.population(current=float("nan")), ValueError, "current must be finite"),
        (lambda: explorers.surrogate(2.0), TypeError, "surrogate must be"),
        (
            lambda: explorers.gradient_scales({"g": torch.ones(2).long()}),
            TypeError,
            r"values\['g'\] must be .* torch.int64",
        ),
        (lambda: explorers.gradient_scales({"g": torch.zeros(2)}), ValueError, "values must hold at least one number"),
        (lambda: explorers.under_the_roof(1e9, 0), ValueError, "bandwidth must be greater than 0, but it is 0"),
        (lambda: explorers.crossing((0.01, -1.0)), ValueError, "rate of cpu must be greater than 0"),
        (lambda: explorers.crossing((0.01, 1e3, 2.0)), TypeError, "cpu must be"),
        (lambda: decided(mlp((64, 10))), ValueError, "net must have a hidden layer of neurons"),
        (
            lambda: decided(mlp((64, 5, 10)), answers=torch.zeros(3)),
            ValueError,
            "answers must be int64",
        ),
        (lambda: decided(torch.nn.Linear(64, 10)), TypeError, "net must be"),
        (lambda: decided(mlp((64, 5, 10)), classes=11), ValueError, "classes must be 10 names"),
        (lambda: decided(mlp((64, 5, 10)), encoder=encode.repeat), ValueError, "encode must have steps"),
        *[
            (lambda change=change: decided(mlp((64, 5, 10)), change=change), error, f"images must {words}")
            for change, error, words in (
                (lambda images: images.to("meta"), ValueError, "have values"),
                (lambda images: images.to_sparse(), TypeError, "be a torch.Tensor, but it is sparse"),
                (lambda images: images[..., :0], ValueError, "be .*, none of them 0"),
            )
        ],
        (
            lambda: explorers.gradient_scales({"g": torch.ones(2, device="meta")}),
            ValueError,
            r"values\['g'\] must have values",
        ),
        (lambda: mapped(10), ValueError, r"layers\['0'\] must give \[T, B, channels"),
        (lambda: mapped(99), ValueError, r"layers\['0'\] must be at most"),
        (lambda: mapped(), ValueError, "the number of layers must be at least 1"),
        (lambda: mapped(2, encoder=lambda images: None), TypeError, "the result of encode must be a tensor"),
        (lambda: mapped(2, encoder=lambda images: torch.zeros(2, 3, 1, 8, 8)), ValueError, "encode must give"),
        (lambda: mapped(2, module=mlp((9, 10))), ValueError, "net must take what encode gives, torch.float32"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call()
