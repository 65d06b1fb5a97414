"""The notebooks made for sweeps: in sync with their sources, found by name, and of use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from snnkit import sweep
from snnkit.sweep import manifest as manifests
from snnkit.tools import pair
from snnkit.tools.project import find

PROJECT = find()
WORKERS = sorted(path.stem for path in (PROJECT.sources / manifests.WORKERS).glob("*.py"))


def test_each_notebook_has_a_source_and_is_what_build_would_write():
    assert sorted(path.stem for path in (PROJECT.notebooks / manifests.WORKERS).glob("*.ipynb")) == WORKERS
    assert WORKERS and [str(found) for name in WORKERS for found in pair.check(PROJECT, f"workers/{name}")] == []


@pytest.mark.parametrize("name", WORKERS)
def test_it_is_small_has_no_outputs_and_records(name):
    path = PROJECT.notebooks / manifests.WORKERS / f"{name}.ipynb"
    code = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert path.stat().st_size < 50_000 and all(cell["outputs"] == [] for cell in code)
    assert sum("sweep.record(" in "".join(cell["source"]) for cell in code) == 1


WORKER = "xor_in_time"


@pytest.mark.slow
@pytest.mark.notebook
def test_the_worker_notebook_learns_xor_and_a_price_on_spikes_saves_some(tmp_path):
    keys = {
        "notebook": WORKER,
        "out": str(tmp_path / "xor"),
        "parameters": {"RATE_PENALTY": [0.0, 0.01]},
        "fixed": {"DEVICE": "cpu", "HIDDEN": 16},
        "workers": 2,
        "seconds": 300,
    }
    free, dear = sweep.run(keys, show="none").rows(named=True)
    assert (free["status"], dear["status"]) == ("ok", "ok"), [str(one) for one in sweep.failures(tmp_path / "xor")]
    assert free["accuracy"] > 0.9 and dear["accuracy"] > 0.8
    assert 0 < dear["spikes"] < free["spikes"] / 2


def test_the_package_carries_the_workers_of_the_clone():
    """By a link, whose files a wheel gets; without a clone they are found there."""
    found = manifests.read_notebook(WORKER, Path())
    packaged = Path(manifests.__file__).with_name(manifests.WORKERS) / f"{WORKER}.ipynb"
    assert packaged.samefile(found.path)
    assert {"QUICK", "SEED", "DEVICE", "HIDDEN", "LEARNING_RATE", "TAU", "RATE_PENALTY"} <= set(found.parameters)
