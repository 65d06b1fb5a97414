"""The playground: what it learns from is generated here, and its first update is that of the Python code it shows."""

import itertools

import pytest
import torch

from snnkit import nn
from snnkit.lab.pages.playground import _digits, _neurons, _with
from snnkit.neuron import ALIF, Neuron
from snnkit.surrogate import ATan, FastSigmoid, Sigmoid, StraightThrough, SuperSpike, Triangle

from ..javascript import run

SURROGATES = (ATan, FastSigmoid, Sigmoid, SuperSpike, Triangle, StraightThrough)
DATA = itertools.cycle(("circles", "spirals", "yinyang", "digits", "xor"))
CHANGES = itertools.cycle(({}, {"encoding": "poisson"}, {"encoding": "latency"}, {"penalty": 5}, {"hidden": [7]}))

# Of each of the settings in ``runs``: the code, what a sample does to the first weights, these, gradients and new
# weights, [O][I] as PyTorch's.
RUN = """
const tensors = (network, weight, bias) => network.layers.flatMap(({linear}) => {
  const {inputs, outputs} = linear, rows = Array.from({length: outputs}, (_, o) => (
    Array.from({length: inputs}, (__, i) => linear[weight][i * outputs + o])));
  return [rows, Array.from(linear[bias])];
});
return runs.map((given) => {
  const settings = {...defaults(given.data, given.neuron), ...given};
  const trainer = new Trainer(complete(settings), GENERATED, digits), {network} = trainer;
  const {input, spikes, decisions} = trainer.probe({index: 3});
  const sample = {input: Array.from(input), layers: spikes.map((fired, i) => ({
    fired: Array.from(fired), away: decisions[i].map(({away}) => Array.from(away)),
    threshold: decisions[i].map(({threshold}) => Array.from(threshold))}))};
  const first = tensors(network, "weight", "bias"), {loss} = trainer.update();
  const gradients = tensors(network, "weightGradient", "biasGradient");
  const {bins, below, above} = trainer.membranes(), sum = (values) => values.reduce((a, b) => a + b, 0);
  const over = sum(bins.subarray(bins.length / 2)) + above, all = below + sum(bins) + above;
  const hidden = network.layers.slice(0, -1), steps = 12 * 32;
  const fired = sum(hidden.map(({out, size}) => sum(out.subarray(0, steps * size))));
  const firing = fired / (steps * sum(hidden.map(({size}) => size))), code = asPython(settings);
  return {sample, all, over, firing, code, first, loss, gradients, second: tensors(network, "weight", "bias")};
});
"""


@pytest.fixture(scope="module")
def generated():
    return _neurons()


class Stop(Exception):
    pass


def first_update(code, monkeypatch):
    """Run ``code`` up to its first update: its optimizer, network and loss."""

    def stop(self, *_):
        raise Stop(self)

    with monkeypatch.context() as patched:
        patched.setattr(torch.optim.Adam, "step", stop)
        scope = {}
        with pytest.raises(Stop) as stopped:
            exec(code.replace("surrogate=", 'engine="eager", surrogate='), scope)
    return stopped.value.args[0], scope["net"], scope["error"].item()


def decisions(net, x):
    """Of each layer, for a sample x [T, I]: spikes, distances from the threshold, and threshold, each [T, N]."""
    layers = [neuron for neuron in net.modules() if isinstance(neuron, Neuron)]
    seen = [[] for _ in layers]
    for neuron, own in zip(layers, seen, strict=True):
        spike = neuron.spike
        neuron.spike = lambda u, strict=False, own=own, spike=spike: own.append(u) or spike(u, strict)
    with torch.no_grad(), nn.recording(net, states=True) as recorded:
        net(x[:, None])
    for neuron, own, fired, states in zip(
        layers, seen, recorded.spikes.values(), recorded.states.values(), strict=True
    ):
        away, threshold = torch.cat(own), torch.full_like(fired[:, 0], neuron.threshold)
        if isinstance(neuron, ALIF):
            threshold[1:] += neuron.beta * states.a[:-1, 0]
        yield fired[:, 0], away, threshold


def test_first_update_is_that_of_the_python_code(generated, monkeypatch):
    names = [(*name.split("/"), kind.__name__) for kind in SURROGATES for name in _with(kind())]
    runs = []
    for seed, (neuron, reset, surrogate) in enumerate(names):
        one = {"data": next(DATA), "neuron": neuron, "reset": reset, "surrogate": surrogate, "hidden": [12, 9]}
        one |= {"steps": 12, "batch": 16, "seed": seed, "threshold": 0.5, "width": 0.75} | next(CHANGES)
        runs.append(one | ({"encoding": "current"} if one["data"] == "xor" else {}))
    assert {one["data"] for one in runs} == {"circles", "spirals", "yinyang", "digits", "xor"}
    digits = {split: _digits(split) for split in ("train", "test")}
    ran = run(f"{generated}\n{RUN}", "trainer.js", "setup.js", digits=digits, runs=runs)
    trained = 0
    for of, mine in zip(runs, ran, strict=True):
        optimizer, net, loss = first_update(mine["code"], monkeypatch)
        weights = list(net.parameters())
        assert (mine["all"], mine["over"]) == pytest.approx((1, mine["firing"]), abs=1e-5), of
        assert mine["loss"] == pytest.approx(loss, rel=1e-5), of
        x = torch.tensor(mine["sample"]["input"], dtype=torch.float32).view(of["steps"], -1)
        for layer, (fired, away, threshold) in zip(mine["sample"]["layers"], decisions(net, x), strict=True):
            assert torch.equal(fired.flatten(), torch.tensor(layer["fired"], dtype=torch.float32)), of
            assert torch.equal(fired > 0, torch.tensor(layer["away"]) > 0), of
            torch.testing.assert_close(torch.tensor(layer["away"]), away, rtol=1e-5, atol=5e-4, msg=str(of))
            torch.testing.assert_close(torch.tensor(layer["threshold"]), threshold, msg=str(of))
        for weight, first, gradient in zip(weights, mine["first"], mine["gradients"], strict=True):
            gradient = torch.tensor(gradient, dtype=torch.float32)
            assert torch.equal(weight, torch.tensor(first)), of
            largest = float(weight.grad.abs().max())
            error = float((weight.grad - gradient).abs().max())
            assert error <= 2e-6 * largest, (of, error, largest)
            trained += largest > 0
            weight.grad = gradient  # Adam divides by its size: that of rounding errors would count
        optimizer.step()
        for weight, second in zip(weights, mine["second"], strict=True):
            torch.testing.assert_close(weight.data, torch.tensor(second), rtol=1e-6, atol=1e-7, msg=str(of))
    assert trained > 3 * len(runs)


# A clock that goes on by 30 ms at each look: a report comes every 60 ms, a test of the network every 200.
MISTAKE = """
let clock = 0;
performance.now = () => (clock += 30);
const reports = [], runner = new Runner(GENERATED, {}, (report) => reports.push(report));
runner.receive({type: "build", id: 1, settings: complete({...defaults("xor", "LIF"), leak: 1}), which: {index: 0}});
runner.receive({type: "run", interval: 0});
for (let i = 0; i < 60; i++) {
  runner.slice();
  if (i === 30) runner.receive({type: "probe", which: {index: 7}});
  runner.receive({type: "seen"});
}
const silent = new Trainer(complete({...defaults("xor"), threshold: 50}), GENERATED, {});
const {accuracy, answers} = silent.test();
return {
  reports: reports.map(({rates, probe}) => ({index: probe.index, layers: rates.map((rate, i) => (
    [Array.from(rate), Array.from(rate, (_, n) => probe.spikes[i].filter((s, k) => s && k % rate.length === n).length)]
  ))})),
  accuracy, answers: [...new Set(answers)], probe: silent.probe({index: 0}).leaders,
  says: [[[0], [0.1]], [[0.1], [0, 0]]].map((rates) => diagnosis({rates, gradients: [0, 0], updates: 0})),
};
"""


def test_health_and_sample_agree_and_silence_is_no_answer(generated):
    found = run(f"{generated}\n{MISTAKE}", "commentary.js", "setup.js", "trainer.js")
    assert {report["index"] for report in found["reports"]} == {0, 7} and len(found["reports"]) > 20
    for report in found["reports"]:
        for rates, counts in report["layers"]:
            assert not [n for n, (rate, count) in enumerate(zip(rates, counts, strict=True)) if count and not rate]
    assert (found["accuracy"], found["answers"], found["probe"]) == (0, [-1], [])
    assert "the next layer sees nothing" in found["says"][0] and "no sample gets an answer" in found["says"][1]


def test_links_keep_settings_and_refuse_nonsense():
    texts = [
        "", "data=digits&neuron=ALIF&hidden=128,2,64&adaptation=0.5", "data=xor&steps=9", "hidden=1", "hidden=9,9,9,9",
        "neuron=CubaLIF&reset=none", "leak=1.5", "neuron=IF&leak=2", "lr=x", "batch=7", "speed=3",
        "data=xor&encoding=poisson",
    ]  # fmt: skip
    script = "return texts.map((text) => [readLink('#' + text), writeLink(readLink(text).settings)]);"
    results = run(script, "setup.js", texts=texts)
    for text, (read, again) in zip(texts[:2], results, strict=False):
        assert (read["errors"], again) == ([], text)
    errors = [read["errors"] for read, _ in results[2:]]
    assert [len(each) for each in errors] == [1] * 10
    assert errors[0] == ['steps must be a whole number from 10 to 50, but it is "9"']
    assert errors[1] == ['hidden must be one to three whole numbers from 2 to 128, such as 64,32, but it is "1"']
    assert errors[5] == ['leak must be left out for IF, but it is "2"']
