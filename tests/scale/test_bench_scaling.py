"""The scaling benchmark with real ranks: a tiny network, two processes, Lightning and gloo from end to end."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from snnkit import records
from snnkit.bench import scaling

pytest.importorskip("lightning")

LIMIT = 300  # seconds, on a busy machine; it takes well under a minute on a free one


@pytest.mark.slow
def test_two_ranks_are_predicted_and_measured(tmp_path):
    path = tmp_path / "r.json"
    words = ["bench", "scaling", "--quick", "--ranks", "2", "--out", str(path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "snnkit.cli", *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "SNNKIT_HEADLESS": "1"},
    )  # fmt: skip
    try:
        printed, _ = process.communicate(timeout=LIMIT)
    finally:
        # Ranks have groups of their own, which the launcher and its guard end; this ends the launcher.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert process.returncode == 0, printed
    made = records.read(path)
    assert made["complete"]
    rows = {(row["mode"], row["ranks"]): row for row in made["rows"]}
    assert set(rows) == {("together", 1), ("apart", 2), ("together", 2)}
    # 784-16-10 with biases; the same net on any number of ranks.
    assert {row["parameters"] for row in rows.values()} == {784 * 16 + 16 + 16 * 10 + 10}
    assert all(0 < row["p10_s"] <= row["p90_s"] for row in rows.values())
    assert [row["bytes"] for row in made["links"]] == sorted(row["bytes"] for row in made["links"])
    assert all(p.efficiency <= 1.0 for p in scaling.predicted(made))
    assert "predicted for 2 ranks" in printed and "Weak scaling" in printed
