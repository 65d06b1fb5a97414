"""``snnkit bench sparsity``: ways to multiply spikes, and to train by them, agree before they are timed."""

import json
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

import snnkit
from snnkit.lab.bench import remote, sparsity as bench, spiking_steps as steps, tables
from snnkit.lab.cli import main
from snnkit.neuron import around

CPU = torch.device("cpu")
RECURRENT, PLAIN = steps.QUICK_NETS

# Answers as the worker of JAX, by PyTorch.
TWIN = f"import sys\nsys.path.insert(0, {str(Path(snnkit.__file__).parents[1])!r})\n"
TWIN += """
import json
from pathlib import Path
import numpy as np, torch
folder = Path(sys.argv[1])
job = json.loads((folder / "job.json").read_text())
arrays = {file.stem: torch.from_numpy(np.load(file)) for file in folder.glob("*.npy")}
weights = [arrays[name].requires_grad_() for name in job["wanted"]]
def product():
    x = torch.from_numpy(np.load(folder / "x.npy"))
    return torch.nn.functional.linear(x, *weights), arrays["d_out"]
def step():
    from snnkit.lab.bench import spiking_steps as steps
    from snnkit.loss import count_cross_entropy
    model = steps.network(steps.QUICK_NETS[1], "Leaky, spike first", "eager")
    weights[:] = model.parameters()
    steps.fill(weights, [arrays[name] for name in job["wanted"]])
    out = model(arrays["x"])[0]
    return out, torch.autograd.grad(count_cross_entropy(out, arrays["labels"]), out, retain_graph=True)[0]
def write():
    out, d_out = product() if job["what"] == "product" else step()
    np.save(folder / "out.npy", out.detach().numpy())
    if job["mode"] == "training":
        gradients = torch.autograd.grad(out, weights, d_out)
        np.save(folder / "gradient.npy", FACTOR * torch.cat([g.flatten() for g in gradients]).numpy())
write()
print(json.dumps({"first_s": 1.5, "peak_bytes": 7000000, "backend": "cpu"}), flush=True)
for line in sys.stdin:
    print(write() if line == "again\\n" else 1e-3 * int(line), flush=True)
"""


@pytest.fixture
def twin(tmp_path, monkeypatch):
    def write(factor=1.0):
        worker = tmp_path / "worker.py"
        worker.write_text(TWIN.replace("FACTOR", str(factor)))
        monkeypatch.setattr(remote, "WORKER", worker)

    return write


pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")


@pytest.mark.parametrize("mode", bench.MODES)
def test_a_case_is_measured_density_by_density(mode):
    outcome = bench.Case(bench.Shape(70, 50, 40), mode, (0.05, 0.1, 1.0), CPU).measure(3)
    assert [row["contestant"] for row in outcome.rows] == [*bench.CONTESTANTS[:4]] * 3 and not outcome.skipped
    assert [row["density"] for row in outcome.rows[::4]] == [0.05, 0.1, 1.0]
    assert all(row["differ"] <= bench.MAY_DIFFER and row["p10_s"] <= row["median_s"] for row in outcome.rows)


def test_results_that_differ_are_not_timed(monkeypatch):
    every = bench.products

    def wrong(layer, spikes):
        return every(layer, spikes) | {bench.CSR: lambda x: layer(x) * (1 + 1e-3)}

    monkeypatch.setattr(bench, "products", wrong)
    outcome = bench.Case(bench.Shape(70, 50, 40), bench.TRAINING, (0.1,), CPU).measure(3)
    assert [row["contestant"] for row in outcome.rows] == [bench.EVENTS, bench.DENSE, bench.PYTORCH]
    (skip,) = outcome.skipped
    assert skip["contestant"] == bench.CSR and skip["reason"] == "it computes something else: 0.001 off"


def test_the_command_its_table_and_its_record(tmp_path):
    out, threads = tmp_path / "record.json", torch.get_num_threads()
    try:
        done = CliRunner().invoke(
            main, ["bench", "sparsity", "--part", "products", "--quick", "--no-peers", "--out", str(out)]
        )
    finally:
        torch.set_num_threads(threads)
    assert done.exit_code == 0, done.output
    record = json.loads(out.read_text())
    assert record["kind"] == "sparsity" and record["complete"] is True and len(record["rows"]) == 2 * 2 * 4
    for row in record["rows"]:
        row["median_s"] = {bench.EVENTS: 0.001, bench.DENSE: 0.004, bench.PYTORCH: 0.003, bench.CSR: 0.1}[
            row["contestant"]
        ]
    line = tables(record).splitlines()[-1]
    assert line.split() == ["50.0%", "1", "4", "3", "100", "3.00"]
    assert CliRunner().invoke(main, ["bench", "sparsity", "--density", "2"]).exit_code == 2


@pytest.mark.parametrize("mode", bench.MODES)
def test_brainevent_takes_turns_from_its_own_process(mode, twin):
    shape = bench.Shape(70, 50, 40)
    for factor, timed in ((1.0, True), (1.001, mode == bench.FORWARD)):
        twin(factor)
        outcome = bench.Case(shape, mode, (0.1, 0.3), CPU, sys.executable).measure(3)
        rows = [row for row in outcome.rows if row["contestant"] == bench.BRAINEVENT]
        assert [(row["library"], row["median_s"]) for row in rows] == [("brainevent", 1e-3)] * 2 * timed
        assert timed or outcome.skipped[0]["reason"].startswith("it computes something else: 0.001 off")
    missing = bench.Case(shape, mode, (0.1,), CPU, "/no/python").measure(3).skipped
    assert [(row["contestant"], row["reason"]) for row in missing] == [
        (bench.BRAINEVENT, "there is no /no/python (`make peers` makes it)")
    ]


def test_whole_steps_of_ours_agree_and_are_timed():
    outcome = steps.Case(RECURRENT, False, "", CPU).measure(3)
    assert [row["contestant"] for row in outcome.rows] == ["snnkit", steps.LISTED, steps.DENSE, steps.LOOP]
    memory = {row["contestant"]: row["peak_bytes"] for row in outcome.rows}
    assert memory[steps.LISTED] < memory["snnkit"] and memory["snnkit"] > 4 * 20 * 8 * 70
    for row in outcome.rows:
        assert row["differ"] < 1e-5 and row["spikes_differ"] == 0
        assert abs(row["hidden"] - steps.FIRING) < 0.01 and row["p10_s"] <= row["median_s"]
    title, _, first, *_ = steps.as_table(outcome.rows).splitlines()
    assert title == "70-40rec-5, T = 20, batch 8, training step, 10.0% of the inputs are spikes"
    assert first.split()[:2] == ["snnkit", "Leaky"] and "1.00" in first.split()


def test_the_loop_is_one_and_the_rest_is_not(monkeypatch):
    loops, loop = [], around.loop
    monkeypatch.setattr(around, "loop", lambda *given: loops.append(1) or loop(*given))
    case = steps.Case(RECURRENT, False, "", CPU)
    called = {}
    for one in steps.contestants(RECURRENT, peers=False):
        case._updated(one, case.weights(one.equation)[0])
        called[one.name], loops[:] = len(loops), []
    assert called == {"snnkit": 0, steps.LISTED: 0, steps.DENSE: 0, steps.LOOP: 1}


def test_spyx_in_steps_and_who_computes_something_else(twin, monkeypatch):
    every = [one for one in steps.contestants(PLAIN, peers=True) if one.library == steps.SPYX]
    monkeypatch.setattr(steps, "contestants", lambda net, peers: every)
    twin()
    (row,) = steps.Case(PLAIN, True, sys.executable, CPU).measure(3).rows
    assert row["median_s"] == 1e-3 and row["peak_bytes"] == 7_000_000 + 4 * 20 * 8 * 50 and row["differ"] < 1e-5
    twin(1.5)
    (skip,) = steps.Case(PLAIN, True, sys.executable, CPU).measure(3).skipped
    assert skip["reason"].endswith("0.00% of its output spikes differ, its gradients are 50.00% off")


@pytest.mark.parametrize(
    ("library", "module"), [("SpikingJelly", "spikingjelly"), ("snnTorch", "snntorch"), ("Norse", "norse")]
)
def test_peers_that_are_installed_compute_the_same_update(library, module, monkeypatch):
    pytest.importorskip(module)
    for net in (RECURRENT, PLAIN):
        case = steps.Case(net, True, "", CPU)
        (one,) = (one for one in steps.contestants(net, peers=True) if one.library == library)
        row, _ = case._prepared(one)
        assert row["differ"] < 1e-4 and row["spikes_differ"] == 0


def test_a_peer_without_its_kernel_is_not_timed_as_if_it_had_one(monkeypatch):
    monkeypatch.setattr(
        bench, "products", lambda layer, x: {"PyTorch": layer, bench.PEER: partial(bench._spikingjelly, layer)}
    )
    monkeypatch.setattr(bench.importlib.util, "find_spec", lambda name: None)
    outcome = bench.Case(bench.Shape(70, 50, 40), bench.FORWARD, (0.1,), CPU).measure(3)
    assert [row["contestant"] for row in outcome.rows] == ["PyTorch"]
    assert outcome.skipped[0]["reason"].startswith("its CUDA kernel was not built")
