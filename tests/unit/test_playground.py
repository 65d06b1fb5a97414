"""The playground: what it learns from is generated here, and its first update is that of the Python code it shows."""

import itertools
import json
import subprocess

import pytest
import torch

from snnkit.lab.pages import web
from snnkit.lab.pages.playground import _digits, _neurons, _with
from snnkit.surrogate import ATan, FastSigmoid, Sigmoid, StraightThrough, SuperSpike, Triangle

from ..needed import needs

SURROGATES = (ATan, FastSigmoid, Sigmoid, SuperSpike, Triangle, StraightThrough)
DATA = itertools.cycle(("circles", "spirals", "yinyang", "digits", "xor"))
CHANGES = itertools.cycle(({}, {"encoding": "poisson"}, {"encoding": "latency"}, {"penalty": 5}, {"hidden": [7]}))

# Of each of the settings in ``runs``: the code, the first weights, gradients and new weights, [O][I] as PyTorch's.
RUN = """
const tensors = (network, weight, bias) => network.layers.flatMap(({linear}) => {
  const {inputs, outputs} = linear, rows = Array.from({length: outputs}, (_, o) => (
    Array.from({length: inputs}, (__, i) => linear[weight][i * outputs + o])));
  return [rows, Array.from(linear[bias])];
});
console.log(JSON.stringify(runs.map((given) => {
  const settings = {...defaults(given.data, given.neuron), ...given};
  const trainer = new Trainer(complete(settings), GENERATED, digits), {network} = trainer;
  const first = tensors(network, "weight", "bias"), {loss} = trainer.update();
  const gradients = tensors(network, "weightGradient", "biasGradient");
  const {bins, below, above} = trainer.membranes(), sum = (values) => values.reduce((a, b) => a + b, 0);
  const over = sum(bins.subarray(bins.length / 2)) + above, all = below + sum(bins) + above;
  const hidden = network.layers.slice(0, -1), steps = 12 * 32;
  const fired = sum(hidden.map(({out, size}) => sum(out.subarray(0, steps * size))));
  const firing = fired / (steps * sum(hidden.map(({size}) => size))), code = asPython(settings);
  return {all, over, firing, code, first, loss, gradients, second: tensors(network, "weight", "bias")};
})));
"""


def node(script):
    needs("node")
    done = subprocess.run(["node", "-"], input=script, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def generated():
    return _neurons()


class Stop(Exception):
    pass


def first_update(code, monkeypatch):
    """Run ``code`` up to its first update: its optimizer, weights and loss."""

    def stop(self, *_):
        raise Stop(self)

    with monkeypatch.context() as patched:
        patched.setattr(torch.optim.Adam, "step", stop)
        scope = {}
        with pytest.raises(Stop) as stopped:
            exec(code.replace("surrogate=", 'engine="eager", surrogate='), scope)
    return stopped.value.args[0], list(scope["net"].parameters()), scope["error"].item()


def test_first_update_is_that_of_the_python_code(generated, monkeypatch):
    names = [(*name.split("/"), kind.__name__) for kind in SURROGATES for name in _with(kind())]
    runs = []
    for seed, (neuron, reset, surrogate) in enumerate(names):
        run = {"data": next(DATA), "neuron": neuron, "reset": reset, "surrogate": surrogate, "hidden": [12, 9]}
        run |= {"steps": 12, "batch": 16, "seed": seed, "threshold": 0.5, "width": 0.75} | next(CHANGES)
        runs.append(run | ({"encoding": "current"} if run["data"] == "xor" else {}))
    assert {run["data"] for run in runs} == {"circles", "spirals", "yinyang", "digits", "xor"}
    digits = json.dumps({split: _digits(split) for split in ("train", "test")})
    head = f"{generated}\n{web.bundle('trainer.js', 'setup.js')}\nconst digits = {digits}, runs = {json.dumps(runs)};\n"
    trained = 0
    for run, mine in zip(runs, node(head + RUN), strict=True):
        optimizer, weights, loss = first_update(mine["code"], monkeypatch)
        assert (mine["all"], mine["over"]) == pytest.approx((1, mine["firing"]), abs=1e-5), run
        assert mine["loss"] == pytest.approx(loss, rel=1e-5), run
        for weight, first, gradient in zip(weights, mine["first"], mine["gradients"], strict=True):
            gradient = torch.tensor(gradient, dtype=torch.float32)
            assert torch.equal(weight, torch.tensor(first)), run
            largest = float(weight.grad.abs().max())
            error = float((weight.grad - gradient).abs().max())
            assert error <= 2e-6 * largest, (run, error, largest)
            trained += largest > 0
            weight.grad = gradient  # Adam divides by its size: that of rounding errors would count
        optimizer.step()
        for weight, second in zip(weights, mine["second"], strict=True):
            torch.testing.assert_close(weight.data, torch.tensor(second), rtol=1e-6, atol=1e-7, msg=str(run))
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
console.log(JSON.stringify({
  reports: reports.map(({rates, probe}) => ({index: probe.index, layers: rates.map((rate, i) => (
    [Array.from(rate), Array.from(rate, (_, n) => probe.spikes[i].filter((s, k) => s && k % rate.length === n).length)]
  ))})),
  accuracy, answers: [...new Set(answers)], probe: silent.probe({index: 0}).leaders,
  says: [[[0], [0.1]], [[0.1], [0, 0]]].map((rates) => diagnosis({rates, gradients: [0, 0], updates: 0})),
}));
"""


def test_health_and_sample_agree_and_silence_is_no_answer(generated):
    found = node(f"{generated}\n{web.bundle('commentary.js', 'setup.js')}\n{MISTAKE}")
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
    script = f"{web.bundle('setup.js')}\nconst texts = {json.dumps(texts)};\n"
    script += (
        "console.log(JSON.stringify(texts.map((text) => [readLink('#' + text), writeLink(readLink(text).settings)])));"
    )
    results = node(script)
    for text, (read, again) in zip(texts[:2], results, strict=False):
        assert (read["errors"], again) == ([], text)
    errors = [read["errors"] for read, _ in results[2:]]
    assert [len(each) for each in errors] == [1] * 10
    assert errors[0] == ['steps must be a whole number from 10 to 50, but it is "9"']
    assert errors[1] == ['hidden must be one to three whole numbers from 2 to 128, such as 64,32, but it is "1"']
    assert errors[5] == ['leak must be left out for IF, but it is "2"']
