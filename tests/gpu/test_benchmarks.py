"""`snnkit bench` on a GPU: training, devices compared, neurons with graphs and Triton, a record to send in, ranks."""

import json
import sys

import pytest
import torch
from click.testing import CliRunner

from snnkit import records
from snnkit.lab.bench import record
from snnkit.lab.bench.scaling_worker import ANSWER
from snnkit.lab.cli import main
from snnkit.train import launch

LIMIT = 120  # seconds


def test_the_training_benchmark_runs(device, tmp_path, monkeypatch):
    # TF32 in one memory format and not in the other would move spikes, of which so small a network has few.
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    path = tmp_path / "r.json"
    words = ["bench", "training", "--device", device.type, "--quick", "--out", str(path)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    content = records.read(path)
    mine = {row["contestant"] for row in content["rows"] if row["library"] == "snnkit" and row["net"] == "conv"}
    assert {"eager", "auto", "contiguous"} <= mine
    if device.type == "cuda":
        assert {"graphed", "contiguous + graphed"} < mine and all(row["peak_bytes"] > 0 for row in content["rows"])


def test_the_demo_compares_devices(cuda, tmp_path):
    path = tmp_path / "r.json"
    words = ["bench", "demo", "--quick", "--model", "mlp", "--out", str(path)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0 and "GPU/CPU" in result.output, result.output
    assert {row["device"] for row in records.read(path)["rows"]} == {"cpu", "cuda"}


def test_graphs_and_kernels_are_timed(cuda, tmp_path):
    path = tmp_path / "r.json"
    sizes = ["--batch", "16", "--hidden", "32", "--steps", "5", "--repeats", "3"]
    words = ["bench", "compare", "--device", "cuda", *sizes, "--no-peers", "--out", str(path)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    content = records.read(path)
    assert content["provenance"]["device"]["type"] == "cuda"
    for dtype in ("float32", "bfloat16"):
        rows = {row["contestant"]: row for row in content["rows"] if row["dtype"] == dtype and row["batch"] == 16}
        assert {"eager", "block", "triton", "auto", "CUDA graph", "CUDA graph, layer 1 every step"} <= set(rows)
        assert all(row["peak_bytes"] > 0 for row in rows.values())
    assert {band["precision"] for band in content["predictions"]} == {"float32", "float16"}


def test_a_record_to_send_in(cuda, tmp_path):
    path = tmp_path / "r.json"
    result = CliRunner().invoke(main, ["bench", "record", "--quick", "--out", str(path)])
    assert result.exit_code == 0, result.output
    content = records.read(path)
    assert {"eager", "triton"} <= {row["engine"] for row in content["rows"]}
    assert [part["part"] for part in content["records"]] == ["neurons", "training"]
    assert record.check(content) and record.refusal(content) == "a dry run in small sizes"


def answers(device, ranks, *words):
    pytest.importorskip("lightning")
    command = [sys.executable, "-m", "snnkit.lab.bench.scaling_worker", *words, "--device", device.type]
    done = launch(command, ranks, timeout=LIMIT)
    found = [[line for line in output if line.startswith(ANSWER)][-1] for output in done.outputs]
    return [json.loads(line.removeprefix(ANSWER)) for line in found]


@pytest.mark.parametrize("apart", [(), ("--apart",)])
def test_a_rank_of_the_scaling_benchmark_alone(device, apart):
    small = ("--hidden", "16", "--steps", "4", "--batch", "8", "--updates", "20")
    (answer,) = answers(device, 1, "updates", *small, *apart)
    assert len(answer["seconds"]) == (2 if device.type == "cuda" else 20)
    assert min(answer["seconds"]) > 0


def test_products_by_spikes_beside_dense_ones(device, tmp_path):
    words = ["bench", "sparsity", "--device", device.type, "--quick", "--out", str(tmp_path / "record.json")]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert "400 -> 300, training" in result.output
