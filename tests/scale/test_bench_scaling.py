"""The scaling benchmark with real ranks: a tiny network, two processes, Lightning and gloo from end to end."""

import sys

import pytest

from snnkit import records
from snnkit.lab.bench import scaling
from tests.scale.job import Job

pytest.importorskip("lightning")

LIMIT = 300  # seconds, on a busy machine; it takes well under a minute on a free one


@pytest.mark.slow
def test_two_ranks_are_predicted_and_measured(tmp_path):
    path = tmp_path / "r.json"
    words = ["bench", "scaling", "--quick", "--ranks", "2", "--out", str(path)]
    with Job([sys.executable, "-m", "snnkit.lab.cli", *words], tmp_path, {"SNNKIT_HEADLESS": "1"}) as job:
        assert job.wait(LIMIT) == 0, job.output
    made = records.read(path)
    assert made["complete"]
    rows = {(row["mode"], row["ranks"]): row for row in made["rows"]}
    assert set(rows) == {("together", 1), ("apart", 2), ("together", 2)}
    # 784-16-10 with biases; the same net on any number of ranks.
    assert {row["parameters"] for row in rows.values()} == {784 * 16 + 16 + 16 * 10 + 10}
    assert all(0 < row["p10_s"] <= row["p90_s"] for row in rows.values())
    assert [row["bytes"] for row in made["links"]] == sorted(row["bytes"] for row in made["links"])
    assert all(p.efficiency <= 1.0 for p in scaling.predicted(made))
    assert "predicted for 2 ranks" in job.output and "Weak scaling" in job.output
