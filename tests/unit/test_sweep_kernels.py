"""Sweeps with real kernels: what comes back from a notebook, and what becomes of one that breaks, hangs or dies."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from snnkit import sweep
from snnkit.tools import notebook_client, pair
from snnkit.tools.project import find

from .sweep_cases import asked, notebook

ROOT = Path(__file__).parents[2]

CASES = """
import os
import time

from snnkit import sweep

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
def test_ctrl_c_ends_orderly(tmp_path):
    notebook(tmp_path / "tiny.ipynb", "import time\nfrom snnkit import sweep\ntime.sleep(600 if A > 2 else 0)")
    (tmp_path / "m.yaml").write_text("notebook: tiny.ipynb\nout: out\nparameters: {A: [1, 2, 3, 4]}\nworkers: 1\n")
    command = [sys.executable, "-m", "snnkit.cli", "sweep", str(tmp_path / "m.yaml")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    runs, until = tmp_path / "out" / "runs", time.monotonic() + 100
    while len(list(runs.glob("*.json"))) < 2 and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 130, text
    assert f"interrupted; what has ended is in {tmp_path / 'out'}, and the same command continues there" in text
    assert "Traceback" not in text
    assert sweep.results(tmp_path / "out")["A"].to_list() == [1, 2]
    assert (tmp_path / "out" / "results.csv").read_text().count("\n") == 3


@pytest.mark.slow
@pytest.mark.notebook
def test_the_worker_notebook_learns_xor_and_a_price_on_spikes_saves_some(tmp_path):
    keys = {
        "notebook": "xor_in_time",
        "out": str(tmp_path / "xor"),
        "parameters": {"RATE_PENALTY": [0.0, 0.01]},
        "fixed": {"DEVICE": "cpu", "HIDDEN": 16},
        "workers": 2,
        "seconds": 300,
    }
    free, dear = sweep.run(keys, quiet=True).rows(named=True)
    assert (free["status"], dear["status"]) == ("ok", "ok"), [str(one) for one in sweep.failures(tmp_path / "xor")]
    assert free["accuracy"] > 0.9 and dear["accuracy"] > 0.8
    assert 0 < dear["spikes"] < free["spikes"] / 2


def test_the_worker_notebooks_are_in_sync_and_in_the_package():
    """By a link, whose files a wheel gets; without a clone they are found there."""
    project = find()
    assert project.workers() == ["workers/xor_in_time"]
    assert pair.check(project, "workers/xor_in_time") == []
    packaged = Path(sweep.__file__).with_name("workers") / "xor_in_time.ipynb"
    assert packaged.samefile(project.pair("workers/xor_in_time"))


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
        text, _ = process.communicate(timeout=200)
        break
    assert kills == KILLS and process.returncode == 0, text
    assert f"{RUNS} runs, 0 failed: {out / 'results.csv'}" in text and "done before" in text
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
