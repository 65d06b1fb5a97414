"""`snnkit bench frameworks`: the same weights, results compared, and a contestant in a process of its own."""

import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

import snnkit
from snnkit import records
from snnkit.lab.bench import baselines, frameworks, neurons, remote
from snnkit.lab.bench.baselines import Layer
from snnkit.lab.bench.workloads import EQUATIONS
from snnkit.lab.cli import main

# Answers as the worker does, by our own eager engine.
TWIN = f"import sys\nsys.path.insert(0, {str(Path(snnkit.__file__).parents[1])!r})\n"
TWIN += """
import json, time
from pathlib import Path
import numpy as np, torch
from snnkit.lab.bench.workloads import EQUATIONS
folder = Path(sys.argv[1])
job = json.loads((folder / "job.json").read_text())
x, d_out = (torch.from_numpy(np.load(folder / f"{name}.npy")) for name in ("x", "d_out"))
weight = folder / "weight.npy"
leaf = torch.from_numpy(np.load(weight)) if weight.exists() else x
leaf.requires_grad_()
out = EQUATIONS["Leaky, spike first"]("eager")(torch.nn.functional.linear(x, leaf) if weight.exists() else leaf)[0]
if job["mode"] == "training":
    np.save(folder / "gradient.npy", FACTOR * torch.autograd.grad(out, leaf, d_out)[0].numpy())
np.save(folder / "out.npy", out.detach().numpy())
print(json.dumps({"first_s": 1.5, "peak_bytes": 7000000, "backend": "BACKEND"}), flush=True)
for line in sys.stdin:
    print(1e-3 * int(line), flush=True)
"""


def run(tmp_path, monkeypatch, *words, worker=TWIN, backend="cpu", factor="1", code=0):
    script = tmp_path / "worker.py"
    script.write_text(worker.replace("BACKEND", backend).replace("FACTOR", factor))
    monkeypatch.setattr(remote, "WORKER", script)
    eager = EQUATIONS["LIF"]("eager")
    monkeypatch.setattr(neurons, "layers", lambda device: [Layer("Twin", "LIF", lambda x: eager(x)[0])])
    size = ("--device", "cpu", "--features", "12", "--steps", "8", "--batch", "2", "--repeats", "3")
    result = CliRunner().invoke(main, ["bench", "frameworks", *size, "--jax", sys.executable, *words])
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.slow
def test_all_are_timed_beside_the_matrix_products(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    text = run(tmp_path, monkeypatch, "--out", str(path))
    record = records.read(path)
    names = {(row["part"], row["mode"], row["contestant"], row["equation"]) for row in record["rows"]}
    twins = {("Twin", "LIF"), ("Spyx", "Leaky, spike first")}
    assert {(part, mode, *twin) for part in ("layer", "neurons") for mode in neurons.MODES for twin in twins} <= names
    spyx = [row for row in record["rows"] if row["contestant"] == "Spyx"]
    assert {(row["median_s"], row["first_s"], row["peak_bytes"]) for row in spyx} == {(1e-3, 1.5, 7_000_000)}
    assert {row["spikes_differ"] for row in record["rows"]} == {0.0}
    assert "layer, training, float32, n = 12, T = 8, batch 2; matrix products alone:" in text
    layer = next(row for row in spyx if row["part"] == "layer")
    (products,) = [s for s in record["scales"] if (s["part"], s["mode"]) == ("layer", layer["mode"])]
    assert layer["over_floor"] == pytest.approx(1e-3 / products["median_s"])
    shown = CliRunner().invoke(main, ["bench", "show", str(path)]).output
    assert "neurons, inference" in shown and "x products" in shown


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"factor": "1.5"}, "its gradients are 50.00% off"),
        ({"backend": "gpu"}, "its JAX runs on 'gpu'"),
        ({"worker": "raise SystemExit('no module named spyx')"}, "no module named spyx"),
    ],
)
def test_what_can_not_be_compared_is_not_timed(tmp_path, monkeypatch, options, reason):
    text = run(tmp_path, monkeypatch, "--part", "layer", **options)
    assert "not timed: Spyx (" in text and reason in text


def test_without_its_python_a_library_is_left_out(tmp_path, monkeypatch):
    text = run(tmp_path, monkeypatch, "--jax", str(tmp_path / "python"), "--part", "neurons")
    assert "not timed: Spyx (" in text and "`make peers` makes it" in text
    assert "Spyx" not in run(tmp_path, monkeypatch, "--no-peers", "--part", "neurons")


def test_a_process_that_ends_while_it_is_timed_is_an_error(tmp_path, monkeypatch):
    text = run(tmp_path, monkeypatch, worker=TWIN.replace("1e-3 * int(line)", "sys.exit(3)"), code=1)
    assert "Error: the process of Spyx ended while it was timed" in text


def test_tf32_is_of_products_on_cuda(tmp_path, monkeypatch):
    text = run(tmp_path, monkeypatch, "--dtype", "tf32", code=1)
    assert "dtype must be float32 or bfloat16 on 'cpu' devices, which have no TF32" in text
    allowed = {}
    for dtype in ("float32", "tf32"):
        case = frameworks.LayerCase(
            [], frameworks.Arguments(steps=2, batch=1), "layer", 4, dtype, neurons.TRAINING, torch.device("cpu")
        )

        def forward(x, dtype=dtype):
            allowed[dtype] = torch.backends.cuda.matmul.allow_tf32
            return x

        case._result(forward, case.x, case.gradient_in)
        assert (case.labels["dtype"], case.dtype) == (dtype, torch.float32)
    assert allowed == {"float32": False, "tf32": True} and not torch.backends.cuda.matmul.allow_tf32


def test_a_compiled_contestant_is_compiled_again_for_each_case(monkeypatch):
    """PyTorch compiles a function for eight kinds of arguments, and after that runs it uncompiled, without an error."""
    resets = []
    monkeypatch.setattr(torch.compiler, "reset", lambda: resets.append(1))
    cell = EQUATIONS["LIF"]("eager")
    every = [Layer(name, "LIF", lambda x: cell(x)[0], compiles=name == "compiled") for name in ("usual", "compiled")]
    arguments = frameworks.Arguments("cpu", (6,), 4, 2)
    for mode in neurons.MODES:
        frameworks.LayerCase(every, arguments, "neurons", 6, "float32", mode, torch.device("cpu")).measure(3)
    assert len(resets) == len(neurons.MODES)


def test_engines_can_be_chosen(tmp_path, monkeypatch):
    text = run(tmp_path, monkeypatch, "--engines", "eager", "--part", "neurons", "--no-peers")
    assert "eager" in text and "cpp" not in text


def test_a_library_that_can_not_be_imported_is_left_out_and_said(tmp_path, monkeypatch):
    (tmp_path / "sinabs").mkdir()
    (tmp_path / "sinabs" / "__init__.py").write_text("import numpy\nnumpy.gone_in_this_version\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "sinabs"]:
        monkeypatch.delitem(sys.modules, name)
    baselines.imported.cache_clear()
    try:
        with pytest.warns(
            UserWarning, match="Sinabs is left out: AttributeError: module 'numpy' has no attribute 'gone"
        ):
            assert baselines.imported(baselines.SINABS) is None
    finally:
        baselines.imported.cache_clear()
