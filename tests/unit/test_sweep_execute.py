"""Sweeps without kernels: what is skipped, added, done again and refused, and what lies on the disk."""

from __future__ import annotations

import json
import threading

import polars
import pytest

from snnkit import sweep
from snnkit.sweep import execute
from snnkit.sweep.results import Folder

from .sweep_cases import Fake, asked, notebook, without_kernels


@pytest.fixture
def fake(monkeypatch):
    """What runs do in place of kernels."""
    made = Fake()
    monkeypatch.setattr(execute, "Kernels", without_kernels(made))
    return made


def run(tmp_path, retry=False, **keys):
    return sweep.run(asked(tmp_path, **keys), show="none", retry=retry)


def everything(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_table_has_a_row_for_each_run_in_the_order_asked_for(tmp_path, fake):
    table = run(tmp_path, parameters={"A": [13, 2], "RATE": [1, 0.5]}, seeds=[5])
    assert table.columns == ["run", "status", "A", "RATE", "SEED", "score", "seconds", "peak_mb", "error"]
    assert table.select("A", "RATE", "SEED").rows() == [(13, 1.0, 5), (13, 0.5, 5), (2, 1.0, 5), (2, 0.5, 5)]
    assert table["status"].to_list() == ["failed", "failed", "ok", "ok"]
    assert table["score"].to_list() == [None, None, 0.25, 0.25]
    assert table["error"].to_list() == ["ValueError: unlucky"] * 2 + [None] * 2
    out = tmp_path / "out"
    assert sweep.results(out).equals(table)
    assert polars.read_parquet(out / "results.parquet").equals(table)
    assert polars.read_csv(out / "results.csv").equals(table)
    first, _ = sweep.failures(out)
    assert (first.run, first.parameters, first.traceback) == (
        table["run"][0],
        {"A": 13, "RATE": 1.0, "SEED": 5},
        "Traceback: unlucky",
    )
    assert str(first) == f"run {first.run} (A=13 RATE=1.0 SEED=5): ValueError: unlucky"


def test_what_has_ended_is_skipped_and_failures_are_done_again_when_asked(tmp_path, fake):
    keys = {"parameters": {"A": [1, 13]}}
    before = run(tmp_path, **keys)
    fake.begun.clear()
    assert run(tmp_path, **keys).equals(before) and fake.begun == []
    assert run(tmp_path, **keys, retry=True).equals(before) and fake.begun == [before["run"][1]]


def test_a_grid_may_grow_and_keeps_what_it_had(tmp_path, fake):
    old = run(tmp_path, parameters={"A": [1, 2]}, seeds=[0])
    fake.begun.clear()
    new = run(
        tmp_path, parameters={"A": [3, 2]}, seeds=[0, 1], workers=1, seconds=9, pareto={"maximise": ["score", "A"]}
    )
    assert new.select("A", "SEED").rows() == [(3, 0), (3, 1), (2, 0), (2, 1), (1, 0)]
    assert set(old["run"]) <= set(new["run"]) and len(set(fake.begun)) == len(fake.begun) == 3


def test_a_random_sweep_may_take_more_samples(tmp_path, fake):
    keys = {"mode": "random", "parameters": {"RATE": {"uniform": [0, 1]}}, "seed": 3}
    old = run(tmp_path, samples=3, **keys)
    assert run(tmp_path, samples=5, **keys)["run"].to_list()[:3] == old["run"].to_list()
    assert len(fake.begun) == 5


CHANGES = {
    "fixed": ({"fixed": {"FAST": False}}, r'fixed has changed .*\(it was \{"FAST": true\}, and is \{"FAST": false\}\)'),
    "fixed gone": ({"fixed": None}, r"fixed has changed"),
    "another name": ({"parameters": {"A": [1, 2], "NAME": ["a"]}}, r"which parameters vary has changed"),
    "mode": ({"mode": "random", "samples": 2}, r"the mode has changed"),
}


@pytest.mark.parametrize(("keys", "says"), CHANGES.values(), ids=CHANGES)
def test_what_would_not_be_comparable_is_refused_and_nothing_written(keys, says, tmp_path, fake):
    run(tmp_path, fixed={"FAST": True})
    before = everything(tmp_path / "out")
    with pytest.raises(sweep.SweepError, match=says + r".*another folder by --out"):
        run(tmp_path, **{"fixed": {"FAST": True}, **keys})
    after = everything(tmp_path / "out")
    assert {path: text for path, text in after.items() if path.name != ".lock"} == {
        path: text for path, text in before.items() if path.name != ".lock"
    }


def test_other_ranges_of_a_random_sweep_are_refused(tmp_path, fake):
    keys = {"mode": "random", "samples": 2}
    run(tmp_path, parameters={"RATE": {"uniform": [0, 1]}}, **keys)
    with pytest.raises(sweep.SweepError, match="seed or ranges of the random sweep has changed"):
        run(tmp_path, parameters={"RATE": {"uniform": [0, 2]}}, **keys)


def test_another_notebook_is_refused_but_other_prose_is_not(tmp_path, fake):
    run(tmp_path)
    content = json.loads((tmp_path / "tiny.ipynb").read_text())
    content["cells"].append({"cell_type": "markdown", "id": "prose", "metadata": {}, "source": "Words."})
    (tmp_path / "tiny.ipynb").write_text(json.dumps(content))
    fake.begun.clear()
    run(tmp_path)
    assert fake.begun == []
    notebook(tmp_path / "tiny.ipynb", "print('something else')")
    with pytest.raises(sweep.SweepError, match="the code of the notebook has changed since"):
        run(tmp_path)
    with pytest.raises(sweep.SweepError, match=r'the notebook has changed .*it was "tiny", and is "other"'):
        run(tmp_path, notebook=str(notebook(tmp_path / "other.ipynb")))


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path, fake):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("years")
    with pytest.raises(sweep.SweepError, match=r"holds something else \(thesis\.tex\), and nothing is overwritten"):
        run(tmp_path)
    assert [path.name for path in out.iterdir()] == ["thesis.tex"] and fake.begun == []
    with pytest.raises(sweep.SweepError, match="can't write to the folder"):
        run(tmp_path, out=str(out / "thesis.tex"))


def test_two_live_sweeps_on_one_folder_share_the_runs(tmp_path, fake):
    both, one = threading.Barrier(2, timeout=20), fake.execute

    def slow(run):
        if len(fake.begun) < 2:
            both.wait()  # each of the two sweeps has a run
        return one(run)

    fake.execute = slow
    threads = [threading.Thread(target=run, args=(tmp_path,), kwargs={"workers": 1}) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(fake.begun) == sorted(set(fake.begun)) and len(fake.begun) == 4
    assert sweep.results(tmp_path / "out").height == polars.read_csv(tmp_path / "out" / "results.csv").height == 4
    assert not list((tmp_path / "out" / "runs").glob(".*.lock"))


def test_interrupted_it_keeps_what_has_ended_and_does_the_rest_later(tmp_path, fake):
    one = fake.execute

    def execute(run):
        if len(fake.begun) == 2:
            raise KeyboardInterrupt
        return one(run)

    fake.execute = execute
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, workers=1)
    assert polars.read_csv(tmp_path / "out" / "results.csv").height == 2
    fake.execute = one
    assert run(tmp_path).height == 4 and len(fake.begun) == len(set(fake.begun)) == 4


@pytest.mark.parametrize("damage", ["", "{}", "[]", '{"run": "x"}', "half"])
def test_a_damaged_file_is_named_and_nothing_is_lost(damage, tmp_path, fake):
    table = run(tmp_path)
    file = tmp_path / "out" / "runs" / f"{table['run'][0]}.json"
    whole = file.read_text()
    file.write_text(whole[: len(whole) // 2] if damage == "half" else damage)
    for use in (run, lambda path: sweep.results(path / "out"), lambda path: sweep.failures(path / "out")):
        with pytest.raises(sweep.SweepError, match=f"{file.name} .*delete it, and"):
            use(tmp_path)
    file.unlink()
    assert run(tmp_path).equals(table)


def test_a_run_under_another_ones_name_is_found(tmp_path, fake):
    table = run(tmp_path)
    runs = tmp_path / "out" / "runs"
    (runs / f"{table['run'][0]}.json").write_bytes((runs / f"{table['run'][1]}.json").read_bytes())
    with pytest.raises(sweep.SweepError, match="is damaged"):
        sweep.results(tmp_path / "out")


def test_a_full_disk_stops_the_sweep_in_words(tmp_path, fake, monkeypatch):
    def full(self, run):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "write", full)
        with pytest.raises(sweep.SweepError, match=r"stopped, and can be continued from the folder .*No space left"):
            run(tmp_path)
    assert run(tmp_path).height == 4


def test_what_is_no_sweep(tmp_path):
    with pytest.raises(sweep.SweepError, match=r"holds no results of a sweep \(there is no sweep\.json in it\)"):
        sweep.results(tmp_path)


@pytest.mark.parametrize(
    ("keys", "says"), [({"workers": 0}, "workers must be"), ({"show": "stars"}, "show must be one")]
)
def test_arguments_of_run(keys, says, tmp_path, fake):
    with pytest.raises(sweep.ManifestError, match=says):
        sweep.run(asked(tmp_path), **keys)
