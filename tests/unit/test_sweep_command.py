"""`snnkit sweep`: what it prints, draws and exits with."""

from __future__ import annotations

import json

import polars
import pytest
from click.testing import CliRunner

from snnkit import sweep
from snnkit.cli import main
from snnkit.sweep import execute

from .sweep_cases import Fake, asked, notebook, without_kernels


@pytest.fixture
def fake(monkeypatch):
    made = Fake()
    monkeypatch.setattr(execute, "Kernels", without_kernels(made))
    return made


@pytest.fixture
def manifest(tmp_path):
    """Write a manifest with these keys; its path."""

    def write(**keys):
        (tmp_path / "m.yaml").write_text(json.dumps(asked(tmp_path, **keys)))
        return str(tmp_path / "m.yaml")

    return write


def call(*words):
    return CliRunner().invoke(main, ["sweep", *map(str, words)])


def test_a_sweep_that_went_well(manifest, tmp_path, fake):
    done = call(manifest())
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0] == "4 runs to do; 2 at a time"
    assert sum(line.endswith("  A=1  RATE=0.5  score 0.125") for line in lines[1:5]) == 1
    assert all("  ok  " in line and "score 0." in line for line in lines[1:5])
    assert lines[5] == f"4 runs, 0 failed: {tmp_path / 'out' / 'results.csv'}, results.parquet"
    again = call(manifest())
    assert again.output.startswith("0 runs to do, 4 done before\n") and again.exit_code == 0


def test_failures_are_listed_and_told_by_the_exit_code_until_done_again(manifest, tmp_path, fake):
    file = manifest(parameters={"A": [1, 13]})
    done = call(file, "--workers", 1)
    assert done.exit_code == 1
    name = sweep.failures(tmp_path / "out")[0].run
    assert f"failed: run {name} (A=13): ValueError: unlucky\n" in done.output
    assert "2 runs, 1 failed" in done.output
    skipped = call(file)
    assert skipped.exit_code == 1 and len(fake.begun) == 2
    assert "0 runs to do, 2 done before (1 of them failed, and are done again only with retry)" in skipped.output
    assert call(file, "--retry").exit_code == 1 and len(fake.begun) == 3


def test_a_dry_run_lists_and_starts_nothing(manifest, tmp_path, fake):
    file = manifest()
    done = call(file, "--dry-run")
    assert done.exit_code == 0 and done.output.count("to do   A=") == 4
    assert f"4 runs of {tmp_path / 'tiny.ipynb'}, 4 to do, in {tmp_path / 'out'}" in done.output
    assert not (tmp_path / "out").exists() and fake.begun == []
    call(file)
    more = call(manifest(parameters={"A": [1, 2, 3], "RATE": [0.5, 1.0]}), "--dry-run")
    assert more.output.count("  ok  ") == 4 and "6 runs of" in more.output and ", 2 to do" in more.output


@pytest.mark.parametrize(
    ("keys", "words", "says"),
    [
        ({"parameters": {"B": [1]}}, (), "m.yaml: parameters: notebook tiny has no parameter 'B'; it has: A: int = 1"),
        ({"parameters": {"A": []}}, (), "parameter A must list at least one value"),
        ({}, ("--workers", "0"), "--workers"),
        ({}, ("--out", "m.yaml/x"), "can't write to the folder"),
        ({}, ("more",), "unexpected extra argument"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_why(keys, words, says, manifest, tmp_path, fake, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call(manifest(**keys), *words)
    assert done.exit_code == 2 and says in done.output and fake.begun == []


def test_no_manifest(tmp_path):
    done = call(tmp_path / "gone.yaml")
    assert done.exit_code == 2 and "gone.yaml can't be read: No such file" in done.output
    assert call().exit_code == 2 and "MANIFEST.yaml" in call().output
    assert "--dry-run" in call("--help").output and "--plot" in call("show", "--help").output


PARETO = {"maximise": "score", "minimise": "seconds"}


def test_show_prints_the_table_and_draws_the_front(manifest, tmp_path, fake):
    call(manifest(parameters={"A": [1, 13]}, seeds=[0, 1], pareto=PARETO))
    out = tmp_path / "out"
    assert (out / "pareto.png").read_bytes()[:4] == b"\x89PNG" and "Plotly.newPlot" in (out / "pareto.html").read_text()
    shown = call("show", out, "--traceback", "--plot", tmp_path / "front.html")
    assert shown.exit_code == 0, shown.output
    head, *rows = shown.output.splitlines()
    assert head.split() == ["run", "status", "A", "SEED", "score", "seconds", "peak_mb", "error"]
    assert [row.split()[1] for row in rows[:4]] == ["ok", "ok", "failed", "failed"]
    assert shown.output.count("Traceback: unlucky") == 2 and "4 runs, 2 failed; plot: " in shown.output
    assert "mean of 2" in (tmp_path / "front.html").read_text()


def test_a_front_of_what_was_not_recorded_is_told_and_breaks_nothing(manifest, tmp_path, fake):
    done = call(manifest(pareto={"maximise": "accuracy", "minimise": "seconds"}))
    assert done.exit_code == 0 and "no Pareto plot: maximise must name a column (run, status, A, RATE" in done.output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("show", "out", "--plot", "front.pdf"), "--plot must end in .png or .html, but it is 'front.pdf'"),
        (("show", "out", "--plot", "front.png"), "there is nothing to plot: the manifest has no pareto"),
        (("show", "."), "holds no results of a sweep"),
    ],
)
def test_wrong_usage_of_show(words, says, manifest, tmp_path, fake, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call(manifest())
    done = call(*words)
    assert done.exit_code == 2 and says in done.output


def test_results_may_be_read_by_others(manifest, tmp_path, fake):
    call(manifest(), "--out", tmp_path / "there")
    assert len(polars.read_parquet(tmp_path / "there" / "results.parquet")) == 4 and not (tmp_path / "out").exists()
    notebook(tmp_path / "tiny.ipynb", "print('other')")
    done = call(manifest(), "--out", tmp_path / "there")
    assert done.exit_code == 2 and "the code of the notebook has changed" in done.output
