"""Networks as pages: what JavaScript computes is what PyTorch does, and what a page can't hold is refused."""

import base64
import json
import subprocess
from functools import partial

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from snnkit import data, encode, loss, neuron, quantize, train
from snnkit.lab import pages
from snnkit.lab.cli import main
from snnkit.lab.pages.page import describe
from snnkit.models import ConvNet, EventRecurrentNet, StatisticalSNN, mlp
from snnkit.nn import Once, Sequential
from snnkit.train.metrics import class_scores

from ..javascript import SOURCES
from ..needed import needs
from .test_export import fashion

SMALL = {"size": (1, 8, 8), "steps": 12}
# Runs images; with `looked`, the first of them step by step, with all that goes into its neurons and comes of them.
RUN = """
import {readFileSync} from "node:fs";
import {bytesOf, floats} from "WEB/bytes.js";
import {Network} from "WEB/network.js";
import {why} from "WEB/why.js";
const {description, images, looked} = JSON.parse(readFileSync("input.json", "utf8"));
const net = new Network(description, NEURONS), size = net.image.length, pixels = floats(images);
const text = (a) => Buffer.from(a.buffer, a.byteOffset, a.byteLength).toString("base64");
const votes = [], steps = [];
for (let i = 0; i * size < pixels.length; i++) votes.push(...net.run(pixels.subarray(i * size, (i + 1) * size)));
net.show(pixels.subarray(0, size));
net.reset();
while (looked && net.t < net.steps) {
  net.step();
  steps.push(net.cells.map(({current, out, state}) => [current, out, ...state].map((a) => text(a))));
}
const reasons = net.t ? why(net, 1) : null, list = (a) => a && Array.from(a);
const asked = reasons && {...reasons, cells: null, sent: list(reasons.sent), pixels: list(reasons.pixels)};
console.log(JSON.stringify({votes, steps, path: net.path(-1, 20, 2), asked}));
"""


def run(net, images, folder, looked=False, **settings):
    """Votes [N, classes] as network.js counts them; and, where looked into, [T][layer][current, out, state ...]."""
    result = _run(net, images, folder, looked, **settings)
    tensor = lambda text: torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.float32)  # noqa: E731
    steps = [[[tensor(part) for part in layer] for layer in step] for step in result["steps"]]
    return torch.tensor(result["votes"], dtype=torch.float64).view(len(images), -1), steps, result["path"]


def _run(net, images, folder, looked, **settings):
    needs("node")
    description, neurons = describe(net, **settings)
    pixels = base64.b64encode(images.float().contiguous().numpy().tobytes()).decode()
    (folder / "input.json").write_text(json.dumps({"description": description, "images": pixels, "looked": looked}))
    (folder / "run.mjs").write_text(RUN.replace("WEB", SOURCES.as_uri()).replace("NEURONS", neurons))
    done = subprocess.run(["node", "run.mjs"], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def mixed():
    """All other layers, with a parameter for each channel or neuron."""
    first = neuron.PLIF(shape=(6, 1, 1), v_threshold=torch.linspace(0.2, 0.6, 6).view(6, 1, 1))
    second = neuron.ALIF(v_threshold=0.2, v_reset=None, beta=nn.Parameter(torch.linspace(0, 0.2, 24).view(6, 2, 2)))
    return Sequential(
        *(nn.Conv2d(1, 6, 3, padding=1), nn.GroupNorm(2, 6), first, nn.AvgPool2d(3, 2, padding=1), nn.Dropout(0.5)),
        *(nn.Conv2d(6, 6, 3, stride=2, groups=3, dilation=2, padding=2), nn.ReLU(), Once(nn.BatchNorm2d(6)), second),
        *(nn.AdaptiveAvgPool2d(1), nn.Sequential(nn.Flatten(), nn.LayerNorm(6), nn.Linear(6, 10))),
        neuron.Recurrent(neuron.CubaLIF(v_th=0.1, dt=torch.tensor(1e-3)), 10, bias=True),
    )


NETS = {
    "mlp": (lambda: mlp((64, 32, 16, 10)), {}),
    "conv": (lambda: ConvNet(size=8, widths=(6, 10, 30)), {"encode": "constant_current_lif", "gain": 3.0}),
    "fashion": (fashion, {}),
    "rates": (lambda: mlp((64, 32, 10)), {"encode": partial(encode.poisson, max_rate=0.7)}),
    "recurrent": (lambda: EventRecurrentNet(64, 32, 10), {"encode": partial(encode.latency, threshold=0.1)}),
    "mixed": (mixed, {"encode": partial(encode.latency, linear=True)}),
}


@pytest.mark.parametrize("name", NETS)
def test_a_page_computes_what_pytorch_does(name, tmp_path):
    torch.manual_seed(0)
    make, settings = NETS[name]
    net, images = make().eval(), data.to_unit(data.load("digits", "test")[0])
    votes, steps, path = run(net, images, tmp_path, looked=True, **SMALL, **settings)
    code = settings.get("encode", "repeat")
    code = getattr(encode, code) if isinstance(code, str) else code
    with torch.no_grad():
        if name == "rates":  # a page begins each image with the generator that has this seed
            seeds = [torch.Generator().manual_seed(1) for _ in images]
            each = zip(images, seeds, strict=True)
            x = torch.cat([code(one[None], SMALL["steps"], generator=g) for one, g in each], 1)
        else:
            x = code(images * settings.get("gain", 1.0), SMALL["steps"])
        recording = net.record(x)
        assert (votes.argmax(1) == recording.out.sum(0).argmax(1)).float().mean() >= 0.999
        assert votes.std() > 0 and sorted(path, key=lambda one: -abs(one[1])) == path != []
        # Neurons by themselves, of the currents that they had in JavaScript: to the bit.
        cells = [m for m in net.modules() if isinstance(m, neuron.Neuron)]
        spiking = (neuron.Neuron, neuron.Recurrent)
        shapes = [out.shape[2:] for out, m in zip(recording.layers, net, strict=True) if isinstance(m, spiking)]
        for place, (cell, shape) in enumerate(zip(cells, shapes, strict=True)):
            current = torch.stack([step[place][0] for step in steps]).view(len(steps), 1, *shape)
            out, state = cell(current)
            assert torch.equal(out.flatten(1), torch.stack([step[place][1] for step in steps]))
            assert all(torch.equal(a.flatten(), b) for a, b in zip(state, steps[-1][place][2:], strict=True))


ASKED = {
    "mlp": (lambda: mlp((64, 32, 10)), {}, ""),
    "spikes": (lambda: mlp((64, 32, 10)), {"encode": partial(encode.poisson, max_rate=0.7)}, ""),
    "conv": (
        lambda: Sequential(
            *(nn.Conv2d(1, 4, 3, padding=1), Once(nn.BatchNorm2d(4)), nn.AvgPool2d(2), neuron.Leaky(0.9)),
            *(nn.Flatten(), nn.Linear(64, 10), neuron.LIF()),
        ),
        {"gain": 3.0},
        "",
    ),
    "columns": (
        lambda: Sequential(nn.Flatten(), nn.Linear(8, 24), neuron.Leaky(0.9), nn.Linear(24, 10), neuron.Leaky(0.9)),
        {"encode": encode.columns, "steps": 8},
        "",
    ),
    "no hidden layer": (lambda: mlp((64, 10)), {}, ""),
    "two hidden layers": (lambda: mlp((64, 32, 16, 10)), {"gain": 5.0}, "more than one layer"),
    "max pooling": (
        lambda: Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 20), neuron.Leaky(0.9), nn.Linear(20, 10)),
        {},
        "max pooling",
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_page_says_why_a_label_has_its_votes(name, tmp_path):
    build, settings, refused = ASKED[name]
    torch.manual_seed(3)
    net, image, settings = build(), torch.rand(1, 1, 8, 8), {**SMALL, **settings}
    result = _run(net.eval(), image, tmp_path, True, **settings)
    asked = result["asked"]
    assert refused in asked["note"] and (asked["pixels"] is None) == bool(refused)
    sent = torch.tensor(asked["sent"] or asked["pixels"])
    if name == "max pooling":  # without neurons at the end: votes are sums of the last layer
        assert float(sent.sum()) + asked["bias"] == pytest.approx(result["votes"][1], abs=1e-4)
        return
    tensor = lambda text: torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.float32)  # noqa: E731
    came = sum(float(tensor(step[-1][0])[1]) for step in result["steps"])
    assert float(sent.sum()) + asked["bias"] == pytest.approx(came, abs=1e-4) and sent.abs().max() > 0.1
    if name not in ("mlp", "conv", "columns"):
        return
    # A pixel's part: what it showed times the slope of what came to the hidden neurons, each weighed by its share.
    image = image * settings.get("gain", 1.0)
    x = (
        (encode.columns(image) if name == "columns" else encode.repeat(image, settings["steps"]))
        .clone()
        .requires_grad_()
    )
    place = next(i for i, layer in enumerate(net) if isinstance(layer, neuron.Neuron))
    charge = net.record(x).layers[place - 1].sum(0).flatten()
    assert (charge[sent != 0] > 0).all() and asked["left"] == 0
    (slope,) = torch.autograd.grad(charge @ torch.where(sent == 0, 0, sent / charge.detach()), x)
    parts = (x * slope).detach().flatten(1)  # [T, inputs]
    parts = parts.T.flatten() if name == "columns" else parts.sum(0)
    assert torch.allclose(torch.tensor(asked["pixels"]), parts, atol=1e-4) and parts.abs().max() > 0.05


@pytest.mark.parametrize(
    ("criterion", "readout"),
    [
        (loss.membrane_max_cross_entropy, nn.Identity()),
        (partial(loss.first_spike_cross_entropy, reduction="sum"), neuron.Leaky(0.9)),
        (loss.first_spike_mse, neuron.Leaky(0.9)),
        (loss.count_cross_entropy, neuron.Leaky(0.9)),
    ],
)
def test_a_page_answers_as_the_loss_asks(criterion, readout, tmp_path):
    torch.manual_seed(0)
    net = Sequential(nn.Flatten(), nn.Linear(64, 32), neuron.Leaky(0.9), nn.Linear(32, 10), readout)
    images = data.to_unit(data.load("digits", "test")[0])
    votes, *_ = run(net, images, tmp_path, loss=criterion, **SMALL)
    with torch.no_grad():
        out, _ = net(encode.repeat(images, SMALL["steps"]))
    answers = class_scores(out, criterion).argmax(1)
    assert (votes.argmax(1) == answers).float().mean() >= 0.999 and len(answers.unique()) > 3
    if criterion is not loss.count_cross_entropy:
        assert (out.sum(0).argmax(1) != answers).float().mean() > 0.05  # which sums would not answer
    with pytest.raises(ValueError, match="loss must have one neuron for each class in a page"):
        describe(net, loss=partial(loss.count_cross_entropy, population_size=2), **SMALL)


def test_a_page_reads_columns_from_left_to_right(tmp_path):
    torch.manual_seed(0)
    net = Sequential(nn.Flatten(), nn.Linear(2 * 3, 12), neuron.Leaky(0.8), nn.Linear(12, 4), neuron.Leaky(0.9))
    images = torch.rand(20, 2, 3, 30)
    votes, steps, _ = run(net, images, tmp_path, looked=True, encode=encode.columns, gain=4.0, size=(2, 3, 30))
    with torch.no_grad():
        out, _ = net(encode.columns(4 * images))
    assert len(steps) == 30 and out.sum(0).std() > 0
    assert (votes == out.sum(0)).float().mean() >= 0.98
    with pytest.raises(ValueError, match="steps must be 30, the columns of an image, with columns, but it is 20"):
        describe(net, encode="columns", steps=20, size=(2, 3, 30))
    with pytest.raises(ValueError, match="net must take size"):
        describe(net, encode="columns", size=(30, 2, 3))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "hidden", "samples"), [("digits", 128, None), ("mnist", 1000, 12_000)])
def test_trained_networks_answer_alike_on_the_whole_test_set(name, hidden, samples, tmp_path):
    if not data.available(name):
        pytest.skip(f"{name} is not on this machine")
    images, labels = data.load(name, "train")
    train.seed_everything(0)
    net, code = mlp((images[0].numel(), hidden, 10)), partial(encode.repeat, steps=20)
    pairs = (images[:samples], labels[:samples])
    epochs = 1 if samples else 10
    train.fit(net, pairs, encode=code, loss=loss.count_cross_entropy, lr=2e-3, epochs=epochs, progress=False)
    images, labels = data.load(name, "test")
    unit = data.to_unit(images)
    votes, _, _ = run(net, unit, tmp_path, encode=code, size=images.shape[1:])
    with torch.no_grad():
        answers = torch.cat([loss.answers(net(code(part))[0]) for part in unit.split(1000)])
    assert (votes.argmax(1) == answers).float().mean() >= 0.999
    assert (answers == labels).float().mean() > 0.9
    file = pages.page(net, tmp_path / "net.html", encode=code, images=(images, labels))
    assert file.stat().st_size <= {"digits": 400_000, "mnist": 5_000_000}[name]


def test_the_file_needs_nothing_else(tmp_path):
    images = data.load("digits", "test")
    words = {"title": "<b>5 > 4</b>", "about": "</script><script>alert(1)</script>"}
    labels = [f"<i>{k}</i>" for k in range(9)] + ["</script>"]
    path = pages.page(mlp((64, 8, 10)), tmp_path / "a" / "net.html", steps=5, images=images, labels=labels, **words)
    text = path.read_text(encoding="utf-8")
    assert "default-src 'none'" in text and "<title>&lt;b&gt;5 &gt; 4" in text and "alert(1)</script>" not in text
    assert text.count("</script>") == 2 and not any(word in text for word in ("http:", "https:", "src=", "@import"))
    held = json.loads(text.split('id="data">')[1].partition("</script>")[0])
    assert held["labels"] == labels and held["images"]["labels"] == list(range(10)) * 10
    pixels = torch.frombuffer(bytearray(base64.b64decode(held["images"]["pixels"])), dtype=torch.uint8).view(100, 64)
    assert torch.equal(pixels[7], images[0][(images[1] == 7).nonzero()[0, 0]].flatten())


class Own(Sequential):
    def forward(self, x, state=None):
        return super().forward(x * 2, state)


@pytest.mark.parametrize(
    ("layer", "threshold", "leak", "membrane"),
    [
        (neuron.CubaLIF(), "v_th", "tau_mem_inv", 0),
        (neuron.LIF(torch.full((10,), 2.0)), "v_threshold", "tau", 0),
        (neuron.Synaptic(0.8, 0.9), "threshold", "beta", 0),
        (neuron.Readout(0.9), None, "beta", 0),
        (neuron.LI(), None, "tau_mem_inv", 0),
        (neuron.Refractory(neuron.LIF(), 2), None, None, 0),
    ],
)
def test_the_numbers_that_a_reader_may_change_are_those_of_the_neuron(layer, threshold, leak, membrane):
    description, _ = describe(after(layer), **SMALL)
    spec = description["layers"][-1]
    assert (spec["threshold"], spec["leak"], spec["membrane"]) == (threshold, leak, membrane)


class Mixing(neuron.LIF):
    def step(self, x, state):
        return super().step(x - x.mean(), state)


def after(*layers):
    return Sequential(nn.Flatten(), nn.Linear(64, 10), *layers)


def diverged():
    last = nn.Linear(10, 10)
    last.bias.data.fill_(float("nan"))
    return last


@pytest.mark.parametrize(
    ("net", "settings", "error", "says"),
    [
        (StatisticalSNN(64), {}, TypeError, r"net\[3\] \(Population\) must be one of Linear, Conv2d"),
        (Own(nn.Flatten()), {}, TypeError, "net must have the forward of Sequential .* Own has its own"),
        (after(Mixing()), {}, ValueError, r"net\[2\] \(Mixing\) must be an equation"),
        (
            after(nn.Linear(9, 10)),
            {},
            ValueError,
            r"net must take size \[.*\], but net\[2\] \(Linear\) takes no \[10\]",
        ),
        (mlp((64, 40_000, 10)), {}, ValueError, "at most 2,000,000 weights to be a page, but it has 3,0"),
        (after(nn.Identity()), {}, ValueError, "at least one layer of neurons"),
        (Sequential(neuron.IF()), {"size": (9, 99, 99)}, ValueError, "at most 4096 values in all"),
        (after(neuron.LI()), {"encode": lambda x: x}, ValueError, "must be a partial of one of repeat, poisson"),
        (after(neuron.LI()), {"encode": "delta"}, ValueError, "encode must be one of 'repeat'"),
        (after(neuron.LI()), {"steps": None}, ValueError, "encode must have steps"),
        (after(neuron.LI()), {"labels": ["cat"]}, ValueError, "labels must be 10 strings, one for each output"),
        (after(neuron.LI()), {"size": None}, ValueError, "size must be .* where there are no images"),
        (after(neuron.LI()), {"images": torch.zeros(3, 1, 9, 9)}, ValueError, r"images must be \[N, 1, 8, 8\]"),
        (after(neuron.LI()), {"images": torch.full((1, 1, 8, 8), 3.0)}, ValueError, r"floats in \[0, 1\]"),
        (after(neuron.LI()).to("meta"), {}, ValueError, "net must have values, but 1.weight has none"),
        (after(neuron.LI(), diverged()), {}, ValueError, "the sum of the outputs of net must be finite"),
        ("int8", {}, TypeError, "net must have plain weights"),
        (
            Sequential(neuron.Recurrent(neuron.IF(), connection=nn.Conv2d(1, 1, 3, padding=1))),
            {},
            ValueError,
            r"net\[0\] \(Recurrent\) must have weights from all to all to be in a page, but it has a Conv2d",
        ),
    ],
)
def test_what_a_page_cannot_hold_is_refused(net, settings, error, says, tmp_path):
    if net == "int8":
        pytest.importorskip("torchao")
        net = quantize.quantize(mlp((64, 64, 10))).model
    with pytest.raises(error, match=says):
        pages.page(net, tmp_path / "net.html", **(SMALL | settings))
    assert not list(tmp_path.iterdir())


def test_the_command_writes_the_page_of_a_checkpoint(tmp_path):
    file, out = tmp_path / "run.pt", tmp_path / "net.html"
    small = {"epochs": 1, "hidden": 16, "samples": 200, "steps": 5, "progress": False, "device": "cpu"}
    train.recipes.run("digits", **small, checkpoint=file)
    command = ["export", str(file), "--page", str(out)]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0 and "Trained for 1 epochs on the digits" in out.read_text(encoding="utf-8")
    assert "8 × 8 – 16 – 10 · Leaky neurons · 1,210 weights · 5 time steps" in out.read_text(encoding="utf-8")
    for wrong, says in ((out, "can't be read as a checkpoint"), (tmp_path / "nothing.pt", "no checkpoint at")):
        done = CliRunner().invoke(main, ["export", str(wrong), "--page", str(out)])
        assert done.exit_code == 2 and says in done.output.replace("\n", " ")
    done = CliRunner().invoke(main, ["export", "--page", str(tmp_path / "reader.html")])
    assert done.exit_code == 0 and (tmp_path / "reader.html").stat().st_size < 400_000
    (tmp_path / "run.pt.json").unlink()
    assert "is missing" in CliRunner().invoke(main, command).output
