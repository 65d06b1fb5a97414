"""Sweeps with real kernels: what comes back from a notebook, and what becomes of one that breaks, hangs or dies."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest

from snnkit.lab import sweep
from snnkit.lab.tools import notebook_client, pair
from snnkit.lab.tools.project import find

from .sweep_cases import asked, notebook

ROOT = Path(__file__).parents[2]

CASES = """
import os
import time

from snnkit.lab import sweep

sweep.record(begun=True, threads=os.environ["OMP_NUM_THREADS"], where=os.getcwd())
if NAME == "nan":
    sweep.record(score=1.0)
    sweep.record(score=float("nan"))
elif NAME == "raises":
    raise KeyError("no such thing")
elif NAME == "hangs":
    time.sleep(600)
elif NAME == "dies":
    os._exit(7)
elif NAME == "clash":
    sweep.record(RATE=2.0)
elif NAME == "cleared":
    from IPython.display import clear_output
    import ipywidgets

    with ipywidgets.Output():
        sweep.record(score=A * RATE)
    clear_output()
"""
NAMES = ["nan", "raises", "hangs", "dies", "clash", "cleared"]


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """(folder, table, rows by NAME) of one sweep of all cases, two at a time."""
    folder = tmp_path_factory.mktemp("swept")
    notebook(folder / "tiny.ipynb", CASES)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("OMP_NUM_THREADS")
        keys = asked(folder, parameters={"NAME": NAMES}, fixed={"A": 3, "RATE": 0.5}, workers=2, seconds=5)
        table = sweep.run(keys, quiet=True)
    return folder, table, {row["NAME"]: row for row in table.rows(named=True)}


def test_none_stops_the_others(swept):
    _, table, rows = swept
    assert table["NAME"].to_list() == NAMES
    assert {name for name, row in rows.items() if row["status"] == "ok"} == {"nan", "cleared"}
    assert all(row["seconds"] > 0 for row in rows.values())
    assert all(row["peak_mb"] > 20 for name, row in rows.items() if name != "dies")


def test_what_is_recorded_arrives_even_from_cleared_outputs_and_the_last_value_stands(swept):
    folder, _, rows = swept
    assert rows["cleared"]["score"] == 1.5
    assert rows["nan"]["score"] != rows["nan"]["score"]
    alive = [row for name, row in rows.items() if name != "dies"]  # a crash may take along what is on its way
    assert all(row["begun"] for row in alive), "failed runs keep what they had"
    assert {row["where"] for row in alive} == {str(folder)}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert {row["threads"] for row in alive} == {str(max(1, cores // 2))}


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("raises", "KeyError: 'no such thing'"),
        ("hangs", "TimeoutError: the notebook took longer than 5 s"),
        ("dies", "DeadKernelError: "),
        ("clash", "ValueError: RATE was recorded, which is the name of a parameter"),
    ],
)
def test_failures_say_why_with_cell_and_traceback(name, error, swept):
    folder, _, rows = swept
    assert rows[name]["error"].startswith(error)
    (failure,) = [one for one in sweep.failures(folder / "out") if one.parameters["NAME"] == name]
    assert failure.error == rows[name]["error"]
    if name != "clash":
        assert failure.cell == 1
    if name == "raises":
        assert "KeyError" in failure.traceback and 'raise KeyError("no such thing")' in failure.traceback


def test_executed_notebooks_are_kept_with_their_parameters(swept):
    folder, _, rows = swept
    for name in ("cleared", "raises"):
        copy = nbformat.read(folder / "out" / "notebooks" / f"{rows[name]['run']}.ipynb", as_version=4)
        injected = [cell for cell in copy.cells if "injected-parameters" in cell.metadata.get("tags", [])]
        assert f"NAME = '{name}'" in injected[0].source and "A = 3" in injected[0].source
        assert bool(notebook_client.errors_in(copy)) is (name == "raises")


@pytest.mark.slow
@pytest.mark.notebook
def test_the_worker_notebook_learns_xor_and_a_price_on_spikes_saves_some(tmp_path):
    keys = {"notebook": "xor_in_time", "out": str(tmp_path / "xor"), "workers": 2, "seconds": 300}
    keys |= {"parameters": {"RATE_PENALTY": [0.0, 0.01]}, "fixed": {"DEVICE": "cpu", "HIDDEN": 16}}
    free, dear = sweep.run(keys, quiet=True).rows(named=True)
    assert (free["status"], dear["status"]) == ("ok", "ok"), [str(one) for one in sweep.failures(tmp_path / "xor")]
    assert free["accuracy"] > 0.9 and dear["accuracy"] > 0.8
    assert 0 < dear["spikes"] < free["spikes"] / 2


def test_the_worker_notebooks_are_in_sync_and_known_by_their_names():
    project = find()
    assert project.workers() == ["workers/xor_in_time"]
    assert pair.check(project, "workers/xor_in_time") == []
    known = sweep.load({"notebook": "xor_in_time", "out": "out", "seeds": [0]}).notebook
    assert known.path.samefile(project.pair("workers/xor_in_time"))


RUNS, KILLS = 8, 2  # with kernels; without them, in test_sweep_execute, there are more of both
SLEEPER = """
import os, subprocess, sys, time
from snnkit.lab import sweep

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
    pids, out, moments = tmp_path / "pids", tmp_path / "out", random.Random(0)
    keys = asked(tmp_path, parameters={"A": list(range(RUNS))}, fixed={"NAME": str(pids)}, workers=3)
    (tmp_path / "m.yaml").write_text(json.dumps(keys))  # JSON is YAML
    command = [sys.executable, "-m", "snnkit.lab.cli", "sweep", str(tmp_path / "m.yaml")]

    def ended() -> int:
        return len(list((out / "runs").glob("*.json")))

    for _ in range(KILLS):
        before = ended()
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True)
        while process.poll() is None and ended() < before + 2:
            time.sleep(0.02)
        time.sleep(moments.uniform(0, 0.8))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        wait_for_the_end_of(pids)
        assert before + 2 <= ended() == len(sweep.results(out)) < RUNS
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert f"{RUNS} runs, 0 failed: {out / 'results.csv'}" in done.stdout
    assert sorted(sweep.results(out)["score"]) == list(range(RUNS))
    wait_for_the_end_of(pids)


def wait_for_the_end_of(pids: Path) -> None:
    """Until none of the processes that are listed in a file is there; fails after some seconds."""
    until = time.monotonic() + 20
    processes = [psutil.Process(int(pid)) for pid in pids.read_text().split() if psutil.pid_exists(int(pid))]
    while left := [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]:
        assert time.monotonic() < until, f"processes {left} have outlived the sweep"
        time.sleep(0.1)
