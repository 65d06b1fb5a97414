"""Sweeps without kernels: what is skipped, added, done again and refused, what is on the disk, and the command."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import polars
import pytest
from click.testing import CliRunner

from snnkit.lab import sweep
from snnkit.lab.cli import main
from snnkit.lab.sweep import execute
from snnkit.lab.sweep.results import Folder
from snnkit.lab.tools import notebook_client, runner

from .sweep_cases import Fake, asked, notebook, without_kernels
from .sweep_killed import MANIFEST

ROOT = Path(__file__).parents[2]


@pytest.fixture
def fake(monkeypatch):
    """What runs do in place of kernels."""
    made = Fake()
    monkeypatch.setattr(runner, "Kernels", without_kernels(made))
    return made


def run(tmp_path, retry=False, **keys):
    return sweep.run(asked(tmp_path, **keys), quiet=True, retry=retry)


def everything(folder):
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {path.relative_to(folder): path.read_bytes() for path in files}


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
    assert (first.run, first.traceback) == (table["run"][0], "Traceback: unlucky")
    assert str(first) == f"run {first.run} (A=13 RATE=1.0 SEED=5) in cell 1: ValueError: unlucky"


@pytest.mark.parametrize("value", [2**40, math.inf, math.nan, "a\0b\n", True])
def test_every_value_that_can_be_recorded_can_be_in_a_table(tmp_path, fake, value):
    fake.metrics = {"x": value}
    table = run(tmp_path)
    assert table["x"].null_count() == 0 and table.equals(sweep.results(tmp_path / "out"), null_equal=True)
    assert polars.read_csv(tmp_path / "out" / "results.csv").height == 4


def test_what_has_ended_is_skipped_and_failures_are_done_again_when_asked(tmp_path, fake):
    keys = {"parameters": {"A": [1, 13]}}
    before = run(tmp_path, **keys)
    fake.begun.clear()
    assert run(tmp_path, **keys).equals(before) and fake.begun == []
    assert run(tmp_path, **keys, retry=True).equals(before) and fake.begun == [before["run"][1]]


def test_a_sweep_may_grow_and_keeps_what_it_had(tmp_path, fake):
    old = run(tmp_path, parameters={"A": [1, 2]}, seeds=[0])
    fake.begun.clear()
    other = {"workers": 1, "seconds": 9, "pareto": {"maximise": ["score", "A"]}}
    new = run(tmp_path, parameters={"A": [3, 2]}, seeds=[0, 1], **other)
    assert new.select("A", "SEED").rows() == [(3, 0), (3, 1), (2, 0), (2, 1), (1, 0)]
    assert set(old["run"]) <= set(new["run"]) and len(set(fake.begun)) == len(fake.begun) == 3


CHANGES = {
    "fixed": ({"fixed": {"FAST": False}}, r'fixed must be \{"FAST": true\}, .*, but it is \{"FAST": false\}'),
    "fixed gone": ({"fixed": None}, r"fixed must be"),
    "another name": ({"parameters": {"A": [1, 2], "NAME": ["a"]}}, r"names must be"),
}


@pytest.mark.parametrize(("keys", "says"), CHANGES.values(), ids=CHANGES)
def test_what_would_not_be_comparable_is_refused_and_nothing_written(keys, says, tmp_path, fake):
    run(tmp_path, fixed={"FAST": True})
    before = everything(tmp_path / "out")
    with pytest.raises(sweep.SweepError, match=says + r".*another folder by --out"):
        run(tmp_path, **{"fixed": {"FAST": True}, **keys})
    assert everything(tmp_path / "out") == before


def test_another_notebook_is_refused_but_other_prose_is_not(tmp_path, fake):
    run(tmp_path)
    content = json.loads((tmp_path / "tiny.ipynb").read_text())
    content["cells"].append({"cell_type": "markdown", "id": "prose", "metadata": {}, "source": "Words."})
    (tmp_path / "tiny.ipynb").write_text(json.dumps(content))
    fake.begun.clear()
    run(tmp_path)
    assert fake.begun == []
    notebook(tmp_path / "tiny.ipynb", "print('something else')")
    with pytest.raises(sweep.SweepError, match="code must be"):
        run(tmp_path)
    with pytest.raises(sweep.SweepError, match=r'notebook must be "tiny", .*, but it is "other"'):
        run(tmp_path, notebook=str(notebook(tmp_path / "other.ipynb")))


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path, fake):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("years")
    with pytest.raises(sweep.SweepError, match=r"holds something else \(thesis\.tex\), and nothing is overwritten"):
        run(tmp_path)
    assert (out / "thesis.tex").read_text() == "years" and fake.begun == []
    with pytest.raises(sweep.ManifestError, match=r"out must be a folder for the results, but .*thesis\.tex is a file"):
        run(tmp_path, out=str(out / "thesis.tex"))


def test_two_live_sweeps_on_one_folder_share_the_runs(tmp_path, fake):
    both, one, workers = threading.Barrier(2, timeout=20), fake.execute, set()

    def slow(*arguments):
        if threading.get_ident() not in workers:
            workers.add(threading.get_ident())
            both.wait()  # each of the two sweeps has a run
        return one(*arguments)

    fake.execute = slow
    manifest = asked(tmp_path, workers=1)
    threads = [threading.Thread(target=sweep.run, args=(manifest,), kwargs={"quiet": True}) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(fake.begun) == sorted(set(fake.begun)) and len(fake.begun) == 4
    assert sweep.results(tmp_path / "out").height == polars.read_csv(tmp_path / "out" / "results.csv").height == 4
    assert not list((tmp_path / "out" / "runs").glob(".*.lock"))


def test_the_runs_of_another_process_are_waited_for_and_taken_over_if_it_is_killed(tmp_path, fake, monkeypatch, capsys):
    monkeypatch.setattr(execute, "_LOOK", 0.05)
    keys = asked(tmp_path)
    first, second, *_ = sweep.load(keys).runs
    run(tmp_path, parameters={"A": [2], "RATE": [0.5]})  # makes the folder
    fake.begun.clear()
    folder, waiting = Folder(tmp_path / "out"), threading.Event()

    def elsewhere():
        """Another process, which does one run and is killed in the middle of another."""
        with folder.claimed(first.id), folder.claimed(second.id):
            held.set()
            assert waiting.wait(20)
            folder.write(sweep.RunResult(first.id, dict(first.parameters), "ok", {"score": 7.0}, 1.0, 1.0))

    held = threading.Event()
    other = threading.Thread(target=elsewhere)
    other.start()
    assert held.wait(20)
    pause = execute.time.sleep
    monkeypatch.setattr(execute.time, "sleep", lambda seconds: (waiting.set(), pause(seconds)))
    table = sweep.run(keys)
    other.join(20)
    assert "waiting for other processes, which do the last 2 of 3 runs" in capsys.readouterr().out
    assert table.height == 4 and (table["status"] == "ok").all()
    assert first.id not in fake.begun and fake.begun.count(second.id) == 1


def test_a_kernel_that_ends_with_the_whole_process_is_no_failed_run(tmp_path, fake, monkeypatch):
    """A signal to all processes of a job ends kernels first: their runs are left to the others."""
    monkeypatch.setattr(execute, "_KILLED_TOO", 0.0)

    def dead(job, listen):
        return runner.Result(job.name, "failed", 1.0, 1.0, 1, "DeadKernelError: Kernel died")

    fake.execute, fake.stopping = dead, True
    with pytest.raises(notebook_client.Stopped):
        run(tmp_path, workers=1)
    assert sweep.results(tmp_path / "out").height == 0
    fake.stopping = False
    assert (run(tmp_path)["status"] == "failed").all()


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A task of a job array of SLURM, whose scontrol notes what it is asked; the file of that."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)}
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "scontrol"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n[ ! -e {tmp_path}/refused ]\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    for name, value in {"JOB_ID": "9", "ARRAY_JOB_ID": "7", "ARRAY_TASK_ID": "3"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    yield tmp_path / "asked"
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("runs", "refused", "says"),
    [
        (1, False, "job 7_3 is requeued, and continues with the runs that are left"),
        (1, True, "job '7_3' can't be requeued"),
        (0, False, "not requeued: no run has ended within the time limit of this job; give it more time (--time)"),
    ],
)
def test_the_signal_before_the_limit_requeues_the_task_if_it_can_come_to_an_end(
    runs, refused, says, job, manifest, tmp_path, fake
):
    one = fake.execute
    if refused:
        (tmp_path / "refused").touch()

    def limited(task, listen):
        if len(fake.begun) == runs:
            os.kill(os.getpid(), signal.SIGUSR1)
            raise notebook_client.Stopped
        return one(task, listen)

    fake.execute = limited
    done = call(manifest(), "--workers", 1)
    assert done.exit_code == 128 + signal.SIGUSR1 and says in done.output, done.output
    assert job.exists() is (runs == 1) and (not runs or job.read_text() == "requeue 7_3\n")
    assert len(list((tmp_path / "out" / "runs").glob("*.json"))) == runs


def test_interrupted_it_keeps_what_has_ended_and_does_the_rest_later(tmp_path, fake):
    one = fake.execute

    def execute(*arguments):
        if len(fake.begun) == 2:
            raise KeyboardInterrupt
        return one(*arguments)

    fake.execute = execute
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, workers=1)
    assert polars.read_csv(tmp_path / "out" / "results.csv").height == 2
    fake.execute = one
    assert run(tmp_path).height == 4 and len(fake.begun) == len(set(fake.begun)) == 4


def test_a_full_disk_stops_the_sweep_in_words(tmp_path, fake, monkeypatch):
    def full(self, run):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "write", full)
        with pytest.raises(sweep.SweepError, match=r"out stopped, and can be continued: .*No space left"):
            run(tmp_path)
    assert run(tmp_path).height == 4


# --- damaged files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    ["", "{}", "[]", '{"run": "x"}', "half", {"metrics": [1]}, {"metrics": {"x": {"float": "abc"}}},
     {"parameters": ["abc"]}, {"status": "weird"}, {"run": "of another"}],
)  # fmt: skip
def test_a_damaged_run_is_named_and_nothing_is_lost(damage, tmp_path, fake):
    table = run(tmp_path)
    file = tmp_path / "out" / "runs" / f"{table['run'][0]}.json"
    whole = file.read_text()
    if isinstance(damage, dict):
        damage = json.dumps({**json.loads(whole), **damage})
    file.write_text(whole[: len(whole) // 2] if damage == "half" else damage)
    for use in (run, lambda path: sweep.results(path / "out"), lambda path: sweep.failures(path / "out")):
        with pytest.raises(sweep.SweepError, match=f"{file.name} .*delete it, and"):
            use(tmp_path)
    file.unlink()
    assert run(tmp_path).equals(table)


@pytest.mark.parametrize(
    ("lost", "says"), [("order", "damaged"), ("code", "damaged"), ("format", "must be 1, but it is None")]
)
def test_a_damaged_sweep_and_a_folder_without_one_are_named(tmp_path, fake, lost, says):
    with pytest.raises(sweep.SweepError, match=r"holds no results of a sweep \(there is no sweep\.json in it\)"):
        sweep.results(tmp_path)
    run(tmp_path)
    file = tmp_path / "out" / "sweep.json"
    content = json.loads(file.read_text())
    del content[lost]
    file.write_text(json.dumps(content))
    with pytest.raises(sweep.SweepError, match=rf"sweep\.json .*{says}|sweep\.json is {says}"):
        run(tmp_path)


@pytest.mark.parametrize(
    "moments",
    [[1, -3, 4, -8], pytest.param([-1, 1, -1, -2, 2, -3, 3, -4, 5, -6, 7, -8, 9], marks=pytest.mark.slow)],
    ids=["some", "every kind"],
)
def test_killed_at_many_moments(moments, tmp_path):
    """Before and after the replacement of each kind of file, early and late: a row for each run, none twice."""
    command = [sys.executable, "-m", "tests.unit.sweep_killed", str(tmp_path), *map(str, moments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    ended = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert [moment for moment, _ in ended] == [*moments, 0], done.stderr
    killed = [moment for moment, how in ended if how == signal.SIGKILL]
    assert len(killed) >= 0.7 * len(moments) and ended[-1] == (0, 0), done.stdout
    ids = {run.id for run in sweep.load(asked(tmp_path, **MANIFEST)).runs}
    out = tmp_path / "out"
    table = sweep.results(out)
    for one in (table, polars.read_parquet(out / "results.parquet"), polars.read_csv(out / "results.csv")):
        assert len(one) == len(ids) and set(one["run"]) == ids
    assert (table.filter(polars.col("A") == 13)["status"] == "failed").all() and table["score"].null_count() == 6
    begun = Counter((tmp_path / "begun").read_text().split())
    assert set(begun) == ids
    # Only those under way are done again: as many as there are workers, for each kill.
    assert sum(begun.values()) <= 24 + 3 * len(killed)


# --- `snnkit sweep` ---------------------------------------------------------------------------------------------------


@pytest.fixture
def manifest(tmp_path):
    """Write a manifest with these keys; its path."""

    def write(**keys):
        (tmp_path / "m.yaml").write_text(json.dumps(asked(tmp_path, **keys)))
        return str(tmp_path / "m.yaml")

    return write


def call(*words):
    return CliRunner().invoke(main, ["sweep", *map(str, words)])


def test_lines_count_up_where_runs_end_at_the_same_time(tmp_path, fake, monkeypatch, capsys):
    def all_at_once(one, runs, at_once, note, stop):
        for ended in [one(run) for run in runs]:
            note(ended)

    monkeypatch.setattr(runner, "in_parallel", all_at_once)
    sweep.run(asked(tmp_path))
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["1/4", "2/4", "3/4", "4/4"]


def test_the_command_says_what_it_does_and_skips(manifest, tmp_path, fake):
    done = call(manifest())
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0] == "4 runs to do, 0 done before"
    assert sum(line.endswith("  A=1  RATE=0.5  score 0.125") for line in lines[1:5]) == 1
    assert [line.split()[0] for line in lines[1:5]] == ["1/4", "2/4", "3/4", "4/4"]
    assert lines[5] == f"4 runs, 0 failed: {tmp_path / 'out' / 'results.csv'}, results.parquet"
    again = call(manifest())
    assert again.output.startswith("0 runs to do, 4 done before\n") and again.exit_code == 0
    call(manifest(), "--out", tmp_path / "there")
    assert len(polars.read_parquet(tmp_path / "there" / "results.parquet")) == 4


def test_failures_are_listed_and_the_exit_code_is_1_until_done_again(manifest, tmp_path, fake):
    file = manifest(parameters={"A": [1, 13]})
    done = call(file, "--workers", 1)
    name = sweep.failures(tmp_path / "out")[0].run
    assert done.exit_code == 1 and f"failed: run {name} (A=13) in cell 1: ValueError: unlucky\n" in done.output
    skipped = call(file)
    assert skipped.exit_code == 1 and len(fake.begun) == 2
    assert "0 runs to do, 2 done before (1 of them failed, and are done again only with retry)" in skipped.output
    assert call(file, "--retry").exit_code == 1 and len(fake.begun) == 3


@pytest.mark.parametrize(("values", "column"), [([1], False), ([1, 13], True)])
def test_the_table_has_a_column_of_errors_where_there_are_any(values, column, manifest, tmp_path, fake):
    call(manifest(parameters={"A": values}), "--workers", 1)
    head, *_ = call("show", tmp_path / "out").output.splitlines()
    assert "peak_mb" in head and ("error" in head) == column


@pytest.mark.parametrize(
    ("keys", "words", "says"),
    [
        ({"parameters": {"B": [1]}}, (), "m.yaml: parameters: notebook tiny has no parameter 'B'; it has: A: int = 1"),
        ({}, ("--workers", "0"), "--workers"),
        ({}, ("--out", "m.yaml/x"), "m.yaml is a file"),
        ({}, ("more",), "unexpected extra argument"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_why(keys, words, says, manifest, tmp_path, fake, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call(manifest(**keys), *words)
    assert done.exit_code == 2 and says in done.output and fake.begun == []
    shown = call("show", ".")
    assert shown.exit_code == 2 and "holds no results of a sweep" in shown.output


def test_the_front_is_drawn_and_show_prints_the_table(manifest, tmp_path, fake):
    pareto = {"maximise": "score", "minimise": "seconds"}
    call(manifest(parameters={"A": [1, 13]}, seeds=[0, 1], pareto=pareto))
    out = tmp_path / "out"
    page = (out / "pareto.html").read_text()
    assert (out / "pareto.png").read_bytes()[:4] == b"\x89PNG" and "Plotly.newPlot" in page and "mean of 2" in page
    shown = call("show", out, "--traceback")
    assert shown.exit_code == 0, shown.output
    head, *rows = shown.output.splitlines()
    assert head.split() == ["run", "status", "A", "SEED", "score", "seconds", "peak_mb", "error"]
    assert [row.split()[1] for row in rows[:4]] == ["ok", "ok", "failed", "failed"]
    assert shown.output.count("Traceback: unlucky") == 2 and "4 runs, 2 failed" in shown.output
    other = call(manifest(pareto={"maximise": "accuracy", "minimise": "seconds"}), "--out", tmp_path / "there")
    assert other.exit_code == 0 and "maximise must be one of 'run', 'status', 'A', 'RATE'" in other.output
