"""Sweeps with real kernels: what comes back from a notebook, and what becomes of one that breaks, hangs or dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import nbformat
import pytest

from snnkit import sweep
from snnkit.tools import papermill_engine

from .sweep_cases import asked, notebook

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
        keys = asked(folder, parameters={"NAME": NAMES}, fixed={"A": 3, "RATE": 0.5}, workers=2, seconds=8)
        table = sweep.run(keys, show="none")
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
    heard = [row for name, row in rows.items() if name != "dies"]  # a crash may take along what is on its way
    assert all(row["begun"] for row in heard), "failed runs keep what they had"
    assert {row["where"] for row in heard} == {str(folder)}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert {row["threads"] for row in heard} == {str(max(1, cores // 2))}


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("raises", "KeyError: 'no such thing'"),
        ("hangs", "TimeoutError: the notebook took longer than 8 s"),
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
        assert failure.cell == 1 and "from snnkit import sweep" in failure.source
    if name == "raises":
        assert "KeyError" in failure.traceback and 'raise KeyError("no such thing")' in failure.traceback


def test_executed_notebooks_are_kept_with_their_parameters(swept):
    folder, _, rows = swept
    for name in ("cleared", "raises"):
        copy = nbformat.read(folder / "out" / "notebooks" / f"{rows[name]['run']}.ipynb", as_version=4)
        injected = [cell for cell in copy.cells if "injected-parameters" in cell.metadata.get("tags", [])]
        assert f'NAME = "{name}"' in injected[0].source and "A = 3" in injected[0].source
        assert bool(papermill_engine.errors_in_notebook(copy)) is (name == "raises")


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
    told, _ = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert f"interrupted; what has ended is in {tmp_path / 'out'}, and the same command continues" in told
    assert "Traceback" not in told
    assert sweep.results(tmp_path / "out")["A"].to_list() == [1, 2]
    assert (tmp_path / "out" / "results.csv").read_text().count("\n") == 3
