"""`snnkit bench compare` on a GPU: graphs and Triton take part, and compute the same update."""

from click.testing import CliRunner

from snnkit import records
from snnkit.cli import main


def test_graphs_and_kernels_are_timed(cuda, tmp_path):
    path = tmp_path / "r.json"
    sizes = ["--batch", "16", "--hidden", "32", "--steps", "5", "--repeats", "3"]
    result = CliRunner().invoke(
        main, ["bench", "compare", "--device", "cuda", *sizes, "--no-peers", "--no-keep-memory", "--out", str(path)]
    )
    assert result.exit_code == 0, result.output
    content = records.read(path)
    assert content["provenance"]["device"]["type"] == "cuda"
    for dtype in ("float32", "bfloat16"):
        rows = {row["contestant"]: row for row in content["rows"] if row["dtype"] == dtype and row["batch"] == 16}
        assert {"eager", "block", "triton", "auto", "CUDA graph", "CUDA graph, layer 1 every step"} <= set(rows)
        assert all(row["peak_bytes"] > 0 for row in rows.values())
    assert {band["precision"] for band in content["predictions"]} == {"float32", "float16"}
