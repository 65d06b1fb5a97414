"""A sweep that is killed, at any moment and several times, ends with a row for each run and none twice."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import polars
import pytest

from snnkit import sweep

from .sweep_cases import asked, notebook
from .sweep_killed import MANIFEST

ROOT = Path(__file__).parents[2]


def check_complete(out: Path, ids: set[str]) -> None:
    """A row for each run, none twice, in each form of the table."""
    for table in (
        sweep.results(out),
        polars.read_parquet(out / "results.parquet"),
        polars.read_csv(out / "results.csv"),
    ):
        assert len(table) == len(ids) and set(table["run"]) == ids


@pytest.mark.parametrize(
    "moments",
    [[1, -3, 4, -8], pytest.param([-1, 1, -1, -2, 2, -3, 3, -4, 5, -6, 7, -8, 9], marks=pytest.mark.slow)],
    ids=["some", "every kind"],
)
def test_killed_at_many_moments(moments, tmp_path):
    """Before and after the replacement of each kind of file, early and late."""
    command = [sys.executable, "-m", "tests.unit.sweep_killed", str(tmp_path), *map(str, moments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    ended = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert [moment for moment, _ in ended] == [*moments, 0], done.stderr
    killed = [moment for moment, how in ended if how == signal.SIGKILL]
    assert len(killed) >= 0.7 * len(moments) and ended[-1] == (0, 0), done.stdout
    asked_for = sweep.load(asked(tmp_path, **MANIFEST))
    check_complete(tmp_path / "out", {run.id for run in asked_for.runs})
    table = sweep.results(tmp_path / "out")
    assert (table.filter(polars.col("A") == 13)["status"] == "failed").all() and table["score"].null_count() == 6
    begun = Counter((tmp_path / "begun").read_text().split())
    assert set(begun) == {run.id for run in asked_for.runs}
    # Only those under way are done again: as many as there are workers, for each kill.
    assert sum(begun.values()) <= 24 + 3 * len(killed)


RUNS, KILLS = 10, 2  # with kernels; without them above, there are more of both
SLEEPER = """
import os, subprocess, sys, time
from snnkit import sweep

child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
with open(NAME, "a") as file:
    file.write(f"{os.getpid()} {child.pid}\\n")
time.sleep(0.2)
child.kill()
sweep.record(score=A)
"""


@pytest.mark.slow
@pytest.mark.notebook
def test_real_kernels_killed_at_random_moments_leave_no_process_behind(tmp_path):
    notebook(tmp_path / "tiny.ipynb", SLEEPER)
    pids = tmp_path / "pids"
    keys = asked(tmp_path, parameters={"A": list(range(RUNS))}, fixed={"NAME": str(pids)}, workers=3)
    (tmp_path / "m.yaml").write_text(json.dumps(keys))  # JSON is YAML
    out, moments = tmp_path / "out", random.Random(0)
    kills = 0
    for _ in range(KILLS + 3):
        process = subprocess.Popen(
            [sys.executable, "-m", "snnkit.cli", "sweep", str(tmp_path / "m.yaml")],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        before = number_of(out / "runs")
        if kills < KILLS:
            while process.poll() is None and number_of(out / "runs") < min(before + 2, RUNS):
                time.sleep(0.02)
            time.sleep(moments.uniform(0, 1.5))
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                kills += 1
                wait_for_the_end_of([int(pid) for pid in pids.read_text().split()])
                assert number_of(out / "runs") == len(sweep.results(out)) < RUNS
                continue
        told, _ = process.communicate(timeout=200)
        break
    assert kills == KILLS and process.returncode == 0, told
    assert f"{RUNS} runs, 0 failed: {out / 'results.csv'}" in told and "done before" in told
    check_complete(out, {run.id for run in sweep.load(tmp_path / "m.yaml").runs})
    assert sorted(sweep.results(out)["score"]) == list(range(RUNS))
    wait_for_the_end_of([int(pid) for pid in pids.read_text().split()])


def number_of(folder: Path) -> int:
    return len(list(folder.glob("*.json"))) if folder.is_dir() else 0


def wait_for_the_end_of(pids: list[int]) -> None:
    """Until none of these processes is there; fails after some seconds."""
    until = time.monotonic() + 20
    while left := [pid for pid in pids if runs(pid)]:
        assert time.monotonic() < until, f"processes {left} have outlived the sweep"
        time.sleep(0.1)


def runs(pid: int) -> bool:
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX"
    return False
